"""The decoder of Anthropic Messages, streamed or whole. Pure.

A whole answer is fed through the same handlers as the events that would have streamed it. Blocks keep their
order, because signed thinking is only valid where it stood.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.llm.calls import CallAccumulator, Fragment
from shared.llm.dialects.base import Calls, cut, final_finish, found_error, json_values, settle_calls, unwrapped
from shared.llm.errors import ServerFault
from shared.llm.model import (
    Block,
    CallReady,
    Completion,
    Finish,
    Message,
    Opaque,
    StreamItem,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    Usage,
    UsageSeen,
)
from shared.llm.names import WireNames
from shared.llm.provider import Provider
from shared.llm.sse import SseEvent
from shared.llm.text import HalfJoiner, writable, writable_json
from shared.llm.usage import from_anthropic

_FINISH: Mapping[str, Finish] = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "tool_use": Finish.TOOL_CALLS,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "refusal": Finish.CONTENT_FILTER,
}
_KIND_OF_DELTA = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}


@dataclass(slots=True)
class _Open:
    """A block as it grows. `call` is its place in the accumulator, -1 for other blocks."""

    kind: str
    text: list[str] = field(default_factory=list)
    opaque: Opaque = field(default_factory=dict)
    call: int = -1
    input: Mapping[str, Any] | None = None
    got_json: bool = False
    closed: bool = False
    half: HalfJoiner = field(default_factory=HalfJoiner)


class AnthropicDecoder:
    """Reads one answer in Messages form; see `base.Decoder`. Only `message_stop` makes an answer complete."""

    def __init__(self, provider: Provider, names: WireNames) -> None:
        self.pieces = 0
        self.finished = False
        self.done = False
        self._origin = provider.name
        self._calls = CallAccumulator(names.ours)
        self._blocks: list[_Open] = []
        self._places: dict[int, _Open] = {}  # by the index on the wire; one used again means the newer block
        self._usage: Usage | None = None
        self._model = ""
        self._raw_finish = ""

    @property
    def patient(self) -> bool:
        """True inside a call: the API holds back its input until a whole value of it is written."""
        last = self._blocks[-1] if self._blocks else None
        return last is not None and last.kind == "tool_use" and not last.closed

    @property
    def partial_text(self) -> str:
        """Visible text so far."""
        return "".join(piece for block in self._blocks if block.kind == "text" for piece in block.text)

    @property
    def usage(self) -> Usage | None:
        """Usage reported so far."""
        return self._usage

    def feed(self, event: SseEvent) -> list[StreamItem]:
        """The items of one event; what follows the end mark is ignored."""
        if self.done:
            return []
        if event.data.strip() == "[DONE]":  # not of this dialect, but gateways add it
            return []
        items: list[StreamItem] = []
        for value in json_values(event):
            self._event(value, items)
        return items

    def document(self, body: Any) -> list[StreamItem]:
        """The items of a whole `message` object."""
        message = unwrapped(body)
        content = message.get("content")
        if not isinstance(content, list):
            raise ServerFault("the answer holds no content", code="not_an_api", hint="is base_url a Messages API?")
        events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
        for index, block in enumerate(content):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events.append({"type": "content_block_stop", "index": index})
        events.append({"type": "message_delta", "delta": {"stop_reason": message.get("stop_reason")}})
        events.append({"type": "message_stop"})
        items: list[StreamItem] = []
        for value in events:
            self._event(value, items)
        return items

    def close(self) -> list[StreamItem]:
        """The last items and the Completion."""
        if not self.done:
            raise cut(self.partial_text)
        items: list[StreamItem] = []
        for block in self._blocks:
            self._close_text(block, items)
        label = _FINISH.get(self._raw_finish, Finish.UNKNOWN)
        calls = settle_calls(self._calls, label)
        items += [CallReady(call=call) for call in calls.fresh]
        message = Message(role="assistant", blocks=self._message_blocks(calls), origin=self._origin)
        items.append(
            Completion(
                message=message,
                finish=final_finish(label, calls, message.text),
                raw_finish=self._raw_finish,
                usage=self._usage,
                model=self._model,
                broken=calls.broken,
            )
        )
        return items

    def _event(self, value: Mapping[str, Any], items: list[StreamItem]) -> None:
        if (error := found_error(value)) is not None:
            raise error
        kind = value.get("type")
        if kind == "content_block_delta":
            self._delta(value, items)
        elif kind == "content_block_start":
            self._start(value, items)
        elif kind == "content_block_stop":
            self._stop(self._place(value), items)
        elif kind == "message_start":
            message = value.get("message")
            if isinstance(message, Mapping):
                self._model = writable(message["model"]) if isinstance(message.get("model"), str) else self._model
                self._read_usage(message, items)
        elif kind == "message_delta":
            delta = value.get("delta")
            reason = delta.get("stop_reason") if isinstance(delta, Mapping) else None
            self._raw_finish = writable(reason) if isinstance(reason, str) else self._raw_finish
            self._read_usage(value, items)
        elif kind == "message_stop":
            self.done = True

    def _read_usage(self, holder: Mapping[str, Any], items: list[StreamItem]) -> None:
        raw = holder.get("usage")
        if not isinstance(raw, Mapping):
            return
        usage = from_anthropic(raw, self._usage)
        if usage.total and usage != self._usage:
            self._usage = usage
            items.append(UsageSeen(usage=usage))

    def _place(self, value: Mapping[str, Any]) -> _Open | None:
        """The block that an event means: that of its index, or the latest if it names none."""
        index = value.get("index")
        if isinstance(index, int):
            return self._places.get(index)
        return self._blocks[-1] if self._blocks else None

    def _start(self, value: Mapping[str, Any], items: list[StreamItem]) -> None:
        raw = value.get("content_block")
        if not isinstance(raw, dict):
            return
        self.pieces += 1
        block = self._open(value.get("index"), str(raw.get("type")))
        if block.kind == "text":
            self._grow(block, raw.get("text"), items)
        elif block.kind == "thinking":
            self._grow(block, raw.get("thinking"), items)
            if isinstance(signature := raw.get("signature"), str) and signature:
                block.opaque["signature"] = writable(signature)
        elif block.kind == "redacted_thinking":
            block.opaque["redacted"] = writable_json(raw.get("data"))
        elif block.kind == "tool_use":
            given = raw.get("input")
            block.input = given if isinstance(given, dict) else None
            name, call_id = raw.get("name"), raw.get("id")
            unknown = {key: one for key, one in raw.items() if key not in ("type", "id", "name", "input")}
            fragment = Fragment(
                key=block.call,
                id=writable(call_id) if isinstance(call_id, str) else "",
                name=writable(name) if isinstance(name, str) else "",
                opaque=unknown,
            )
            self._calls.add([fragment])
            items += [CallReady(call=call) for call in self._calls.ready()]
        else:  # a kind that this version does not know: kept whole, in its place
            block.opaque["raw"] = writable_json(raw)

    def _open(self, index: Any, kind: str) -> _Open:
        block = _Open(kind=kind, call=len(self._calls) if kind == "tool_use" else -1)
        self._blocks.append(block)
        if isinstance(index, int):
            self._places[index] = block
        return block

    def _delta(self, value: Mapping[str, Any], items: list[StreamItem]) -> None:
        delta = value.get("delta")
        kind = _KIND_OF_DELTA.get(str(delta.get("type"))) if isinstance(delta, Mapping) else None
        if kind is None or not isinstance(delta, Mapping):
            return
        self.pieces += 1
        block = self._place(value)
        if block is None or block.kind != kind:  # its start never came
            block = self._open(value.get("index"), kind)
            if kind == "tool_use":
                self._calls.add([Fragment(key=block.call)])
        if kind == "tool_use":
            piece = delta.get("partial_json")
            if isinstance(piece, str) and piece:
                block.got_json = True
                self._calls.add([Fragment(key=block.call, arguments=piece)])
        elif delta.get("type") == "signature_delta":
            signature = delta.get("signature")
            before = block.opaque.get("signature")
            if isinstance(signature, str):
                block.opaque["signature"] = writable(before + signature if isinstance(before, str) else signature)
        else:
            self._grow(block, delta.get(kind), items)

    def _stop(self, block: _Open | None, items: list[StreamItem]) -> None:
        if block is None or block.closed:
            return
        block.closed = True
        self._close_text(block, items)
        if block.kind == "tool_use":
            if not block.got_json and block.input:  # a server that sends the input whole
                self._calls.add([Fragment(key=block.call, arguments=json.dumps(block.input, ensure_ascii=False))])
            self._calls.end(block.call)
            items += [CallReady(call=call) for call in self._calls.ready()]

    def _grow(self, block: _Open, piece: Any, items: list[StreamItem]) -> None:
        if isinstance(piece, str) and piece:
            self._emit(block, block.half.feed(piece), items)

    def _close_text(self, block: _Open, items: list[StreamItem]) -> None:
        self._emit(block, block.half.close(), items)

    def _emit(self, block: _Open, text: str, items: list[StreamItem]) -> None:
        if text:
            block.text.append(text)
            items.append(TextDelta(text=text) if block.kind == "text" else ThinkingDelta(text=text))

    def _message_blocks(self, calls: Calls) -> tuple[Block, ...]:
        by_id = {call.id: call for call in calls.whole}
        blocks: list[Block] = []
        for block in self._blocks:
            text = "".join(block.text)
            if block.kind == "text":
                if text:
                    blocks.append(TextBlock(text=text))
            elif block.kind == "tool_use":
                if (call := by_id.get(f"call_{block.call}")) is not None:
                    blocks.append(call)
            elif text or block.opaque:
                blocks.append(ThinkingBlock(text=text, opaque=block.opaque))
        return tuple(blocks)
