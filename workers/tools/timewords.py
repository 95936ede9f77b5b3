"""The words of times, Spanish and English: numbers, months, days of the week, times of day. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import time

DEFAULT_HOUR = 9
"""The hour of a day that is named without one."""


class WhenError(ValueError):
    """The text names no moment that the grammar knows, or one that is past."""


def fold(text: str) -> str:
    """Lower case without accents; single spaces."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return " ".join("".join(char for char in decomposed if not unicodedata.combining(char)).split())


def plain(text: str) -> str:
    """A folded text with one way of writing: `am`, no commas but in numbers (as points), no hyphens between words."""
    folded = fold(text).replace("a.m.", "am").replace("p.m.", "pm").replace("a. m.", "am").replace("p. m.", "pm")
    folded = re.sub(r"(?<=\d),(?=\d)", ".", folded).replace(",", " ").replace("’", "'")
    folded = re.sub(r"(?<=[a-z])-(?=[a-z])", " ", folded).strip(" .!?¡¿")
    return " ".join(folded.split())[:200]


def any_of(words: Iterable[str]) -> str:
    """A pattern for any of the words, the longest first."""
    return "|".join(sorted(words, key=len, reverse=True))


def _numbered(groups: str, start: int) -> dict[str, int]:
    return {word: n for n, words in enumerate(groups.split("|"), start) for word in words.split()}


_TEENS = _numbered(
    "zero cero|a an one un una uno|two dos couple par|three tres|four cuatro|five cinco|six seis|seven siete|"
    "eight ocho|nine nueve|ten diez|eleven once|twelve doce|thirteen trece|fourteen catorce|fifteen quince|"
    "sixteen dieciseis|seventeen diecisiete|eighteen dieciocho|nineteen diecinueve|twenty veinte|"
    "veintiuno veintiuna veintiun|veintidos|veintitres|veinticuatro|veinticinco|veintiseis|veintisiete|veintiocho|"
    "veintinueve",
    0,
)
_TENS = {"thirty": 30, "treinta": 30, "forty": 40, "cuarenta": 40, "fifty": 50, "cincuenta": 50}
_ONES = {word: n for word, n in _TEENS.items() if 1 <= n <= 9 and word not in ("a", "an", "couple", "par")}
_SPANISH_TENS = ("treinta", "cuarenta", "cincuenta")


def _compound() -> dict[str, int]:
    """`twenty five`, `treinta y cinco`."""
    tens = {"twenty": 20, **_TENS}
    return {
        f"{ten} y {one}" if ten in _SPANISH_TENS else f"{ten} {one}": tens[ten] + _ONES[one]
        for ten in tens
        for one in _ONES
    }


NUMBERS = _TEENS | _TENS | {"ninety": 90, "noventa": 90} | _compound()
NUMBER = rf"\d{{1,5}}(?:\.\d{{1,2}})?|{any_of(NUMBERS)}"
MONTHS = _numbered(
    "january jan enero ene|february feb febrero|march mar marzo|april apr abril abr|may mayo|june jun junio|"
    "july jul julio|august aug agosto ago|september sep sept septiembre setiembre|october oct octubre|"
    "november nov noviembre|december dec diciembre dic",
    1,
)
WEEKDAYS = _numbered(
    "monday mon lunes|tuesday tue tues martes|wednesday wed miercoles|thursday thu thurs jueves|friday fri viernes|"
    "saturday sat sabado|sunday sun domingo",
    0,
)
ORDINALS = _numbered(
    "first primer primero primera 1st|second segundo 2nd|third tercer tercero 3rd|fourth cuarto 4th|fifth quinto 5th", 1
) | {"last": -1, "ultimo": -1, "ultima": -1}
MONTH, WEEKDAY, ORDINAL = any_of(MONTHS), any_of(WEEKDAYS), any_of(ORDINALS)

PARTS = {
    "morning": 9, "manana": 9, "mediodia": 12, "afternoon": 16, "tarde": 16, "evening": 19, "night": 21, "noche": 21,
    "madrugada": 5,
}  # fmt: skip
_NAMED = {
    "noon": 12, "midday": 12, "mediodia": 12, "midnight": 0, "medianoche": 0, "first thing": 8, "primera hora": 8,
    "early": 8, "temprano": 8, "end of day": 18, "end of the day": 18, "ultima hora": 18,
}  # fmt: skip
_LATE = ("mediodia", "afternoon", "tarde", "evening", "night", "noche")
_NIGHT = ("night", "noche")

