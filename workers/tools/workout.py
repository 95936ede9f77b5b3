"""Training in plain notation, as people write it into a notebook. Pure.

    log       = entry { (newline | ";") entry }      also "," before a letter: another exercise
    entry     = exercise [":"] group { ("," | " ") group } [ "(" note ")" ]
    group     = sets { extra }
    sets      = N "x" REPS                            3x8: three sets of eight
              | N "x" REPS "x" WEIGHT                 3x8x80
              | WEIGHT "x" REPS { "," REPS }          80x8,8,6; 80kg x 5; 100x5: one set each
              | N "x" REPS { "," REPS }               3x10,8,6, if there are N of them
              | N "x" "max"                           4xmax: until no more went, nobody counted
              | REPS "reps"                           12 reps
              | N "x" (TIME | DISTANCE)               3x60s, 4x400m
              | { DISTANCE | TIME }                   5 km 25:30; 45 min
    extra     = ["@" | "con" | "with"] ["+" | "-"] WEIGHT
                                                      80kg, @100, +10kg (added to the body's), -20kg (help)
              | "rpe" R | "@" R behind a weight       rpe 8, @8.5 (1 to 10)
              | "bw" | "peso corporal"                no weight
              | "to failure"                          until no more went
    WEIGHT    = number ["kg" | "kilos" | "lb" | "lbs" | "libras"]     kg unless the caller says pounds
    TIME      = 25:30 | 1:05:00 | 90s | 45 min | 1h       DISTANCE = 5 km | 400 m | 3 mi
    number    = digits with "." or "," for decimals

What else people write is rewritten into this first, by `workout_words.py`.
`x` may be `×`, `*`, `por`, `sets of` or `series de`. `NxM` is sets and repetitions up to 20 sets without a unit on N,
else weight and repetitions. A weight holds for the groups before it that have none: `5x5, 3x10 60kg` is 60 kg for both,
but `5x5@100, 3x10 60kg` is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from workers.tools.exercises import COUNTED, exercise_named, muscles_of
from workers.tools.workout_words import lines, tidy

Unit = Literal["kg", "lb"]

GRAMS: dict[Unit, float] = {"kg": 1000.0, "lb": 453.59237}
"""The international pound is exactly 0.45359237 kg."""

MAX_SETS = 20
_MAX_GRAMS = 1_500_000
_MAX_REPS = 1000
_MAX_SECONDS = 86_400
_MAX_METERS = 1_000_000


@dataclass(frozen=True, slots=True)
class Set:
    """One set. `grams` is the weight (with `body`: added to the body's, negative for help), `unit` how it was written.

    `failure`: until no more went. What is None was not said.
    """

    reps: int | None = None
    grams: int | None = None
    unit: Unit = "kg"
    body: bool = False
    seconds: int | None = None
    meters: int | None = None
    rpe: float | None = None
    failure: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One exercise of a session: its name as `exercise_named` has it, and its sets in order."""

    exercise: str
    sets: tuple[Set, ...]
    note: str = ""


class NotationError(ValueError):
    """A line that the notation does not have; the text shows the place with `>>>`."""


_NUM = r"\d{1,6}(?:[.,]\d{1,3})?"
_KG = r"(?:kgs?|kilos?|k)(?![a-z%])"
_LB = r"(?:lbs?|libras?|pounds?)(?![a-z])"
_WEIGHT_UNIT = rf"(?:{_KG}|{_LB})"
_TIME = (
    r"(?:\d{1,2}:\d{2}(?::\d{2})?|\d{1,5} ?"
    r"(?:segundos?|seconds?|secs?|segs?|s|minutos?|minutes?|mins?|horas?|hours?|h)(?![a-z]))"
)
_DISTANCE = rf"{_NUM} ?(?:kms?|kilometros?|metros?|meters?|m|miles?|millas?|mi)(?![a-z])"
_X = r"(?: ?(?:x|×|\*|por) ?| (?:series|sets) (?:de|of) )"
_SETS = re.compile(
    rf"(?P<first>{_NUM}) ?(?P<unit>{_WEIGHT_UNIT})?{_X}"
    rf"(?:(?P<time>{_TIME})|(?P<distance>{_DISTANCE})|(?P<reps>\d{{1,4}})(?![.\d]| ?{_WEIGHT_UNIT})"
    rf"(?P<list>(?: ?, ?\d{{1,3}}(?![\d.:]| ?(?:x|×|\*|por|{_WEIGHT_UNIT}|km|mi?\b|s\b|min|h\b|rep)))*)"
    rf"(?: ?(?:reps?|repeticiones)(?![a-z]))?(?:{_X}(?P<weight>{_NUM}) ?(?P<weight_unit>{_WEIGHT_UNIT})?)?)"
)
_ONLY_REPS = re.compile(r"(?P<reps>\d{1,4}) ?(?:reps?|repeticiones)(?![a-z])")
_CARDIO = re.compile(rf"(?:(?P<time>{_TIME})|(?P<distance>{_DISTANCE}))")
_RPE = re.compile(r"@? ?rpe ?(?P<rpe>\d{1,2}(?:[.,]\d)?)(?![\d.])")
_BODY = re.compile(r"(?:bw|bodyweight|peso corporal|corporal|sin peso|no weight|without weight)(?![a-z])")
_FAILURE = re.compile(r"to failure(?![a-z])")
_MOST = re.compile(rf"(?P<count>\d{{1,2}}){_X}max(?![a-z])")
_WEIGHT = re.compile(
    rf"(?P<at>@|a |at |con |with )? ?(?P<sign>[+-])? ?(?P<weight>{_NUM}) ?(?P<unit>{_WEIGHT_UNIT})?(?![\dx×*:])"
)
_NAME = re.compile(r"(?P<name>[^\d@+,;(]*[^\W\d_][^\d@+,;(]*?)[ :]*(?=[-+@]?\d|@|$|\()")
_NOTE = re.compile(r"\((?P<note>[^()]{0,200})\)")
_KILOMETERS = re.compile(r"(?<![\d.,])(\d{1,3}(?:[.,]\d+)?) ?k(?![a-z])", re.I)
_ONLY_NUMBER = re.compile(r"^(\d{1,3})(?= *(?:$|\())")
_NO_NAMES = {
    "kg",
    "kgs",
    "kilo",
    "kilos",
    "k",
    "g",
    "lb",
    "lbs",
    "libras",
    "x",
    "por",
    "con",
    "with",
    "at",
    "reps",
    "max",
}
_SEPARATOR = re.compile(r" ?[,/]? ?")


def parse_log(text: str, unit: Unit = "kg") -> tuple[Entry, ...]:
    """The entries of a text. `unit` is that of weights without one. Raises NotationError that shows the place."""
    entries: list[Entry] = []
    for line in lines(text):
        if line.strip():
            entries.extend(_Line(tidy(line, unit), unit).entries())
    if not entries:
        raise NotationError("nothing to log: write an exercise and its sets, such as: squat 3x8 80kg")
    return tuple(entries)


class _Line:
    """A reader of one line; `at` is how far it is."""

    def __init__(self, text: str, unit: Unit) -> None:
        self.text = " ".join(text.split())
        self.lower = self.text.lower()
        self.unit = unit
        self.at = 0
        self.notes: list[str] = []
        if len(self.lower) != len(self.text):  # a letter that grows would move every place
            self.text = self.lower

    def entries(self) -> Iterator[Entry]:
        while self.at < len(self.text):
            yield self._entry()

    def wrong(self, why: str) -> NotationError:
        before, after = self.text[max(0, self.at - 60) : self.at], self.text[self.at : self.at + 60]
        return NotationError(f"{why} at character {self.at + 1}: {before}>>>{after}")

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.lower, self.at)
        if match is None or match.end() == self.at:
            return None
        self.at = match.end()
        return match

    def _entry(self) -> Entry:
        start = self.at
        name = self.take(_NAME)
        if name is None:
            raise self.wrong("an exercise is expected")
        exercise = exercise_named(self.text[start : name.end("name")])
        if exercise.endswith(" bw"):
            exercise, self.at = exercise_named(exercise[:-3]), name.end("name") - 2
        if exercise in _NO_NAMES:
            self.at = start
            raise self.wrong("an exercise is expected")
        self._read_on_as(exercise)
        groups: list[tuple[Set, ...]] = []
        self.notes = []
        while self.at < len(self.text):
            before = self.at
            if self._note():
                pass
            elif group := self._group():
                groups.append(group)
            if self.at == before:
                raise self.wrong("sets are expected, such as 3x8 80kg")
            self.take(_SEPARATOR)
            if self._name_follows():
                break
        if not groups:
            raise self.wrong(f"{exercise} has no sets: write them such as 3x8 80kg, or 5 km 25:30")
        sets = _weights_backward(groups)
        return Entry(exercise, sets, "; ".join(self.notes))

    def _note(self) -> bool:
        """Takes what stands in brackets, if that is next."""
        if (found := self.take(_NOTE)) is None:
            return False
        if said := self.text[found.start("note") : found.end("note")].strip():
            self.notes.append(said)
        return True

    def _read_on_as(self, exercise: str) -> None:
        """What a number alone means goes by the exercise: 5k to run are kilometers, 20 push-ups are repetitions."""
        rest = self.text[self.at :]
        if "cardio" in muscles_of(exercise):
            rest = _KILOMETERS.sub(r"\1km", rest)
        elif exercise in COUNTED:
            rest = _ONLY_NUMBER.sub(r"\1 reps", rest)
        self.text = self.text[: self.at] + rest
        self.lower = self.text.lower()

    def _name_follows(self) -> bool:
        return bool(re.match(r"[^\W\d_]", self.lower[self.at :])) and not any(
            pattern.match(self.lower, self.at) for pattern in (_RPE, _BODY, _FAILURE)
        )

    def _group(self) -> tuple[Set, ...]:
        sets = self._sets()
        if not sets:
            return ()
        said_weight = sets[0].grams is not None
        while True:
            mark = self.at
            self.take(re.compile(" "))
            if rpe := self.take(_RPE):
                sets = [replace(one, rpe=self._rpe(rpe["rpe"])) for one in sets]
            elif self._note():
                pass
            elif self.take(_FAILURE):
                sets = [replace(one, failure=True) for one in sets]
            elif self.take(_BODY):
                sets = [replace(one, body=True) for one in sets]
                said_weight = True
            elif (weight := self._extra_weight(said_weight)) is not None:
                sets = [weight(one) for one in sets]
                said_weight = True
            else:
                self.at = mark
                return tuple(sets)

    def _extra_weight(self, said: bool) -> Callable[[Set], Set] | None:
        mark = self.at
        match = self.take(_WEIGHT)
        if match is None:
            return None
        if said:
            if match["at"] == "@" and not (match["unit"] or match["sign"]):
                rpe = self._rpe(match["weight"])
                return lambda one: replace(one, rpe=rpe)
            self.at = mark
            return None
        unit = self._unit(match["unit"])
        grams = self._grams(match["weight"], unit)
        body, sign = bool(match["sign"]), -1 if match["sign"] == "-" else 1
        return lambda one: replace(one, grams=sign * grams, unit=unit, body=body)

    def _sets(self) -> list[Set]:
        if match := self.take(_MOST):
            count = self._bounded(int(match["count"]), MAX_SETS, "sets")
            return [Set(failure=True)] * count
        if match := self.take(_SETS):
            return self._by_times(match)
        if match := self.take(_ONLY_REPS):
            return [Set(reps=self._bounded(int(match["reps"]), _MAX_REPS, "repetitions"))]
        one = Set()
        while match := self.take(_CARDIO):
            one = self._measured(one, match)
            mark = self.at
            self.take(re.compile(r" (?:en |in |x )?"))
            if not _CARDIO.match(self.lower, self.at) or (one.seconds is not None and one.meters is not None):
                self.at = mark
                break
        return [] if one == Set() else [one]

    def _by_times(self, match: re.Match[str]) -> list[Set]:
        first = _number(match["first"])
        if match["reps"] is None:
            count = self._count(match, first)
            return [self._measured(Set(), match)] * count
        reps = [int(match["reps"]), *(int(one) for one in re.findall(r"\d+", match["list"] or ""))]
        for one in reps:
            self._bounded(one, _MAX_REPS, "repetitions")
        if match["weight"]:
            unit = self._unit(match["weight_unit"])
            grams = self._grams(match["weight"], unit)
            return [Set(reps=reps[0], grams=grams, unit=unit)] * self._count(match, first)
        by_weight = match["unit"] or first % 1 or first > MAX_SETS or (len(reps) > 1 and len(reps) != first)
        if by_weight:
            unit = self._unit(match["unit"])
            grams = self._grams(match["first"], unit)
            return [Set(reps=one, grams=grams, unit=unit) for one in reps]
        if len(reps) > 1:
            return [Set(reps=one) for one in reps]
        return [Set(reps=reps[0])] * self._count(match, first)

    def _count(self, match: re.Match[str], first: float) -> int:
        if match["unit"] or first % 1 or not 1 <= first <= MAX_SETS:
            self.at = match.start()
            raise self.wrong(f"1 to {MAX_SETS} sets are expected")
        return int(first)

    def _measured(self, one: Set, match: re.Match[str]) -> Set:
        if match["time"]:
            return replace(one, seconds=self._bounded(_seconds(match["time"]), _MAX_SECONDS, "seconds"))
        return replace(one, meters=self._bounded(_meters(match["distance"]), _MAX_METERS, "meters"))

    def _bounded(self, number: int, most: int, what: str) -> int:
        if not 1 <= number <= most:
            raise self.wrong(f"1 to {most} {what} are possible, not {number}, just before")
        return number

    def _grams(self, number: str, unit: Unit) -> int:
        grams = round(_number(number) * GRAMS[unit])
        if grams > _MAX_GRAMS:
            raise self.wrong(f"{number} {unit} is too heavy, just before")
        return grams

    def _rpe(self, number: str) -> float:
        rpe = _number(number)
        if not 1 <= rpe <= 10:
            raise self.wrong(f"an RPE is 1 to 10, not {number}, just before")
        return rpe

    def _unit(self, said: str | None) -> Unit:
        if said is None:
            return self.unit
        return "kg" if said.startswith("k") else "lb"


