"""A run as the learner reads it: what was asked, called, returned and answered, bounded in size. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from shared.contract import NodeState
from shared.corrections import lesson, own_words
from shared.entries import Assistant, Context, LogEntry, Node, NodeEnded, Nudge, RunEnded, Steer, Stored, UserMessage
from workers.learner.topics import topic

LIMIT_CHARS = 16_000
_USER_CHARS = 2_000
_ARGS_CHARS = 400
_RESULT_CHARS = 700
_ANSWER_CHARS = 1_500
_UNTRUSTED_CHARS = 200_000

_TRANSIENT_STATES = {NodeState.TIMED_OUT, NodeState.CANCELLED, NodeState.SKIPPED, NodeState.OUTCOME_UNKNOWN}
_TRANSIENT_CODES = {
    "timed_out", "unreachable", "unavailable", "rate_limited", "overloaded", "state_unavailable",
    "archive_unavailable", "conflict", "http_status", "tool_crashed", "cut_stream",
    "server_fault",
}  # fmt: skip
_SCHEDULED = "schedule-"
"""Begins the ids of messages that a schedule sends. Its prompt may be a model's."""
_UNSUPPORTED = "unsupported_claim"
"""Why the loop told the model that its answer claims what no call did."""
_MARK = re.compile(r"^⚠ (?:Not confirmed|Sin confirmar)\b", re.MULTILINE)
"""Begins the line that the loop puts under an answer of that kind."""
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_MISUSE = {"bad_arguments"}
"""Codes of failures whose text is ours: the call did not fit the tool's schema."""


@dataclass
class Trace:
    """`text` goes to the model. `asked` is the question before, `said` what the user wrote in this run, `taught` the
    part of it that corrects or wishes for something; `untrusted` is what has come out of tools and documents in the
    whole session.

    `tools` counts, by tool, calls that succeeded, failed for a reason of their own, and failed for a passing one;
    `calls` has the names of their arguments and, of calls with wrong arguments, what we said about them, which
    `misuses` tells one by one. `shown` are the rules that were in the prompt. `unsupported`: the answer claims what no
    call did.
    """

    text: str = ""
    asked: str = ""
    said: str = ""
    taught: str = ""
    untrusted: str = ""
    tools: dict[str, Outcomes] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)
    misuses: list[Misuse] = field(default_factory=list)
    shown: frozenset[str] = frozenset()
    unsupported: bool = False

    @property
    def teaches(self) -> bool:
        """True if there is anything that a lesson may rest on."""
        return bool(self.taught or self.shown or self.mended)

    @property
    def mended(self) -> list[Misuse]:
        """Calls with wrong arguments that were made right later; how the others should be, nobody knows."""
        return [one for one in self.misuses if one.worked_with is not None]


@dataclass
class Misuse:
    """A call with wrong arguments: what we said of it, the names of its arguments, and of those that worked then."""

    tool: str
    said: str
    had: tuple[str, ...]
    worked_with: tuple[str, ...] | None = None


@dataclass
class Outcomes:
    """How the calls of one tool ended."""

    done: int = 0
    failed: int = 0
    transient: int = 0

    @property
    def only_transient(self) -> bool:
        """True when all that is known of the tool is a failure that may well have passed."""
        return self.transient > 0 and not (self.done or self.failed)


def render(entries: Sequence[Stored], run: str, limit: int = LIMIT_CHARS) -> Trace:
    """The trace of one run out of its session's log, with the exchange before it (which it may correct).

    Tool output is set between <untrusted> marks. When it is too long, its middle is left out.
    """
    mine = [entry.value for entry in entries if entry.run == run and entry.value is not None]
    names = _tool_names(mine)
    trace = Trace()
    asked, answered = _before(entries, run)
    parts = [f"EARLIER THE USER SAID: {_cut(asked, 500)}", f"EARLIER THE ANSWER WAS: {_cut(answered, 500)}"]
    parts = parts if asked and answered else []
    said: list[str] = []
    taught: list[str] = []
    arguments: dict[str, tuple[str, ...]] = {}
    for value in mine:
        match value:
            case UserMessage() if not value.parent and not value.id.startswith(_SCHEDULED):
                said.append(own_words(value.text))
                taught.append(_lesson(value.text, answered))
            case Steer():
                said.append(own_words(value.text))
                taught.append(_lesson(value.text, answered or "what was done so far"))
            case Context():
                trace.shown |= frozenset(value.bullets)
            case Assistant():
                for call in value.message.calls:
                    trace.calls[call.name] = " ".join([trace.calls.get(call.name, ""), *call.arguments])
                    arguments[call.id] = tuple(call.arguments)
            case NodeEnded():
                _count(trace, names.get(value.node, "unknown"), value, arguments.get(value.node, ()))
            case Nudge() if value.reason == _UNSUPPORTED:
                trace.unsupported = True
            case RunEnded() if _MARK.search(value.answer):
                trace.unsupported = True
        parts += _lines(value, names)
    trace.text = _bounded(parts, limit) if mine else ""
    trace.asked = own_words(asked)
    trace.said = "\n".join(said)
    trace.taught = "\n".join(one for one in taught if one)
    trace.untrusted = _untrusted(entries, run)
    return trace


