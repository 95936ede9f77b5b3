"""Training: sessions in plain notation, their history, records, statistics, and routines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from shared.contract import Effect, GroupSpec
from shared.errors import ModelError
from shared.sql import gym
from shared.sql.gym import GymEntry
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import examples_en, examples_es, words_en, words_es
from workers.tools.days import past_day
from workers.tools.exercises import exercise_named
from workers.tools.timewords import WhenError, plain
from workers.tools.training import (
    MAX_SOURCE,
    Logged,
    Week,
    best_set,
    estimated_max,
    muscle_sets,
    streak,
    weeks,
)
from workers.tools.utility import find_zone
from workers.tools.workout import Entry, NotationError, Set, format_entry, parse_log

GROUP = GroupSpec(
    name="gym",
    title="Training log",
    keywords={"es": words_es.GYM, "en": words_en.GYM},
    examples={"es": examples_es.GYM, "en": examples_en.GYM},
)

NOTATION = (
    '"press banca 3x8 80kg", "squat 5x5@100, 3x10 60", "bench 80x8,6 rpe 8", "pull ups 3x10 +5kg", "run 5km 25:30"'
)
_MAX_LINES = 30

_Id = Annotated[str, Field(description="The entry's id, as gym_history gave it", pattern="^[A-Za-z0-9-]{1,64}$")]
_Exercise = Annotated[str | None, Field(description="Name in Spanish or English; leave out for all")]
_Date = Annotated[str, Field(description="Day, such as 2026-03-01, yesterday, el lunes; empty: today")]
_Unit = Annotated[Literal["kg", "lb"], Field(description="Unit of weights that name none")]


def _today(ctx: ToolContext) -> date:
    return datetime.fromtimestamp(ctx.services.now(), find_zone(ctx.settings.workflows.timezone)).date()


def _day(ctx: ToolContext, said: str, what: str) -> date:
    today = _today(ctx)
    if not said.strip():
        return today
    try:
        day = past_day(plain(said), today)
    except WhenError as error:
        raise ModelError(f"{what}: {error}", code="bad_arguments") from error
    if day is None:
        raise ModelError(
            f"{what}: cannot read a day from {said[:60]!r}",
            hint="such as 2026-03-01, yesterday, hace 3 días, last monday",
            code="bad_arguments",
        )
    return day


def _parsed(text: str, unit: Literal["kg", "lb"], what: str) -> tuple[Entry, ...]:
    try:
        return parse_log(text, unit)
    except NotationError as error:
        raise ModelError(f"{what}: {error}", hint=f"write such as {NOTATION}", code="bad_arguments") from error


def _stored(sets: Iterable[Set]) -> list[dict[str, JsonValue]]:
    """Sets as JSON, without what was not said."""
    return [
        {name: value for name, value in asdict(one).items() if value is not None and value is not False} for one in sets
    ]


def _sets(stored: Iterable[dict[str, Any]]) -> tuple[Set, ...]:
    return tuple(Set(**one) for one in stored)


def _line(one: GymEntry) -> str:
    return format_entry(Entry(one.exercise, _sets(one.sets), one.note))


def _as_value(one: GymEntry) -> dict[str, JsonValue]:
    return {"id": one.id, "day": one.day, "exercise": one.exercise, "sets": [*one.sets], "text": _line(one)}


def _logged(entries: Iterable[GymEntry]) -> list[Logged]:
    return [Logged(date.fromisoformat(one.day), one.exercise, _sets(one.sets)) for one in entries]


@tool(
    group="gym",
    effect=Effect.IDEMPOTENT,
    keywords={"es": ("apunta entreno", "he entrenado"), "en": ("log workout", "i trained")},
    examples={"es": ("apunta press banca 3x8 80kg",), "en": ("log bench 3x8 80kg",)},
)
async def gym_log(
    ctx: ToolContext,
    text: Annotated[str, Field(description=f"One exercise a line: {NOTATION}", min_length=1, max_length=4000)],
    day: _Date = "",
    unit: _Unit = "kg",
) -> ToolOutput:
    """Logs a training session, written in plain notation, for the user."""
    when = _day(ctx, day, "nothing was logged")
    parsed = _parsed(text, unit, "nothing was logged")
    base = hashlib.sha256(ctx.idempotency_key.encode()).hexdigest()[:16]  # a second attempt finds the first one's
    rows = [
        GymEntry(f"g{base}-{n}", ctx.principal, when.isoformat(), one.exercise, _stored(one.sets), one.note, ctx.now_ms)
        for n, one in enumerate(parsed)
    ]
    kept = await ctx.services.db.run(lambda conn: gym.add(conn, rows))
    lines = [f"- {_line(one)} (id {one.id})" for one in kept]
    return ToolOutput(
        {"day": when.isoformat(), "entries": [_as_value(one) for one in kept]},
        f"Logged for {when:%A %Y-%m-%d}:\n" + "\n".join(lines),
    )


@tool(
    group="gym",
    effect=Effect.READ,
    untrusted=True,
    keywords={"es": ("historial", "última vez", "qué entrené"), "en": ("history", "last time", "what did i train")},
    examples={"es": ("¿qué entrené la semana pasada?",), "en": ("what did I train last week?",)},
)
async def gym_history(
    ctx: ToolContext,
    exercise: _Exercise = None,
    since: Annotated[str, Field(description="First day, such as 2026-03-01 or 30 days ago; empty: all")] = "",
    limit: Annotated[int, Field(description="How many entries at most", ge=1, le=200)] = 30,
) -> ToolOutput:
    """Lists what the user trained, the newest day first, in plain notation with ids."""
    first = _day(ctx, since, "no history").isoformat() if since else None
    wanted = exercise_named(exercise) if exercise else None
    found = await ctx.services.db.run(
        lambda conn: gym.history(conn, ctx.principal, exercise=wanted, since=first, limit=limit)
    )
    lines = [f"- {one.day} {_line(one)} (id {one.id})" for one in found]
    return ToolOutput({"entries": [_as_value(one) for one in found]}, "\n".join(lines) or "Nothing is logged there.")


@tool(
    group="gym",
    effect=Effect.READ,
    untrusted=True,
    keywords={"es": ("ejercicios", "marca", "récord", "máximo"), "en": ("exercises", "record", "best", "1rm")},
    examples={"es": ("¿cuál es mi récord en sentadilla?",), "en": ("what is my squat record?",)},
)
async def gym_exercises(ctx: ToolContext, exercise: _Exercise = None) -> ToolOutput:
    """Lists the user's exercises with the best set and the estimated one-repetition maximum of each."""
    wanted = exercise_named(exercise) if exercise else None
    log = _logged(await ctx.services.db.run(lambda conn: gym.history(conn, ctx.principal, exercise=wanted)))
    values: list[JsonValue] = []
    lines: list[str] = []
    for name in sorted({one.exercise for one in log}):
        entries = [one for one in log if one.exercise == name]
        best = best_set(one for entry in entries for one in entry.sets)
        if best is None:
            continue
        most, day = estimated_max(best), next(entry.day for entry in entries if best in entry.sets)
        shown = format_entry(Entry(name, (best,)))
        values.append(
            {
                "exercise": name,
                "sessions": len({one.day for one in entries}),
                "best": shown,
                "best_day": day.isoformat(),
                "estimated_max_kg": None if most is None else round(most, 1),
            }
        )
        lines.append(f"- {shown} on {day}" + ("" if most is None else f"; estimated maximum {most:.1f} kg"))
    if any("estimated" in line for line in lines):
        lines.append(f"[estimated maximum: {MAX_SOURCE}]")
    return ToolOutput({"exercises": values, "source": MAX_SOURCE}, "\n".join(lines) or "Nothing is logged there.")