def _weights_backward(groups: list[tuple[Set, ...]]) -> tuple[Set, ...]:
    """Groups without a weight take that of the next one that has one."""
    last: Set | None = None
    done: list[tuple[Set, ...]] = []
    for group in reversed(groups):
        first = group[0]
        if first.grams is not None or first.body:
            last = first
        elif last is not None and last.grams is not None and (first.reps is not None or first.failure):
            grams, unit, body = last.grams, last.unit, last.body
            group = tuple(replace(one, grams=grams, unit=unit, body=body) for one in group)
        done.append(group)
    return tuple(one for group in reversed(done) for one in group)


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _seconds(text: str) -> int:
    if ":" in text:
        total = 0
        for part in text.split(":"):
            total = total * 60 + int(part)
        return total
    number, unit = re.findall(r"\d+|[a-z]+", text)
    return int(number) * (3600 if unit.startswith("h") else 60 if unit.startswith("m") else 1)


def _meters(text: str) -> int:
    number, unit = re.findall(r"[\d.,]+|[a-z]+", text)
    return round(_number(number) * (1000 if unit.startswith("k") else 1609.344 if unit.startswith("mi") else 1))


def format_entry(entry: Entry) -> str:
    """The entry in the notation, equal sets together; `parse_log` reads it as the same entry."""
    groups = ", ".join(_group_text(one, len(list(same))) for one, same in groupby(entry.sets))
    return f"{entry.exercise} {groups}{f' ({entry.note})' if entry.note else ''}"


