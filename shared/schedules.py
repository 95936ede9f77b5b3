"""Schedules that users make while the system runs: when they are due, and what to do about it. Pure.

A *slot* is an instant at which a schedule is due. Over changes of the clock:

- cron with fixed hours and minutes follows Debian's cron: a time that the clocks skip is due when they have jumped,
  one that happens twice is due the first time. Cron whose minutes or hours begin with `*` goes by elapsed time: it is
  due in both of two equal hours, and not in one that does not exist.
- `every` minutes and hours is elapsed time. `every` days and weeks keeps the wall-clock time of its start; a time that
  the clocks skip is moved forward by the gap, one that happens twice is the first.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import JsonValue

from shared.errors import UserError
from shared.ids import is_name
from shared.messages import Message
from shared.names import LOCAL_PRINCIPAL

GRACE_MS: Final = 5 * 60_000
"""A slot that is served later than this is late: schedules are looked at once a minute, and processes restart."""

LOOK_BACK_MS: Final = 6 * 86_400_000
"""Slots older than this are given up; less than `limits.dedupe_ttl_s`, for which a slot's message is known."""

MAX_CATCH_UP: Final = 24
"""How many missed slots `run_all` makes up for, the newest."""

MAX_PER_USER: Final = 100
"""How many schedules a user may have, those that are off or done included."""

MAX_PROMPT: Final = 8000
_MAX_PARAMS: Final = 20_000
_MAX_NAME: Final = 80
_EVERY: Final = re.compile(r"([1-9][0-9]{0,5})([mhdw])")
_UNIT_S: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_UNIT_NAMES: Final = {"m": "minute", "h": "hour", "d": "day", "w": "week"}


class State(StrEnum):
    """`done` is a schedule that will never be due again."""

    ON = "on"
    OFF = "off"
    DONE = "done"


class Missed(StrEnum):
    """What becomes of slots that nobody served in time: none, the newest one, or all up to `MAX_CATCH_UP`."""

    SKIP = "skip"
    RUN_ONCE = "run_once"
    RUN_ALL = "run_all"


