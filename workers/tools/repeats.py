"""Repetitions in plain words, Spanish or English. Pure; what they are is in `recurrence.py`.

The grammar, after folding case and accents; a time of day (or several: `at 9 and 21`) may stand before or behind:

    days       every day | daily | todos los días | every morning | cada noche | every other day | cada 3 días
    weekdays   every weekday | entre semana | de lunes a viernes | every monday and friday | los lunes y miércoles |
               on tuesdays | every weekend | every week | cada dos semanas los jueves
    months     every month on the 15th | el 1 de cada mes | los días 1 y 15 de cada mes | el primer lunes de cada mes |
               the last friday of every month | el último día de cada mes | every 3 months
    years      every year on may 3 | cada 3 de mayo | every december 24th | cada año
    intervals  every 20 minutes | cada 2 horas | hourly (elapsed time, five minutes at least)
    … until    until friday | hasta el 3 de mayo      … starting    starting monday | a partir del lunes
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

from workers.tools.days import day_number, find_day
from workers.tools.recurrence import Freq, Repeat
from workers.tools.timewords import (
    DEFAULT_HOUR,
    MONTH,
    MONTHS,
    NUMBER,
    ORDINAL,
    ORDINALS,
    PARTS,
    WEEKDAY,
    WEEKDAYS,
    WhenError,
    any_of,
    clock,
    number,
    plain,
)
from workers.tools.when import settle

EXAMPLES = '"every weekday at 8:30", "cada lunes y miércoles a las 9", "el primer lunes de cada mes", "every 2 hours"'
MIN_INTERVAL = timedelta(minutes=5)

_MAX_INTERVAL = 1000
_START = r"(?:starting|beginning|from|a partir del?|empezando|desde)"
_END = r"(?:until|till|hasta)"


def parse_repeat(text: str, now: datetime) -> tuple[Repeat, datetime] | None:
    """The repetition that `text` names, and its first time behind `now` (aware); None if it is none.

    Raises WhenError for one that cannot be.
    """
    words = plain(text)
    words, start = _tail(words, _START, now.date())
    words, until = _tail(words, _END, now.date())
    if start is None:
        words, start = _tail(words, _START, now.date())
    for phrase, rest in _splits(words):
        found = _phrase(phrase, (start or now.date()))
        if found is None:
            continue
        repeat, part = found
        times = _times(f"{part} {rest}".strip())
        if times is not None:
            return _settled(replace(repeat, until=until), times, rest or part, start, now)
    return None


def _settled(
    repeat: Repeat, times: tuple[time, ...], said: str, start: date | None, now: datetime
) -> tuple[Repeat, datetime]:
    if repeat.freq in ("minutely", "hourly"):
        if said:
            raise WhenError("minutes and hours repeat from now on, without a time of day")
        unit = timedelta(minutes=1) if repeat.freq == "minutely" else timedelta(hours=1)
        if unit * repeat.interval < MIN_INTERVAL:
            raise WhenError(f"the shortest repetition is {MIN_INTERVAL // timedelta(minutes=1)} minutes")
    else:
        repeat = replace(repeat, times=times or (time(DEFAULT_HOUR),))
    anchor = now
    if start and start > now.date():
        anchor = settle(start, time(0), now).at
    elif repeat.interval > 1 and repeat.freq not in ("minutely", "hourly"):
        anchor = _first_anchor(repeat, now)
    after = now if anchor <= now else (anchor.astimezone(UTC) - timedelta(seconds=1)).astimezone(now.tzinfo)
    first = repeat.next_after(anchor, after)
    if first is None:
        raise WhenError("it ends before it begins")
    return repeat, first


def _first_anchor(repeat: Repeat, now: datetime) -> datetime:
    """`every other day at 8` begins with the next 8 o'clock that fits: the interval counts from there."""
    return replace(repeat, interval=1, until=None).next_after(now, now) or now


def _tail(words: str, mark: str, today: date) -> tuple[str, date | None]:
    """A day behind a word such as `until`, and the text without both."""
    match = re.fullmatch(rf"(?P<rest>.+?) {mark} (?P<day>.+)", words)
    if match is None:
        return words, None
    found = find_day(match["day"], today) or find_day(f"el {match['day']}", today)
    if found is None and mark == _END:
        raise WhenError(f"cannot read a day from {match['day'][:60]!r}")
    first = next(iter(found), None) if found is not None else None
    return (match["rest"], first) if first is not None else (words, None)


