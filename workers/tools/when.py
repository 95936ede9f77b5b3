"""Moments in plain words, Spanish or English, as one zoned time. Pure.

The grammar, after folding case and accents:

    iso        2026-03-01T07:30, 2026-03-01 07:30, 2026-03-01, any of them with Z or an offset
    span       in 20 minutes | in 1 hour and 30 minutes | in half an hour | en 20 minutos | dentro de una hora y media
    day time   tomorrow at 7:30 | on friday at 6 pm | mañana a las 7 | el viernes a las 6 de la tarde | 3 de mayo
    time       at 7:30 | a las 7 y media | at noon | esta noche (the next such time)

Hours and minutes of a span are elapsed time; its days and weeks, and all named days, are calendar days. Hours
without am/pm or part of the day are on the 24-hour clock. A local time that the clocks skip is moved forward by
the gap; one that happens twice is its first occurrence.
"""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta

EXAMPLES = (
    '"2026-03-01T07:30", "in 20 minutes", "tomorrow at 7:30", "en 2 horas", "mañana a las 7", "el viernes a las 18"'
)
DEFAULT_HOUR = 9
"""The hour of a day that is named without one."""

_MAX_AHEAD = timedelta(days=3660)

_NUMBER_WORDS = (
    "zero cero|a an one un una uno|two dos couple par|three tres|four cuatro|five cinco|six seis|seven siete|"
    "eight ocho|nine nueve|ten diez|eleven once|twelve doce"
)
_MONTH_WORDS = (
    "january jan enero ene|february feb febrero|march mar marzo|april apr abril abr|may mayo|june jun junio|"
    "july jul julio|august aug agosto ago|september sep sept septiembre setiembre|october oct octubre|"
    "november nov noviembre|december dec diciembre dic"
)
_WEEKDAY_WORDS = (
    "monday mon lunes|tuesday tue martes|wednesday wed miercoles|thursday thu jueves|friday fri viernes|"
    "saturday sat sabado|sunday sun domingo"
)


def _numbered(groups: str, start: int) -> dict[str, int]:
    return {word: n for n, words in enumerate(groups.split("|"), start) for word in words.split()}


_NUMBERS = _numbered(_NUMBER_WORDS, 0) | {"fifteen": 15, "quince": 15, "twenty": 20, "veinte": 20, "treinta": 30}
_MONTHS = _numbered(_MONTH_WORDS, 1)
_WEEKDAYS = _numbered(_WEEKDAY_WORDS, 0)
_PARTS = {"morning": 9, "manana": 9, "afternoon": 16, "tarde": 16, "evening": 19, "night": 21, "noche": 21}
_NAMED_HOURS = {"noon": 12, "midday": 12, "mediodia": 12, "midnight": 0, "medianoche": 0}
_SECONDS = {"second": 1, "segundo": 1, "minute": 60, "minuto": 60, "min": 60, "hour": 3600, "hora": 3600, "h": 3600}
_DAYS = {"day": 1, "dia": 1, "week": 7, "semana": 7}


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_NUMBER = rf"\d{{1,5}}|{_any(_NUMBERS)}"
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ t]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?: ?(?:z|[+-]\d{2}:?\d{2}))?)?")
_SPAN = re.compile(r"(?:in|en|dentro de) (?P<terms>.+)")
_TERM = re.compile(
    rf"(?:(?P<half>half an?|media)|(?:an? |un )?(?P<number>{_NUMBER})(?: of| de)?) ?"
    rf"(?P<unit>{_any([*_SECONDS, *_DAYS])})s?"
)
_DAY = re.compile(
    r"(?P<after>(?:the )?day after tomorrow|pasado manana)|(?P<tomorrow>tomorrow|manana)|(?P<today>today|hoy)"
    rf"|(?:on |el )?(?P<next>next |proximo )?(?P<weekday>{_any(_WEEKDAYS)})(?P<coming> que viene)?"
    rf"|(?:on |the |el |dia )*(?P<day>\d{{1,2}})(?:st|nd|rd|th)? (?:of |de )?(?P<month>{_any(_MONTHS)})"
    r"(?: (?:de |del )?(?P<year>\d{4}))?"
    rf"|(?:on )?(?P<month_us>{_any(_MONTHS)}) (?P<day_us>\d{{1,2}})(?:st|nd|rd|th)?(?: (?P<year_us>\d{{4}}))?"
)
_PART = rf"(?:in the |at |this |por la |de la |en la |esta )?(?:{_any(_PARTS)})|tonight"
_CLOCK = re.compile(
    rf"(?P<part>{_PART})? ?(?:"
    rf"(?:at |a |al )?(?P<named>{_any(_NAMED_HOURS)})"
    rf"|(?P<mark>at |a las? |sobre las )?(?P<hour>{_NUMBER})"
    r"(?:[:.h](?P<minute>\d{2})| y (?P<past>media|cuarto)| menos (?P<to>cuarto))?"
    r"(?: o'clock| horas| ?h)?(?: ?(?P<half>am|pm))?"
    rf")?(?: ?(?P<late_part>{_PART}))?"
)


