"""Days in plain words, Spanish or English, as dates that lie ahead. Pure; the grammar is in `when.py`."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date, timedelta

from workers.tools.timewords import MONTH, MONTHS, NUMBERS, ORDINAL, ORDINALS, WEEKDAY, WEEKDAYS, WhenError, any_of

_YEARS = 9
"""How many years ahead a date without a year is looked for: leap days are at most eight apart."""

_NAMED_DAY = any_of(w for w, n in NUMBERS.items() if 1 <= n <= 31 and w not in ("a", "an", "one", "couple", "par"))
_DAY = rf"(?:\d{{1,2}}(?:st|nd|rd|th)?|{_NAMED_DAY}|primero|first)"
_ON = r"(?:on the |on |the |el dia |del dia |del |de |el |dia )?"
_NEXT_MONTH = r"(?:next month|(?:el )?mes que viene|(?:el )?proximo mes|(?:el )?mes proximo)"
_THIS_MONTH = r"(?:this month|(?:the )?month|este mes|mes)"

_FEASTS = {
    "christmas eve": (12, 24), "nochebuena": (12, 24),
    "christmas": (12, 25), "christmas day": (12, 25), "navidad": (12, 25),
    "new year's eve": (12, 31), "nochevieja": (12, 31),
    "new year": (1, 1), "new year's day": (1, 1), "ano nuevo": (1, 1),
    "reyes": (1, 6), "valentine's day": (2, 14), "san valentin": (2, 14), "halloween": (10, 31),
}  # fmt: skip

Rule = Callable[[re.Match[str], date], Iterable[date]]


def find_day(text: str, today: date) -> Iterable[date] | None:
    """The dates that a plain text may mean, the next one first; None if it names no day.

    Raises WhenError for a day that no month has, and for a date that is another day of the week than it says.
    """
    for pattern, rule in _RULES:
        if match := pattern.fullmatch(text):
            return rule(match, today)
    if match := _DATED.fullmatch(text):
        return _dated(match, today)
    return None


def _dated(match: re.Match[str], today: date) -> list[date] | None:
    """`monday 16 november`, `lunes 16`: the date decides, and must be such a day; a number that is none is an hour."""
    bare = match["date"].isdigit()
    days = find_day(f"el {match['date']}" if bare else match["date"], today) or ()
    found = next((day for day in days if day >= today or not bare), None)
    if found is None:
        return None
    if found.weekday() != WEEKDAYS[match["weekday"]]:
        if bare:
            return None
        raise WhenError(f"{found} is a {found:%A}, not a {match['weekday']}: give the day of the week or the date")
    return [found]


def past_day(text: str, today: date) -> date | None:
    """A day up to today that a plain text names: today, ayer, 3 days ago, last monday, el lunes, 2026-03-01.

    None if it names none. Raises WhenError for a day that does not exist or lies ahead.
    """
    if match := re.fullmatch(r"(?:the )?day before yesterday|anteayer|antes de ayer|(?P<one>yesterday|ayer)", text):
        return today - timedelta(days=1 if match["one"] else 2)
    if match := re.fullmatch(rf"(?:hace )?(?P<n>\d{{1,4}}|{_NAMED_DAY}) (?:days? ago|dias?(?: atras)?)", text):
        return today - timedelta(days=day_number(match["n"]))
    if match := re.fullmatch(rf"(?:on |last |this |el )*(?P<weekday>{WEEKDAY})(?: pasado)?", text):
        return today - timedelta(days=(today.weekday() - WEEKDAYS[match["weekday"]]) % 7 or 7)
    if match := re.fullmatch(rf"{_ON}(?P<day>{_DAY}) (?:of |de )?(?P<month>{MONTH})", text):
        found = _of_year(MONTHS[match["month"]], day_number(match["day"]), today.replace(year=today.year - 1))
        return max((day for day in found if day <= today), default=None)
    day = next(iter(find_day(text, today) or ()), None)
    if day is not None and day > today:
        raise WhenError(f"{day} lies ahead")
    return day


def add_months(day: date, months: int) -> date:
    """The same day so many months later, or the last of a shorter month."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def nth_weekday(year: int, month: int, nth: int, weekday: int) -> date | None:
    """The nth such weekday of a month (-1: the last); None if it has none."""
    length = calendar.monthrange(year, month)[1]
    days = [day for day in range(1, length + 1) if date(year, month, day).weekday() == weekday]
    return date(year, month, days[nth if nth < 0 else nth - 1]) if nth <= len(days) else None


def day_number(word: str) -> int:
    """The number of a day of the month: `3`, `3rd`, `tres`, `primero`."""
    if word in ("primero", "first"):
        return 1
    return NUMBERS[word] if word in NUMBERS else int(re.sub(r"\D", "", word))


