"""Scenario + request -> reply. Pure: no clock, no socket, no memory of earlier requests."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import JsonValue

from ops.rehearsal.request import Request
from ops.rehearsal.scenario import CallSpec, ErrorSpec, Rule, Scenario, Then, UsageSpec, When
from ops.rehearsal.templates import Data, fill, render

MODEL = "rehearsal"
"""The name under which every answer is given, whatever model was asked for."""

FALLBACK_TEXT = (
    "This is the rehearsal model, a script and not a language model: no rule of its scenario fits this message, "
    "so it has nothing to say about it."
)

_CHARS_PER_TOKEN = 4
_NO_USE: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as it goes out: `arguments` is text, normally a JSON object. An empty id is minted on the wire."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What to answer, and how. `rule` is the index of the rule that said it, -1 for the built-in fallback.

    Times in milliseconds; `cut` and `hang_after` in characters of thinking, text and arguments together.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    finish: str = "stop"
    usage: UsageSpec | None = None
    rule: int = -1
    name: str = ""
    first_token_ms: float = 0.0
    stream_ms: float = 0.0
    delta_chars: int = 4
    cut: int | None = None
    hang_first: bool = False
    hang_after: int | None = None
    error: ErrorSpec | None = None


class Engine:
    """Plays one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    def reply(self, request: Request, used: Mapping[int, int] = _NO_USE) -> Reply:
        """The reply of the first rule that fits. `used` counts how often each rule (by index) has answered before."""
        for index, rule in enumerate(self.scenario.rules):
            if rule.times is not None and used.get(index, 0) >= rule.times:
                continue
            data = self._match(rule, request)
            if data is not None:
                return _reply(rule, index, data)
        return _with_usage(Reply(text=FALLBACK_TEXT, name="fallback"), True, request)

    def _match(self, rule: Rule, request: Request) -> Data | None:
        when = rule.when
        if not _fits(when, request):
            return None
        if rule.then.calls and when.has_tools is None and not request.tools:
            return None  # a model cannot call tools that it was not offered, unless the rule says otherwise
        user = when.user.search(request.turn.user) if when.user else None
        system = when.system.search(request.system) if when.system else None
        if (when.user and user is None) or (when.system and system is None):
            return None
        return Data(request, user, system, self.scenario.maps)


def _fits(when: When, request: Request) -> bool:
    """All conditions but the two patterns whose groups templates use."""
    turn = request.turn
    steps = (when.step,) if isinstance(when.step, int) else when.step
    latest = "\n\n".join(result.text for result in turn.latest)
    return (
        turn.step >= when.min_step
        and (steps is None or turn.step in steps)
        and (when.has_image is None or when.has_image == turn.image)
        and (when.has_tools is None or when.has_tools == bool(request.tools))
        and _found(when.model, request.model)
        and _found(when.tool_result, latest)
    )


def _found(pattern: re.Pattern[str] | None, text: str) -> bool:
    return pattern is None or pattern.search(text) is not None


def _reply(rule: Rule, index: int, data: Data) -> Reply:
    said = rule.then
    hangs_at_once = said.hang is True
    reply = Reply(
        text=_text(said, data),
        thinking=render(said.thinking, data),
        calls=tuple(_call(call, data) for call in said.calls),
        finish=said.finish or ("tool_calls" if said.calls else "stop"),
        rule=index,
        name=rule.name,
        first_token_ms=said.first_token_ms,
        stream_ms=said.stream_ms,
        delta_chars=said.delta_chars,
        cut=said.cut,
        hang_first=hangs_at_once,
        hang_after=None if isinstance(said.hang, bool) else said.hang,
        error=said.error,
    )
    return _with_usage(reply, said.usage, data.request)


def _text(said: Then, data: Data) -> str:
    return render(said.text, data) if said.json_text is None else _dumps(fill(said.json_text, data))


def _call(call: CallSpec, data: Data) -> Call:
    arguments = call.arguments
    text = render(arguments, data) if isinstance(arguments, str) else _dumps(fill(arguments, data))
    return Call(call.name, text, call.id)


def _dumps(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def _with_usage(reply: Reply, usage: UsageSpec | bool, request: Request) -> Reply:
    if isinstance(usage, bool):
        said = len(reply.thinking) + len(reply.text) + sum(len(call.name + call.arguments) for call in reply.calls)
        estimate = UsageSpec(input=_tokens(request.chars), output=_tokens(said))
        return replace(reply, usage=estimate) if usage else reply
    return replace(reply, usage=usage)


def _tokens(chars: int) -> int:
    return math.ceil(chars / _CHARS_PER_TOKEN)
