"""Schedules: workflows and prompts that run by themselves at their times, made while the system runs.

They are fired by `workers/schedule.py`. Those that the code of workflows brings along are listed, and are
changed by the installation's settings only.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, time
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, JsonValue

from shared.client import AsyncClient
from shared.compress import snippet
from shared.contract import Catalogue, Effect, GroupSpec, WorkflowSpec
from shared.delivery import channels_of, check_channels
from shared.errors import ModelError, StateUnavailable, UserError
from shared.messages import Message
from shared.names import LOCAL_PRINCIPAL, WORKFLOWS_OF_COMMANDS
from shared.schedules import MAX_PROMPT, Schedule, State, message, retimed, started, switched
from shared.sql import schedules
from shared.timing import Missed, Timing
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import examples_en, examples_es, words_en, words_es
from workers.tools.recurrence import Repeat
from workers.tools.repeats import EXAMPLES as REPEATS
from workers.tools.repeats import parse_repeat
from workers.tools.schedule_bounds import Bounds, bounds_of
from workers.tools.utility import find_zone
from workers.tools.when import EXAMPLES, WhenError, read_when, settle

GROUP = GroupSpec(
    name="schedule",
    title="Scheduled tasks",
    keywords={"es": words_es.SCHEDULE, "en": words_en.SCHEDULE},
    examples={"es": examples_es.SCHEDULE, "en": examples_en.SCHEDULE},
)

_CRON = re.compile(r"[\d*][\d*/,-]*(?: +[\d*LW][\d*/,#LW-]*| +[A-Za-z]{3}(?:[-,][A-Za-z]{3})*){4}")

_Id = Annotated[str, Field(description="The schedule's id, as schedule_list gave it")]
_When = Annotated[
    str, Field(description=f"When: repeating, {REPEATS}; once, {EXAMPLES}; or a cron line such as 0 7 * * 1-5")
]
_Zone = Annotated[str, Field(description="IANA zone or city that the time is meant in; empty: the user's")]
_Missed = Annotated[
    Literal["skip", "run_once", "run_all"],
    Field(description="What to do about times at which the system was down: nothing, run once late, or run them all"),
]
_Tools = Annotated[
    list[str], Field(description="Names of tools or tool groups that the prompt may use; a prompt needs at least one")
]
_Deliver = Annotated[
    list[str],
    Field(description="Names of the user's channels for the results besides this conversation; empty: the usual ones"),
]
_Name = Annotated[str, Field(description="A short name", max_length=80)]
_Prompt = Annotated[str, Field(description="What the agent is to do each time, in full", max_length=MAX_PROMPT)]
_Params = Annotated[dict[str, JsonValue], Field(description="Parameters of the workflow")]


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """What is wrong about a schedule, told to the model; `what` says what did not happen."""
    try:
        yield
    except (UserError, WhenError) as error:
        hint = f"when: {EXAMPLES}; {REPEATS}; or cron" if isinstance(error, WhenError) else error.hint
        text = error.message if isinstance(error, UserError) else str(error)
        raise ModelError(f"{what}: {text}", hint=hint, code="bad_arguments") from error


def read_timing(when: str, now: datetime) -> tuple[Timing, str]:
    """The timing that words or a cron line name, in the zone of `now` (with a ZoneInfo); and a note on the clocks.

    Raises WhenError for what cannot be read or kept.
    """
    zone, now_ms = str(now.tzinfo), int(now.timestamp() * 1000)
    if _CRON.fullmatch(when.strip()):
        return Timing(zone, now_ms, cron=" ".join(when.split())), ""
    if (found := parse_repeat(when, now)) is not None:
        return _repeating(*found, now), ""
    moment = read_when(when, now)
    return Timing(zone, int(moment.at.timestamp() * 1000)), moment.note


def _repeating(repeat: Repeat, first: datetime, now: datetime) -> Timing:
    zone, until_ms = str(now.tzinfo), None
    if repeat.until is not None:
        until_ms = int(settle(repeat.until, time(23, 59, 59), now).at.timestamp() * 1000)
    if (cron := replace(repeat, until=None).cron()) is not None:
        return Timing(zone, int(now.timestamp() * 1000), cron=cron, until_ms=until_ms)
    unit = {"minutely": "m", "hourly": "h", "daily": "d", "weekly": "w"}.get(repeat.freq)
    if unit is None or len(repeat.weekdays) > 1 or len(repeat.times) > 1:
        raise WhenError("such an interval has one day and one time of day: make a schedule for each, or use cron")
    return Timing(zone, int(first.timestamp() * 1000), every=f"{repeat.interval}{unit}", until_ms=until_ms)


def _timing(ctx: ToolContext, when: str, timezone: str) -> tuple[Timing, str]:
    zone = find_zone(timezone or ctx.settings.workflows.timezone)
    return read_timing(when, datetime.fromtimestamp(ctx.services.now(), zone))


def check_target(catalogue: Catalogue, workflow: str, tools: Sequence[str]) -> None:
    """Raises UserError for a workflow, tool or group that nobody offers, or that is no target of a schedule."""
    workflows = sorted(
        one.name for one in catalogue.workflows if not one.hidden and one.name not in WORKFLOWS_OF_COMMANDS
    )
    if workflow and workflow not in workflows:
        raise UserError(f"there is no workflow {workflow[:60]!r}", hint=f"there are: {', '.join(workflows) or 'none'}")
    known = {one.name for one in catalogue.tools} | {one.group for one in catalogue.tools}
    if unknown := [one for one in tools if one not in known]:
        groups = sorted({one.group for one in catalogue.tools})
        raise UserError(f"there is no tool or group {unknown[0][:60]!r}", hint=f"groups: {', '.join(groups)}")


async def _bounds(ctx: ToolContext) -> Bounds:
    """What the agent that calls may have scheduled. Raises UserError for one that may not."""
    found = bounds_of(await ctx.services.state.log(ctx.session), ctx.run)
    found.check()
    return found


def _at(ms: int | None, zone: str) -> str:
    return "never" if ms is None else f"{datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)):%A %Y-%m-%d %H:%M} ({zone})"


def _iso(ms: int | None, zone: str) -> str | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, ZoneInfo(zone)).isoformat(timespec="seconds")


def _as_value(one: Schedule) -> dict[str, JsonValue]:
    zone = one.timing.zone
    return {
        "id": one.id,
        "name": one.name,
        "state": one.state.value,
        "when": one.timing.words(),
        "timezone": zone,
        "next": _iso(one.next_ms, zone) if one.state is State.ON else None,
        "last": _iso(one.last_ms, zone),
        "workflow": one.workflow,
        "prompt": one.prompt,
        "tools": list(one.tools),
        "session": one.session,
        "deliver": list(one.deliver),
        "missed": one.policy.value,
        "missed_count": one.missed,
    }


def _line(one: Schedule) -> str:
    what = f"workflow {one.workflow}" if one.workflow else f"prompt {snippet(one.prompt, 80)!r}, {', '.join(one.tools)}"
    state = f"next {_at(one.next_ms, one.timing.zone)}" if one.state is State.ON else one.state.value
    missed = f"; {one.missed} missed" if one.missed else ""
    return f"{one.name}: {one.timing.words()}, {state}; {what}{missed} (id {one.id})"


def _said(done: str, one: Schedule, note: str = "") -> ToolOutput:
    text = f"{done} {_line(one)}"
    return ToolOutput({**_as_value(one), "note": note}, f"{text}\n[{note}]" if note else text)


def _missing(id: str) -> ModelError:
    return ModelError(f"there is no schedule {id}", hint="schedule_list shows the ids", code="not_found")


@tool(
    group="schedule",
    effect=Effect.IDEMPOTENT,
    keywords={"es": ("programa una tarea", "automatiza"), "en": ("schedule a task", "automate")},
    examples={
        "es": ("programa una tarea diaria a las 7 que revise mi correo",),
        "en": ("schedule a daily task at 7 that checks my mail",),
    },
)
async def schedule_create(
    ctx: ToolContext,
    when: _When,
    prompt: _Prompt = "",
    tools: _Tools = [],  # noqa: B006 - never changed; a schema wants a value
    workflow: Annotated[str, Field(description="Name of a workflow to run instead of a prompt")] = "",
    params: _Params = {},  # noqa: B006
    name: _Name = "",
    timezone: _Zone = "",
    missed: _Missed = "run_once",
    deliver: _Deliver = [],  # noqa: B006
) -> ToolOutput:
    """Makes a task that runs by itself at its times: a prompt for the agent with the tools that it may use, or a
    workflow. Nobody is there to be asked then. Its results appear in this conversation.
    """
    id = "s" + hashlib.sha256(ctx.idempotency_key.encode()).hexdigest()[:20]  # a second attempt finds the first one's
    catalogue = await ctx.services.state.catalogue()
    with _refusing("nothing was scheduled"):
        bounds = await _bounds(ctx)
        timing, note = _timing(ctx, when, timezone)
        check_target(catalogue, workflow, tools)
        for one in catalogue.workflows:
            if one.name == workflow:
                bounds.check_workflow(one, catalogue)
        check_channels(ctx.settings, ctx.principal, deliver, os.environ)
        new = started(
            Schedule(
                id=id,
                principal=ctx.principal,
                name=name or workflow or snippet(prompt, 40),
                timing=timing,
                session=ctx.session,
                created_ms=ctx.now_ms,
                policy=Missed(missed),
                workflow=workflow,
                params=params,
                prompt=prompt,
                tools=bounds.narrowed(tools, catalogue),
                agent=bounds.agent,
                deliver=tuple(deliver),
            ),
            ctx.now_ms,
        )
        put = await ctx.services.db.run(lambda conn: schedules.add(conn, new))
    return _said("Scheduled", put, note)


@tool(
    group="schedule",
    effect=Effect.READ,
    keywords={"es": ("tareas programadas",), "en": ("scheduled tasks",)},
    examples={"es": ("¿qué tareas programadas hay?",), "en": ("what is scheduled to run by itself?",)},
)
async def schedule_list(ctx: ToolContext) -> ToolOutput:
    """Lists the user's scheduled tasks, the next one first, and the installation's own, which are fixed."""
    mine = await ctx.services.db.run(lambda conn: schedules.list_schedules(conn, ctx.principal))
    catalogue = await ctx.services.state.catalogue() if ctx.principal == LOCAL_PRINCIPAL else Catalogue()
    fixed = [one for one in catalogue.workflows if one.cron and not one.hidden]
    lines = [f"- {_line(one)}" for one in mine]
    lines += [f"- {one.name}: {one.cron} ({one.timezone}); workflow, fixed by the installation" for one in fixed]
    value: dict[str, JsonValue] = {
        "schedules": [_as_value(one) for one in mine],
        "fixed": [_fixed_value(one) for one in fixed],
    }
    return ToolOutput(value, "\n".join(lines) or "Nothing is scheduled.")


def _fixed_value(one: WorkflowSpec) -> dict[str, JsonValue]:
    return {"workflow": one.name, "title": one.title, "cron": one.cron, "timezone": one.timezone}


@tool(
    group="schedule",
    effect=Effect.IDEMPOTENT,
    keywords={"es": ("pausa la tarea programada",), "en": ("pause the scheduled task",)},
    examples={
        "es": ("pasa la tarea programada del correo a las 9",),
        "en": ("move the scheduled mail task to 9",),
    },
)
async def schedule_change(
    ctx: ToolContext,
    id: _Id,
    when: Annotated[str | None, Field(description="New times, as for schedule_create")] = None,
    prompt: Annotated[str | None, Field(description="New prompt", min_length=1, max_length=MAX_PROMPT)] = None,
    tools: Annotated[list[str] | None, Field(description="New tools of the prompt")] = None,
    params: Annotated[dict[str, JsonValue] | None, Field(description="New parameters of the workflow")] = None,
    name: Annotated[str | None, Field(description="New name", min_length=1, max_length=80)] = None,
    timezone: _Zone = "",
    missed: Annotated[
        Literal["skip", "run_once", "run_all"] | None, Field(description="As for schedule_create")
    ] = None,
    deliver: Annotated[list[str] | None, Field(description="As for schedule_create")] = None,
    state: Annotated[Literal["on", "off"] | None, Field(description="off pauses the task, on goes on with it")] = None,
) -> ToolOutput:
    """Changes a scheduled task, or switches it off or on; what is not given stays."""
    given = {
        "prompt": prompt,
        "tools": None if tools is None else tuple(tools),
        "params": params,
        "name": name,
        "policy": None if missed is None else Missed(missed),
        "deliver": None if deliver is None else tuple(deliver),
    }
    changes = {key: value for key, value in given.items() if value is not None}
    if not changes and when is None and state is None:
        raise ModelError("nothing to change was given", hint="give when, prompt, state, …", code="bad_arguments")
    catalogue = await ctx.services.state.catalogue()
    with _refusing("the schedule was not changed"):
        bounds = await _bounds(ctx)
        timing, note = (None, "") if when is None else _timing(ctx, when, timezone)
        check_target(catalogue, "", tools or [])
        check_channels(ctx.settings, ctx.principal, deliver or [], os.environ)

        def edit(one: Schedule) -> Schedule:
            new: Schedule = replace(one, **changes)  # type: ignore[arg-type]
            if prompt is not None or tools is not None:  # what others may do is not given other words either
                new = replace(new, tools=bounds.narrowed(new.tools, catalogue), agent=bounds.agent)
            new.check()
            if timing is not None:
                new = retimed(new, timing, ctx.now_ms)
            return new if state is None else switched(new, state == "on", ctx.now_ms)

        one = await ctx.services.db.run(lambda conn: schedules.change(conn, ctx.principal, id, edit))
    if one is None:
        raise _missing(id)
    return _said("Changed:", one, note)


@tool(
    group="schedule",
    effect=Effect.IDEMPOTENT,
    keywords={"es": ("borra la tarea programada",), "en": ("delete the scheduled task",)},
    examples={
        "es": ("borra la tarea programada del correo",),
        "en": ("delete the scheduled task about mail",),
    },
)
async def schedule_delete(ctx: ToolContext, id: _Id) -> ToolOutput:
    """Deletes one scheduled task for good."""
    gone = await ctx.services.db.run(lambda conn: schedules.remove(conn, ctx.principal, id))
    text = f"Deleted schedule {id}." if gone else f"There is no schedule {id} (any more)."
    return ToolOutput({"id": id, "deleted": gone}, text)


@tool(
    group="schedule",
    effect=Effect.WRITE,
    keywords={"es": ("ejecuta ahora la tarea programada",), "en": ("run the scheduled task now",)},
    examples={
        "es": ("ejecuta ya la tarea programada del resumen",),
        "en": ("run the scheduled summary right now",),
    },
)
async def schedule_run_now(ctx: ToolContext, id: _Id) -> ToolOutput:
    """Runs one scheduled task once now, beside its times; its results appear in its conversation, after this answer."""
    one = await ctx.services.db.run(lambda conn: schedules.get(conn, ctx.principal, id))
    if one is None:
        raise _missing(id)
    message_id = f"schedule-{id}@now-{hashlib.sha256(ctx.idempotency_key.encode()).hexdigest()[:20]}"
    try:
        channels = channels_of(ctx.settings, ctx.principal, one.deliver, one.workflow)
        await submit(ctx.settings.redis.url, ctx.principal, message(one, message_id, deliver=channels))
    except StateUnavailable as error:
        raise ModelError(
            f"schedule {id} was perhaps not started: {error.message}",
            hint="look at its conversation before trying again; a worker needs the right to write to the user's inbox",
        ) from error
    at = f"{datetime.fromtimestamp(ctx.services.now(), UTC):%Y-%m-%d %H:%M} UTC"
    text = f"{one.name} starts now ({at}), in the conversation {one.session}."
    return ToolOutput({"id": id, "message": message_id, "session": one.session}, text)


async def submit(redis_url: str, principal: str, message: Message) -> None:
    """Puts a message (with its id) into a user's inbox.

    Raises StateUnavailable, also if this worker may not write there.
    """
    client = AsyncClient.connect(redis_url, principal)
    try:
        fields = message.model_dump(exclude={"text", "session"}, exclude_unset=True)
        await client.submit(message.text, session=message.session, **fields)
    finally:
        await client.aclose()
