"""Makes streams: a message, and bytes that a server of some habits could have sent for it. Seeded, so they come again.

Every habit here was seen at a real server or gateway; whatever they are, the bytes say the same message.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

from shared.llm.model import Finish, Usage

WORDS = ("hola", "a", "mañana", "🙂", "漢字", "x=1", "e\u0301", "line\nbreak", 'quo"te', "back\\slash", "\u2028", "{}")
NAMES = ("search", "write_file", "f", "mail_send")
NOISE = (
    b": keep-alive\n\n",
    b":\n",
    b"retry: 3000\n\n",
    b": OPENROUTER PROCESSING\n\n",
    b"data: \n\n",
    b"data: : x\n\n",
)


@dataclass
class Wanted:
    """What must come out."""

    text: str = ""
    thinking: str = ""
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    """(provider id, name, arguments) each."""
    finish: Finish = Finish.STOP
    usage: Usage | None = None


def message(rng: Random) -> Wanted:
    """A message of any kind that has at least something in it."""
    wanted = Wanted()
    if rng.random() < 0.5:
        wanted.thinking = _text(rng)
    for number in range(rng.choice((0, 0, 1, 1, 2, 3, 5))):
        arguments = {} if rng.random() < 0.2 else {f"k{n}": _value(rng, 2) for n in range(rng.randint(1, 3))}
        wanted.calls.append((f"id{number}", rng.choice(NAMES), arguments))
    if not wanted.calls or rng.random() < 0.5:
        wanted.text = _text(rng)
    wanted.finish = Finish.TOOL_CALLS if wanted.calls else Finish.STOP
    if rng.random() < 0.7:
        cached, reasoning = rng.randint(0, 50), rng.randint(0, 9)
        wanted.usage = Usage(
            input=rng.randint(1, 900), cache_read=cached, output=rng.randint(1, 90), reasoning=reasoning
        )
    return wanted


def cut(rng: Random, raw: bytes) -> list[bytes]:
    """The bytes in pieces, as a network delivers them."""
    how = rng.random()
    if how < 0.1:
        return [raw[i : i + 1] for i in range(len(raw))]
    cuts = sorted(rng.randint(0, len(raw)) for _ in range(rng.randint(0, 12) if how < 0.9 else len(raw) // 7))
    return [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


# --- Chat Completions --------------------------------------------------------------------------------------------


def openai(rng: Random, wanted: Wanted) -> bytes:
    """Chat Completions, as one of its many servers streams it."""
    chunks: list[dict[str, Any]] = []
    if rng.random() < 0.3:
        chunks.append({"id": "", "choices": [], "prompt_filter_results": [{}]})
    first: dict[str, Any] = {"role": "assistant"}
    if rng.random() < 0.5:
        first["content"] = rng.choice(("", None))
    chunks.append(_choice(first))
    where = rng.choice(("reasoning_content", "reasoning", "tags"))
    for piece in _pieces(rng, wanted.thinking) if where != "tags" else ():
        chunks.append(_choice({where: piece, **({"content": None} if rng.random() < 0.3 else {})}))
    content = wanted.text
    if wanted.thinking and where == "tags":
        content = f"<think>{wanted.thinking}</think>{rng.choice(('', chr(10) * 2))}{content}"
    chunks += [_choice({"content": piece}) for piece in _pieces(rng, content)]
    chunks += [_choice({"tool_calls": group}) for group in _call_groups(rng, wanted)]
    label = rng.choice(("tool_calls", "stop", "tool_use")) if wanted.calls else rng.choice(("stop", "eos", "end_turn"))
    ending = _choice({}, label)
    if rng.random() < 0.2:
        del ending["choices"][0]["delta"]
    usage = _openai_usage(wanted.usage) if wanted.usage is not None else None
    if usage is not None and rng.random() < 0.5:
        ending["usage"] = usage
        chunks.append(ending)
    else:
        chunks.append(ending)
        if usage is not None:
            chunks.append({"choices": [], "usage": usage})
    ascii_only = rng.random() < 0.5
    events = [f"data:{rng.choice((' ', ''))}{json.dumps(one, ensure_ascii=ascii_only)}\n\n".encode() for one in chunks]
    if rng.random() < 0.8:
        events.append(b"data: [DONE]\n\n")
    return _framed(rng, events)


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _openai_usage(usage: Usage) -> dict[str, Any]:
    prompt, answer = usage.input + usage.cache_read, usage.output + usage.reasoning
    found: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
    found["prompt_tokens_details"] = {"cached_tokens": usage.cache_read}
    found["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return found


def _call_groups(rng: Random, wanted: Wanted) -> list[list[dict[str, Any]]]:
    """The fragments of all calls, in groups that stand in one chunk each."""
    habit = rng.choice(("plain", "plain", "interleaved", "same index", "no index", "whole"))
    queues = [_fragments(rng, at, call, habit) for at, call in enumerate(wanted.calls)]
    if habit == "interleaved":
        mixed = [queue.pop(0) for queue in queues]  # heads come in order
        while any(queues):
            mixed.append(rng.choice([queue for queue in queues if queue]).pop(0))
    else:
        mixed = [fragment for queue in queues for fragment in queue]
    groups: list[list[dict[str, Any]]] = []
    while mixed:
        size = rng.randint(1, 3) if habit in ("plain", "interleaved", "whole") else 1
        groups.append(mixed[:size])
        mixed = mixed[size:]
    return groups


def _fragments(rng: Random, at: int, call: tuple[str, str, dict[str, Any]], habit: str) -> list[dict[str, Any]]:
    call_id, name, arguments = call
    raw = json.dumps(arguments, ensure_ascii=rng.random() < 0.5)
    pieces: list[Any] = [raw] if habit == "whole" else _pieces(rng, raw)
    if not arguments and rng.random() < 0.7:
        pieces = [rng.choice(("", None, "  "))]
    out = []
    for number, piece in enumerate(pieces):
        function: dict[str, Any] = {"arguments": piece}
        fragment: dict[str, Any] = {"index": 0 if habit == "same index" else at, "function": function}
        if habit == "no index":
            del fragment["index"]
        if number == 0:
            fragment |= {"id": call_id, "type": "function"}
            function["name"] = name
            if piece is None and rng.random() < 0.5:
                del function["arguments"]
        elif rng.random() < 0.3:
            fragment["id"] = rng.choice((call_id, "", None))  # repeated, or emptied
        out.append(fragment)
    return out


# --- Messages ----------------------------------------------------------------------------------------------------


def anthropic(rng: Random, wanted: Wanted) -> bytes:
    """Anthropic Messages."""
    usage = wanted.usage or Usage()
    wanted.usage = usage.model_copy(update={"output": usage.output + usage.reasoning, "reasoning": 0})
    counts = {"input_tokens": usage.input, "cache_read_input_tokens": usage.cache_read, "output_tokens": 1}
    values: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "m", "content": [], "usage": counts}}
    ]
    at = 0
    if wanted.thinking:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(rng, wanted.thinking)]
        deltas.append({"type": "signature_delta", "signature": "S"})
        values += _block(at, {"type": "thinking", "thinking": ""}, deltas)
        at += 1
    if wanted.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(rng, wanted.text)]
        values += _block(at, {"type": "text", "text": ""}, deltas)
        at += 1
    for call_id, name, arguments in wanted.calls:
        raw = json.dumps(arguments, ensure_ascii=rng.random() < 0.5)
        pieces = _pieces(rng, raw)
        head: dict[str, Any] = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        if not arguments:
            pieces = rng.choice(([], [""], ["{}"]))
        elif rng.random() < 0.2:
            head["input"], pieces = arguments, []  # whole at once
        values += _block(at, head, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces])
        at += 1
    reason = "tool_use" if wanted.calls else "end_turn"
    tokens = wanted.usage.output or 1
    wanted.usage = wanted.usage.model_copy(update={"output": tokens})
    values.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": tokens}})
    values.append({"type": "message_stop"})
    for _ in range(rng.randint(0, 2)):
        values.insert(rng.randint(1, len(values) - 1), {"type": "ping"})
    ascii_only = rng.random() < 0.5
    events = []
    for value in values:
        named = f"event: {value['type']}\n" if rng.random() < 0.9 else ""
        events.append(f"{named}data: {json.dumps(value, ensure_ascii=ascii_only)}\n\n".encode())
    return _framed(rng, events)


def _block(at: int, head: dict[str, Any], deltas: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": at, "content_block": head},
        *({"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": at},
    ]


# --- parts -------------------------------------------------------------------------------------------------------


def _framed(rng: Random, events: list[bytes]) -> bytes:
    """The events with noise between them, in one of the three ways to end a line."""
    parts = []
    for event in events:
        if rng.random() < 0.1:
            parts.append(rng.choice(NOISE))
        parts.append(event)
    raw = b"".join(parts)
    ending = rng.choice((b"\n", b"\n", b"\r\n", b"\r"))
    return (b"\xef\xbb\xbf" if rng.random() < 0.05 else b"") + raw.replace(b"\n", ending)


def _text(rng: Random) -> str:
    """Begins and ends with a letter: blanks around tags are a server's own."""
    return " ".join(["W", *(rng.choice(WORDS) for _ in range(rng.randint(0, 9))), "w"])


def _pieces(rng: Random, text: str) -> list[str]:
    pieces = []
    while text:
        size = rng.randint(1, 12)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


def _value(rng: Random, depth: int) -> Any:
    kind = rng.randint(0, 7 if depth else 5)
    if kind < 3:
        return _text(rng)
    if kind < 6:
        return rng.choice((0, -1, 2.5, True, None, "", "}", '"}', "\\"))
    if kind == 6:
        return [_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {rng.choice(WORDS): _value(rng, depth - 1) for _ in range(rng.randint(0, 3))}