def _times(text: str) -> tuple[time, ...] | None:
    """Times of day that share their minute; empty for an empty text, None for what is no time."""
    if not text:
        return ()
    if (one := clock(text, alone=False)) is not None:
        return (one.at,)
    found = [clock(part, alone=False) for part in re.split(r" (?:and|y|&) ", text)]
    times = sorted({one.at for one in found if one is not None})
    if None in found or not times:
        return None
    if len({at.minute for at in times}) > 1:
        raise WhenError("times of one repetition share their minute: make one for each")
    return tuple(times)


_SEP = r"(?: and | y | e | & | ?/ ?| )(?:the |los |el |on |dia )*"
_WEEKDAYS = rf"(?:{WEEKDAY})(?:s|es)?"
_PLURALS = any_of(f"{day}s" for day in WEEKDAYS if day.endswith(("day", "sabado", "domingo")))
_DAY = r"(?:\d{1,2}(?:st|nd|rd|th)?|uno|primero|first)"
_EACH = r"(?:every|each|cada|todos los|todas las)"
_MONTHLY = rf"(?:of |de |del )?(?:{_EACH} )?(?:month|mes(?:es)?)"
_UNIT_OF: dict[str, tuple[Freq, int]] = {
    **dict.fromkeys(("minute", "minuto", "min"), ("minutely", 1)),
    **dict.fromkeys(("hour", "hora"), ("hourly", 1)),
    **dict.fromkeys(("day", "dia"), ("daily", 1)),
    **dict.fromkeys(("week", "semana"), ("weekly", 1)),
    **dict.fromkeys(("fortnight", "quincena"), ("weekly", 2)),
    **dict.fromkeys(("month", "mes", "mese"), ("monthly", 1)),
    **dict.fromkeys(("quarter", "trimestre"), ("monthly", 3)),
    **dict.fromkeys(("semester", "half year", "semestre"), ("monthly", 6)),
    **dict.fromkeys(("year", "ano"), ("yearly", 1)),
}
_ADVERBS: dict[str, str] = {
    "hourly": "hour", "daily": "day", "a diario": "day", "diariamente": "day", "weekly": "week", "semanalmente": "week",
    "fortnightly": "fortnight", "quincenalmente": "fortnight", "monthly": "month", "mensualmente": "month",
    "quarterly": "quarter", "trimestralmente": "quarter", "yearly": "year", "annually": "year", "anualmente": "year",
}  # fmt: skip
_MINUTES = {
    "half hour": 30, "half an hour": 30, "half a hour": 30, "media hora": 30, "quarter of an hour": 15,
    "quarter hour": 15, "cuarto de hora": 15, "hour and a half": 90, "hora y media": 90,
}  # fmt: skip

Made = tuple[Repeat, str]
"""A repetition without its times, and a part of the day that its words name."""


def _listed(text: str) -> tuple[int, ...]:
    found = re.findall(rf"\b({WEEKDAY})(?:s|es)?\b", text)
    return tuple(sorted({WEEKDAYS[word] for word in found}))


def _month_days(text: str) -> tuple[int, ...]:
    days = tuple(sorted({day_number(word) if word != "uno" else 1 for word in re.findall(rf"\b{_DAY}\b", text)}))
    if not all(1 <= day <= 31 for day in days):
        raise WhenError(f"no month has a day {max(days)}")
    return days


def _every_part(match: re.Match[str], today: date) -> Made:
    return Repeat("daily"), match["part"].removesuffix("s")


def _span_of_week(match: re.Match[str], today: date) -> Made:
    first, last = WEEKDAYS[match["first"]], WEEKDAYS[match["last"]]
    return Repeat("weekly", weekdays=tuple(sorted((first + n) % 7 for n in range((last - first) % 7 + 1)))), ""


def _some_weekdays(match: re.Match[str], today: date) -> Made:
    return Repeat("weekly", weekdays=_listed(match["days"])), ""


def _nth_of_month(match: re.Match[str], today: date) -> Made:
    return Repeat("monthly", nth=ORDINALS[match["nth"]], weekdays=(WEEKDAYS[match["weekday"]],)), ""


def _days_of_month(match: re.Match[str], today: date) -> Made:
    return Repeat("monthly", month_days=_month_days(match["days"])), ""


