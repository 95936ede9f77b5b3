"""The command `schedule`: a schedule of the user is added, changed or deleted, as the user says; no agent is asked."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from typing import Any

from pydantic import JsonValue, ValidationError

from shared.contract import Effect
from shared.delivery import check_channels
from shared.errors import ModelError, UserError
from shared.messages import ScheduleOrder
from shared.names import WORKFLOW_SCHEDULE
from shared.schedules import Schedule, State, own_session, retimed, started, switched
from shared.sql import schedules
from shared.timing import Missed, Timing, chosen, local_time
from workers.context import ToolContext
from workers.declare import ToolOutput
from workers.tools.schedules import check_target
from workers.workflows.define import Inputs, Steps, step, workflow


@step(effect=Effect.IDEMPOTENT, timeout_s=30.0)
async def apply(ctx: ToolContext, inputs: Inputs) -> ToolOutput:
    """Carries the order out that the parameters are."""
    try:
        order = ScheduleOrder.model_validate(dict(inputs.get("params") or {}))
        return await _apply(ctx, order)
    except ValidationError as error:
        first = error.errors()[0]
        raise ModelError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", code="bad_arguments") from error
    except UserError as error:
        raise ModelError(error.message, hint=error.hint, code=error.code) from error


async def _apply(ctx: ToolContext, order: ScheduleOrder) -> ToolOutput:
    """Raises UserError for what cannot be, and ModelError for a schedule that is not there."""
    if order.do == "delete":
        gone = await ctx.services.db.run(lambda conn: schedules.remove(conn, ctx.principal, order.id or ""))
        return ToolOutput({"id": order.id, "deleted": gone}, f"{order.id} {'is deleted' if gone else 'was not there'}.")
    zone = order.zone or ctx.settings.workflows.timezone
    timing = chosen(cron=order.cron, every=order.every, at=order.at, zone=zone, now_ms=ctx.now_ms)
    check_target(await ctx.services.state.catalogue(), order.workflow or "", order.tools or ())
    check_channels(ctx.settings, ctx.principal, order.deliver or (), os.environ)
    if order.do == "add":
        new = _new(ctx, order, timing)
        return _said(await ctx.services.db.run(lambda conn: schedules.add(conn, new)))

    def edit(one: Schedule) -> Schedule:
        changed: Schedule = replace(one, **_given(order))
        changed.check()
        changed = changed if timing is None else retimed(changed, timing, ctx.now_ms)
        return changed if order.state is None else switched(changed, order.state == "on", ctx.now_ms)

    one = await ctx.services.db.run(lambda conn: schedules.change(conn, ctx.principal, order.id or "", edit))
    if one is None:
        raise ModelError(f"there is no schedule {order.id}", hint="`capataz schedules` lists them", code="not_found")
    return _said(one)


def _given(order: ScheduleOrder) -> dict[str, Any]:
    """The fields of a schedule that an order names."""
    given = {
        "name": order.name,
        "prompt": order.prompt,
        "tools": order.tools,
        "agent": order.agent,
        "workflow": order.workflow,
        "params": order.params,
        "session": order.target,
        "policy": None if order.missed is None else Missed(order.missed),
        "deliver": order.deliver,
    }
    return {name: value for name, value in given.items() if value is not None}


def _new(ctx: ToolContext, order: ScheduleOrder, timing: Timing | None) -> Schedule:
    if timing is None:
        raise UserError("it is not said when", hint="give one of cron, every and at")
    # A message is one run, so an order that comes twice makes one schedule.
    id = order.id or "s" + hashlib.sha256(ctx.run.encode()).hexdigest()[:20]
    values: dict[str, Any] = {"name": order.workflow or id, "session": own_session(ctx.principal, id)} | _given(order)
    new = started(Schedule(id=id, principal=ctx.principal, timing=timing, created_ms=ctx.now_ms, **values), ctx.now_ms)
    return switched(new, order.state != "off", ctx.now_ms)


def _said(one: Schedule) -> ToolOutput:
    due = one.state is State.ON and one.next_ms is not None
    next_ = local_time(one.next_ms, one.timing.zone) if due and one.next_ms is not None else None
    value: dict[str, JsonValue] = {"id": one.id, "state": one.state.value, "next": next_}
    return ToolOutput(value, f"{one.id} is {one.state.value}" + (f", due {next_} ({one.timing.zone})." if due else "."))


@workflow(WORKFLOW_SCHEDULE, title="A command about schedules", result="apply")
def schedule() -> Steps:
    """One step."""
    return [apply]