_PART = rf"(?:in the |at |this |por la |de la |del |de |en la |a la |esta )?(?:{any_of(PARTS)})|tonight"
_MARK = r"at about |at around |at |around |about |a eso de las? |a las? |sobre las? |hacia las? |las? "
_HOUR = rf"\d{{1,2}}|{any_of(word for word, n in NUMBERS.items() if n <= 23 and word not in ('a', 'an', 'par'))}"
_MINUTES = rf"\d{{1,2}}|{any_of(word for word, n in NUMBERS.items() if 1 <= n <= 59)}"
_SPOKEN = any_of(word for word, n in NUMBERS.items() if 10 <= n <= 59 and word not in ("once", "doce"))
_CLOCK = re.compile(
    rf"(?P<part>{_PART})? ?(?:"
    rf"(?:at |a |al )?(?P<named>{any_of(_NAMED)})"
    rf"|(?:{_MARK})?(?:(?P<en_half>half)|(?P<en_quarter>(?:a )?quarter)|(?P<en_minutes>{_MINUTES})(?: minutes?)?)"
    rf" (?P<en_side>past|to) (?P<en_hour>{_HOUR})(?: ?(?P<en_ampm>am|pm))?"
    rf"|(?:(?P<army_mark>{_MARK})?(?P<army>[01]\d[0-5]\d|2[0-3][0-5]\d)(?P<army_unit> ?(?:hrs?|hs?|hours|horas))?)"
    rf"|(?P<mark>{_MARK})?(?P<hour>{_HOUR})"
    rf"(?:[:.h](?P<minute>\d{{2}})| y (?P<past>media|cuarto|{_MINUTES})| menos (?P<to>cuarto|{_MINUTES})"
    rf"| (?P<spoken>{_SPOKEN}))?"
    r"(?P<unit> o'clock| en punto| horas| ?hs?)?(?: ?(?P<ampm>am|pm))?"
    rf")?(?: ?(?P<late_part>{_PART}))?"
)
_FRACTIONS = {"media": 30, "cuarto": 15, "half": 30, "quarter": 15, "a quarter": 15}


@dataclass(frozen=True)
class Clock:
    """A time of day. `certain` is False for one that may be meant in either half of the day.

    `ends_day` is the midnight with which a day ends.
    """

    at: time
    certain: bool
    ends_day: bool = False


def number(word: str) -> float:
    """The value of digits or a number word."""
    return float(NUMBERS[word]) if word in NUMBERS else float(word)


def clock(text: str, *, alone: bool) -> Clock | None:
    """The time of day that a plain text is; None if it is none. A bare number is one only beside a day (not `alone`).

    Raises WhenError for hours and minutes that no clock has.
    """
    if not text or not (match := _CLOCK.fullmatch(text)):
        return None
    if match["named"]:
        hour = _NAMED[match["named"]]
        return Clock(time(hour), certain=True, ends_day=hour == 0)
    if match["army"]:
        said = match["army_mark"] or match["army_unit"] or match["army"].startswith("0")  # else it may be a year
        return Clock(time(int(match["army"][:2]), int(match["army"][2:])), certain=True) if said else None
    part = (match["late_part"] or match["part"] or "").replace("tonight", "night").split(" ")[-1]
    if match["en_hour"]:
        return _english(match, part)
    if match["hour"] is None:
        return Clock(time(PARTS[part]), certain=True) if part else None
    marks = ("mark", "minute", "past", "to", "ampm", "spoken", "unit")
    if alone and not (part or any(match[name] for name in marks)):
        return None
    minute = int(match["minute"] or _minutes(match["past"] or match["spoken"]))
    back = _minutes(match["to"])
    return _settled(int(number(match["hour"])), minute - back, match["ampm"] or "", part)


def _minutes(word: str | None) -> int:
    if not word:
        return 0
    return _FRACTIONS[word] if word in _FRACTIONS else int(number(word))


def _english(match: re.Match[str], part: str) -> Clock:
    """`half past seven`, `20 to nine`."""
    word = match["en_half"] or match["en_quarter"] or match["en_minutes"]
    minutes = _minutes(word) * (1 if match["en_side"] == "past" else -1)
    return _settled(int(number(match["en_hour"])), minutes, match["en_ampm"] or "", part)


def _settled(hour: int, minute: int, half: str, part: str) -> Clock:
    if half and not 1 <= hour <= 12:
        raise WhenError(f"{hour} {half} is not a time")
    if hour > 23 or not -60 < minute < 60:
        raise WhenError(f"{hour}:{abs(minute):02} is not a time of day")
    certain = bool(half or part) or hour == 0 or hour > 12
    ends_day = hour == 12 and minute >= 0 and part in _NIGHT
    hour = _on_24_hours(hour, half, part)
    total = (hour * 60 + minute) % (24 * 60)
    return Clock(time(total // 60, total % 60), certain, ends_day)


def _on_24_hours(hour: int, half: str, part: str) -> int:
    if hour == 12 and (half == "am" or part in (*_NIGHT, "morning", "madrugada")):
        return 0
    if part in _NIGHT and hour < 6:  # one at night is not one in the afternoon
        return hour
    late = half == "pm" or part in _LATE
    return hour + 12 if late and hour < 12 else hour
