"""Calendars over CalDAV: what is on, and adding, changing and deleting events, with times as people write them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Annotated, TypeVar
from zoneinfo import ZoneInfo

from pydantic import Field, JsonValue

from shared.compress import snippet
from shared.contract import Effect, GroupSpec
from shared.errors import ModelError
from shared.settings import Settings
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import calendar_events as events
from workers.tools import examples_en, examples_es, words_en, words_es
from workers.tools.accounts import account_of, lacking
from workers.tools.calendar_events import Changes, Draft, EventError, Moment, Occurrence
from workers.tools.calendar_store import Entry, Store, opened
from workers.tools.calendar_times import Span, aligned, day_in, later, rule_in, span_of, wrong, zone_of
from workers.tools.utility import find_zone
from workers.tools.when import EXAMPLES, fold

GROUP = GroupSpec(
    name="calendar",
    title="Calendar",
    keywords={"es": words_es.CALENDAR, "en": words_en.CALENDAR},
    examples={"es": examples_es.CALENDAR, "en": examples_en.CALENDAR},
)

T = TypeVar("T")

_MOST = 200
_ATTEMPTS = 4

_Uid = Annotated[
    str, Field(description="The event's uid, as calendar_today or calendar_upcoming gave it", max_length=300)
]
_Occurrence = Annotated[
    str,
    Field(description="Of an event that repeats, only the one with this occurrence, as a list gave it", max_length=40),
]
_Title = Annotated[str, Field(description="What it is", min_length=1, max_length=300)]
_Start = Annotated[str, Field(description=f"When it starts: {EXAMPLES}; a date alone for whole days", max_length=100)]
_End = Annotated[
    str | None,
    Field(description="When it ends, as start; of whole days the last one. Or give duration_minutes", max_length=100),
]
_Minutes = Annotated[int | None, Field(description="How long it takes, in minutes", ge=1, le=60 * 24 * 31)]
_Place = Annotated[str | None, Field(description="Where", max_length=500)]
_Notes = Annotated[str | None, Field(description="More about it", max_length=5_000)]
_Repeat = Annotated[
    str | None,
    Field(description='"every monday", "cada dos semanas", "every day until 3 may", or an RRULE', max_length=200),
]
_Calendar = Annotated[str, Field(description="Name of the calendar; leave out for the usual one", max_length=200)]


_PACKAGES = ("caldav", "icalendar", "dateutil", "recurring_ical_events")


def _no_calendar(settings: Settings) -> str | None:
    return lacking("calendar", settings.calendar.accounts, _PACKAGES)


async def _with_store(ctx: ToolContext, work: Callable[[Store], T]) -> T:
    """Runs `work` with the caller's calendars, in the executor."""
    account, password = account_of("calendar", ctx.settings.calendar.accounts, ctx.principal)
    seconds = max(1.0, min(ctx.settings.calendar.timeout_s, ctx.remaining_s))

    def run() -> T:
        with opened(account, password, seconds) as store:
            try:
                return work(store)
            except EventError as error:
                raise wrong(str(error)) from error

    return await asyncio.get_running_loop().run_in_executor(ctx.services.blocking, run)


def _now(ctx: ToolContext) -> datetime:
    """The time, in the zone of the caller's calendar."""
    account, _ = account_of("calendar", ctx.settings.calendar.accounts, ctx.principal)
    return datetime.fromtimestamp(ctx.services.now(), find_zone(account.timezone or ctx.settings.workflows.timezone))


# Lists.


def _iso(moment: Moment, zone: ZoneInfo) -> str:
    if not isinstance(moment, datetime):
        return moment.isoformat()
    return events.at(moment, zone).astimezone(zone).isoformat(timespec="seconds")


