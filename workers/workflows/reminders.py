"""Reminders that are due: claimed by one hidden run at a time, each told by a run in the session it was asked in.

The claim is only a promise to deliver. That a reminder has been told is written by the run that tells it, so one that
was claimed by somebody who died, or whose message was lost or refused, is claimed again and told late; and one whose
message arrives twice is told once.
"""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from shared.client import AsyncClient
from shared.contract import Effect
from shared.delivery import channels_of
from shared.errors import ModelError, OperatorError, StateUnavailable
from shared.settings import Settings
from shared.sql import reminders
from shared.sql.reminders import Reminder
from workers.context import Services, ToolContext
from workers.declare import ToolOutput
from workers.tools.recurrence import from_rule
from workers.tools.utility import find_zone
from workers.workflows.define import Inputs, Steps, step, workflow

TELL = "reminder"
LATE_MS = 2 * 60_000
"""A reminder that comes later than this says so: it waits for the schedule, and for its turn."""

_BATCH = 100


async def any_due(services: Services) -> bool:
    """True if a reminder is due that nobody is delivering."""
    now_ms = int(services.now() * 1000)
    return await services.db.run(lambda conn: reminders.any_due(conn, now_ms))


@step(effect=Effect.IDEMPOTENT, timeout_s=60.0)
async def deliver(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """Claims what is due in the name of this run, and sends each to its session."""
    now_ms = ctx.now_ms
    claimed = await ctx.services.db.run(lambda conn: reminders.claim_due(conn, ctx.run, now_ms, _BATCH))
    refused: dict[str, StateUnavailable] = {}
    for one in claimed:
        try:
            await send(ctx.settings, one)
        except StateUnavailable as error:  # perhaps of this user's inbox only
            refused[one.principal] = error
    if refused:
        raise OperatorError(
            f"reminders of {', '.join(sorted(refused))} wait: {next(iter(refused.values()))}",
            hint="they are tried again; a worker with a Redis user of its own must be let into the inbox of each user",
        )
    return [one.id for one in claimed]


async def send(settings: Settings, one: Reminder) -> None:
    """Puts the message that makes a run tell the reminder into its user's inbox; the same one for the same claim. A
    later claim has another, so that a run that failed does not keep the reminder from being told.

    Raises StateUnavailable, also if this worker may not write there.
    """
    client = AsyncClient.connect(settings.redis.url, one.principal)
    try:
        await client.submit(
            "",
            session=one.session,
            kind="workflow",
            workflow=TELL,
            params={"reminder": one.id, "due_ms": one.due_ms},
            id=f"{TELL}:{one.id}@{one.due_ms}:{(one.claimed_ms or 0) // reminders.CLAIM_MS}",
            deliver=channels_of(settings, one.principal, (), TELL),
        )
    finally:
        await client.aclose()


@workflow(
    "due-reminders", title="Reminders that are due", cron="every 10s", result="deliver", hidden=True, when=any_due
)
def due_reminders() -> Steps:
    """Every ten seconds in which something is due."""
    return [deliver]


@step(effect=Effect.IDEMPOTENT, timeout_s=30.0)
async def tell(ctx: ToolContext, inputs: Inputs) -> ToolOutput:
    """Takes the reminder for this run and says it."""
    params = inputs.get("params") or {}
    id, due_ms = params.get("reminder"), params.get("due_ms")
    if not isinstance(id, str) or not isinstance(due_ms, int):
        raise ModelError("the workflow reminder needs the parameters reminder and due_ms", code="bad_arguments")
    now_ms = ctx.now_ms
    zone = find_zone(ctx.settings.workflows.timezone)
    one = await ctx.services.db.run(
        lambda conn: reminders.tell(conn, ctx.principal, id, due_ms, ctx.run, lambda r: following_ms(r, now_ms, zone))
    )
    if one is None:
        return ToolOutput({"id": id, "told": False}, f"(Reminder {id} was told already, changed or cancelled.)")
    return ToolOutput({"id": id, "told": True}, spoken(one, due_ms, now_ms, zone))


@workflow(TELL, title="A reminder", result="tell")
def reminder() -> Steps:
    """One reminder, in the session in which it was asked for."""
    return [tell]


def following_ms(one: Reminder, now_ms: int, zone: ZoneInfo) -> int | None:
    """When a reminder that repeats is due next, behind now: what was missed is told once. None if it does not."""
    if not one.rule:
        return None
    meant = ZoneInfo(one.zone) if one.zone else zone
    anchor, now = (datetime.fromtimestamp(ms / 1000, meant) for ms in (one.due_ms, max(now_ms, one.due_ms)))
    following = from_rule(one.rule).next_after(anchor, now)
    return None if following is None else int(following.timestamp() * 1000)


def spoken(one: Reminder, due_ms: int, now_ms: int, zone: ZoneInfo) -> str:
    """What the user reads: the text, how late it comes if it does, and when it comes again, in the user's zone."""
    spanish = one.language == "es"
    lines = [f"⏰ {'Recordatorio' if spanish else 'Reminder'}: {one.text}"]
    if now_ms - due_ms > LATE_MS:
        late, due = duration((now_ms - due_ms) // 1000), _at(due_ms, now_ms, zone)
        lines.append(f"(Era para las {due}; llega {late} tarde.)" if spanish else f"(It was for {due}; {late} late.)")
    if one.due_ms > due_ms and one.told_due_ms == due_ms:
        again = _at(one.due_ms, 0, zone)
        lines.append(f"La próxima vez: {again}." if spanish else f"Next time: {again}.")
    return "\n".join(lines)


def _at(ms: int, now_ms: int, zone: ZoneInfo) -> str:
    """The time, with its day unless that is the day of `now_ms`."""
    at, now = (datetime.fromtimestamp(one / 1000, zone) for one in (ms, now_ms))
    return f"{at:%H:%M}" if at.date() == now.date() else f"{at:%H:%M} ({at:%Y-%m-%d})"


def duration(seconds: int) -> str:
    """`3 d 4 h`, `2 h 5 min`, `7 min`: the two largest units that count."""
    days, rest = divmod(max(seconds, 60) // 60, 24 * 60)
    hours, minutes = divmod(rest, 60)
    parts = [f"{n} {unit}" for n, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if n]
    return " ".join(parts[:2])
