"""The heartbeat: now and then the agent may say something by itself, or nothing.

Whether it may is decided before any model is asked, from the slot alone, so that a run that is repeated decides the
same and two that tick at once cannot speak twice.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, time

from pydantic import JsonValue

from shared.contract import Effect
from shared.delivery import channels_of
from shared.errors import UserError
from shared.settings import Settings
from shared.sql import notes, reminders
from shared.timing import Line, read_line
from shared.workflow_settings import HeartbeatSettings
from workers.context import ToolContext
from workers.tools.schedules import submit
from workers.tools.utility import find_zone
from workers.workflows.daily_brief import brief_entries
from workers.workflows.define import Inputs, Steps, given, model_step, prompt_file, step, workflow
from workers.workflows.notice import notice_message

HEARTBEAT = "heartbeat"
SILENT = "NOTHING"
_READ = 30
_MOST_SLOTS = 24 * 60


@step(timeout_s=30.0)
def decide(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """Whether the agent may speak in this slot."""
    slot_ms = (inputs.get("params") or {}).get("slot_ms")
    if not isinstance(slot_ms, int):
        return {"speak": False, "slot_ms": 0}
    return {"speak": may_speak(ctx.settings, ctx.principal, slot_ms), "slot_ms": slot_ms}


def may_speak(settings: Settings, principal: str, slot_ms: int) -> bool:
    """True if the slot was drawn, is not in the quiet hours, and not more of its day were drawn before than may be."""
    wanted, zone = settings.workflows.heartbeat, find_zone(settings.workflows.timezone)
    at = datetime.fromtimestamp(slot_ms / 1000, zone)
    if not _drawn(wanted, principal, slot_ms) or is_quiet(wanted, at.hour):
        return False
    line = _line(settings)
    if line is None:
        return wanted.per_day > 0
    before, midnight = 0, int(datetime.combine(at.date(), time(), zone).timestamp() * 1000)
    for number, slot in enumerate(line.timing.slots(midnight - 1)):
        if slot >= slot_ms or number >= _MOST_SLOTS:
            break
        hour = datetime.fromtimestamp(slot / 1000, zone).hour
        before += _drawn(wanted, principal, slot) and not is_quiet(wanted, hour)
    return before < wanted.per_day


def _line(settings: Settings) -> Line | None:
    try:
        return read_line(settings.workflows.cron.get(HEARTBEAT, ""), settings.workflows.timezone)
    except UserError:  # one that cannot be read has no slots
        return None


def _drawn(wanted: HeartbeatSettings, principal: str, slot_ms: int) -> bool:
    seed = hashlib.sha256(f"{HEARTBEAT}:{principal}:{slot_ms}".encode()).digest()
    return int.from_bytes(seed[:8], "big") < wanted.probability * 2**64


def is_quiet(wanted: HeartbeatSettings, hour: int) -> bool:
    """True for an hour of the day in which nothing is said; equal ends mean no quiet hours."""
    start, end = wanted.quiet_from, wanted.quiet_to
    return start <= hour < end if start <= end else hour >= start or hour < end


@step(needs=["decide"], when=given("decide", "speak"))
async def gather(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """What there might be to say something about: the time, what is due, what was noted lately."""
    now = datetime.fromtimestamp(ctx.services.now(), find_zone(ctx.settings.workflows.timezone))
    noted = await ctx.services.db.run(lambda conn: notes.list_notes(conn, ctx.principal, _READ))
    due = await ctx.services.db.run(lambda conn: reminders.list_reminders(conn, ctx.principal, limit=_READ))
    entries = brief_entries(
        [{"title": one.title, "text": one.text, "updated_ms": one.updated_ms} for one in noted],
        [{"text": one.text, "due_ms": one.due_ms} for one in due],
        now,
    )
    return f"It is {now:%A %Y-%m-%d %H:%M} ({now.tzinfo}).\n{entries}"


@step(needs=["decide", "think"], effect=Effect.IDEMPOTENT, timeout_s=30.0)
async def say(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """Tells the user what the model said, if it is anything."""
    text = str(inputs["think"]).strip()
    if not text or text.strip(".!\"'*` ").upper() == SILENT:
        return {"said": False}
    told = notice_message(
        text,
        session=ctx.settings.workflows.heartbeat.session or ctx.settings.workflows.session,
        id=f"{HEARTBEAT}-says@{inputs['decide']['slot_ms']}",
        deliver=channels_of(ctx.settings, ctx.principal, (), HEARTBEAT),
    )
    await submit(ctx.settings.redis.url, ctx.principal, told)
    return {"said": True}


@workflow(HEARTBEAT, title="Heartbeat", result="say", hidden=True)
def heartbeat() -> Steps:
    """The model is asked only in a slot in which the agent may speak."""
    prompt = prompt_file("workers.workflows", "heartbeat.md")
    return [decide, gather, model_step("think", needs=["gather"], prompt=prompt), say]
