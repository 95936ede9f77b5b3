"""OpenAI Chat Completions: https://platform.openai.com/docs/api-reference/chat (and its streaming page)."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, Field

from ops.rehearsal.engine import MODEL, Call
from ops.rehearsal.playback import Arguments, CallStart, Delta, Text, Thinking
from ops.rehearsal.request import Item, Request, ToolResult, last_turn
from ops.rehearsal.wire import Answer, Stream, encode, validated
from shared.errors import UserError

_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class _Part(BaseModel):
    type: str
    text: str = ""


class _Function(BaseModel):
    name: str
    arguments: str = ""


class _ToolCall(BaseModel):
    id: str
    function: _Function


class _Message(BaseModel):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    tool_calls: list[_ToolCall] = Field(default_factory=list)
    tool_call_id: str = ""

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type == "text")
        return self.content or ""

    @property
    def image(self) -> bool:
        return isinstance(self.content, list) and any(part.type == "image_url" for part in self.content)


class _Tool(BaseModel):
    function: _Function


class _StreamOptions(BaseModel):
    include_usage: bool = False


class _Body(BaseModel):
    model: str
    messages: list[_Message] = Field(min_length=1)
    tools: list[_Tool] | None = None
    tool_choice: Any = None
    stream: bool | None = False
    stream_options: _StreamOptions | None = None


class OpenAIWire:
    """The Chat Completions dialect."""

    def parse(self, body: Any, chars: int) -> Request:
        """The request in a JSON body. Raises UserError, also for calls without results and results without calls."""
        asked = validated(_Body, body)
        offered = [] if asked.tool_choice == "none" else asked.tools or []
        return Request(
            model=asked.model,
            system="\n\n".join(m.text for m in asked.messages if m.role in ("system", "developer")),
            turn=last_turn(_items(asked.messages)),
            tools=tuple(tool.function.name for tool in offered),
            stream=bool(asked.stream),
            include_usage=asked.stream_options is not None and asked.stream_options.include_usage,
            chars=chars,
        )

    def stream(self, answer: Answer) -> Stream:
        """A writer of `chat.completion.chunk` events."""
        return _OpenAIStream(answer)

    def whole(self, answer: Answer) -> dict[str, Any]:
        """A `chat.completion` object."""
        reply = answer.reply
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
        if reply.thinking:
            message["reasoning_content"] = reply.thinking
        if reply.calls:
            message["tool_calls"] = [_call(answer, index, call) for index, call in enumerate(reply.calls)]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish}
        return {
            "id": f"chatcmpl-{answer.id}",
            "object": "chat.completion",
            "created": answer.created,
            "model": MODEL,
            "choices": [choice],
            **({"usage": usage} if (usage := _usage(answer)) else {}),
        }

    def error(self, status: int, message: str) -> dict[str, Any]:
        """`{"error": {message, type, param, code}}`."""
        kind = _ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}


class _OpenAIStream:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def begin(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def delta(self, delta: Delta) -> bytes:
        match delta:
            case Thinking(text):
                return self._chunk({"reasoning_content": text})
            case Text(text):
                return self._chunk({"content": text})
            case CallStart(index, name, id_):
                head = _call(self._answer, index, Call(name, "", id_))
                return self._chunk({"tool_calls": [{"index": index, **head}]})
            case Arguments(index, text):
                return self._chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]})

    def end(self) -> bytes:
        out = self._chunk({}, self._answer.reply.finish)
        usage = _usage(self._answer)
        if self._answer.include_usage and usage is not None:
            out += _event({**self._head(), "choices": [], "usage": usage})
        return out + b"data: [DONE]\n\n"

    def fault(self, body: Any) -> bytes:
        return _event(body)

    def _head(self) -> dict[str, Any]:
        answer = self._answer
        head = {"id": f"chatcmpl-{answer.id}", "object": "chat.completion.chunk"}
        return {**head, "created": answer.created, "model": MODEL}

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = {**self._head(), "choices": [choice]}
        if self._answer.include_usage:
            chunk["usage"] = None
        return _event(chunk)


def _event(value: Any) -> bytes:
    return b"data: " + encode(value) + b"\n\n"


def _call(answer: Answer, index: int, call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id or f"call_{answer.id}{index}", "type": "function", "function": function}


def _usage(answer: Answer) -> dict[str, Any] | None:
    usage = answer.reply.usage
    if usage is None:
        return None
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }


def _items(messages: list[_Message]) -> list[Item]:
    items: list[Item] = []
    waiting: dict[str, str] = {}  # call id -> tool name, calls of the last assistant message without a result yet
    for number, message in enumerate(messages):
        if message.role == "tool":
            name = waiting.pop(message.tool_call_id, None)
            if name is None:
                raise UserError(f"messages.{number}: no call just before it has the id {message.tool_call_id!r}")
            items.append(Item("results", image=message.image, results=(ToolResult(name, message.text),)))
            continue
        _none_waits(waiting, number)
        if message.role == "user":
            items.append(Item("user", message.text, message.image))
        elif message.role == "assistant":
            if not message.text and not message.tool_calls:
                raise UserError(f"messages.{number}: an assistant message needs content or tool calls")
            items.append(Item("assistant", message.text, calls=bool(message.tool_calls)))
            waiting = {call.id: _name(call, number) for call in message.tool_calls}
            if len(waiting) != len(message.tool_calls):
                raise UserError(f"messages.{number}: two calls have the same id")
    _none_waits(waiting, len(messages))
    return items


def _none_waits(waiting: dict[str, str], number: int) -> None:
    if waiting:
        raise UserError(f"messages.{number}: before it, these calls have no result: {', '.join(waiting)}")


def _name(call: _ToolCall, number: int) -> str:
    try:
        arguments = json.loads(call.function.arguments or "{}")
    except (ValueError, RecursionError) as error:
        raise UserError(f"messages.{number}: the arguments of call {call.id!r} are not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise UserError(f"messages.{number}: the arguments of call {call.id!r} are not an object")
    return call.function.name
