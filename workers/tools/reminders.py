"""Reminders: a text that is told to the user at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import Field, JsonValue

from shared.contract import Effect, GroupSpec
from shared.errors import ModelError
from shared.sql import reminders
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools.utility import find_zone
from workers.tools.when import EXAMPLES, WhenError, parse_when

GROUP = GroupSpec(
    name="reminders",
    title="Reminders",
    keywords={
        "es": (
            "recordatorio", "recordatorios", "recuérdame", "recuérdamelo", "recordarme", "avísame", "avisarme", "aviso",
            "alarma", "que no se me olvide", "despiértame", "hazme acordar", "acuérdame",
        ),
        "en": (
            "reminder", "reminders", "remind", "remind me", "alarm", "alert me", "do not let me forget",
            "don't let me forget", "notify me", "wake me", "ping me",
        ),
    },
    examples={
        "es": (
            "recuérdame mañana a las 9 llamar al banco",
            "avísame en 20 minutos para sacar el pan del horno",
            "¿qué recordatorios tengo pendientes?",
            "quita el recordatorio del dentista",
            "que no se me olvide regar las plantas el viernes",
            "ponme una alarma a las 7 y media",
            "cancela el aviso de esta tarde",
        ),
        "en": (
            "remind me tomorrow at 9 to call the bank",
            "ping me in 20 minutes to take the bread out",
            "which reminders are pending?",
            "drop the reminder about the dentist",
            "don't let me forget to water the plants on friday",
            "set an alarm for half past seven",
            "cancel this afternoon's reminder",
        ),
    },
)  # fmt: skip


def _at(due_ms: int, zone: ZoneInfo) -> str:
    return f"{datetime.fromtimestamp(due_ms / 1000, zone):%A %Y-%m-%d %H:%M} ({zone.key})"


def _as_value(one: reminders.Reminder, zone: ZoneInfo) -> dict[str, JsonValue]:
    at = datetime.fromtimestamp(one.due_ms / 1000, zone).isoformat(timespec="seconds")
    return {"id": one.id, "text": one.text, "at": at, "state": one.state.value}


@tool(
    group="reminders",
    effect=Effect.WRITE,
    keywords={"es": ("recuérdame", "avísame", "alarma"), "en": ("remind", "alarm", "alert")},
    examples={"es": ("recuérdame en una hora apagar el horno",), "en": ("remind me in an hour to turn the oven off",)},
)
async def reminder_add(
    ctx: ToolContext,
    text: Annotated[str, Field(description="What to remind the user of", min_length=1, max_length=1000)],
    at: Annotated[str, Field(description=f"When: {EXAMPLES}")],
) -> ToolOutput:
    """Keeps a reminder for the given time, in the user's time zone; the daily brief names what is due."""
    zone = find_zone(ctx.settings.workflows.timezone)
    now = datetime.fromtimestamp(ctx.services.now(), zone)
    try:
        moment = parse_when(at, now)
    except WhenError as error:
        raise ModelError(
            f"the reminder was not set: {error}", hint=f"such as {EXAMPLES}", code="bad_arguments"
        ) from error
    due_ms, now_ms = int(moment.timestamp() * 1000), ctx.now_ms
    one = await ctx.services.db.run(
        lambda conn: reminders.add(conn, ctx.principal, text=text, due_ms=due_ms, session=ctx.session, now_ms=now_ms)
    )
    return ToolOutput(_as_value(one, zone), f"Reminder {one.id} is set for {_at(due_ms, zone)}: {text}")


@tool(
    group="reminders",
    effect=Effect.READ,
    keywords={"es": ("pendientes", "mis recordatorios"), "en": ("pending", "my reminders")},
    examples={"es": ("¿qué recordatorios hay?",), "en": ("what reminders are there?",)},
)
async def reminder_list(
    ctx: ToolContext, limit: Annotated[int, Field(description="How many at most", ge=1, le=100)] = 50
) -> ToolOutput:
    """Lists the user's pending reminders, the next one first."""
    zone = find_zone(ctx.settings.workflows.timezone)
    found: Sequence[reminders.Reminder] = await ctx.services.db.run(
        lambda conn: reminders.list_reminders(conn, ctx.principal, limit=limit)
    )
    lines = [f"- {_at(one.due_ms, zone)}: {one.text} (id {one.id})" for one in found]
    return ToolOutput(
        {"reminders": [_as_value(one, zone) for one in found]}, "\n".join(lines) or "No reminders are pending."
    )


@tool(
    group="reminders",
    effect=Effect.IDEMPOTENT,
    keywords={"es": ("cancelar", "quitar"), "en": ("cancel", "remove")},
    examples={"es": ("cancela el recordatorio del banco",), "en": ("cancel the reminder about the bank",)},
)
async def reminder_cancel(
    ctx: ToolContext, id: Annotated[str, Field(description="The reminder's id, as reminder_list gave it")]
) -> ToolOutput:
    """Cancels one pending reminder."""
    cancelled = await ctx.services.db.run(lambda conn: reminders.cancel(conn, ctx.principal, id))
    text = f"Cancelled reminder {id}." if cancelled else f"There is no pending reminder {id} (any more)."
    return ToolOutput({"id": id, "cancelled": cancelled}, text)