def _date_of_year(match: re.Match[str], today: date) -> Made:
    name, day = match["month"] or match["month_us"], day_number(match["day"] or match["day_us"])
    find_day(f"{day} {name}", today)  # raises for a day that this month never has
    month = MONTHS[name]
    return Repeat("yearly", month=month, month_days=(day,)), ""


def _adverb(match: re.Match[str], today: date) -> Made:
    freq, size = _UNIT_OF[_ADVERBS[match["adverb"]]]
    return _plain(freq, size, match["on"] or "", today), ""


def _all_but(match: re.Match[str], today: date) -> Made:
    left = tuple(day for day in range(7) if day not in _listed(match["days"]))
    if not left:
        raise WhenError("no day of the week is left")
    return Repeat("weekly", weekdays=left), ""


def _alternate(match: re.Match[str], today: date) -> Made:
    """`every other friday`, `cada dos viernes`."""
    word = match["number"]
    count = 2 if word in ("other", "second", None) else number(word)
    if count % 1 or not 1 <= count <= _MAX_INTERVAL:
        raise WhenError(f"an interval is a whole number from 1 to {_MAX_INTERVAL}")
    weekday = WEEKDAYS[re.sub(r"(?<=day|ado|ngo)s$", "", match["weekday"] or match["si_y_no"])]
    return Repeat("weekly", int(count), weekdays=(weekday,)), ""


def _interval(match: re.Match[str], today: date) -> Made:
    word = match["number"] or "1"
    count = 2 if word in ("other", "second") else number(word)
    if count % 1 or not 1 <= count <= _MAX_INTERVAL:
        raise WhenError(f"an interval is a whole number from 1 to {_MAX_INTERVAL}")
    freq, size = _UNIT_OF[match["unit"]]
    return _plain(freq, int(count) * size, match["on"] or "", today), ""


def _plain(freq: Freq, interval: int, on: str, today: date) -> Repeat:
    """`every week`, perhaps `on monday`; what is not said is taken from today."""
    if freq == "weekly":
        return Repeat(freq, interval, weekdays=_listed(on) or (today.weekday(),))
    if freq == "monthly":
        if re.search("last|ultimo", on):
            return Repeat(freq, interval, month_days=(-1,))
        return Repeat(freq, interval, month_days=_month_days(on) if on else (today.day,))
    if freq == "yearly":
        if not on:
            return Repeat(freq, interval, month=today.month, month_days=(today.day,))
        found = next(iter(find_day(re.sub(r"^(?:on|the|el) ", "", on.strip()), today) or ()), None)
        if found is None:
            raise WhenError(f"cannot read a date from {on[:60]!r}")
        return Repeat(freq, interval, month=found.month, month_days=(found.day,))
    if on:
        raise WhenError(f"{on.strip()[:60]!r} does not go with {freq}")
    return Repeat(freq, interval)