def _group_text(one: Set, count: int) -> str:
    if one.reps is not None:
        parts = [f"{count}x{one.reps}"]
    elif one.failure and one.meters is None and one.seconds is None:
        parts = [f"{count}xmax"]
    else:
        measures = [m for m in (_distance_text(one.meters), _time_text(one.seconds)) if m]
        if len(measures) == 2:  # there is no way to say how often
            return ", ".join([" ".join(measures)] * count)
        parts = [f"{count}x{measures[0]}" if count > 1 else measures[0]]
    if one.grams is not None:
        parts.append(weight_text(one))
    elif one.body:
        parts.append("bw")
    if one.rpe is not None:
        parts.append(f"rpe {one.rpe:g}")
    if one.failure and not parts[0].endswith("xmax"):
        parts.append("to failure")
    return " ".join(parts)


def weight_text(one: Set) -> str:
    """A set's weight in the unit in which it was written: `80kg`, `+10kg`, `185lb`."""
    number = round((one.grams or 0) / GRAMS[one.unit], 3 if one.unit == "kg" else 2)
    return f"{number:{'+' if one.body else ''}.10g}{one.unit}"


def _time_text(seconds: int | None) -> str:
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds}s"
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def _distance_text(meters: int | None) -> str:
    if meters is None:
        return ""
    return f"{meters / 1000:g}km" if meters >= 1000 and meters % 10 == 0 else f"{meters}m"
