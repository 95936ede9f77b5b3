"""Token counts: what providers report, brought into disjoint classes, and estimates where they report none. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from shared.llm.model import (
    BrokenCall,
    Completion,
    ImageBlock,
    Message,
    Request,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
)

IMAGE_TOKENS = 1_100
"""About what a picture of a megapixel costs at the large providers."""
_MESSAGE_TOKENS = 4
_ASCII_PER_TOKEN = 4.0
_OTHER_PER_TOKEN = 1.5


def from_openai(raw: Mapping[str, Any]) -> Usage:
    """From the usage object of Chat Completions and its kin.

    There `prompt_tokens` holds the cached ones and `completion_tokens` the reasoning ones, except at servers
    whose `total_tokens` shows that reasoning comes on top.
    """
    prompt = _count(raw, "prompt_tokens") or _count(raw, "input_tokens")
    completion = _count(raw, "completion_tokens") or _count(raw, "output_tokens")
    prompt_details = _object(raw, "prompt_tokens_details") or _object(raw, "input_tokens_details")
    completion_details = _object(raw, "completion_tokens_details") or _object(raw, "output_tokens_details")
    read = _count(prompt_details, "cached_tokens") or _count(raw, "prompt_cache_hit_tokens")
    read = min(read or _count(raw, "cached_tokens"), prompt)
    write = min(_count(prompt_details, "cache_write_tokens"), prompt - read)
    reasoning = _count(completion_details, "reasoning_tokens") or _count(raw, "reasoning_tokens")
    beyond = _count(raw, "total_tokens") - prompt - completion
    if beyond > 0:
        reasoning = beyond
    else:
        reasoning = min(reasoning, completion)
        completion -= reasoning
    return Usage(
        input=prompt - read - write, cache_write=write, cache_read=read, output=completion, reasoning=reasoning
    )


def from_anthropic(raw: Mapping[str, Any], before: Usage | None = None) -> Usage:
    """From the usage object of Messages; its classes are disjoint already, thinking is part of the output.

    Later events repeat some of the counts, cumulatively: what `raw` lacks is taken from `before`.
    """
    old = before or Usage()
    return Usage(
        input=_count(raw, "input_tokens") or old.input,
        cache_write=_count(raw, "cache_creation_input_tokens") or old.cache_write,
        cache_read=_count(raw, "cache_read_input_tokens") or old.cache_read,
        output=_count(raw, "output_tokens") or old.output,
    )


def estimate_text(text: str) -> int:
    """A guess at the tokens of a text: four ASCII characters each, fewer of other scripts."""
    if not text:
        return 0
    ascii_chars = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return math.ceil(ascii_chars / _ASCII_PER_TOKEN + (len(text) - ascii_chars) / _OTHER_PER_TOKEN)


def estimate_message(message: Message) -> int:
    """A guess at the tokens of one message, with its frame."""
    return _MESSAGE_TOKENS + sum(map(_block_tokens, message.blocks))


def estimate_request(request: Request) -> int:
    """A guess at the prompt tokens of a request."""
    tools = [tool.model_dump(mode="json") for tool in request.tools]
    text = request.system + (json.dumps(tools, ensure_ascii=False) if tools else "")
    return estimate_text(text) + sum(map(estimate_message, request.messages))


def estimate_answer(completion: Completion) -> int:
    """A guess at the tokens of an answer, broken calls included."""
    return sum(map(_block_tokens, completion.message.blocks)) + sum(map(_broken_tokens, completion.broken))


def estimate(request: Request, completion: Completion | None = None, partial: str = "") -> Usage:
    """The usage of a call that reported none: of a whole answer, or of what arrived of it. Marked as estimated."""
    output = estimate_answer(completion) if completion is not None else estimate_text(partial)
    return Usage(input=estimate_request(request), output=output, estimated=True)


def _block_tokens(block: Any) -> int:
    if isinstance(block, TextBlock | ThinkingBlock):
        return estimate_text(block.text)
    if isinstance(block, ImageBlock):
        return IMAGE_TOKENS
    if isinstance(block, ToolCall):
        return _MESSAGE_TOKENS + estimate_text(block.name + json.dumps(block.arguments, ensure_ascii=False))
    return _MESSAGE_TOKENS + estimate_text(block.text) + IMAGE_TOKENS * len(block.images)


def _broken_tokens(broken: BrokenCall) -> int:
    return _MESSAGE_TOKENS + estimate_text(broken.name + broken.raw)


def _count(raw: Mapping[str, Any], key: str) -> int:
    value = raw.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0
    return max(0, int(value))


def _object(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key)
    return value if isinstance(value, Mapping) else {}