def _weekday(match: re.Match[str], today: date) -> Iterator[date]:
    weekday = WEEKDAYS[match["weekday"]]
    if match["week"] or match["week_before"]:
        yield today + timedelta(days=7 - today.weekday() + weekday)
        return
    ahead = (weekday - today.weekday()) % 7
    if not (match["next"] or match["coming"]):
        yield today + timedelta(days=ahead)
    yield today + timedelta(days=ahead or 7)
    yield today + timedelta(days=ahead + 7)


def _week_later(match: re.Match[str], today: date) -> Iterator[date]:
    weekday = WEEKDAYS[match["on"] or match["week"] or match["after"]]
    yield today + timedelta(days=((weekday - today.weekday()) % 7 or 7) + 7)


def _weekend(match: re.Match[str], today: date) -> Iterator[date]:
    ahead = (5 - today.weekday()) % 7
    yield today + timedelta(days=ahead)
    yield today + timedelta(days=ahead + 7)


def _of_year(month: int, day: int, today: date, year: int | None = None) -> list[date]:
    """This date in `year`, or in the years to come."""
    years = [year] if year else range(today.year, today.year + _YEARS)
    found = [date(y, month, day) for y in years if day and 1 <= month <= 12 and day <= calendar.monthrange(y, month)[1]]
    if not found:
        raise WhenError(f"there is no such day: {f'{year}-' if year else ''}{month:02}-{day:02}")
    return [one for one in found if one >= today] or found[-1:]


def _date(match: re.Match[str], today: date) -> Iterable[date]:
    year = int(match["year"]) if match["year"] else None
    return _of_year(MONTHS[match["month"]], day_number(match["day"]), today, year)


def _numeric(match: re.Match[str], today: date) -> Iterable[date]:
    day, month = int(match["first"]), int(match["second"])
    if month > 12 >= day:
        day, month = month, day
    year = int(match["year"]) if match["year"] else None
    return _of_year(month, day, today, year + 2000 if year and year < 100 else year)


def _iso(match: re.Match[str], today: date) -> Iterable[date]:
    return _of_year(int(match["month"]), int(match["day"]), today, int(match["year"]))


def _of_month(match: re.Match[str], today: date) -> Iterator[date]:
    number = day_number(match["day"])
    if not 1 <= number <= 31:
        raise WhenError(f"no month has a day {number}")
    for ahead in range(1 if match["next"] else 0, 2 if match["next"] or match["this"] else 12):
        first = add_months(today.replace(day=1), ahead)
        if number <= calendar.monthrange(first.year, first.month)[1]:
            yield first.replace(day=number)


def _nth(match: re.Match[str], today: date) -> Iterator[date]:
    nth, weekday = ORDINALS[match["nth"]], WEEKDAYS[match["weekday"]]
    if match["month"]:
        months = [(year, MONTHS[match["month"]]) for year in range(today.year, today.year + _YEARS)]
    else:
        firsts = [add_months(today.replace(day=1), ahead) for ahead in range(1 if match["next"] else 0, 12)]
        months = [(first.year, first.month) for first in firsts]
    yield from (day for year, month in months if (day := nth_weekday(year, month, nth, weekday)) and day >= today)


def _month_end(match: re.Match[str], today: date) -> Iterator[date]:
    if match["month"]:
        for year in range(today.year, today.year + 2):
            month = MONTHS[match["month"]]
            yield date(year, month, calendar.monthrange(year, month)[1])
        return
    for ahead in range(1 if match["next"] else 0, 3):
        first = add_months(today.replace(day=1), ahead)
        yield first.replace(day=calendar.monthrange(first.year, first.month)[1])


_PARTS_OF_MONTH = {
    **dict.fromkeys(("principios", "principio", "comienzos", "primeros", "beginning", "start", "early"), 1),
    **dict.fromkeys(("mediados", "middle", "mid"), 15),
}


def _part_of_month(match: re.Match[str], today: date) -> Iterator[date]:
    """Its first day, or the fifteenth."""
    day = _PARTS_OF_MONTH[match["part"]]
    if match["month"]:
        yield from _of_year(MONTHS[match["month"]], day, today)
        return
    for ahead in range(1 if match["next"] else 0, 3):
        yield add_months(today.replace(day=1), ahead).replace(day=day)


def _plus(days: int) -> Rule:
    return lambda _, today: [today + timedelta(days=days)]


def _plus_months(months: int) -> Rule:
    return lambda _, today: [add_months(today, months)]