def _as_value(one: Occurrence, zone: ZoneInfo) -> dict[str, JsonValue]:
    last = one.end - timedelta(days=1) if one.all_day else one.end
    return {
        "uid": one.uid, "occurrence": one.id, "calendar": one.calendar, "title": one.title, "all_day": one.all_day,
        "start": _iso(one.start, zone), "end": _iso(last, zone), "place": one.place, "notes": one.notes,
        "repeat": one.rule,
    }  # fmt: skip


def _when(one: Occurrence, zone: ZoneInfo) -> str:
    if one.all_day:
        last = one.end - timedelta(days=1)
        return f"{one.start:%a %Y-%m-%d}" + (f" to {last:%a %Y-%m-%d}" if last > one.start else "") + ", all day"
    start, end = (events.at(moment, zone).astimezone(zone) for moment in (one.start, one.end))
    same = start.date() == end.date()
    return f"{start:%a %Y-%m-%d %H:%M} to {end:{'%H:%M' if same else '%a %Y-%m-%d %H:%M'}}"


def _line(one: Occurrence, zone: ZoneInfo, several: bool) -> str:
    parts = [f"- {_when(one, zone)}: {snippet(one.title) or '(no title)'}"]
    parts += [f"at {snippet(one.place, 80)}"] if one.place else []
    parts += [f"notes: {snippet(one.notes, 100)}"] if one.notes else []
    parts += [f"calendar {one.calendar}"] if several else []
    parts += [f"uid {one.uid}"] + ([f"occurrence {one.id}"] if one.id else [])
    return "; ".join(parts)


def _listed(found: Sequence[Occurrence], broken: int, span: str, zone: ZoneInfo) -> ToolOutput:
    several = len({one.calendar for one in found}) > 1
    lines = [_line(one, zone, several) for one in found[:_MOST]]
    if not lines:
        lines = [f"Nothing is on the calendar {span}."]
    else:
        lines.insert(0, f"{len(found)} {span} ({zone.key}):")
    if len(found) > _MOST:
        lines.append(f"[{len(found) - _MOST} more; ask for fewer days]")
    if broken:
        lines.append(f"[{broken} entries of the calendar could not be read]")
    value: dict[str, JsonValue] = {"events": [_as_value(one, zone) for one in found[:_MOST]], "total": len(found)}
    return ToolOutput(value, "\n".join(lines))


async def _between(ctx: ToolContext, start: datetime, end: datetime, zone: ZoneInfo) -> tuple[list[Occurrence], int]:
    return await _with_store(ctx, lambda store: events.occurrences(store.between(start, end), start, end, zone))


def _midnight(now: datetime, days: int) -> datetime:
    return datetime.combine(now.date() + timedelta(days=days), time(), now.tzinfo)


@tool(
    group="calendar",
    effect=Effect.READ,
    untrusted=True,
    timeout_s=60.0,
    requires=_no_calendar,
    keywords={"es": ("hoy", "agenda de hoy"), "en": ("today", "today's agenda")},
    examples={"es": ("¿qué tengo hoy?",), "en": ("what do I have today?",)},
)
async def calendar_today(ctx: ToolContext) -> ToolOutput:
    """Lists today's events, also those that have begun or are over."""
    now = _now(ctx)
    zone = zone_of(now)
    found, broken = await _between(ctx, _midnight(now, 0), _midnight(now, 1), zone)
    return _listed(found, broken, f"today, {now:%A %Y-%m-%d}", zone)


