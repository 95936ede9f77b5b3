"""Schedules that users make while the system runs: what they are, how they change, and what their slots send. Pure.

When they are due is `shared/timing.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from pydantic import JsonValue

from shared.errors import UserError
from shared.ids import is_name
from shared.messages import Message
from shared.names import LOCAL_PRINCIPAL, day_session
from shared.timing import Line, Missed, Timing, is_late, local_time

MAX_PER_USER: Final = 100
"""How many schedules a user may have, those that are off or done included."""

MAX_PROMPT: Final = 8000
_MAX_PARAMS: Final = 20_000
_MAX_NAME: Final = 80
_MAX_ID: Final = 64
"""It is a part of the ids of its slots' messages."""

_LEAST_S: Final = 60
_NOTE: Final = "Scheduled for"
_GAP: Final = "\n\n"

INSTALLATION: Final = ""
"""In the place of a principal: whose schedules those are that the code of workflows brings along."""


class State(StrEnum):
    """`done` is a schedule that will never be due again."""

    ON = "on"
    OFF = "off"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule of `principal`: at each slot `workflow` runs with `params`, or `prompt` is put to `agent`, which has
    `tools` (names of tools or groups) and nobody to ask, in `session`.

    `next_ms` is the next slot (None: never again), `last_ms` the newest one that was served, `missed` how many were
    passed over. `version` counts changes by people. `deliver` names channels for the results besides the session; none
    named: those of the user's settings.
    """

    id: str
    principal: str
    name: str
    timing: Timing
    session: str
    created_ms: int
    state: State = State.ON
    policy: Missed = Missed.RUN_ONCE
    workflow: str = ""
    params: Mapping[str, JsonValue] = field(default_factory=dict)
    prompt: str = ""
    tools: tuple[str, ...] = ()
    agent: str = "default"
    deliver: tuple[str, ...] = ()
    next_ms: int | None = None
    last_ms: int | None = None
    missed: int = 0
    version: int = 0

    def check(self) -> None:
        """Raises UserError for what could never run."""
        self.timing.check()
        if self.timing.interval_s is not None and self.timing.interval_s < _LEAST_S:
            raise UserError("an interval is a minute at least", hint="such as 20m, 2h, 3d or 2w")
        if bool(self.workflow) == bool(self.prompt.strip()):
            raise UserError("a schedule runs a workflow or a prompt", hint="give one of the two")
        if self.prompt and not self.tools:
            raise UserError("a scheduled prompt names its tools", hint="the tools or groups that it may use")
        if self.prompt and self.params:
            raise UserError("a prompt has no parameters", hint="write them into its text")
        if self.workflow and self.tools:
            raise UserError("a workflow has tools of its own", hint="leave tools out")
        for what, size, limit in (
            ("id", len(self.id), _MAX_ID),
            ("name", len(self.name), _MAX_NAME),
            ("prompt", len(self.prompt), MAX_PROMPT),
            ("parameters", len(json.dumps(dict(self.params))), _MAX_PARAMS),
        ):
            if size > limit:
                raise UserError(f"the {what} of a schedule has at most {limit} characters, this has {size}")
        for one in (self.session, self.agent):
            if not is_name(one):
                raise UserError(f"{one[:60]!r} is no valid name", hint="letters, digits, . _ and -")
        if wrong := [one for one in self.tools if not is_name(one)]:
            raise UserError(f"{wrong[0][:60]!r} is no name of a tool or group")
        if wrong := [one for one in self.deliver if not is_name(one)]:
            raise UserError(f"{wrong[0][:60]!r} is no name of a channel")


def of_workflow(name: str, line: Line, now_ms: int) -> Schedule:
    """The schedule that a workflow brings along, at its next slot; one that is never due again is done."""
    following = line.timing.next_after(now_ms)
    state = State.DONE if following is None else State.ON
    id = f"workflow:{name}"
    one = Schedule(id, INSTALLATION, name, line.timing, "", now_ms, state, line.policy, workflow=name)
    return replace(one, next_ms=following)


def started(one: Schedule, now_ms: int) -> Schedule:
    """A schedule that goes on from now, at its next slot. Raises UserError if it is wrong or never due again."""
    one.check()
    following = one.timing.next_after(now_ms)
    if following is None:
        raise UserError("there is no such time ahead", hint="give it a time in the future")
    return replace(one, state=State.ON, next_ms=following)


def switched(one: Schedule, on: bool, now_ms: int) -> Schedule:
    """The schedule on or off. What was due while it was off is not made up for."""
    if on:
        return started(one, now_ms) if one.state is not State.ON else one
    return replace(one, state=State.OFF) if one.state is State.ON else one


def retimed(one: Schedule, timing: Timing, now_ms: int) -> Schedule:
    """The schedule with another timing; one that is off stays so."""
    new = started(replace(one, timing=timing), now_ms)
    return replace(new, state=State.OFF) if one.state is State.OFF else new


def own_session(principal: str, schedule: str) -> str:
    """The session of a schedule that was given none; a user's sessions begin with the user's name."""
    return f"schedule-{schedule}" if principal == LOCAL_PRINCIPAL else f"{principal}.schedule-{schedule}"


def message_id(schedule: str, slot_ms: int) -> str:
    """The id of a slot's message: however often it is sent, it is one run."""
    return f"schedule-{schedule}@{datetime.fromtimestamp(slot_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def workflow_message(workflow: str, slot_ms: int, session: str, *, note: str, deliver: tuple[str, ...]) -> Message:
    """What a slot of a workflow's own schedule puts into the local owner's inbox. Without a session it runs in one of
    its own for the day, so that no log grows for ever."""
    at = datetime.fromtimestamp(slot_ms // 1000, UTC)
    return Message(
        kind="workflow",
        workflow=workflow,
        session=session or day_session(workflow, slot_ms),
        id=f"{workflow}@{at:%Y-%m-%dT%H:%MZ}" if at.second == 0 else f"{workflow}@{at:%Y-%m-%dT%H:%M:%SZ}",
        params={"slot_ms": slot_ms},
        text=note,
        deliver=deliver,
    )


def message(one: Schedule, id: str, *, note: str = "", deliver: tuple[str, ...] = ()) -> Message:
    """What a slot puts into the inbox of its user. `note` goes before the prompt, or beside the workflow."""
    values: dict[str, Any] = {"session": one.session, "id": id, "approvals": "deny", "deliver": deliver}
    if one.workflow:
        values |= {"kind": "workflow", "workflow": one.workflow, "params": dict(one.params), "text": note}
    else:
        text = f"[{note}]{_GAP}{one.prompt}" if note else one.prompt
        values |= {"text": text, "agent": one.agent, "tools": one.tools}
    return Message(**values)


def note_and_prompt(text: str) -> tuple[str, str]:
    """The note that `message` put before a prompt, empty if there is none, and the prompt."""
    head, gap, prompt = text.partition("]" + _GAP)
    return (head[1:], prompt) if gap and head.startswith(f"[{_NOTE}") else ("", text)


def late_note(one: Schedule, slot_ms: int, passed: int, now_ms: int) -> str:
    """What is said about a slot that comes late, or behind others that were passed over; empty if it is in time."""
    late = is_late(slot_ms, now_ms)
    if not late and not passed:
        return ""
    note = f"{_NOTE} {local_time(slot_ms, one.timing.zone)} ({one.timing.zone})"
    if late:
        note += f"; it comes {_span((now_ms - slot_ms) // 60_000)} late"
    return f"{note}; {passed} earlier {'time was' if passed == 1 else 'times were'} missed" if passed else note


def missed_text(one: Schedule, passed: int, newest_ms: int) -> str:
    """What is said about slots that were skipped."""
    times = "its time" if passed == 1 else f"{passed} times, the last of them"
    return f"{one.name} did not run: it missed {times} {local_time(newest_ms, one.timing.zone)} ({one.timing.zone})."


def _span(minutes: int) -> str:
    """`3 d 4 h`, `2 h 5 min`, `7 min`: the two largest units that count."""
    days, rest = divmod(minutes, 24 * 60)
    hours, rest = divmod(rest, 60)
    return " ".join([f"{n} {unit}" for n, unit in ((days, "d"), (hours, "h"), (rest, "min")) if n][:2])
