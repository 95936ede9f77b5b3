"""The decoder of Chat Completions, streamed or whole. Pure.

One path reads both: a whole answer is a single chunk whose `message` is its delta. Shapes follow OpenAI's
reference; what compatible servers do differently is noted where it is handled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shared.llm.calls import CallAccumulator, Fragment, merge_opaque
from shared.llm.dialects.base import cut, final_finish, found_error, json_values, settle_calls, unwrapped
from shared.llm.dialects.openai.reasoning import CONTENT, DETAILS, FIELDS, Reasoning, parts_of
from shared.llm.errors import ServerFault, from_error_object
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
    ThinkingDelta,
    Usage,
    UsageSeen,
)
from shared.llm.names import WireNames
from shared.llm.provider import Provider
from shared.llm.sse import SseEvent
from shared.llm.text import HalfJoiner, Piece, ThinkSplitter, writable
from shared.llm.usage import from_openai

_FINISH: Mapping[str, Finish] = {
    "stop": Finish.STOP,
    "end_turn": Finish.STOP,
    "eos": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "model_length": Finish.LENGTH,
    "tool_calls": Finish.TOOL_CALLS,
    "tool_use": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "content_filter": Finish.CONTENT_FILTER,
    "safety": Finish.CONTENT_FILTER,
    "recitation": Finish.CONTENT_FILTER,
    "prohibited_content": Finish.CONTENT_FILTER,
    "blocklist": Finish.CONTENT_FILTER,
}
_END = "[DONE]"
_PLAIN = {"role", "content"}
# Fields of a delta that are read here, or that the API sends but does not take back.
_KNOWN = {"role", "content", "tool_calls", "refusal", "function_call", "annotations", "audio", "logprobs", "token_ids"}
_KNOWN |= {*FIELDS, DETAILS}


class OpenAIDecoder:
    """Reads one answer in Chat Completions form; see `base.Decoder`."""

    def __init__(self, provider: Provider, names: WireNames) -> None:
        self.pieces = 0
        self.finished = False
        self.done = False
        self.patient = False
        self._origin = provider.name
        self._calls = CallAccumulator(names.ours)
        self._text: list[str] = []
        self._reasoning = Reasoning()
        self._halves = {"text": HalfJoiner(), "thinking": HalfJoiner()}
        self._splitter = ThinkSplitter()
        self._opaque: Opaque = {}
        self._usage: Usage | None = None
        self._model = ""
        self._raw_finish = ""
        self._label = Finish.UNKNOWN
        self._saw_choice = False

    @property
    def partial_text(self) -> str:
        """Visible text so far."""
        return "".join(self._text)

    @property
    def usage(self) -> Usage | None:
        """Usage reported so far."""
        return self._usage

    def feed(self, event: SseEvent) -> list[StreamItem]:
        """The items of one event; what follows the end mark is ignored."""
        if self.done:
            return []
        items: list[StreamItem] = []
        data = event.data.strip()
        if data.endswith(_END):  # not always alone: some servers leave out the blank lines
            self.done = True
            event = event._replace(data=data.removesuffix(_END))
        for value in json_values(event):
            if event.event == "error" and "choices" not in value:
                raise from_error_object(value.get("error", value))
            self._chunk(value, items)
        return items

    def document(self, body: Any) -> list[StreamItem]:
        """The items of a whole `chat.completion` object."""
        items: list[StreamItem] = []
        self._chunk(unwrapped(body), items)
        self.done = True
        return items

    def close(self) -> list[StreamItem]:
        """The last items and the Completion."""
        if not (self.finished or self.done):
            raise cut(self.partial_text)
        if not self._saw_choice:
            raise ServerFault("the answer holds no choice", code="empty_answer", hint="is base_url a chat API?")
        if not self.finished:  # the end mark without a reason: complete all the same
            self._label = Finish.STOP
        items: list[StreamItem] = []
        self._out(self._splitter.close(), items)
        for kind in ("thinking", "text"):
            self._emit(kind, self._halves[kind].close(), items)
        calls = settle_calls(self._calls, self._label)
        items += [CallReady(call=call) for call in calls.fresh]
        text = self.partial_text
        blocks: list[Block] = []
        if (thinking := self._reasoning.block()) is not None:
            blocks.append(thinking)
        if text:
            blocks.append(TextBlock(text=text))
        blocks += calls.whole
        message = Message(role="assistant", blocks=tuple(blocks), origin=self._origin, opaque=self._opaque)
        items.append(
            Completion(
                message=message,
                finish=final_finish(self._label, calls, text),
                raw_finish=self._raw_finish,
                usage=self._usage,
                model=self._model,
                broken=calls.broken,
            )
        )
        return items

    def _chunk(self, chunk: Mapping[str, Any], items: list[StreamItem]) -> None:
        if (error := found_error(chunk)) is not None:
            raise error
        if isinstance(model := chunk.get("model"), str) and model:
            self._model = writable(model)
        choice = _first_choice(chunk.get("choices"))
        if chunk.get("usage") or "x_groq" in chunk or (choice is not None and "usage" in choice):
            self._read_usage(chunk, choice, items)
        if choice is not None:
            self._saw_choice = True
            if choice_error := choice.get("error"):
                raise from_error_object(choice_error)
            delta = choice.get("delta") or choice.get("message")
            if isinstance(delta, dict):
                self._delta(delta, items)
            if reason := choice.get("finish_reason"):
                self._read_finish(reason, items)

    def _read_usage(self, chunk: Mapping[str, Any], choice: Mapping[str, Any] | None, items: list[StreamItem]) -> None:
        groq = chunk.get("x_groq")
        for holder in (chunk, groq, choice):
            raw = holder.get("usage") if isinstance(holder, Mapping) else None
            if isinstance(raw, Mapping) and (usage := from_openai(raw)).total:
                if usage != self._usage:
                    self._usage = usage
                    items.append(UsageSeen(usage=usage))
                return

    def _read_finish(self, reason: Any, items: list[StreamItem]) -> None:
        if not isinstance(reason, str):
            return
        word = reason.lower()
        if word == "error":
            raise ServerFault("the provider stopped with an error", code="stream_error")
        self._raw_finish, self._label = writable(reason), _FINISH.get(word, Finish.UNKNOWN)
        self.finished = True
        if self._label not in (Finish.LENGTH, Finish.CONTENT_FILTER):
            items += [CallReady(call=call) for call in self._calls.ready(ended=True)]

    def _delta(self, delta: Mapping[str, Any], items: list[StreamItem]) -> None:
        if not _PLAIN.issuperset(delta):
            self._rich_delta(delta, items)
        elif content := delta.get("content"):
            self._content(content, items)

    def _rich_delta(self, delta: Mapping[str, Any], items: list[StreamItem]) -> None:
        if delta.get(DETAILS):
            self.pieces += 1  # may hold nothing but encrypted thinking
        if thinking := self._reasoning.read(delta):
            self._out([*self._splitter.stop(), Piece("thinking", thinking)], items)
        if content := delta.get("content"):
            self._content(content, items)
        if isinstance(refusal := delta.get("refusal"), str) and refusal:
            self._out([*self._splitter.stop(), Piece("text", refusal)], items)
        if raw_calls := delta.get("tool_calls"):
            self._out(self._splitter.stop(), items)
            self._read_calls(raw_calls, items)
        if not _KNOWN.issuperset(delta):
            self._keep_unknown(delta)

    def _content(self, content: Any, items: list[StreamItem]) -> None:
        text, inline = (content, "") if isinstance(content, str) else parts_of(content)
        if inline:
            self._reasoning.add("", CONTENT)
            self._out([Piece("thinking", inline)], items)
        if not text:
            return
        self.pieces += 1
        if self._splitter.passing:
            self._emit("text", self._halves["text"].feed(text), items)
        else:
            self._out(self._splitter.feed(text), items)

    def _read_calls(self, raw_calls: Any, items: list[StreamItem]) -> None:
        entries = raw_calls if isinstance(raw_calls, list) else [raw_calls]
        fragments = [_fragment(entry) for entry in entries if isinstance(entry, dict)]
        if not fragments:
            return
        self.pieces += 1
        before = len(self._calls)
        self._calls.add(fragments)
        if len(self._calls) > max(before, 1):
            items += [CallReady(call=call) for call in self._calls.ready()]

    def _keep_unknown(self, delta: Mapping[str, Any]) -> None:
        unknown = {key: value for key, value in delta.items() if key not in _KNOWN and value not in (None, "", [], {})}
        extra = unknown.get("extra_content")
        google = extra.get("google") if isinstance(extra, dict) else None
        if isinstance(google, dict) and google.get("thought") is True:
            del unknown["extra_content"]  # a mark on a thought summary, not something to send back
        merge_opaque(self._opaque, unknown)

    def _out(self, pieces: list[Piece], items: list[StreamItem]) -> None:
        for piece in pieces:
            self.pieces += 1
            self._emit(piece.kind, self._halves[piece.kind].feed(piece.text), items)

    def _emit(self, kind: str, text: str, items: list[StreamItem]) -> None:
        if not text:
            return
        if kind == "text":
            self._text.append(text)
            items.append(TextDelta(text=text))
        else:
            self._reasoning.add(text)
            items.append(ThinkingDelta(text=text))


def _first_choice(raw: Any) -> Mapping[str, Any] | None:
    """The choice of index 0, or one that names none."""
    for choice in raw if isinstance(raw, list) else ():
        if isinstance(choice, dict) and _index(choice.get("index")) in (0, None):
            return choice
    return None


def _fragment(entry: Mapping[str, Any]) -> Fragment:
    raw_function = entry.get("function")
    function: Mapping[str, Any] = raw_function if isinstance(raw_function, dict) else {}
    opaque: Opaque = {key: value for key, value in entry.items() if key not in ("index", "id", "type", "function")}
    inner = {key: value for key, value in function.items() if key not in ("name", "arguments")}
    if inner:
        opaque["function"] = inner
    return Fragment(
        key=_index(entry.get("index")),
        id=_word(entry.get("id")),
        name=_word(function.get("name")),
        arguments=_arguments(function.get("arguments")),
        opaque=opaque,
    )


def _index(value: Any) -> int | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else None


def _word(value: Any) -> str:
    if isinstance(value, str):
        return writable(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _arguments(value: Any) -> str | Mapping[str, Any]:
    if value is None:
        return ""
    return value if isinstance(value, str | dict) else json.dumps(value, ensure_ascii=False)
