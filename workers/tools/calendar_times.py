"""Times of events as people write them, and how they repeat, as moments and RRULEs. Pure, given the time.

Wrong words are ModelErrors that say what was not understood; nothing has happened by then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from shared.errors import ModelError
from workers.tools import calendar_events as events
from workers.tools.calendar_events import EventError, Moment
from workers.tools.repeats import parse_repeat
from workers.tools.when import EXAMPLES, WhenError, fold, parse_when

_ABOUT_NOW = re.compile(r"\b(?:today|tomorrow|hoy|pasado manana)\b|^manana\b|^el manana\b")
_TIMES = re.compile(r"(?P<rule>.+?)[, ]+(?P<count>\d{1,3}) (?:times|veces|occurrences)")
_RULE = re.compile(r"(?:RRULE:)?(?P<rule>FREQ=[A-Z]+(?:;[A-Z]+=[A-Z0-9,+:-]+)*)", re.I)


def wrong(why: str, hint: str = "nothing was changed") -> ModelError:
    """Arguments that cannot be."""
    return ModelError(why, hint=hint, code="bad_arguments")


def zone_of(now: datetime) -> ZoneInfo:
    """The zone that a time is in."""
    assert isinstance(now.tzinfo, ZoneInfo)
    return now.tzinfo


def day_in(text: str, now: datetime, what: str) -> date:
    """The day that a text names; today is one, whatever the hour."""
    try:
        return date.fromisoformat(text.strip()[:10])
    except ValueError:
        return _moment(text, datetime.combine(now.date(), time(), now.tzinfo), what).date()


def _moment(text: str, now: datetime, what: str) -> datetime:
    """A time in words, which lies ahead, or as ISO 8601, which may be past."""
    try:
        parsed = datetime.fromisoformat(text.strip())
    except ValueError:
        pass
    else:
        zone = zone_of(now)
        # Through UTC, so that a time that the clocks skip becomes one that exists.
        aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=zone)
        return aware.astimezone(UTC).astimezone(zone)
    try:
        return parse_when(text, now)
    except WhenError as error:
        raise wrong(f"{what}: {error}; nothing was changed", f"such as {EXAMPLES}") from error


def _is_day(text: str) -> bool:
    return re.fullmatch(r"\s*\d{4}-\d{2}-\d{2}\s*", text) is not None


def _end_of(text: str, start: datetime, now: datetime) -> datetime:
    """An end is told from the start on (`at 11` is the next 11 o'clock), unless it names a day as seen from now."""
    return _moment(text, now if _ABOUT_NOW.search(fold(text)) else start, "end")


@dataclass(frozen=True)
class Span:
    """When an event is; the end is exclusive, None if it was not given."""

    start: Moment | None
    end: Moment | None


def span_of(start: str | None, end: str | None, minutes: int | None, all_day: bool, now: datetime) -> Span:
    """Start and exclusive end as given; an end that was not given is None."""
    if end and minutes:
        raise wrong("give either end or duration_minutes; nothing was changed")
    if all_day or (start is not None and _is_day(start)):
        if minutes:
            raise wrong("whole days have no duration in minutes; nothing was changed", "give the last day as end")
        first = None if start is None else day_in(start, now, "start")
        noon = datetime.combine(first, time(), now.tzinfo) if first else now
        last = day_in(end, now if _ABOUT_NOW.search(fold(end)) else noon, "end") if end else None
        return Span(first, last + timedelta(days=1) if last else None)
    begin = None if start is None else _moment(start, now, "start")
    if end:
        return Span(begin, _end_of(end, begin or now, now))
    if minutes and begin:
        return Span(begin, later(begin, minutes))
    return Span(begin, None)


def later(start: datetime, minutes: int) -> datetime:
    """So many minutes later, as a clock that nobody changes has it."""
    return (start.astimezone(UTC) + timedelta(minutes=minutes)).astimezone(start.tzinfo)


def rule_in(text: str, start: Moment, now: datetime) -> str:
    """The RRULE of a repetition in words or as one; empty for an empty text."""
    if not text.strip():
        return ""
    if match := _RULE.fullmatch(text.strip()):
        return match["rule"].upper()
    count = ""
    if match := _TIMES.fullmatch(fold(text)):
        text, count = match["rule"], f";COUNT={int(match['count'])}"
    seen = start if isinstance(start, datetime) else datetime.combine(start, time(9), now.tzinfo)
    try:
        found = parse_repeat(text, later(seen, -1))
    except WhenError as error:
        raise wrong(f"repeat: {error}; nothing was changed") from error
    if found is None:
        raise wrong(
            f"repeat: cannot read a repetition from {text[:100]!r}; nothing was changed",
            'such as "every monday", "cada mes", "every weekday until 3 may", or an RRULE',
        )
    repeat = found[0]
    rule = replace(repeat, times=(), until=None).rule() + count
    if repeat.until is None:
        return rule
    if not isinstance(start, datetime):
        return f"{rule};UNTIL={repeat.until:%Y%m%d}"
    last = datetime.combine(repeat.until, time(23, 59, 59), start.tzinfo).astimezone(UTC)
    return f"{rule};UNTIL={last:%Y%m%dT%H%M%SZ}"


def aligned(span: Span, rule: str) -> tuple[Span, bool]:
    """A start that is no time of its own repetition moves on to the first that is."""
    if not rule or span.start is None:
        return span, False
    try:
        first = events.first_of(rule, span.start)
    except EventError as error:
        raise wrong(f"repeat: {error}; nothing was changed") from error
    if first is None:
        raise wrong("repeat: it never happens; nothing was changed")
    if first == span.start:
        return span, False
    days = (first.date() if isinstance(first, datetime) else first) - (
        span.start.date() if isinstance(span.start, datetime) else span.start
    )
    return Span(first, span.end + days if span.end is not None else None), True
