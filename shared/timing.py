"""When something is due: slots by cron, interval or once, what is done about missed ones, and lines that say so. Pure.

A *slot* is an instant at which something is due. Over changes of the clock:

- cron with fixed hours and minutes follows Debian's cron: a time that the clocks skip is due when they have jumped,
  one that happens twice is due the first time. Cron whose minutes or hours begin with `*` goes by elapsed time: it is
  due in both of two equal hours, and not in one that does not exist.
- `every` seconds, minutes and hours is elapsed time. `every` days and weeks keeps the wall-clock time of its start; a
  time that the clocks skip is moved forward by the gap, one that happens twice is the first.

Workflows bring their times along as a *line*, and the settings put others in its place: a cron line, `every 2h`, or
`at 2026-12-24T18:00`; then, if it is to be another than the installation's, a time zone; then, if it is not `run_once`,
what becomes of missed slots. `0 7 * * 1-5 Europe/Madrid skip` is one. An empty line and `off` are no schedule.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from shared.errors import UserError

GRACE_MS: Final = 5 * 60_000
"""A slot that is served later than this is late: processes restart."""

LOOK_BACK_MS: Final = 6 * 86_400_000
"""Slots older than this are given up; less than `limits.dedupe_ttl_s`, for which a slot's message is known."""

MAX_CATCH_UP: Final = 24
"""How many missed slots `run_all` makes up for, the newest."""

OFF: Final = "off"
_EVERY: Final = re.compile(r"([1-9][0-9]{0,5})([smhdw])")
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_UNIT_NAMES: Final = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week"}
_MONDAY: Final = "2024-01-01"
"""Midnight of a Monday, from which the intervals of lines count, in their zone: the same for every process."""


class Missed(StrEnum):
    """What becomes of slots that nobody served in time: none, the newest one, or all up to `MAX_CATCH_UP`."""

    SKIP = "skip"
    RUN_ONCE = "run_once"
    RUN_ALL = "run_all"


@dataclass(frozen=True, slots=True)
class Timing:
    """When something is due: by a `cron` line in the time zone `zone`; or `every` (`30s`, `20m`, `2h`, `3d`, `2w`) from
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
            if unit in "smh":
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

    @property
    def interval_s(self) -> int | None:
        """Seconds between two slots of an interval, by the clock on the wall; None for other timings."""
        match = _EVERY.fullmatch(self.every)
        return int(match[1]) * _UNIT_S[match[2]] if match else None

    def words(self) -> str:
        """The same for people."""
        until = f" until {local_time(self.until_ms, self.zone)}" if self.until_ms is not None else ""
        if self.cron:
            return f"cron {self.cron} ({self.zone}){until}"
        if match := _EVERY.fullmatch(self.every):
            unit = _UNIT_NAMES[match[2]]
            return (f"every {unit}" if match[1] == "1" else f"every {match[1]} {unit}s") + until
        return "once"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done about a schedule that is due: slots to serve in order, how many are passed over before the
    first of them, and the slot after that."""

    slots: tuple[int, ...]
    passed: int
    next_ms: int | None


def plan(timing: Timing, policy: Missed, next_ms: int, now_ms: int) -> Plan:
    """What to do at `now_ms` about a schedule whose next slot is `next_ms`: its slots, at least one, are served or, if
    `given_up` says so, told as missed."""
    newest: deque[int] = deque(maxlen=MAX_CATCH_UP if policy is Missed.RUN_ALL else 1)
    passed = 0
    following = None
    for slot in timing.slots(max(next_ms, now_ms - LOOK_BACK_MS) - 1):
        if slot > now_ms:
            following = slot
            break
        passed += len(newest) == newest.maxlen
        newest.append(slot)
    return Plan(tuple(newest) or (next_ms,), passed, following)


def given_up(policy: Missed, slot_ms: int, now_ms: int) -> bool:
    """True if a slot will not be served any more: it is late and its policy skips such, or older than we look."""
    return now_ms - slot_ms > LOOK_BACK_MS or (policy is Missed.SKIP and is_late(slot_ms, now_ms))


def is_late(slot_ms: int, now_ms: int) -> bool:
    """True if a slot that is served now counts as missed."""
    return now_ms - slot_ms > GRACE_MS


@dataclass(frozen=True, slots=True)
class Line:
    """What a line says."""

    timing: Timing
    policy: Missed = Missed.RUN_ONCE


def read_line(text: str, zone: str) -> Line | None:
    """The line, in the time zone `zone` unless it names one; None if it is no schedule. Raises UserError."""
    words = text.split()
    if not words or words == [OFF]:
        return None
    policy = Missed(words.pop()) if words[-1] in list(Missed) else Missed.RUN_ONCE
    given = {"every": 2, "at": 2}.get(words[0] if words else "", 5)
    if len(words) == given + 1:
        zone = words.pop()
    if len(words) != given:
        hint = "such as 0 7 * * 1-5, every 2h, at 2026-12-24T18:00; then a time zone; then skip, run_once or run_all"
        raise UserError(f"the schedule {text[:80]!r} cannot be read", hint=hint)
    timing = Timing(zone, 0, cron=" ".join(words)) if given == 5 else Timing(zone, 0)
    timing.check()
    start_ms = _moment(words[1] if words[0] == "at" else _MONDAY, zone)
    every = words[1] if words[0] == "every" else ""
    timing = Timing(zone, start_ms, cron=timing.cron, every=every)
    timing.check()
    return Line(timing, policy)


def chosen(*, cron: str, every: str, at: str, zone: str, now_ms: int) -> Timing | None:
    """The timing that one of `cron`, `every` (from now on) and `at` (an ISO time) names; None if none is given.

    Raises UserError for more than one, and for what cannot be read.
    """
    if (given := sum(map(bool, (cron, every, at)))) == 0:
        return None
    if given > 1:
        raise UserError("cron, every and at exclude each other", hint="give one of them")
    timing = Timing(zone, now_ms, cron=cron, every=every)
    timing.check()
    if every:
        return replace(timing, start_ms=timing.next_after(now_ms) or now_ms)
    return replace(timing, start_ms=_moment(at, zone)) if at else timing


def _moment(text: str, zone: str) -> int:
    """Milliseconds of an ISO time, in the zone if it names no offset. Raises UserError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UserError(f"{text[:40]!r} is no ISO time", hint="such as 2026-12-24T18:00") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))
    return int(moment.timestamp()) * 1000


def local_time(ms: int, zone: str) -> str:
    """Date and time on the wall clock of a zone."""
    return f"{datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)):%Y-%m-%d %H:%M}"