@tool(
    group="calendar",
    effect=Effect.READ,
    untrusted=True,
    timeout_s=60.0,
    requires=_no_calendar,
    keywords={"es": ("próximos días", "esta semana", "libre"), "en": ("next days", "this week", "free", "upcoming")},
    examples={"es": ("¿qué tengo esta semana?",), "en": ("what is on this week?",)},
)
async def calendar_upcoming(
    ctx: ToolContext,
    days: Annotated[int, Field(description="How many days, today included", ge=1, le=400)] = 7,
    from_day: Annotated[str, Field(description="First day, if not today: a date, or words", max_length=100)] = "",
    text: Annotated[str, Field(description="Only events whose title, place or notes hold this", max_length=200)] = "",
) -> ToolOutput:
    """Lists the events from now on, or from a day on, for some days; those that repeat once for each time."""
    now = _now(ctx)
    zone = zone_of(now)
    start = datetime.combine(day_in(from_day, now, "from_day"), time(), zone) if from_day else now
    found, broken = await _between(ctx, start, _midnight(start, days), zone)
    if text:
        found = [one for one in found if fold(text) in fold(f"{one.title} {one.place} {one.notes}")]
    return _listed(found, broken, f"from {start:%a %Y-%m-%d} for {days} days", zone)


# Changes.


def _told(done: str, data: bytes, calendar: str, now: datetime, note: str = "") -> ToolOutput:
    """What an event is now, by its first time."""
    zone = zone_of(now)
    one = events.first(data, calendar, zone)
    repeats = f", repeats: {one.rule}" if one.rule else ""
    text = f"{done}: {one.title}, {_when(one, zone)} ({zone.key}){repeats}; calendar {calendar}; uid {one.uid}"
    return ToolOutput(_as_value(one, zone), f"{text}\n{note}" if note else text)


@tool(
    group="calendar",
    effect=Effect.IDEMPOTENT,
    timeout_s=60.0,
    requires=_no_calendar,
    keywords={"es": ("añadir", "apunta en el calendario", "agendar"), "en": ("add", "put on the calendar", "schedule")},
    examples={"es": ("pon el dentista el martes a las 9",), "en": ("put the dentist on tuesday at 9",)},
)
async def calendar_add(
    ctx: ToolContext,
    title: _Title,
    start: _Start,
    end: _End = None,
    duration_minutes: _Minutes = None,
    all_day: Annotated[bool, Field(description="It takes whole days")] = False,
    place: _Place = None,
    notes: _Notes = None,
    repeat: _Repeat = None,
    calendar: _Calendar = "",
) -> ToolOutput:
    """Adds an event to the user's calendar; without an end it takes an hour, or the whole day."""
    now = _now(ctx)
    span = span_of(start, end, duration_minutes, all_day, now)
    assert span.start is not None
    rule = rule_in(repeat or "", span.start, now)
    span, moved = aligned(span, rule)
    assert span.start is not None
    last = span.end
    if last is None:
        last = later(span.start, 60) if isinstance(span.start, datetime) else span.start + timedelta(days=1)
    uid = hashlib.sha256(f"{ctx.principal}\n{ctx.idempotency_key}".encode()).hexdigest()[:32]
    draft = Draft(uid, title, span.start, last, place or "", notes or "", rule)
    account, _ = account_of("calendar", ctx.settings.calendar.accounts, ctx.principal)

    def work(store: Store) -> Entry:
        return store.create(calendar or account.calendar, uid, events.new(draft, now))[0]

    entry = await _with_store(ctx, work)
    note = "[the start was moved to the first day that fits the repetition]" if moved else ""
    return _told("Added", entry.data, entry.calendar, now, note)


def _found(store: Store, uid: str) -> Entry:
    entry = store.find(uid)
    if entry is None:
        raise ModelError(
            f"there is no event with uid {uid[:100]!r} (any more)",
            hint="calendar_upcoming shows the uids; text and from_day find what is further away",
            code="not_found",
        )
    return entry


def _busy() -> ModelError:
    return ModelError(
        "the event kept being changed by somebody else; nothing was changed", hint="try again", code="conflict"
    )


@dataclass(frozen=True)
class _Asked:
    """The arguments of a change, as given."""

    title: str | None
    start: str | None
    end: str | None
    minutes: int | None
    all_day: bool
    place: str | None
    notes: str | None
    repeat: str | None


