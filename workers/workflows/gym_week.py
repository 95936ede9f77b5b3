"""The week of training: volume of each exercise against the week before, records, and days that were missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final

from pydantic import JsonValue

from shared.sql import gym
from workers.context import ToolContext
from workers.declare import ToolOutput
from workers.tools.training import Logged, best_set, estimated_max, weeks
from workers.tools.utility import find_zone
from workers.tools.workout import Entry, Set, format_entry
from workers.workflows.define import Inputs, Steps, step, workflow

_HABIT_WEEKS: Final = 4
_HABIT_TIMES: Final = 3
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@step()
async def sum_up(ctx: ToolContext, inputs: Inputs) -> ToolOutput:
    """Sums the last seven days up, today included."""
    today = datetime.fromtimestamp(ctx.services.now(), find_zone(ctx.settings.workflows.timezone)).date()
    entries = await ctx.services.db.run(lambda conn: gym.history(conn, ctx.principal))
    log = [
        Logged(date.fromisoformat(one.day), one.exercise, tuple(Set(**values) for values in one.sets))  # type: ignore[arg-type]
        for one in entries
    ]
    text = report(log, today)
    value: JsonValue = {"from": (today - timedelta(days=6)).isoformat(), "to": today.isoformat()}
    return ToolOutput(value, text)


def report(log: Sequence[Logged], today: date) -> str:
    """The seven days up to `today` as they are told."""
    first = today - timedelta(days=6)
    week = [one for one in log if first <= one.day <= today]
    missed = missed_days(log, today)
    told = f"You usually train on {_and([_DAYS[day] for day in missed])}; this week you did not." if missed else ""
    if not week:
        return " ".join(["No training in the last seven days.", told]).strip()
    days = sorted({one.day for one in week})
    lines = [f"{len(days)} days of training from {first} to {today}: {', '.join(f'{day:%a}' for day in days)}."]
    before = [one for one in log if first - timedelta(days=7) <= one.day < first]
    lines += [_exercise_line(name, week, before) for name in sorted({one.exercise for one in week})]
    lines += [f"Record: {text}" for text in records(log, first, today)]
    total = weeks([Logged(first - timedelta(days=first.weekday()), one.exercise, one.sets) for one in week], first, 1)
    lines.append(f"Together {total[0].sets} sets, {total[0].kilos:.0f} kg lifted.")
    return "\n".join([*lines, told] if told else lines)


def _exercise_line(name: str, week: Sequence[Logged], before: Sequence[Logged]) -> str:
    now, then = (_volume([one for one in span if one.exercise == name]) for span in (week, before))
    sets, kilos = now
    change = f" ({kilos - then[1]:+.0f} kg against the week before)" if then[0] and (kilos or then[1]) else ""
    return f"- {name}: {sets} sets" + (f", {kilos:.0f} kg" if kilos else "") + change


def _volume(entries: Sequence[Logged]) -> tuple[int, float]:
    sets = [one for entry in entries for one in entry.sets]
    return len(sets), sum((one.reps or 0) * max(one.grams or 0, 0) for one in sets) / 1000


def records(log: Sequence[Logged], first: date, today: date) -> list[str]:
    """Exercises whose best estimated maximum is of this week, and was lower before; the first time is no record."""
    found = []
    for name in sorted({one.exercise for one in log if first <= one.day <= today}):
        now = best_set(s for one in log if one.exercise == name and first <= one.day <= today for s in one.sets)
        old = best_set(s for one in log if one.exercise == name and one.day < first for s in one.sets)
        if now is None or old is None:
            continue
        most, earlier = estimated_max(now), estimated_max(old)
        if most is not None and earlier is not None and most > earlier:
            found.append(f"{format_entry(Entry(name, (now,)))}, {most:.1f} kg estimated ({earlier:.1f} before)")
    return found


def missed_days(log: Sequence[Logged], today: date) -> list[int]:
    """Weekdays (Monday is 0) on which the user trained in three of the four weeks before, and not in this one."""
    first = today - timedelta(days=6)
    days = {one.day for one in log}
    habit = Counter(day.weekday() for day in days if first - timedelta(weeks=_HABIT_WEEKS) <= day < first)
    trained = {day.weekday() for day in days if first <= day <= today}
    return sorted(day for day, times in habit.items() if times >= _HABIT_TIMES and day not in trained)


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


@workflow("gym-week", title="The week of training", result="sum_up")
def gym_week() -> Steps:
    """One sum; no model."""
    return [sum_up]