@tool(
    group="gym",
    effect=Effect.READ,
    keywords={"es": ("estadísticas", "volumen", "racha"), "en": ("statistics", "volume", "streak")},
    examples={"es": ("¿cómo va mi volumen de entrenamiento?",), "en": ("how is my training volume?",)},
)
async def gym_stats(
    ctx: ToolContext, count: Annotated[int, Field(description="How many weeks", ge=1, le=52)] = 4
) -> ToolOutput:
    """Sums up the user's training: days, sets and volume of each week, sets per muscle group, weeks in a row."""
    today = _today(ctx)
    log = _logged(await ctx.services.db.run(lambda conn: gym.history(conn, ctx.principal)))
    found = weeks(log, today, count)
    recent = [one for one in log if found[0].monday <= one.day <= today]
    muscles, row = muscle_sets(recent), streak({one.day for one in log}, today)
    lines = [_week_line(one) for one in found]
    lines.append("Sets per muscle group: " + (", ".join(f"{name} {n}" for name, n in muscles.items()) or "none"))
    lines.append(f"Weeks in a row with training: {row}")
    value: dict[str, JsonValue] = {
        "weeks": [{**asdict(one), "monday": one.monday.isoformat()} for one in found],
        "muscles": dict(muscles.items()),
        "streak_weeks": row,
    }
    return ToolOutput(value, "\n".join(lines))


def _week_line(one: Week) -> str:
    parts = [f"{one.days} days", f"{one.sets} sets", f"{one.kilos:.0f} kg lifted"]
    if one.meters:
        parts.append(f"{one.meters / 1000:.1f} km")
    if one.seconds:
        parts.append(f"{timedelta(seconds=one.seconds)} h of timed work")
    return f"- week of {one.monday}: {', '.join(parts)}"


