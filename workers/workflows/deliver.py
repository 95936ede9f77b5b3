"""Deliveries: a result goes to a channel of its user, is tried again while it may help, and what fails is told.

`deliver` follows a run. What its worker began before it died is known from SQL: a service that can tell a repeat gets
it again, of any other the session is told that nobody knows.
"""

from __future__ import annotations

import os

from pydantic import JsonValue

from shared.contract import Effect
from shared.delivery import channel, lacking
from shared.delivery_settings import DeliverySettings
from shared.errors import ModelError, OperatorError, StateUnavailable
from shared.messages import Message
from shared.names import WORKFLOW_DELIVER, day_session
from shared.sql import deliveries
from shared.sql.deliveries import Delivery, DeliveryState, Taken
from workers.context import Services, ToolContext
from workers.delivery.outgoing import Outcome, Parcel, Result, repeatable
from workers.delivery.sending import send as send_on
from workers.tools.schedules import submit
from workers.workflows.define import Inputs, Steps, step, workflow
from workers.workflows.notice import notice_message

_BATCH = 100
_AGAIN_MS = 5 * 60_000
"""A try whose run failed before it began is started anew after so long; until then its message is the same."""

_FIELDS = ("channel", "session", "run", "title", "text")


@step(effect=Effect.IDEMPOTENT, timeout_s=120.0)
async def send(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """Makes the next try of the delivery that the parameters name, if it is due."""
    params = inputs.get("params") or {}
    id = params.get("delivery")
    if not isinstance(id, str) or not id:
        raise ModelError("the workflow deliver needs the parameter delivery", code="bad_arguments")
    if "channel" in params:
        if wrong := [name for name in _FIELDS if not isinstance(params.get(name), str)]:
            raise ModelError(f"the workflow deliver needs the parameter {wrong[0]}", code="bad_arguments")
        known = {name: params[name] for name in _FIELDS}
        new = Delivery(id, ctx.principal, **known, created_ms=ctx.now_ms, due_ms=ctx.now_ms)
        await ctx.services.db.run(lambda conn: deliveries.add(conn, new))
    taken = await ctx.services.db.run(lambda conn: deliveries.take(conn, ctx.principal, id, ctx.node, ctx.now_ms))
    if taken is None:
        return {"delivery": id, "state": "nothing to do"}
    return {"delivery": id, "state": await _settle(ctx, taken.delivery, await _try(ctx, taken))}


async def _try(ctx: ToolContext, taken: Taken) -> Outcome:
    one = taken.delivery
    on = channel(ctx.settings, ctx.principal, one.channel)
    why = lacking(ctx.settings, ctx.principal, one.channel, os.environ)
    if on is None or why:
        return Outcome(Result.REFUSED, why or "there is no such channel")
    if taken.interrupted and not repeatable(on):
        return Outcome(Result.UNKNOWN, "the worker died while it was being sent")
    parcel = Parcel(one.id, one.principal, one.session, one.run, one.title, one.text, one.created_ms)
    return await send_on(ctx, on, parcel)


async def _settle(ctx: ToolContext, one: Delivery, outcome: Outcome) -> str:
    """Notes how a try ended, and tells the user of an end that is none; returns the state."""
    state, due_ms = DeliveryState.SENT, ctx.now_ms
    if outcome.result is Result.LATER and one.attempts < ctx.settings.delivery.attempts:
        state = DeliveryState.PENDING
        due_ms += int(pause_s(ctx.settings.delivery, one.attempts, outcome.after_s) * 1000)
    elif outcome.result is not Result.SENT:
        state = DeliveryState.UNKNOWN if outcome.result is Result.UNKNOWN else DeliveryState.FAILED
        # Told before it is noted: whoever dies in between tells it once more, with the same id.
        told = notice_message(failure(one, state, outcome.why), session=one.session, id=f"told:{one.id}")
        await submit(ctx.settings.redis.url, ctx.principal, told)
    await ctx.services.db.run(lambda conn: deliveries.end(conn, one.id, ctx.node, state, outcome.why, due_ms))
    return state.value


def pause_s(settings: DeliverySettings, attempts: int, asked_s: float) -> float:
    """Seconds until the next try after so many: twice as long each time, and no shorter than the service asked for."""
    grown = settings.first_s * 2.0 ** min(attempts - 1, 30)
    return min(max(grown, asked_s), max(settings.most_s, settings.first_s))


def failure(one: Delivery, state: DeliveryState, why: str) -> str:
    """What the session is told of a delivery that did not arrive, or perhaps did not."""
    if state is DeliveryState.UNKNOWN:
        return f"“{one.title}” may or may not have arrived on the channel {one.channel}: {why}. It is not sent again."
    tries = "one try" if one.attempts == 1 else f"{one.attempts} tries"
    return f"“{one.title}” could not be delivered on the channel {one.channel}, after {tries}: {why}."


@workflow(WORKFLOW_DELIVER, title="Deliver a result", result="send", hidden=True)
def deliver() -> Steps:
    """One try."""
    return [send]


async def any_due(services: Services) -> bool:
    """True if a delivery waits for its next try."""
    now_ms = int(services.now() * 1000)
    return await services.db.run(lambda conn: deliveries.any_due(conn, now_ms))


@step(effect=Effect.IDEMPOTENT, timeout_s=60.0)
async def again(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """Starts the next try of each delivery that waits for one; its message has the same id however often it is sent."""
    started: list[JsonValue] = []
    refused: dict[str, StateUnavailable] = {}
    for one in await ctx.services.db.run(lambda conn: deliveries.due(conn, ctx.now_ms, _BATCH)):
        if one.principal in refused:
            continue
        message = Message(
            kind="workflow",
            workflow=WORKFLOW_DELIVER,
            session=day_session(WORKFLOW_DELIVER, ctx.now_ms, one.principal),
            id=f"{one.id}:{one.attempts + 1}:{ctx.now_ms // _AGAIN_MS}"[-128:],
            params={"delivery": one.id},
        )
        try:
            await submit(ctx.settings.redis.url, one.principal, message)
        except StateUnavailable as error:  # perhaps of this user's inbox only
            refused[one.principal] = error
        else:
            started.append(one.id)
    if refused:
        raise OperatorError(
            f"deliveries of {', '.join(sorted(refused))} wait: {next(iter(refused.values()))}",
            hint="they are tried again; a worker with a Redis user of its own must be let into the inbox of each user",
        )
    return started


@workflow(
    "due-deliveries", title="Deliveries to be tried again", cron="every 30s", result="again", hidden=True, when=any_due
)
def due_deliveries() -> Steps:
    """Every half minute in which one waits."""
    return [again]
