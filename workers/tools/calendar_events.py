"""Events as iCalendar texts: written, changed, and expanded into what happens when. Pure, given the time.

Wall-clock times stay what they are over changes of the clock, because events carry their zone and its rules. All ends
are exclusive, so an event of one whole day ends on the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import Any, TypeAlias, cast
from zoneinfo import ZoneInfo

Calendar: TypeAlias = Any
"""What icalendar makes of a text; its properties are unions of all that the standard knows, told apart as it runs."""
Event: TypeAlias = Any
"""A part of it."""

Moment = datetime | date
"""A time, or a day of an event that has no times."""

_MOST_OF_ONE = 400
_TOO_OFTEN = ("SECONDLY", "MINUTELY")
_SERIES_ONLY = ("RRULE", "RDATE", "EXDATE", "EXRULE", "RECURRENCE-ID")


class EventError(ValueError):
    """The event cannot be as asked; the text says why."""


@dataclass(frozen=True)
class Draft:
    """A new event. `rule` is the value of an RRULE, empty for an event that happens once."""

    uid: str
    title: str
    start: Moment
    end: Moment
    place: str = ""
    notes: str = ""
    rule: str = ""


@dataclass(frozen=True)
class Changes:
    """What of an event becomes different; None stays. An `end` of None keeps the length when `start` moves."""

    title: str | None = None
    start: Moment | None = None
    end: Moment | None = None
    place: str | None = None
    notes: str | None = None
    rule: str | None = None


@dataclass(frozen=True)
class Occurrence:
    """One time that an event happens. `id` names it within its series, empty for an event that happens once."""

    uid: str
    id: str
    calendar: str
    title: str
    start: Moment
    end: Moment
    place: str
    notes: str
    rule: str

    @property
    def all_day(self) -> bool:
        """True if it has days and no times."""
        return not isinstance(self.start, datetime)


def at(moment: Moment, zone: ZoneInfo) -> datetime:
    """The instant of a moment: of a day its beginning, of a time without a zone what it is in `zone`."""
    if not isinstance(moment, datetime):
        return datetime.combine(moment, time(), zone)
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def _read(data: bytes) -> Calendar:
    from icalendar import Calendar

    try:
        return Calendar.from_ical(data)
    except (ValueError, KeyError, IndexError) as error:
        raise EventError(f"the calendar's entry cannot be read: {error}") from error


def _written(calendar: Calendar) -> bytes:
    calendar.add_missing_timezones()
    return cast(bytes, calendar.to_ical())


def new(draft: Draft, now: datetime) -> bytes:
    """The iCalendar text of a new event."""
    from icalendar import Calendar, Event

    event = Event()
    event.add("uid", draft.uid)
    event.add("dtstamp", now.astimezone(UTC))
    event.add("created", now.astimezone(UTC))
    _change(event, Changes(draft.title, draft.start, draft.end, draft.place, draft.notes, draft.rule))
    calendar = Calendar()
    calendar.add("prodid", "-//Capataz//Calendar//EN")
    calendar.add("version", "2.0")
    calendar.add_component(event)
    return _written(calendar)


def _put(event: Event, name: str, value: Any) -> None:
    event.pop(name, None)
    if value not in (None, ""):
        event.add(name, value)


def _change(event: Event, changes: Changes) -> None:
    from icalendar import vRecur

    for name, text in (("SUMMARY", changes.title), ("LOCATION", changes.place), ("DESCRIPTION", changes.notes)):
        if text is not None:
            _put(event, name, text)
    if changes.start is not None or changes.end is not None:
        start, end = _span(event, changes)
        for name, moment in (("DTSTART", start), ("DTEND", end)):
            _put(event, name, moment)
        event.pop("DURATION", None)
    if changes.rule is not None:
        _put(event, "RRULE", vRecur.from_ical(changes.rule) if changes.rule else None)


def _span(event: Event, changes: Changes) -> tuple[Moment, Moment]:
    start = changes.start if changes.start is not None else event.start
    if changes.end is not None:
        end = changes.end
    else:
        length = event.end - event.start if "DTSTART" in event else timedelta(0)
        if isinstance(start, datetime) == isinstance(event.start, datetime):
            # Elapsed time, so that a night over a change of the clock keeps its hours.
            end = _later(start, length)
        else:
            end = _later(start, timedelta(hours=1) if isinstance(start, datetime) else timedelta(days=1))
    if isinstance(start, datetime) != isinstance(end, datetime):
        raise EventError("start and end must both have a time, or both be days")
    if (end <= start) if not isinstance(start, datetime) else (_instant(end) <= _instant(start)):
        raise EventError("the end is not behind the start")
    return start, end


def _instant(moment: Moment) -> datetime:
    return at(moment, ZoneInfo("UTC")).astimezone(UTC)


def _later(start: Moment, length: timedelta) -> Moment:
    if isinstance(start, datetime) and start.tzinfo is not None:
        return (start.astimezone(UTC) + length).astimezone(start.tzinfo)
    return start + length


def _events(calendar: Calendar) -> list[Event]:
    return list(calendar.walk("VEVENT"))


def _master(calendar: Calendar) -> Event:
    master = next((event for event in _events(calendar) if "RECURRENCE-ID" not in event), None)
    if master is None or "DTSTART" not in master:
        raise EventError("the calendar's entry has no event of its own")
    return master


def _touch(event: Event, now: datetime) -> None:
    sequence = int(event.get("SEQUENCE", 0)) + 1
    for name, value in (
        ("DTSTAMP", now.astimezone(UTC)),
        ("LAST-MODIFIED", now.astimezone(UTC)),
        ("SEQUENCE", sequence),
    ):
        _put(event, name, value)


def changed(data: bytes, changes: Changes, occurrence: str, zone: ZoneInfo, now: datetime) -> bytes:
    """The text with a whole event changed, or with `occurrence` (the id of one time of a series) only that time.

    Raises EventError when it has no such time, or would not make sense.
    """
    calendar = _read(data)
    if occurrence:
        if changes.rule is not None:
            raise EventError("one time of a series has no repetition of its own")
        event = _single(calendar, occurrence, zone)
    else:
        event = _master(calendar)
        _check_series(calendar, event, changes)
    _change(event, changes)
    _touch(event, now)
    return _written(calendar)


def _check_series(calendar: Calendar, master: Event, changes: Changes) -> None:
    """What was said about single times of a series moves with it, and goes when it repeats differently."""
    if changes.rule is not None:
        for name in ("EXDATE", "RDATE"):
            master.pop(name, None)
        _drop(calendar, lambda event: "RECURRENCE-ID" in event)
        return
    if changes.start is None or "RRULE" not in master:
        return
    if first_of(master["RRULE"].to_ical().decode(), changes.start) != changes.start:
        raise EventError("the new start does not fit its repetition; say how it repeats from now on as well")
    if "EXDATE" in master or len(_events(calendar)) > 1:
        raise EventError("single times of the series were changed or left out; say how it repeats from now on as well")


def _drop(calendar: Calendar, which: Any) -> None:
    calendar.subcomponents = [part for part in calendar.subcomponents if part.name != "VEVENT" or not which(part)]


def _found(calendar: Calendar, occurrence: str, zone: ZoneInfo) -> Moment:
    """The moment that the id of an occurrence means, as the series has it."""
    wanted = _parsed(occurrence, zone)
    for one in _expanded(calendar, wanted - timedelta(days=1), wanted + timedelta(days=2), zone):
        original = _original(one)
        if at(original, zone).astimezone(UTC) == wanted.astimezone(UTC):
            return original
    # A time that was moved by more than a day is found by its own entry.
    for event in _events(calendar):
        if "RECURRENCE-ID" in event and at(event["RECURRENCE-ID"].dt, zone).astimezone(UTC) == wanted.astimezone(UTC):
            return cast(Moment, event["RECURRENCE-ID"].dt)
    raise EventError(f"the event does not happen at {occurrence}")


def _parsed(occurrence: str, zone: ZoneInfo) -> datetime:
    try:
        return at(datetime.fromisoformat(occurrence), zone)
    except (ValueError, OverflowError) as error:
        raise EventError(f"{occurrence[:60]!r} is no occurrence as a list names it") from error


def _single(calendar: Calendar, occurrence: str, zone: ZoneInfo) -> Event:
    """The entry of one time of a series, made if it has none yet."""
    from icalendar import Event

    master = _master(calendar)
    if "RRULE" not in master and "RDATE" not in master:
        raise EventError("the event does not repeat: leave occurrence out")
    original = _found(calendar, occurrence, zone)
    for event in _events(calendar):
        if "RECURRENCE-ID" in event and event["RECURRENCE-ID"].dt == original:
            return event
    event = Event()
    for name, value in master.property_items(recursive=False):
        if name not in (*_SERIES_ONLY, "BEGIN", "END", "DTSTART", "DTEND", "DURATION"):
            event.add(name, value)
    event.add("recurrence-id", original)
    event.add("dtstart", original)
    event.add("dtend", _later(original, master.end - master.start))
    calendar.add_component(event)
    return event


def without(data: bytes, occurrence: str, zone: ZoneInfo, now: datetime) -> bytes:
    """The text of a series without one of its times. Raises EventError when it has no such time."""
    calendar = _read(data)
    master = _master(calendar)
    if "RRULE" not in master and "RDATE" not in master:
        raise EventError("the event does not repeat: leave occurrence out to delete it")
    original = _found(calendar, occurrence, zone)
    _drop(calendar, lambda event: "RECURRENCE-ID" in event and event["RECURRENCE-ID"].dt == original)
    master.add("exdate", original)
    _touch(master, now)
    return _written(calendar)


def first_of(rule: str, start: Moment) -> Moment | None:
    """The first time of a repetition from `start` on; None if there is none. Raises EventError for a wrong rule."""
    from dateutil.rrule import rrulestr  # type: ignore[import-untyped]

    if any(often in rule.upper() for often in (*_TOO_OFTEN, "HOURLY")):
        raise EventError("an event repeats every day at most")
    parts = [part for part in rule.upper().split(";") if not part.startswith(("UNTIL=", "COUNT="))]
    wall = start.replace(tzinfo=None) if isinstance(start, datetime) else datetime.combine(start, time())
    try:
        found: datetime | None = rrulestr(";".join(parts), dtstart=wall).after(wall, inc=True)
    except (ValueError, TypeError, KeyError) as error:
        raise EventError(f"{rule[:100]!r} is no repetition: {error}") from error
    if found is None:
        return None
    return found.replace(tzinfo=start.tzinfo) if isinstance(start, datetime) else found.date()


def _original(event: Any) -> Moment:
    return cast(Moment, event["RECURRENCE-ID"].dt if "RECURRENCE-ID" in event else event.start)


def _expanded(calendar: Calendar, start: datetime, end: datetime, zone: ZoneInfo) -> Iterator[Any]:
    """The times of the events in a text that touch the span, the first ones first; not more than `_MOST_OF_ONE`."""
    import recurring_ical_events  # type: ignore[import-untyped]

    for event in _events(calendar):
        if "RRULE" in event and event["RRULE"].get("FREQ", [""])[0] in _TOO_OFTEN:
            raise EventError("it repeats too often to be listed")
        for name in ("DTSTART", "DTEND"):
            value = event.get(name)
            if value is not None and isinstance(value.dt, datetime) and value.dt.tzinfo is None:
                value.dt = value.dt.replace(tzinfo=zone)  # a floating time is the reader's
    query = recurring_ical_events.of(calendar, skip_bad_series=True)
    for one in islice(query.after(start), _MOST_OF_ONE):
        if at(one.start, zone) >= end:
            return
        if at(one.end, zone) > start or at(one.start, zone) == start:
            yield one


def occurrences(
    entries: Iterable[tuple[str, bytes]], start: datetime, end: datetime, zone: ZoneInfo
) -> tuple[list[Occurrence], int]:
    """What happens between two instants, of (calendar, text) pairs, in order; and how many texts could not be read."""
    found: list[Occurrence] = []
    broken = 0
    for calendar, data in entries:
        try:
            read = _read(data)
            rules = {
                str(event.get("UID")): event["RRULE"].to_ical().decode() for event in _events(read) if "RRULE" in event
            }
            found.extend(
                _occurrence(one, calendar, rules) for one in _expanded(read, start, end, zone) if not _cancelled(one)
            )
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):  # a stranger's entry may hold anything
            broken += 1
    return sorted(found, key=lambda one: (at(one.start, zone), not one.all_day, one.title)), broken


def _cancelled(event: Any) -> bool:
    return str(event.get("STATUS", "")).upper() == "CANCELLED"


def _occurrence(event: Any, calendar: str, rules: dict[str, str]) -> Occurrence:
    uid = str(event.get("UID", ""))
    rule = rules.get(uid, "")
    return Occurrence(
        uid=uid,
        id=_original(event).isoformat() if rule else "",
        calendar=calendar,
        title=str(event.get("SUMMARY", "")),
        start=event.start,
        end=event.end,
        place=str(event.get("LOCATION", "")),
        notes=str(event.get("DESCRIPTION", "")),
        rule=rule,
    )


def first(data: bytes, calendar: str, zone: ZoneInfo, occurrence: str = "") -> Occurrence:
    """What a text says of its event: its first time, or the one with this id. Raises EventError if it has none."""
    read = _read(data)
    event = _master(read)
    rule = event["RRULE"].to_ical().decode() if "RRULE" in event else ""
    if occurrence:
        original = _found(read, occurrence, zone)
        near = at(original, zone)
        for one in _expanded(read, near - timedelta(days=1), near + timedelta(days=2), zone):
            if _original(one) == original:
                event = one
    return _occurrence(event, calendar, {str(event.get("UID", "")): rule} if rule else {})


def happens(data: bytes, occurrence: str, zone: ZoneInfo) -> bool:
    """True if the series has a time with this id. Raises EventError for what is no id."""
    _parsed(occurrence, zone)
    try:
        _found(_read(data), occurrence, zone)
    except EventError:
        return False
    return True
