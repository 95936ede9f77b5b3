"""Moments in plain words, Spanish or English, as one zoned time. Pure. Repetitions are in `repeats.py`.

The grammar, after folding case and accents:

    iso        2026-03-01T07:30, 2026-03-01 07:30, 2026-03-01, any of them with Z or an offset
    span       in 20 minutes | in 1h30 | en 20 minutos | dentro de hora y media | in 3 days at 9 | 2 weeks from now at 9
    day time   tomorrow at 7:30 | on friday at 6 pm | mañana a las 7 | el viernes a las 6 de la tarde | 3 de mayo
    time day   7pm tomorrow | a las 9 del lunes
    time       at 7:30 | a las 7 y media | half past seven | at noon | esta noche (the next such time)
               | at 1830 | tomorrow 0900 | mañana a la misma hora
    … zone     any of them with UTC or an IANA name (Europe/London) behind it

    day        today | tomorrow | pasado mañana | [next] friday | el lunes que viene | the weekend | next week |
               friday next week | a week on friday | monday after next | next month | 3 de mayo [2027] | may 3rd | 3/5 |
               3/5/2027 | monday 16 november | el día 15 | the 15th | lunes 16 | el primer lunes de mayo |
               the last friday of next month | el último día del mes | in may | a mediados de mes

What can mean several times means the next one: a weekday, a day of the month or a date without a year lies ahead, and
`today at 6` in the afternoon is 18:00. Other hours without am, pm or a part of the day are on the 24-hour clock. Of
`03/04` the first number is the day (3 April), unless it cannot be (`12/24`). The midnight of a named day is the one
that ends it, which the note says. Hours and minutes of a span are elapsed time; its days, weeks, months and years, and
all named days, are calendar days. A local time that the clocks skip is moved forward by the gap; one that happens twice
is its first occurrence; `read_when` says so in its note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from workers.tools.days import add_months, find_day
from workers.tools.timewords import DEFAULT_HOUR, NUMBER, Clock, WhenError, any_of, clock, fold, number, plain

__all__ = ["DEFAULT_HOUR", "EXAMPLES", "Moment", "WhenError", "fold", "parse_when", "read_when", "settle"]

EXAMPLES = (
    '"2026-03-01T07:30", "in 20 minutes", "tomorrow at 7:30", "en 2 horas", "mañana a las 7", "el viernes a las 18"'
)

_MAX_AHEAD = timedelta(days=3660)

_UNITS = {
    **dict.fromkeys(("second", "sec", "segundo", "seg"), ("s", 1)),
    **dict.fromkeys(("minute", "min", "minuto", "m"), ("s", 60)),
    **dict.fromkeys(("hour", "hr", "hora", "h"), ("s", 3600)),
    **dict.fromkeys(("day", "dia", "d"), ("d", 1)),
    **dict.fromkeys(("week", "semana"), ("d", 7)),
    **dict.fromkeys(("fortnight", "quincena"), ("d", 14)),
    **dict.fromkeys(("month", "mes", "mese"), ("m", 1)),
    **dict.fromkeys(("year", "ano"), ("m", 12)),
}
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ t]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?: ?(?:z|[+-]\d{2}:?\d{2}))?)?")
_ZONE = re.compile(r"^(?P<rest>.+?)[ ,]+\(?(?P<zone>UTC|GMT|[A-Z][A-Za-z]+(?:/[A-Z][A-Za-z_]+)+)\)?$")
_NO_ZONE = re.compile(r"\b(?P<zone>[ECMP][SD]?T|CES?T|BST|IST|JST|AES?T)\b|\bhora de [A-Z]\w+|\b[A-Z][a-z]+ time\b")
"""What people call zones, but several may be meant: `CST` is in America, China and Cuba."""
_SPAN = re.compile(
    r"(?:in|en|dentro de|de aqui a|de hoy en)(?: otr[oa]s?)? (?P<ahead>.+)"
    r"|(?P<from>.+?) (?:from (?:now|today)|a partir de ahora)(?P<then> .+)?"
)
_TERM = re.compile(
    rf"(?:(?P<half>half an?|half a|medi[ao])|(?P<quarter>(?:a )?quarter of an|(?:un )?cuarto de)"
    rf"|(?P<three>three quarters of an|tres cuartos de)"
    rf"|(?:an? |un )?(?P<number>{NUMBER})(?: of| de)?(?P<half_more> and a half| y medi[ao])?)? ?"
    rf"(?P<unit>{any_of(_UNITS)})s?(?![a-z])"
    r"(?P<plus> (?:and|y) (?:a half|media|medio|a quarter|(?:un )?cuarto)(?! ?[a-z]))?"
)
_SAME_TIME = re.compile(r"(?:at )?(?:this|the same|same) time|(?:a )?(?:esta|la misma) hora")
_JOIN = re.compile(r" (?:and|y) | |")


@dataclass(frozen=True)
class Moment:
    """A moment, and what the clocks of its day made of it (empty: nothing)."""

    at: datetime
    note: str = ""


def parse_when(text: str, now: datetime) -> datetime:
    """The moment that `text` names, in the zone of `now` (which must be aware).

    Raises WhenError for words it does not know, for a moment in the past and for one over ten years ahead.
    """
    return read_when(text, now).at


def read_when(text: str, now: datetime) -> Moment:
    """Like `parse_when`, with a note where the clocks change."""
    if now.tzinfo is None:
        raise ValueError("now must be aware")
    if zoned := _ZONE.fullmatch(text.strip()):
        there = read_when(zoned["rest"], now.astimezone(_zone(zoned["zone"])))
        return Moment(there.at.astimezone(now.tzinfo), there.note)
    words = re.sub(r"^(?:para|for|by) ", "", plain(text))
    try:
        moment = _iso(words, now) or _span(words, now) or _calendar(words, now) or _bare_span(words, now)
    except (OverflowError, ValueError) as error:
        if isinstance(error, WhenError):
            raise
        raise WhenError("too far away") from error
    if moment is None:
        if zone := _NO_ZONE.search(text):
            raise WhenError(f"which time zone is {zone[0]!r}? Put its name behind the time, such as Europe/London")
        raise WhenError(f"cannot read a time from {text[:100]!r}")
    ahead = moment.at.astimezone(UTC) - now.astimezone(UTC)
    if ahead <= timedelta(0):
        raise WhenError(f"{moment.at:%Y-%m-%d %H:%M} is in the past; it is now {now:%Y-%m-%d %H:%M}")
    if ahead > _MAX_AHEAD:
        raise WhenError("more than ten years ahead")
    return moment


def settle(day: date, at: time, now: datetime) -> Moment:
    """Day and wall-clock time in the zone of `now`; a time inside a gap moves forward by the gap."""
    wanted = datetime.combine(day, at, now.tzinfo)
    found = wanted.astimezone(UTC).astimezone(now.tzinfo)
    if found.replace(tzinfo=None) != wanted.replace(tzinfo=None):
        return Moment(found, f"the clocks skip {at:%H:%M} on {day}: {found:%H:%M} is meant")
    if wanted.replace(fold=1).utcoffset() != wanted.utcoffset():
        return Moment(found, f"{at:%H:%M} happens twice on {day}: the first is meant")
    return Moment(found)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise WhenError(f"{name} is no time zone") from error


def _iso(words: str, now: datetime) -> Moment | None:
    if not _ISO.fullmatch(words):
        return None
    try:
        parsed = datetime.fromisoformat(re.sub(r" (?=[z+-])", "", words).upper())
    except ValueError as error:
        raise WhenError(f"not a date: {error}") from error
    if len(words) == len("2026-03-01"):
        return settle(parsed.date(), time(DEFAULT_HOUR), now)
    return Moment(parsed.astimezone(now.tzinfo)) if parsed.tzinfo else settle(parsed.date(), parsed.time(), now)


def _span(words: str, now: datetime) -> Moment | None:
    if not (match := _SPAN.fullmatch(words)):
        return None
    sums, rest = _sum(match["ahead"] or match["from"] + (match["then"] or ""))
    return None if sums is None else _after(sums, rest, now)


def _bare_span(words: str, now: datetime) -> Moment | None:
    """`20 minutes`, where a time is expected."""
    sums, rest = _sum(words)
    return None if sums is None or rest else _after(sums, "", now)


def _after(sums: dict[str, int], rest: str, now: datetime) -> Moment | None:
    day = add_months(now.date(), sums["m"]) + timedelta(days=sums["d"])
    if rest:
        at = clock(rest, alone=True) if day != now.date() and not sums["s"] else None
        return _on(day, at, now) if at else None
    base = settle(day, now.time(), now) if day != now.date() else Moment(now)
    return Moment((base.at.astimezone(UTC) + timedelta(seconds=sums["s"])).astimezone(now.tzinfo), base.note)


def _sum(text: str) -> tuple[dict[str, int] | None, str]:
    """Seconds, days and months of `an hour and 30 minutes`, and what is left behind them; None if it begins so not."""
    sums = {"s": 0.0, "d": 0.0, "m": 0.0}
    position = 0
    while term := _TERM.match(text, position):
        if not (term["number"] or term["half"] or term["quarter"] or term["three"] or term["plus"]):
            break
        kind, size = _UNITS[term["unit"]]
        whole = number(term["number"]) if term["number"] else 1.0  # hora y media
        amount = 0.5 if term["half"] else 0.25 if term["quarter"] else 0.75 if term["three"] else whole
        amount += 0.5 if term["half_more"] else 0.0
        if term["plus"]:
            amount += 0.5 if re.search(r"half|medi", term["plus"]) else 0.25
        sums[kind] += amount * size
        position = term.end()
        join = _JOIN.match(text, position)
        if join is None or not _TERM.match(text, join.end()):
            break
        position = join.end()
    if re.fullmatch(r"\d{1,2}", rest := text[position:].strip()) and text[position - 1 : position] == "h":
        sums["s"] += int(rest) * 60  # 1h30
        rest = ""
    if position == 0 or sums["d"] % 1 or sums["m"] % 1:
        return None, text
    return {kind: int(amount) for kind, amount in sums.items()}, rest


def _calendar(words: str, now: datetime) -> Moment | None:
    """A day at the start or the end, and a time of day in the rest; either may be missing, not both."""
    for day, rest in _splits(words):
        found = find_day(day, now.date())
        if found is None:
            continue
        at = _time_of(rest, now) if rest else Clock(time(DEFAULT_HOUR), certain=True)
        if at is None:
            continue
        moment = Moment(now)
        for candidate in found:
            moment = _on(candidate, at, now)
            if moment.at > now:
                return moment
        return _later_today(moment, at, now)
    if (at := clock(words, alone=True)) is None:
        return None
    moment = settle(now.date(), at.at, now)
    return moment if moment.at > now else settle(now.date() + timedelta(days=1), at.at, now)


def _time_of(text: str, now: datetime) -> Clock | None:
    """A time of day beside a day; `at the same time` is that of now."""
    if _SAME_TIME.fullmatch(text):
        return Clock(now.time().replace(second=0, microsecond=0), certain=True)
    return clock(text, alone=False)


def _on(day: date, at: Clock, now: datetime) -> Moment:
    """That time on that day. The midnight of a day is the one that ends it, and so it is said."""
    if not at.ends_day:
        return settle(day, at.at, now)
    found = settle(day + timedelta(days=1), at.at, now)
    return Moment(found.at, f"the midnight that ends {day} is meant")


def _later_today(moment: Moment, at: Clock, now: datetime) -> Moment:
    """Today at 6, when it is 15:00: at 18:00. Else what it was."""
    if moment.at.date() != now.date():
        return moment
    return moment if at.certain or at.at.hour >= 12 else settle(now.date(), at.at.replace(hour=at.at.hour + 12), now)


def _splits(words: str) -> Iterator[tuple[str, str]]:
    parts = words.split(" ")
    for cut in range(len(parts), 0, -1):
        yield " ".join(parts[:cut]), " ".join(parts[cut:])
    for cut in range(1, len(parts)):
        yield " ".join(parts[cut:]), " ".join(parts[:cut])
