"""A run as the learner reads it: what was asked, called, returned and answered, bounded in size. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from shared.contract import NodeState
from shared.entries import Assistant, LogEntry, Node, NodeEnded, Nudge, RunEnded, Steer, Stored, UserMessage

LIMIT_CHARS = 16_000
_USER_CHARS = 2_000
_ARGS_CHARS = 400
_RESULT_CHARS = 700
_ANSWER_CHARS = 1_500
_UNTRUSTED_CHARS = 400_000

_TRANSIENT_STATES = {NodeState.TIMED_OUT, NodeState.CANCELLED, NodeState.SKIPPED, NodeState.OUTCOME_UNKNOWN}
_TRANSIENT_CODES = {
    "timed_out", "unreachable", "unavailable", "rate_limited", "overloaded", "state_unavailable",
    "archive_unavailable", "broker_unavailable", "conflict", "http_status", "tool_crashed", "cut_stream",
    "server_fault",
}  # fmt: skip


@dataclass
class Trace:
    """`text` goes to the model. `said` is what the user wrote; `untrusted` everything that came out of tools.

    `tools` counts, by tool, calls that succeeded, failed for a reason of their own, and failed for a passing one.
    """

    text: str = ""
    said: str = ""
    untrusted: str = ""
    tools: dict[str, Outcomes] = field(default_factory=dict)


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
    said: list[str] = []
    untrusted: list[str] = []
    parts = list(_before(entries, run))
    for value in mine:
        match value:
            case UserMessage() | Steer():
                said.append(value.text)
            case NodeEnded():
                untrusted.append(value.result.text)
                _count(trace.tools.setdefault(names.get(value.node, "unknown"), Outcomes()), value)
        parts += _lines(value, names)
    trace.text = _bounded(parts, limit)
    trace.said = "\n".join(said)
    trace.untrusted = "\n".join(untrusted)[:_UNTRUSTED_CHARS]
    return trace


def _tool_names(values: Iterable[LogEntry]) -> dict[str, str]:
    names = {}
    for value in values:
        if isinstance(value, Node):
            names[value.node] = value.tool
        elif isinstance(value, Assistant):
            names.update((call.id, call.name) for call in value.message.calls)
    return names


def _count(outcomes: Outcomes, ended: NodeEnded) -> None:
    result = ended.result
    if result.state is NodeState.DONE:
        outcomes.done += 1
    elif result.state in _TRANSIENT_STATES or (result.error is not None and result.error.code in _TRANSIENT_CODES):
        outcomes.transient += 1
    else:
        outcomes.failed += 1


def _before(entries: Sequence[Stored], run: str) -> Iterable[str]:
    """The last question and answer before the run, if there are any."""
    asked = answered = None
    for entry in entries:
        if entry.run == run:
            break
        if isinstance(entry.value, UserMessage):
            asked = entry.value
        elif isinstance(entry.value, RunEnded):
            answered = entry.value
    if asked is not None and answered is not None:
        yield f"EARLIER THE USER SAID: {_cut(asked.text, 500)}"
        yield f"EARLIER THE ANSWER WAS: {_cut(answered.answer, 500)}"


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