_ON = (
    rf"(?P<on> (?:on |the |los |el |cada )*(?:{_WEEKDAYS}(?:{_SEP}{_WEEKDAYS})*"
    rf"|last day|ultimo dia|(?:dias? )?{_DAY}(?:{_SEP}{_DAY})*|{_DAY} (?:of |de )?(?:{MONTH})|(?:{MONTH}) {_DAY}))?"
)
_WORKDAYS = (0, 1, 2, 3, 4)
_RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], date], Made]], ...] = tuple(
    (re.compile(pattern), rule)
    for pattern, rule in (
        (rf"{_EACH} (?P<part>(?:{any_of(PARTS)})s?)", _every_part),
        (
            rf"(?:{_EACH} )?(?:weekdays?|workdays?|working days?)|on (?:weekdays|workdays)|entre semana"
            rf"|(?:{_EACH} |los )?(?:dias? )?(?:laborables?|habiles|de diario)",
            lambda match, today: (Repeat("weekly", weekdays=_WORKDAYS), ""),
        ),
        (
            rf"(?:{_EACH} |on |los |at )?(?:weekends|fines de semana|findes)|{_EACH} (?:weekend|fin de semana|finde)",
            lambda match, today: (Repeat("weekly", weekdays=(5, 6)), ""),
        ),
        (rf"(?:{_EACH} |de |from )?(?P<first>{WEEKDAY}) (?:a|to|through) (?P<last>{WEEKDAY})", _span_of_week),
        (rf"(?:{_EACH}|los) (?P<days>{_WEEKDAYS}(?:{_SEP}{_WEEKDAYS})*)", _some_weekdays),
        (rf"(?:on )?(?P<days>(?:{_PLURALS})(?:{_SEP}(?:{_PLURALS}))*)", _some_weekdays),
        (rf"(?:on )?(?P<days>{_WEEKDAYS}(?:{_SEP}{_WEEKDAYS})+)", _some_weekdays),
        (
            rf"(?:{_EACH} (?:day|dia)|todos los dias|daily) (?:except|but|menos|salvo|excepto)(?: on| for)? "
            rf"(?:los |el )?(?P<days>{_WEEKDAYS}(?:{_SEP}{_WEEKDAYS})*)",
            _all_but,
        ),
        (
            rf"{_EACH} (?P<number>other|second|{NUMBER}) (?P<weekday>{WEEKDAY}|{_PLURALS})"
            rf"|(?:un|el) (?P<si_y_no>{WEEKDAY}) si y (?:otro|el otro) no",
            _alternate,
        ),
        (
            rf"{_EACH} (?P<span>{any_of(_MINUTES)})",
            lambda match, today: (Repeat("minutely", _MINUTES[match["span"]]), ""),
        ),
        (rf"{_EACH} (?P<nth>{ORDINAL}) (?P<weekday>{WEEKDAY}) (?:of the month|of month|de mes)", _nth_of_month),
        (r"nightly", lambda match, today: (Repeat("daily"), "night")),
        (rf"(?:on )?(?:the |el |{_EACH} )?(?P<nth>{ORDINAL}) (?P<weekday>{WEEKDAY}) {_MONTHLY}", _nth_of_month),
        (
            rf"(?:on )?(?:the |el )?(?:last day|ultimo dia) {_MONTHLY}"
            rf"|(?:a |at )?(?:the )?(?:fin|final|finales|end) (?:of|de) {_EACH} (?:month|mes)"
            rf"|{_EACH} (?:fin de mes|month end)",
            lambda match, today: (Repeat("monthly", month_days=(-1,)), ""),
        ),
        (rf"(?:on |the |el |los |{_EACH} |dias? )*(?P<days>{_DAY}(?:{_SEP}{_DAY})*) {_MONTHLY}", _days_of_month),
        (rf"{_EACH} (?P<days>{_DAY}(?:{_SEP}{_DAY})*) (?:of the month|del mes)", _days_of_month),
        (rf"(?:{_EACH}|cada dia) (?P<days>\d{{1,2}}(?:st|nd|rd|th)|(?<=dia )\d{{1,2}})", _days_of_month),
        (
            rf"{_EACH} (?:year on |year the |ano el )?(?:the )?(?:(?P<day>{_DAY}) (?:of |de )?(?P<month>{MONTH})"
            rf"|(?P<month_us>{MONTH}) (?:the )?(?P<day_us>{_DAY}))",
            _date_of_year,
        ),
        (
            rf"(?:on |the |el )*(?:(?P<day>{_DAY}) (?:of |de )?(?P<month>{MONTH})"
            rf"|(?P<month_us>{MONTH}) (?:the )?(?P<day_us>{_DAY})) (?:of |de )?{_EACH} (?:year|ano)",
            _date_of_year,
        ),
        (rf"(?P<adverb>{any_of(_ADVERBS)}){_ON}", _adverb),
        (
            rf"(?:{_EACH}(?: (?P<number>other|second|{NUMBER}))?|(?:once|una vez) (?:an?|per|every|al|a la|cada|por)) "
            rf"(?P<unit>{any_of(_UNIT_OF)})s?{_ON}",
            _interval,
        ),
    )
)


def _phrase(text: str, today: date) -> Made | None:
    for pattern, rule in _RULES:
        if match := pattern.fullmatch(text):
            return rule(match, today)
    return None


def _splits(words: str) -> Iterator[tuple[str, str]]:
    """The phrase at the start or at the end, the longest first, and the rest."""
    parts = words.split(" ")
    for cut in range(len(parts), 0, -1):
        yield " ".join(parts[:cut]), " ".join(parts[cut:])
    for cut in range(1, len(parts)):
        yield " ".join(parts[cut:]), " ".join(parts[:cut])
