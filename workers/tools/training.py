"""What can be said of logged training: best sets, estimated maxima, volume, sets per muscle, streaks. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from workers.tools.exercises import muscles_of
from workers.tools.workout import Set

MAX_SOURCE = "Epley (1985), Boyd Epley Workout: weight × (1 + reps / 30), up to 12 repetitions"
_MAX_REPS = 12
"""Behind this the formula says more about endurance than about strength."""


@dataclass(frozen=True, slots=True)
class Logged:
    """One exercise of one day."""

    day: date
    exercise: str
    sets: tuple[Set, ...]


@dataclass(frozen=True, slots=True)
class Week:
    """A week of training, which begins on `monday`. `kilos` is repetitions times weight, weight added to the body's
    included, help not."""

    monday: date
    days: int
    sets: int
    kilos: float
    meters: int
    seconds: int


def estimated_max(one: Set) -> float | None:
    """The weight in kg that could be lifted once, by `MAX_SOURCE`; None where the formula does not hold.

    For a weight that is added to the body's it is the added part that counts, which understates.
    """
    if not one.reps or one.reps > _MAX_REPS or one.grams is None or one.grams <= 0:
        return None
    kilos = one.grams / 1000
    return kilos if one.reps == 1 else kilos * (1 + one.reps / 30)


def best_set(sets: Iterable[Set]) -> Set | None:
    """The set with the highest estimated maximum; without one the heaviest, then the longest, then the most reps."""

    def rank(one: Set) -> tuple[float, ...]:
        return (estimated_max(one) or 0.0, one.grams or 0, one.meters or 0, one.seconds or 0, one.reps or 0)

    return max(sets, key=rank, default=None)


def weeks(log: Sequence[Logged], today: date, count: int) -> list[Week]:
    """The last `count` weeks, the present one last, empty ones included."""
    this = today - timedelta(days=today.weekday())
    found = []
    for ahead in range(count - 1, -1, -1):
        monday = this - timedelta(weeks=ahead)
        inside = [one for one in log if monday <= one.day < monday + timedelta(days=7)]
        sets = [one for entry in inside for one in entry.sets]
        found.append(
            Week(
                monday,
                len({one.day for one in inside}),
                len(sets),
                sum((one.reps or 0) * max(one.grams or 0, 0) for one in sets) / 1000,
                sum(one.meters or 0 for one in sets),
                sum(one.seconds or 0 for one in sets),
            )
        )
    return found


def muscle_sets(log: Iterable[Logged]) -> dict[str, int]:
    """Sets per muscle group, most first; a set counts for each group of its exercise."""
    counted = Counter(muscle for entry in log for muscle in muscles_of(entry.exercise) for _ in entry.sets)
    return dict(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))


def streak(days: Iterable[date], today: date) -> int:
    """Weeks in a row with training, up to this one, or to the last one while this one has none yet."""
    mondays = {day - timedelta(days=day.weekday()) for day in days}
    monday = today - timedelta(days=today.weekday())
    if monday not in mondays:
        monday -= timedelta(weeks=1)
    length = 0
    while monday in mondays:
        length += 1
        monday -= timedelta(weeks=1)
    return length