class WhenError(ValueError):
    """The text names no moment that the grammar knows, or one that is past."""


def fold(text: str) -> str:
    """Lower case without accents; single spaces."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return " ".join("".join(char for char in decomposed if not unicodedata.combining(char)).split())


def parse_when(text: str, now: datetime) -> datetime:
    """The moment that `text` names, in the zone of `now` (which must be aware).

    Raises WhenError for words it does not know, for a moment in the past and for one over ten years ahead.
    """
    if now.tzinfo is None:
        raise ValueError("now must be aware")
    folded = fold(text).replace("a.m.", "am").replace("p.m.", "pm").replace(",", " ").strip(" .!")
    folded = " ".join(folded.split())[:200]
    try:
        moment = _iso(folded, now) or _span(folded, now) or _calendar(folded, now)
    except OverflowError as error:
        raise WhenError("too far away") from error
    if moment is None:
        raise WhenError(f"cannot read a time from {text[:100]!r}")
    ahead = moment.astimezone(UTC) - now.astimezone(UTC)
    if ahead <= timedelta(0):
        raise WhenError(f"{moment:%Y-%m-%d %H:%M} is in the past; it is now {now:%Y-%m-%d %H:%M}")
    if ahead > _MAX_AHEAD:
        raise WhenError("more than ten years ahead")
    return moment


def _settle(day: date, at: time, now: datetime) -> datetime:
    """Day and wall-clock time in the zone of `now`; a time inside a gap moves forward by the gap."""
    return datetime.combine(day, at, now.tzinfo).astimezone(UTC).astimezone(now.tzinfo)


def _iso(folded: str, now: datetime) -> datetime | None:
    if not _ISO.fullmatch(folded):
        return None
    try:
        parsed = datetime.fromisoformat(re.sub(r" (?=[z+-])", "", folded).upper())
    except ValueError as error:
        raise WhenError(f"not a date: {error}") from error
    if len(folded) == len("2026-03-01"):
        return _settle(parsed.date(), time(DEFAULT_HOUR), now)
    return parsed.astimezone(now.tzinfo) if parsed.tzinfo else _settle(parsed.date(), parsed.time(), now)


def _span(folded: str, now: datetime) -> datetime | None:
    if not (match := _SPAN.fullmatch(folded)):
        return None
    seconds, days, unit = 0.0, 0, ""
    for term in re.split(r" (?:and|y) |(?<=[a-z]) (?=\d)", match["terms"]):
        if term in ("media", "a half") and unit in _SECONDS:  # "an hour and a half"
            seconds += _SECONDS[unit] / 2
            continue
        if not (part := _TERM.fullmatch(term)):
            return None
        unit = part["unit"]
        number = 0.5 if part["half"] else float(_number(part["number"]))
        if unit in _SECONDS:
            seconds += number * _SECONDS[unit]
        else:
            days += int(number * _DAYS[unit])
    base = _settle(now.date() + timedelta(days=days), now.time(), now) if days else now
    return (base.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(now.tzinfo)


def _calendar(folded: str, now: datetime) -> datetime | None:
    """A day at the start or the end, and a time of day in the rest; either may be missing, not both."""
    for rest, match in _day_splits(folded):
        at = _clock(rest, alone=False) if rest else time(DEFAULT_HOUR)
        if at is None:
            continue
        day = _day(match, now.date())
        moment = _settle(day, at, now)
        if match["weekday"] and moment <= now:
            moment = _settle(day + timedelta(days=7), at, now)
        return moment
    if (at := _clock(folded, alone=True)) is None:
        return None
    moment = _settle(now.date(), at, now)
    return moment if moment > now else _settle(now.date() + timedelta(days=1), at, now)


def _day_splits(folded: str) -> Iterator[tuple[str, re.Match[str]]]:
    words = folded.split(" ")
    for cut in range(len(words), 0, -1):
        if match := _DAY.fullmatch(" ".join(words[:cut])):
            yield " ".join(words[cut:]), match
    for cut in range(1, len(words)):
        if match := _DAY.fullmatch(" ".join(words[cut:])):
            yield " ".join(words[:cut]), match


def _day(match: re.Match[str], today: date) -> date:
    if match["today"]:
        return today
    if match["tomorrow"]:
        return today + timedelta(days=1)
    if match["after"]:
        return today + timedelta(days=2)
    if word := match["weekday"]:
        ahead = (_WEEKDAYS[word] - today.weekday()) % 7
        return today + timedelta(days=ahead or (7 if match["next"] or match["coming"] else 0))
    month = _MONTHS[match["month"] or match["month_us"]]
    number = int(match["day"] or match["day_us"])
    if year := match["year"] or match["year_us"]:
        return _date(int(year), month, number)
    day = _date(_leap(today.year, month, number), month, number)
    return day if day >= today else _date(_leap(today.year + 1, month, number), month, number)


def _leap(year: int, month: int, day: int) -> int:
    """The first year from `year` on that has this day."""
    while (month, day) == (2, 29) and not calendar.isleap(year):
        year += 1
    return year


def _date(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError as error:
        raise WhenError(f"there is no such day: {year}-{month:02}-{day:02}") from error


def _number(word: str) -> int:
    return int(word) if word.isdigit() else _NUMBERS[word]


def _clock(text: str, *, alone: bool) -> time | None:
    """A time of day; None if it is none. A bare number is one only beside a day (`alone` false)."""
    if not text or not (match := _CLOCK.fullmatch(text)):
        return None
    if match["named"]:
        return time(_NAMED_HOURS[match["named"]])
    part = (match["late_part"] or match["part"] or "").replace("tonight", "night").split(" ")[-1]
    if match["hour"] is None:
        return time(_PARTS[part]) if part else None
    if alone and not (part or any(match[name] for name in ("mark", "minute", "past", "half", "to"))):
        return None
    minute = int(match["minute"] or {"media": 30, "cuarto": 15}.get(match["past"] or "", 0))
    hour = _on_24_hours(_number(match["hour"]), match["half"] or "", part)
    if match["to"]:
        hour, minute = (hour - 1) % 24, 45
    if hour > 23 or minute > 59:
        raise WhenError(f"{hour}:{minute:02} is not a time of day")
    return time(hour, minute)


def _on_24_hours(hour: int, half: str, part: str) -> int:
    if half and not 1 <= hour <= 12:
        raise WhenError(f"{hour} {half} is not a time")
    if hour == 12 and (half == "am" or part in ("night", "noche", "morning")):
        return 0
    late = half == "pm" or part in ("afternoon", "tarde", "evening", "night", "noche")
    return hour + 12 if late and hour < 12 else hour