def _lesson(text: str, answered: str) -> str:
    """What a message teaches, without the sentences that can be no rule."""
    return lesson(" ".join(one for one in _SENTENCE_END.split(own_words(text)) if not topic(one)), answered)


def _untrusted(entries: Sequence[Stored], run: str) -> str:
    """What others wrote: all that has come into the session until the end of the run, its newest part."""
    found: list[str] = []
    for entry in entries:
        if isinstance(entry.value, NodeEnded):
            error = entry.value.result.error
            if error is None or error.code not in _MISUSE:
                found.append(entry.value.result.text)
        elif isinstance(entry.value, Context):
            found.append(entry.value.text)
        elif isinstance(entry.value, RunEnded) and entry.run == run:
            break
    return "\n".join(found)[-_UNTRUSTED_CHARS:]


def _tool_names(values: Iterable[LogEntry]) -> dict[str, str]:
    names = {}
    for value in values:
        if isinstance(value, Node):
            names[value.node] = value.tool
        elif isinstance(value, Assistant):
            names.update((call.id, call.name) for call in value.message.calls)
    return names


def _count(trace: Trace, tool: str, ended: NodeEnded, arguments: tuple[str, ...]) -> None:
    result, outcomes = ended.result, trace.tools.setdefault(tool, Outcomes())
    code = result.error.code if result.error is not None else ""
    if result.state is NodeState.DONE:
        outcomes.done += 1
        for misuse in trace.misuses:
            if misuse.tool == tool and misuse.worked_with is None:
                misuse.worked_with = arguments
    elif result.state in _TRANSIENT_STATES or code in _TRANSIENT_CODES:
        outcomes.transient += 1
    else:
        outcomes.failed += 1
        if code in _MISUSE and result.error is not None:
            said = _cut(result.error.message, _RESULT_CHARS)
            trace.misuses.append(Misuse(tool, said, arguments))
            trace.calls[tool] = f"{trace.calls.get(tool, '')} {said}"


def _before(entries: Sequence[Stored], run: str) -> tuple[str, str]:
    """The last question before the run and its answer; empty if there are none."""
    asked = answered = ""
    for entry in entries:
        if entry.run == run:
            break
        if isinstance(entry.value, UserMessage) and not entry.value.parent:
            asked, answered = entry.value.text, ""
        elif isinstance(entry.value, RunEnded) and entry.value.answer:
            answered = entry.value.answer
    return asked, answered


def _lines(value: LogEntry, names: dict[str, str]) -> list[str]:
    match value:
        case UserMessage():
            return [f"USER: {_cut(value.text, _USER_CHARS)}"]
        case Steer():
            return [f"USER, MEANWHILE: {_cut(value.text, _USER_CHARS)}"]
        case Assistant():
            said = [f"ASSISTANT: {_cut(value.message.text, _ANSWER_CHARS)}"] if value.message.text.strip() else []
            calls = [
                f"CALL {call.name}({_cut(json.dumps(call.arguments, ensure_ascii=False), _ARGS_CHARS)})"
                for call in value.message.calls
            ]
            return said + calls
        case NodeEnded():
            output = _cut(value.result.text, _RESULT_CHARS).replace("untrusted>", "untrusted >")
            tool = names.get(value.node, "unknown")
            return [f"RESULT of {tool}, {value.result.state.value}: <untrusted>{output}</untrusted>"]
        case Nudge():
            return [f"NOTE BY THE LOOP ({value.reason})"]
        case RunEnded():
            return [f"END ({value.state}, {value.finish_reason}): {_cut(value.answer, _ANSWER_CHARS)}"]
    return []


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]} […] {text[len(text) - (limit - head) :]}"


def _bounded(parts: list[str], limit: int) -> str:
    """The first half and the last half of the room, whole parts only."""
    if sum(len(part) + 1 for part in parts) <= limit:
        return "\n".join(parts)
    half = limit // 2
    head = _fitting(parts, half)
    tail = _fitting(parts[: len(head) - 1 : -1] if head else parts[::-1], half)[::-1]
    left_out = len(parts) - len(head) - len(tail)
    return "\n".join([*head, f"[{left_out} entries left out]", *tail])


def _fitting(parts: Iterable[str], room: int) -> list[str]:
    kept = []
    for part in parts:
        room -= len(part) + 1
        if room < 0:
            break
        kept.append(part)
    return kept