@tool(
    group="gym",
    effect=Effect.IDEMPOTENT,
    untrusted=True,
    keywords={"es": ("corrige entreno",), "en": ("correct workout",)},
    examples={"es": ("corrige el press banca de hoy, eran 85 kg",), "en": ("correct today's bench, it was 85 kg",)},
)
async def gym_correct(
    ctx: ToolContext,
    id: _Id,
    text: Annotated[str, Field(description=f"The exercise as it was, in place of the old one: {NOTATION}")] = "",
    day: Annotated[str, Field(description="The day it was; empty: as it is")] = "",
    unit: _Unit = "kg",
) -> ToolOutput:
    """Corrects one logged exercise: its sets, its day, or both."""
    if not text and not day:
        raise ModelError("nothing to correct was given", hint="give text or day", code="bad_arguments")
    parsed = _parsed(text, unit, "nothing was corrected") if text else ()
    if len(parsed) > 1:
        raise ModelError("an entry is one exercise", hint="log the others with gym_log", code="bad_arguments")
    when = _day(ctx, day, "nothing was corrected").isoformat() if day else None
    new = parsed[0] if parsed else None
    one = await ctx.services.db.run(
        lambda conn: gym.correct(
            conn,
            ctx.principal,
            id,
            exercise=new.exercise if new else None,
            sets=_stored(new.sets) if new else None,
            note=new.note if new else None,
            day=when,
        )
    )
    if one is None:
        raise ModelError(f"there is no entry {id}", hint="gym_history shows the ids", code="not_found")
    return ToolOutput(_as_value(one), f"Corrected: {one.day} {_line(one)} (id {one.id})")


@tool(
    group="gym",
    effect=Effect.IDEMPOTENT,
    keywords={"es": ("borra entreno",), "en": ("delete workout",)},
    examples={"es": ("borra el ejercicio que apunté mal",), "en": ("delete the exercise that I logged by mistake",)},
)
async def gym_delete(ctx: ToolContext, id: _Id) -> ToolOutput:
    """Deletes one logged exercise for good."""
    deleted = await ctx.services.db.run(lambda conn: gym.remove(conn, ctx.principal, id))
    text = f"Deleted entry {id}." if deleted else f"There is no entry {id} (any more)."
    return ToolOutput({"id": id, "deleted": deleted}, text)


@tool(
    group="gym",
    effect=Effect.IDEMPOTENT,
    keywords={"es": ("guarda rutina",), "en": ("save routine",)},
    examples={"es": ("guarda esta rutina de empuje",), "en": ("save this push routine",)},
)
async def gym_routine_save(
    ctx: ToolContext,
    name: Annotated[str, Field(description="Its name; a routine of that name is replaced", min_length=1)],
    plan: Annotated[
        list[str], Field(description=f"One exercise each: {NOTATION}", min_length=1, max_length=_MAX_LINES)
    ],
) -> ToolOutput:
    """Saves a training routine for the user: exercises with the sets that are planned."""
    lines = [format_entry(one) for line in plan for one in _parsed(line, "kg", "the routine was not saved")]
    now_ms = ctx.now_ms
    new = await ctx.services.db.run(lambda conn: gym.save_routine(conn, ctx.principal, name, lines, now_ms))
    return ToolOutput(
        {"name": name, "plan": [*lines], "created": new},
        f'{"Saved" if new else "Replaced"} routine "{name}":\n' + _bullets(lines),
    )


@tool(
    group="gym",
    effect=Effect.READ,
    untrusted=True,
    keywords={"es": ("rutina", "rutinas"), "en": ("routine", "routines")},
    examples={"es": ("¿qué rutinas de gimnasio tengo?",), "en": ("which gym routines do I have?",)},
)
async def gym_routines(
    ctx: ToolContext, name: Annotated[str | None, Field(description="One routine; leave out for all")] = None
) -> ToolOutput:
    """Shows the user's training routines, or one of them, with their exercises."""
    if name is None:
        found = await ctx.services.db.run(lambda conn: gym.routines(conn, ctx.principal))
    else:
        one = await ctx.services.db.run(lambda conn: gym.routine(conn, ctx.principal, name))
        if one is None:
            raise ModelError(f"there is no routine {name!r}", hint="gym_routines lists them all", code="not_found")
        found = [one]
    value: list[JsonValue] = [{"name": one.name, "plan": [*one.plan]} for one in found]
    text = "\n".join(f"{one.name}:\n{_bullets(one.plan)}" for one in found)
    return ToolOutput({"routines": value}, text or "There are no routines.")


@tool(
    group="gym",
    effect=Effect.IDEMPOTENT,
    keywords={"es": ("borra rutina",), "en": ("delete routine",)},
    examples={"es": ("borra la rutina de pierna",), "en": ("delete the leg routine",)},
)
async def gym_routine_delete(
    ctx: ToolContext, name: Annotated[str, Field(description="Its name", min_length=1)]
) -> ToolOutput:
    """Deletes one training routine for good."""
    deleted = await ctx.services.db.run(lambda conn: gym.delete_routine(conn, ctx.principal, name))
    text = f'Deleted routine "{name}".' if deleted else f'There is no routine "{name}" (any more).'
    return ToolOutput({"name": name, "deleted": deleted}, text)


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