def _changes(present: Occurrence, asked: _Asked, now: datetime) -> Changes:
    """What becomes different, given what the event is; an end without a start is told from the start that it has."""
    begin = events.at(present.start, zone_of(now)).astimezone(now.tzinfo)
    if asked.start is not None:
        span = span_of(asked.start, asked.end, asked.minutes, asked.all_day, now)
    elif asked.minutes:
        span = Span(None, later(begin, asked.minutes))
    else:
        span = Span(None, span_of(None, asked.end, None, asked.all_day or present.all_day, begin).end)
    rule = None
    if asked.repeat is not None:
        rule = rule_in(asked.repeat, span.start or present.start, now)
        fitting, moved = aligned(Span(span.start or present.start, span.end), rule)
        span = fitting if moved else span
    return Changes(asked.title, span.start, span.end, asked.place, asked.notes, rule)


@tool(
    group="calendar",
    effect=Effect.IDEMPOTENT,
    untrusted=True,
    timeout_s=60.0,
    requires=_no_calendar,
    keywords={"es": ("cambiar", "mover", "retrasar", "adelantar"), "en": ("change", "move", "postpone", "reschedule")},
    examples={"es": ("pasa la reunión al jueves",), "en": ("move the meeting to thursday",)},
)
async def calendar_change(
    ctx: ToolContext,
    uid: _Uid,
    occurrence: _Occurrence = "",
    title: _Title | None = None,
    start: _Start | None = None,
    end: _End = None,
    duration_minutes: _Minutes = None,
    all_day: Annotated[bool, Field(description="The new start and end are whole days")] = False,
    place: _Place = None,
    notes: _Notes = None,
    repeat: Annotated[_Repeat, Field(description="How it repeats from now on; empty: not any more")] = None,
) -> ToolOutput:
    """Changes what is given of an event; when only the start is given, it keeps its length."""
    given = (title, start, end, duration_minutes, place, notes, repeat)
    if all(one is None for one in given):
        raise wrong("nothing to change was given", "give title, start, end, place, notes or repeat")
    now = _now(ctx)
    zone = zone_of(now)

    def work(store: Store) -> tuple[bytes, str]:
        for _ in range(_ATTEMPTS):
            entry = _found(store, uid)
            present = events.first(entry.data, entry.calendar, zone, occurrence)
            changes = _changes(present, _Asked(title, start, end, duration_minutes, all_day, place, notes, repeat), now)
            data = events.changed(entry.data, changes, occurrence, zone, now)
            if store.replace(entry, data):
                return data, entry.calendar
        raise _busy()

    data, calendar = await _with_store(ctx, work)
    return _told("Changed", data, calendar, now)


@tool(
    group="calendar",
    effect=Effect.IDEMPOTENT,
    untrusted=True,
    timeout_s=60.0,
    requires=_no_calendar,
    keywords={"es": ("borrar", "cancelar", "quitar"), "en": ("delete", "cancel", "remove")},
    examples={"es": ("borra la cena del viernes",), "en": ("delete friday's dinner",)},
)
async def calendar_delete(ctx: ToolContext, uid: _Uid, occurrence: _Occurrence = "") -> ToolOutput:
    """Deletes an event; of one that repeats all of it, or only one occurrence."""
    now = _now(ctx)
    zone = zone_of(now)

    def work(store: Store) -> bool:
        for _ in range(_ATTEMPTS):
            if (entry := store.find(uid)) is None:
                return False
            if not occurrence:
                done = store.remove(entry)
            elif not events.happens(entry.data, occurrence, zone):
                return False
            else:
                done = store.replace(entry, events.without(entry.data, occurrence, zone, now))
            if done:
                return True
        raise _busy()

    deleted = await _with_store(ctx, work)
    what = f"the occurrence {occurrence} of event {uid}" if occurrence else f"event {uid}"
    text = f"Deleted {what}." if deleted else f"There is no {what.removeprefix('the ')} (any more)."
    return ToolOutput({"uid": uid, "occurrence": occurrence, "deleted": deleted}, text)
