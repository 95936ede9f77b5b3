"""Anthropic Messages: https://platform.claude.com/docs/en/api/messages (and its streaming page)."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue

from ops.rehearsal.engine import MODEL, Call
from ops.rehearsal.playback import Arguments, CallStart, Delta, Text, Thinking
from ops.rehearsal.request import Item, Request, ToolResult, last_turn
from ops.rehearsal.wire import Answer, Stream, encode, validated
from shared.errors import UserError

_STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_SIGNATURE = "cmVoZWFyc2Fs"  # providers sign thinking with opaque base64; this spells "rehearsal"


class _Block(BaseModel):
    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: JsonValue = None
    tool_use_id: str = ""
    content: Any = None


class _Message(BaseModel):
    role: Literal["user", "assistant"]
    content: str | list[_Block]

    @property
    def blocks(self) -> list[_Block]:
        if isinstance(self.content, list):
            return self.content
        return [_Block(type="text", text=self.content)]


class _Tool(BaseModel):
    name: str


class _ToolChoice(BaseModel):
    type: str


class _Body(BaseModel):
    model: str
    max_tokens: int = Field(ge=1)
    messages: list[_Message] = Field(min_length=1)
    system: str | list[_Block] = ""
    tools: list[_Tool] = Field(default_factory=list)
    tool_choice: _ToolChoice | None = None
    stream: bool = False


class AnthropicWire:
    """The Messages dialect."""

    def parse(self, body: Any, chars: int) -> Request:
        """The request in a JSON body. Raises UserError, also for calls without results and results without calls."""
        asked = validated(_Body, body)
        none = asked.tool_choice is not None and asked.tool_choice.type == "none"
        return Request(
            model=asked.model,
            system=_text(asked.system),
            turn=last_turn(_items(asked.messages)),
            tools=() if none else tuple(tool.name for tool in asked.tools),
            stream=asked.stream,
            chars=chars,
        )

    def stream(self, answer: Answer) -> Stream:
        """A writer of message events."""
        return _AnthropicStream(answer)

    def whole(self, answer: Answer) -> dict[str, Any]:
        """A `message` object."""
        reply = answer.reply
        content: list[dict[str, Any]] = []
        if reply.thinking:
            content.append({"type": "thinking", "thinking": reply.thinking, "signature": _SIGNATURE})
        if reply.text:
            content.append({"type": "text", "text": reply.text})
        content.extend(
            {**_call(answer, index, call), "input": _object(call.arguments)} for index, call in enumerate(reply.calls)
        )
        message = {**_head(answer), "content": content, "stop_reason": _stop_reason(answer)}
        if (usage := reply.usage) is not None:
            message["usage"] = {**_input_usage(answer), "output_tokens": usage.output}
        return message

    def error(self, status: int, message: str) -> dict[str, Any]:
        """`{"type": "error", "error": {type, message}}`."""
        kind = _ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}


class _AnthropicStream:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._index = -1
        self._open = ""  # what the open content block holds: "thinking", "text" or the number of a call

    def begin(self) -> bytes:
        message = {**_head(self._answer), "content": [], "stop_reason": None}
        if self._answer.reply.usage is not None:
            message["usage"] = {**_input_usage(self._answer), "output_tokens": 1}
        return _event({"type": "message_start", "message": message}) + _event({"type": "ping"})

    def delta(self, delta: Delta) -> bytes:
        match delta:
            case Thinking(text):
                out = self._enter("thinking", {"type": "thinking", "thinking": "", "signature": ""})
                return out + self._delta({"type": "thinking_delta", "thinking": text})
            case Text(text):
                return self._enter("text", {"type": "text", "text": ""}) + self._delta(
                    {"type": "text_delta", "text": text}
                )
            case CallStart(index, name, id_):
                return self._enter(str(index), {**_call(self._answer, index, Call(name, "", id_)), "input": {}})
            case Arguments(_, text):
                return self._delta({"type": "input_json_delta", "partial_json": text})

    def end(self) -> bytes:
        out = self._leave()
        event: dict[str, Any] = {
            "type": "message_delta",
            "delta": {"stop_reason": _stop_reason(self._answer), "stop_sequence": None},
        }
        if (usage := self._answer.reply.usage) is not None:
            event["usage"] = {"output_tokens": usage.output}
        return out + _event(event) + _event({"type": "message_stop"})

    def fault(self, body: Any) -> bytes:
        return b"event: error\ndata: " + encode(body) + b"\n\n"

    def _enter(self, what: str, block: dict[str, Any]) -> bytes:
        if self._open == what:
            return b""
        out = self._leave()
        self._index += 1
        self._open = what
        return out + _event({"type": "content_block_start", "index": self._index, "content_block": block})

    def _leave(self) -> bytes:
        if not self._open:
            return b""
        signed = self._delta({"type": "signature_delta", "signature": _SIGNATURE}) if self._open == "thinking" else b""
        self._open = ""
        return signed + _event({"type": "content_block_stop", "index": self._index})

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _event({"type": "content_block_delta", "index": self._index, "delta": delta})


def _event(value: dict[str, Any]) -> bytes:
    return b"event: " + str(value["type"]).encode() + b"\ndata: " + encode(value) + b"\n\n"


def _head(answer: Answer) -> dict[str, Any]:
    head = {"id": f"msg_{answer.id}", "type": "message", "role": "assistant"}
    return {**head, "model": MODEL, "stop_sequence": None}


def _stop_reason(answer: Answer) -> str:
    return _STOP_REASONS.get(answer.reply.finish, answer.reply.finish)


def _call(answer: Answer, index: int, call: Call) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id or f"toolu_{answer.id}{index}", "name": call.name}


def _object(arguments: str) -> JsonValue:
    """Arguments as the object that this dialect carries; text broken on purpose stays text."""
    try:
        value: JsonValue = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value


def _input_usage(answer: Answer) -> dict[str, int]:
    usage = answer.reply.usage
    if usage is None:
        return {}
    return {
        "input_tokens": usage.input - usage.cached,  # here, unlike in the other dialect, cached ones are apart
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": 0,
    }


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [block.text if isinstance(block, _Block) else _raw_text(block) for block in content]
    return "\n".join(text for text in texts if text)


def _raw_text(block: Any) -> str:
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else ""


def _has_image(content: Any) -> bool:
    return isinstance(content, list) and any(isinstance(part, dict) and part.get("type") == "image" for part in content)


def _items(messages: list[_Message]) -> list[Item]:
    if messages[0].role != "user":
        raise UserError("messages.0: the first message must be a user message")
    items: list[Item] = []
    waiting: dict[str, str] = {}  # call id -> tool name, calls of the last assistant message without a result yet
    for number, message in enumerate(messages):
        blocks = message.blocks
        if any(block.type == "text" and not block.text.strip() for block in blocks) or not blocks:
            raise UserError(f"messages.{number}: content must not be empty")
        if message.role == "user":
            items.extend(_user_items(blocks, waiting, number))
            waiting = {}
        else:
            if waiting:
                raise UserError(f"messages.{number}: before it, these calls have no result: {', '.join(waiting)}")
            waiting = {block.id: block.name for block in blocks if block.type == "tool_use"}
            items.append(Item("assistant", _text(blocks), calls=bool(waiting)))
    if waiting:
        raise UserError(f"messages: these calls have no result: {', '.join(waiting)}")
    return items


def _user_items(blocks: list[_Block], waiting: dict[str, str], number: int) -> list[Item]:
    items: list[Item] = []
    left = dict(waiting)
    for block in blocks:
        if block.type == "tool_result":
            name = left.pop(block.tool_use_id, None)
            if name is None:
                raise UserError(f"messages.{number}: no call just before it has the id {block.tool_use_id!r}")
            result = ToolResult(name, _text(block.content))
            items.append(Item("results", image=_has_image(block.content), results=(result,)))
    if left:
        raise UserError(f"messages.{number}: these calls have no result: {', '.join(left)}")
    image = any(block.type == "image" for block in blocks)
    text = _text([block for block in blocks if block.type == "text"])
    return [*items, Item("user", text, image)] if text or image else items
