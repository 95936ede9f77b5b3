"""Helpers of the model-client tests: decoding bytes, and writing streams by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shared.llm.dialects import dialect_of
from shared.llm.model import (
    CallReady,
    Completion,
    Message,
    Request,
    StreamItem,
    TextBlock,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolResult,
)
from shared.llm.names import WireNames
from shared.llm.provider import Provider
from shared.llm.sse import SseParser
from shared.llm.switches import Switches

STREAMS = Path(__file__).parents[2] / "fixtures" / "streams"


def provider(
    dialect: str = "openai", *, name: str = "prov", url: str = "http://127.0.0.1:1/v1", **switches: Any
) -> Provider:
    return Provider(name=name, dialect=dialect, base_url=url, switches=Switches(**switches))


def decode(dialect: str, chunks: Iterable[bytes], names: WireNames | None = None) -> list[StreamItem]:
    """What the client does with the bytes of a stream, without the network."""
    decoder = dialect_of(dialect).decoder(provider(dialect), names or WireNames(()))
    parser = SseParser()
    items: list[StreamItem] = []
    for chunk in chunks:
        for event in parser.feed(chunk):
            items += decoder.feed(event)
    for event in parser.close():
        items += decoder.feed(event)
    return items + decoder.close()


def completion(dialect: str, *chunks: bytes) -> Completion:
    last = decode(dialect, chunks)[-1]
    assert isinstance(last, Completion)
    return last


def merged(items: list[StreamItem]) -> list[StreamItem]:
    """Neighbouring deltas of one kind as one: how they are split carries no meaning."""
    out: list[StreamItem] = []
    for item in items:
        last = out[-1] if out else None
        if isinstance(item, TextDelta) and isinstance(last, TextDelta):
            out[-1] = TextDelta(text=last.text + item.text)
        elif isinstance(item, ThinkingDelta) and isinstance(last, ThinkingDelta):
            out[-1] = ThinkingDelta(text=last.text + item.text)
        else:
            out.append(item)
    return out


def ready(items: list[StreamItem]) -> list[ToolCall]:
    return [item.call for item in items if isinstance(item, CallReady)]


def sse(*values: Any, done: bool = True) -> bytes:
    """OpenAI style: one `data:` event a value, then the end mark."""
    out = "".join(f"data: {json.dumps(value)}\n\n" for value in values)
    return (out + ("data: [DONE]\n\n" if done else "")).encode()


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(
    index: int | None = None, id: str | None = None, name: str | None = None, args: Any = None, **extra: Any
) -> dict[str, Any]:
    out: dict[str, Any] = {"function": {}, **extra}
    if index is not None:
        out["index"] = index
    if id is not None:
        out |= {"id": id, "type": "function"}
    if name is not None:
        out["function"]["name"] = name
    if args is not None:
        out["function"]["arguments"] = args
    return out


def calls(*entries: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return chunk(finish, tool_calls=list(entries))


def events(*values: dict[str, Any]) -> bytes:
    """Anthropic style: event and data lines."""
    return "".join(f"event: {value['type']}\ndata: {json.dumps(value)}\n\n" for value in values).encode()


def start(**usage: int) -> dict[str, Any]:
    return {"type": "message_start", "message": {"model": "m", "content": [], "usage": usage}}


def block(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def end(reason: str, **usage: int) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}, {"type": "message_stop"}


def user(text: str) -> Message:
    return Message(role="user", blocks=(TextBlock(text=text),))


def tool_call(id: str, name: str = "f", provider_id: str = "", **arguments: Any) -> ToolCall:
    return ToolCall(id=id, provider_id=provider_id, name=name, arguments=arguments)


def results(*pairs: tuple[str, str]) -> Message:
    return Message(role="tool", blocks=tuple(ToolResult(call_id=call_id, text=text) for call_id, text in pairs))


def ask(*messages: Message, **fields: Any) -> Request:
    return Request(model="m", messages=messages or (user("hi"),), **fields)
