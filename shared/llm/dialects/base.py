"""What a dialect is: a pure encoder and a pure decoder, and what the decoders share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from shared.llm.calls import CallAccumulator
from shared.llm.errors import CutStream, LlmError, ServerFault, from_error_object
from shared.llm.model import BrokenCall, Finish, Request, StreamItem, ToolCall, ToolDefinition, Usage
from shared.llm.names import WireNames, names_in
from shared.llm.provider import Provider
from shared.llm.sse import SseEvent


@dataclass(frozen=True)
class Encoded:
    """A request on the wire: `path` is put behind the provider's base URL; `notices` are for the operator's log."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    names: WireNames
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Offer:
    """The tools that a request can offer on this wire: (definition, wire name) each, and all its names."""

    tools: tuple[tuple[ToolDefinition, str], ...]
    names: WireNames
    notices: tuple[str, ...]


def offer(provider: Provider, request: Request) -> Offer:
    """Tools within the provider's limit and name rules; whatever does not fit is left out with a notice."""
    switches = provider.switches
    notices: list[str] = []
    tools = request.tools
    if switches.max_tools is not None and len(tools) > switches.max_tools:
        notices.append(f"{provider.name} takes {switches.max_tools} tools, {len(tools)} given: the last are left out")
        tools = tools[: switches.max_tools]
    wanted = [tool.name for tool in tools] + names_in(request.messages)
    names = WireNames(wanted, pattern=switches.name_pattern, longest=switches.name_max)
    notices += [f"no name on the wire fits the tool {name!r}: it is left out" for name in names.missing]
    named = tuple((tool, wire) for tool in tools if (wire := names.wire(tool.name)) is not None)
    return Offer(named, names, tuple(notices))


def system_text(request: Request, structured: str) -> str:
    """The system text, with the JSON Schema of the answer in it where the wire has no place of its own for it."""
    if request.json_schema is None or structured == "json_schema":
        return request.system
    schema = json.dumps(request.json_schema, ensure_ascii=False)
    note = f"Answer with one JSON value that is valid under this JSON Schema, and with nothing else:\n{schema}"
    return f"{request.system}\n\n{note}" if request.system else note


def effort_of(budget: int) -> str:
    """The word for a budget in tokens, where only words are understood."""
    if budget <= 2_048:
        return "low"
    return "medium" if budget <= 12_000 else "high"


class Decoder(Protocol):
    """Reads one answer. Purely: events in, stream items out.

    `pieces` counts fragments of content so far, by which a reader tells progress from noise. `finished`: the
    model has said why it stopped, only usage may follow. `done`: the end mark came, nothing follows. `patient`:
    the provider is known to be silent for long at this point though all is well.
    """

    pieces: int
    finished: bool
    done: bool

    @property
    def patient(self) -> bool:
        """See above."""
        ...

    def feed(self, event: SseEvent) -> list[StreamItem]:
        """The items of one event. Raises LlmError for an error in the stream or for malformed data."""
        ...

    def document(self, body: Any) -> list[StreamItem]:
        """The items of a whole answer that came as one JSON value instead of a stream."""
        ...

    def close(self) -> list[StreamItem]:
        """The last items, a Completion at the end. Raises CutStream if the answer is not complete."""
        ...

    @property
    def partial_text(self) -> str:
        """Visible text so far."""
        ...

    @property
    def usage(self) -> Usage | None:
        """Usage reported so far."""
        ...


@dataclass(frozen=True)
class Dialect:
    """One wire dialect. `auth` is the header style where the provider sets none."""

    name: str
    encode: Callable[[Provider, Request], Encoded]
    decoder: Callable[[Provider, WireNames], Decoder]
    auth: str = "bearer"


def json_values(event: SseEvent) -> list[dict[str, Any]]:
    """The JSON objects in an event.

    Usually one; several where a server left out the blank lines between events. Data that starts with `:` is a
    comment in the wrong place. Raises ServerFault for data that is not JSON, except in an event that the end of
    the stream cut, which holds nothing.
    """
    data = event.data.strip()
    if not data or data[0] == ":":
        return []
    try:
        values = [loads(data)]
    except (ValueError, RecursionError):
        try:
            values = [loads(line) for line in data.splitlines() if line.strip()]
        except (ValueError, RecursionError) as error:
            if not event.whole:
                return []
            shown = data if len(data) <= 200 else data[:200] + "…"
            raise ServerFault(
                f"the stream holds something that is not JSON: {shown}", code="malformed_event"
            ) from error
    return [value for value in values if isinstance(value, dict)]


def _null(word: str) -> None:
    """Stands for NaN and the infinities, which no JSON of ours could carry on."""


_JSON = json.JSONDecoder(strict=False, parse_constant=_null)  # made once: that costs as much as a small event


def loads(text: str) -> Any:
    """JSON as servers write it: raw control characters are let through, NaN and infinities become null."""
    return _JSON.decode(text)


def unwrapped(body: Any) -> dict[str, Any]:
    """The object of a whole JSON answer; a list of one is opened. Raises LlmError if it holds an error, or nothing."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        raise ServerFault("the answer is not a JSON object", code="not_an_api", hint="is base_url a model API?")
    if error := found_error(body):
        raise error
    return body


def found_error(value: Mapping[str, Any]) -> LlmError | None:
    """The error that an object of a stream carries, in any of the places where servers put it."""
    if error := value.get("error"):
        return from_error_object(error)
    if value.get("type") == "error" or value.get("object") == "error":
        return from_error_object(value)
    return None


def cut(partial_text: str) -> CutStream:
    """The error for a stream that ended before the answer did."""
    return CutStream("the stream ended before the answer was complete", partial_text=partial_text)


@dataclass(frozen=True)
class Calls:
    """The calls of a finished message: whole ones, broken ones, and those not announced before."""

    whole: tuple[ToolCall, ...] = ()
    broken: tuple[BrokenCall, ...] = ()
    fresh: list[ToolCall] = field(default_factory=list)


def settle_calls(calls: CallAccumulator, finish: Finish) -> Calls:
    """Ends the calls of a message that stopped for `finish`."""
    is_cut = finish in (Finish.LENGTH, Finish.CONTENT_FILTER)
    fresh = calls.ready(ended=not is_cut)
    settled = calls.settle(cut=is_cut)
    whole = tuple(call for call in settled if isinstance(call, ToolCall))
    if is_cut:
        # The last call was not announced above because nothing followed it; if it is whole it counts all the same.
        fresh += calls.ready(ended=True) if whole and whole[-1] is settled[-1] else []
    return Calls(whole, tuple(call for call in settled if isinstance(call, BrokenCall)), fresh)


def final_finish(label: Finish, calls: Calls, text: str) -> Finish:
    """Whole calls decide over the label, except that a cut or filtered answer stays one."""
    if label in (Finish.LENGTH, Finish.CONTENT_FILTER):
        return label
    if calls.whole or calls.broken:
        return Finish.TOOL_CALLS
    if label is Finish.TOOL_CALLS:  # announced, but none came
        return Finish.STOP if text else Finish.UNKNOWN
    return label