@dataclass(frozen=True, slots=True)
class Timing:
    """When something is due: by a `cron` line in the time zone `zone`; or `every` (`20m`, `2h`, `3d`, `2w`) from
    `start_ms` on; with neither, once at `start_ms`.

    Times are Unix milliseconds. No slot lies before `start_ms` or behind `until_ms`.
    """

    zone: str
    start_ms: int
    cron: str = ""
    every: str = ""
    until_ms: int | None = None

    def check(self) -> None:
        """Raises UserError, saying what to write, for what cannot be read."""
        try:
            ZoneInfo(self.zone)
        except (ValueError, OSError, KeyError) as error:
            raise UserError(f"{self.zone[:60]!r} is no time zone", hint="an IANA name such as Europe/Madrid") from error
        if self.cron:
            try:
                if len(self.cron.split()) != 5:
                    raise CronSimError("five fields are expected")
                CronSim(self.cron, datetime(2000, 1, 1))
            except CronSimError as error:
                hint = "minute hour day month weekday, such as 0 7 * * 1-5"
                raise UserError(f"cron {self.cron[:60]!r} is not valid: {error}", hint=hint) from error
        elif self.every and not _EVERY.fullmatch(self.every):
            raise UserError(f"the interval {self.every[:20]!r} is not valid", hint="such as 20m, 2h, 3d or 2w")

    def next_after(self, after_ms: int) -> int | None:
        """The first slot behind `after_ms`; None if there is none."""
        return next(self.slots(after_ms), None)

    def slots(self, after_ms: int) -> Iterator[int]:
        """The slots behind `after_ms`, in order."""
        after_ms = max(after_ms, self.start_ms - 1)
        for slot in self._endless(after_ms):
            if self.until_ms is not None and slot > self.until_ms:
                return
            if slot > after_ms:
                after_ms = slot
                yield slot

    def _endless(self, after_ms: int) -> Iterator[int]:
        """Slots from somewhere at or before the first one behind `after_ms` (not before `start_ms`)."""
        zone = ZoneInfo(self.zone)
        if self.cron:
            for one in CronSim(self.cron, datetime.fromtimestamp(after_ms / 1000, zone)):
                yield int(one.timestamp()) * 1000
        elif match := _EVERY.fullmatch(self.every):
            count, unit = int(match[1]), match[2]
            step_ms = count * _UNIT_S[unit] * 1000
            turn = max(0, (after_ms - self.start_ms) // step_ms)
            if unit in "mh":
                while True:
                    yield self.start_ms + turn * step_ms
                    turn += 1
            start = datetime.fromtimestamp(self.start_ms / 1000, zone)
            turn = max(0, turn - 1)  # days of 25 hours make the calendar lag behind elapsed time
            while True:
                one = start + timedelta(seconds=turn * step_ms // 1000)  # with a zone, this is wall-clock time
                yield int(one.replace(fold=0).timestamp() * 1000)
                turn += 1
        else:
            yield self.start_ms

    def words(self) -> str:
        """The same for people."""
        until = f" until {_local(self.until_ms, self.zone)}" if self.until_ms is not None else ""
        if self.cron:
            return f"cron {self.cron} ({self.zone}){until}"
        if match := _EVERY.fullmatch(self.every):
            unit = _UNIT_NAMES[match[2]]
            return (f"every {unit}" if match[1] == "1" else f"every {match[1]} {unit}s") + until
        return "once"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule of `principal`: at each slot `workflow` runs with `params`, or `prompt` is put to `agent`, which has
    `tools` (names of tools or groups) and nobody to ask, in `session`.

    `next_ms` is the next slot (None: never again), `last_ms` the newest one that was served, `missed` how many were
    passed over. `version` counts changes by people.
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
    next_ms: int | None = None
    last_ms: int | None = None
    missed: int = 0
    version: int = 0

    def check(self) -> None:
        """Raises UserError for what could never run."""
        self.timing.check()
        if bool(self.workflow) == bool(self.prompt.strip()):
            raise UserError("a schedule runs a workflow or a prompt", hint="give one of the two")
        if self.prompt and not self.tools:
            raise UserError("a scheduled prompt names its tools", hint="the tools or groups that it may use")
        if self.prompt and self.params:
            raise UserError("a prompt has no parameters", hint="write them into its text")
        if self.workflow and self.tools:
            raise UserError("a workflow has tools of its own", hint="leave tools out")
        for what, size, limit in (
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


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done about a schedule that is due: slots to serve in order, how many are passed over before the
    first of them (or altogether, if there is none), and the slot after that."""

    slots: tuple[int, ...]
    passed: int
    next_ms: int | None


def plan(timing: Timing, policy: Missed, next_ms: int, now_ms: int) -> Plan:
    """What to do at `now_ms` about a schedule whose next slot is `next_ms`."""
    keep = MAX_CATCH_UP if policy is Missed.RUN_ALL else 1
    newest: deque[int] = deque(maxlen=keep)
    passed = 0
    following = None
    for slot in timing.slots(max(next_ms, now_ms - LOOK_BACK_MS) - 1):
        if slot > now_ms:
            following = slot
            break
        passed += len(newest) == keep
        newest.append(slot)
    if policy is Missed.SKIP and newest and is_late(newest[-1], now_ms):
        return Plan((), passed + 1, following)
    if not newest:
        passed = 1  # all that was due is older than we look
    return Plan(tuple(newest), passed, following)


def is_late(slot_ms: int, now_ms: int) -> bool:
    """True if a slot that is served now counts as missed."""
    return now_ms - slot_ms > GRACE_MS


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


def message(one: Schedule, id: str, note: str = "") -> Message:
    """What a slot puts into the inbox of its user. `note` goes before the prompt, or beside the workflow."""
    values: dict[str, Any] = {"session": one.session, "id": id, "approvals": "deny"}
    if one.workflow:
        values |= {"kind": "workflow", "workflow": one.workflow, "params": dict(one.params), "text": note}
    else:
        text = f"[{note}]\n\n{one.prompt}" if note else one.prompt
        values |= {"text": text, "agent": one.agent, "tools": one.tools}
    return Message(**values)


def late_note(one: Schedule, slot_ms: int, passed: int, now_ms: int) -> str:
    """What is said about a slot that comes late, or behind others that were passed over; empty if it is in time."""
    late = is_late(slot_ms, now_ms)
    if not late and not passed:
        return ""
    note = f"Scheduled for {_local(slot_ms, one.timing.zone)} ({one.timing.zone})"
    if late:
        note += f"; it comes {_span((now_ms - slot_ms) // 60_000)} late"
    return f"{note}; {passed} earlier {'time was' if passed == 1 else 'times were'} missed" if passed else note


def _span(minutes: int) -> str:
    """`3 d 4 h`, `2 h 5 min`, `7 min`: the two largest units that count."""
    days, rest = divmod(minutes, 24 * 60)
    hours, rest = divmod(rest, 60)
    return " ".join([f"{n} {unit}" for n, unit in ((days, "d"), (hours, "h"), (rest, "min")) if n][:2])


def _local(ms: int, zone: str) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)):%Y-%m-%d %H:%M}"