_RULES: tuple[tuple[re.Pattern[str], Rule], ...] = tuple(
    (re.compile(pattern), rule)
    for pattern, rule in (
        (r"(?:the )?day after tomorrow|(?:de )?pasado manana", _plus(2)),
        (r"(?:de )?(?:tomorrow|manana)", _plus(1)),
        (r"(?:de )?(?:today|hoy)", _plus(0)),
        (r"(?:on |el )?(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})", _iso),
        (
            rf"(?P<week_before>next week on |la semana que viene el )?(?:on |this |this coming |este |del |el )?"
            rf"(?P<next>next |proximo |siguiente )?(?P<weekday>{WEEKDAY})"
            r"(?:(?P<week> next week| of next week| de la semana que viene| de la proxima semana)"
            r"|(?P<coming> que viene| proximo| siguiente))?",
            _weekday,
        ),
        (
            r"(?:this |next |the |on the |at the |el |este |el proximo |en el |para el )?"
            r"(?:weekend|fin de semana|finde)(?: que viene)?",
            _weekend,
        ),
        (
            rf"(?:a week on |una semana despues del? )(?P<on>{WEEKDAY})|(?P<week>{WEEKDAY})(?: week| en ocho)"
            rf"|(?P<after>{WEEKDAY}) after next",
            _week_later,
        ),
        (r"next week|la semana que viene|la proxima semana|en la semana que viene", _plus(7)),
        (_NEXT_MONTH, _plus_months(1)),
        (r"next year|(?:el )?ano que viene|(?:el )?proximo ano|(?:el )?ano proximo", _plus_months(12)),
        (rf"{_ON}(?P<day>{_DAY}) (?:of |de )?(?P<month>{MONTH})(?: (?:de |del )?(?P<year>\d{{4}}))?", _date),
        (rf"(?:on )?(?P<month>{MONTH}) (?:the )?(?P<day>\d{{1,2}}(?:st|nd|rd|th)?)(?: (?P<year>\d{{4}}))?", _date),
        (rf"{_ON}(?P<first>\d{{1,2}})/(?P<second>\d{{1,2}})(?:/(?P<year>\d{{4}}|\d{{2}}))?", _numeric),
        (rf"{_ON}(?P<first>\d{{1,2}})[-.](?P<second>\d{{1,2}})[-.](?P<year>\d{{4}})", _numeric),
        (
            rf"(?:on the |the |on |el |del |dia )(?:dia )?(?P<day>\d{{1,2}}(?:st|nd|rd|th)?|uno|primero)"
            rf"(?:(?: of)? (?P<this>this month|de este mes)"
            rf"|(?: of | del? )?(?P<next>{_NEXT_MONTH}))?",
            _of_month,
        ),
        (
            rf"(?:on )?(?:the |el |del )?(?P<nth>{ORDINAL}) (?P<weekday>{WEEKDAY}) (?:of|de|del|in)(?: the| el)? "
            rf"(?:(?P<month>{MONTH})|(?P<next>{_NEXT_MONTH})|{_THIS_MONTH})",
            _nth,
        ),
        (
            rf"(?:on )?(?:(?:the |el )?(?:last day|ultimo dia)|(?:a |at (?:the )?|the )?(?:fin|final|finales|end)) "
            rf"(?:of|de|del)(?: the| el)? (?:(?P<month>{MONTH})|(?P<next>{_NEXT_MONTH})|{_THIS_MONTH})",
            _month_end,
        ),
        (
            rf"(?:on |at |el |el dia de |en )?(?P<feast>{any_of(_FEASTS)})",
            lambda match, today: _of_year(*_FEASTS[match["feast"]], today),
        ),
        (
            rf"(?:in|en|next|el proximo) (?P<month>{MONTH})",
            lambda match, today: _of_year(MONTHS[match["month"]], 1, today),
        ),
        (
            rf"(?:a |at |in |en )?(?:the )?(?P<part>{any_of(_PARTS_OF_MONTH)})(?: of| de| del)?(?: the| el)? "
            rf"(?:(?P<month>{MONTH})|(?P<next>{_NEXT_MONTH})|{_THIS_MONTH})",
            _part_of_month,
        ),
    )
)
_DATED = re.compile(
    rf"(?:on |el |del |this |este )?(?P<weekday>{WEEKDAY}) (?:the |el |dia )?"
    rf"(?P<date>\d{{1,2}}(?:st|nd|rd|th)?|(?:\d{{1,2}}(?:st|nd|rd|th)?|{_NAMED_DAY})[ /](?:of |de )?(?:\d|{MONTH}).*"
    rf"|(?:{MONTH}) .+|\d{{4}}-.+)"
)
