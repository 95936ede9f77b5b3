"""Schedules of users that are due: their slots are taken by one hidden run a minute, each put into its user's inbox.

A slot is taken by compare-and-set in SQL, so any number of beats and workers take it once. What was taken stays there
until its message is in the inbox; if whoever took it died, it is sent again, and the message's id makes it one run.
"""

from __future__ import annotations

from pydantic import JsonValue
from sqlalchemy import Connection

from shared.contract import Effect
from shared.errors import OperatorError, StateUnavailable
from shared.schedules import Missed, is_late, late_note, message, message_id, plan
from shared.sql import schedules
from shared.sql.schedules import Firing
from workers.context import Services, ToolContext
from workers.tools.schedules import submit
from workers.workflows.define import Inputs, Steps, step, workflow

_BATCH = 100


async def any_due(services: Services) -> bool:
    """True if a schedule is due, or a slot of one waits that nobody is sending."""
    now_ms = int(services.now() * 1000)
    return await services.db.run(lambda conn: schedules.any_due(conn, now_ms))


@step(effect=Effect.IDEMPOTENT, timeout_s=60.0)
async def fire(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """Takes the slots that are due in the name of this run, and sends the message of each to its user's inbox."""
    now_ms, db = ctx.now_ms, ctx.services.db
    due = await db.run(lambda conn: schedules.due(conn, now_ms, _BATCH))
    taken = [(one, plan(one.timing, one.policy, one.next_ms, now_ms)) for one in due if one.next_ms is not None]

    def take(conn: Connection) -> list[Firing]:
        for one, todo in taken:
            schedules.advance(conn, one, todo, ctx.run, now_ms)
        return schedules.claim(conn, ctx.run, now_ms, _BATCH)

    fired: list[JsonValue] = []
    refused: dict[str, StateUnavailable] = {}
    for firing in await db.run(take):
        principal = firing.schedule.principal
        if principal in refused:
            continue
        try:
            if id := await _fire_one(ctx, firing):
                fired.append(id)
        except StateUnavailable as error:  # perhaps of this user's inbox only
            refused[principal] = error
    if refused:
        raise OperatorError(
            f"schedules of {', '.join(sorted(refused))} wait: {next(iter(refused.values()))}",
            hint="they are tried again; a worker with a Redis user of its own must be let into the inbox of each user",
        )
    return fired


async def _fire_one(ctx: ToolContext, firing: Firing) -> str:
    """Sends a slot's message and notes that it is sent. Returns its id; empty for one that came too late to be sent."""
    one, now_ms = firing.schedule, ctx.now_ms
    if one.policy is Missed.SKIP and is_late(firing.slot_ms, now_ms):
        await ctx.services.db.run(lambda conn: schedules.gave_up(conn, firing))
        return ""
    id = message_id(one.id, firing.slot_ms)
    note = late_note(one, firing.slot_ms, firing.passed, now_ms)
    await submit(ctx.settings.redis.url, one.principal, message(one, id, note))
    await ctx.services.db.run(lambda conn: schedules.sent(conn, firing))
    return id


@workflow("due-schedules", title="Schedules that are due", cron="* * * * *", result="fire", hidden=True, when=any_due)
def due_schedules() -> Steps:
    """Every minute in which something is due."""
    return [fire]
