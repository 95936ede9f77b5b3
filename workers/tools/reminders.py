"""Reminders: a text that is told to the user at a time, once or again and again.

They are told by `workers/workflows/reminders.py`, in the session in which they were asked for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import Field, JsonValue

from shared.contract import Effect, GroupSpec
from shared.errors import ModelError
from shared.sql import reminders
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import examples_en, examples_es, words_en, words_es
from workers.tools.recurrence import from_rule
from workers.tools.repeats import EXAMPLES as REPEATS
from workers.tools.repeats import parse_repeat
from workers.tools.timewords import fold
from workers.tools.utility import find_zone
from workers.tools.when import EXAMPLES, WhenError, read_when

GROUP = GroupSpec(
    name="reminders",
    title="Reminders",
    keywords={"es": words_es.REMINDERS, "en": words_en.REMINDERS},
    examples={"es": examples_es.REMINDERS, "en": examples_en.REMINDERS},
)


_Id = Annotated[str, Field(description="The reminder's id, as reminder_list gave it")]
_Text = Annotated[str, Field(description="What to remind the user of", min_length=1, max_length=1000)]
_When = Annotated[str, Field(description=f"When, in words or ISO: {EXAMPLES}; again and again: {REPEATS}")]
_Zone = Annotated[str, Field(description="IANA zone or city that the time is meant in; empty: the user's")]

_SPANISH = re.compile(
    r"\b(?:el|la|los|las|de|del|al|que|en|por|para|con|mi|mis|un|una|y|a|lo|le|se|su|manana|cada|hoy|dentro|lunes|martes"
    r"|miercoles|jueves|viernes|sabado|domingo|llamar|comprar|pagar|tomar|sacar)\b"
)
_ENGLISH = re.compile(
    r"\b(?:the|to|at|in|on|of|for|my|and|an|with|it|is|tomorrow|today|every|next|call|buy|pay|take|get|monday|tuesday"
    r"|wednesday|thursday|friday|saturday|sunday|minutes|hours)\b"
)


@dataclass(frozen=True)
class _Due:
    """A time as the tool understood it."""

    ms: int
    rule: str | None
    zone: str
    note: str


def language(*texts: str) -> str:
    """es or en, by the small words of the first text that tells; en if none does."""
    for text in texts:
        folded = fold(text)
        spanish = len(_SPANISH.findall(folded)) + 2 * any(mark in text.lower() for mark in "ñ¿¡áéíóú")
        if spanish != (english := len(_ENGLISH.findall(folded))):
            return "es" if spanish > english else "en"
    return "en"


def _understood(ctx: ToolContext, at: str, timezone: str, what: str) -> _Due:
    """The time that was meant. Raises ModelError that begins with `what` did not happen."""
    zone = find_zone(timezone or ctx.settings.workflows.timezone)
    now = datetime.fromtimestamp(ctx.services.now(), zone)
    try:
        if (found := parse_repeat(at, now)) is not None:
            repeat, first = found
            return _Due(int(first.timestamp() * 1000), repeat.rule(), zone.key, "")
        moment = read_when(at, now)
    except WhenError as error:
        raise ModelError(f"{what}: {error}", hint=f"such as {EXAMPLES}; {REPEATS}", code="bad_arguments") from error
    return _Due(int(moment.at.timestamp() * 1000), None, zone.key, moment.note)


def _at(due_ms: int, zone: ZoneInfo) -> str:
    return f"{datetime.fromtimestamp(due_ms / 1000, zone):%A %Y-%m-%d %H:%M} ({zone.key})"


def _repeats(one: reminders.Reminder, zone: ZoneInfo) -> str:
    if not one.rule:
        return ""
    elsewhere = f", {one.zone} time" if one.zone and one.zone != zone.key else ""
    return f", {from_rule(one.rule).words()}{elsewhere}"


def _as_value(one: reminders.Reminder, zone: ZoneInfo) -> dict[str, JsonValue]:
    at = datetime.fromtimestamp(one.due_ms / 1000, zone).isoformat(timespec="seconds")
    return {"id": one.id, "text": one.text, "at": at, "state": one.state.value, "repeats": one.rule}


def _said(done: str, one: reminders.Reminder, zone: ZoneInfo, note: str) -> ToolOutput:
    text = f"{done} {_at(one.due_ms, zone)}{_repeats(one, zone)}: {one.text}"
    return ToolOutput({**_as_value(one, zone), "note": note}, f"{text}\n[{note}]" if note else text)


@tool(
    group="reminders",
    effect=Effect.IDEMPOTENT,
    keywords={"es": ("recuérdame", "avísame", "alarma"), "en": ("remind", "alarm", "alert")},
    examples={"es": ("recuérdame en una hora apagar el horno",), "en": ("remind me in an hour to turn the oven off",)},
)
async def reminder_add(ctx: ToolContext, text: _Text, at: _When, timezone: _Zone = "") -> ToolOutput:
    """Sets a reminder, once or repeating; at its time it is told to the user in this conversation."""
    zone = find_zone(ctx.settings.workflows.timezone)
    due, now_ms = _understood(ctx, at, timezone, "the reminder was not set"), ctx.now_ms
    id = "m" + hashlib.sha256(ctx.idempotency_key.encode()).hexdigest()[:20]  # a second attempt finds the first one's
    one = await ctx.services.db.run(
        lambda conn: reminders.add(
            conn,
            ctx.principal,
            text=text,
            due_ms=due.ms,
            session=ctx.session,
            now_ms=now_ms,
            rule=due.rule,
            zone=due.zone,
            language=language(text, at),
            id=id,
        )
    )
    return _said(f"Reminder {one.id} is set for", one, zone, due.note)


@tool(
    group="reminders",
    effect=Effect.READ,
    untrusted=True,
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
    lines = [f"- {_at(one.due_ms, zone)}{_repeats(one, zone)}: {one.text} (id {one.id})" for one in found]
    return ToolOutput(
        {"reminders": [_as_value(one, zone) for one in found]}, "\n".join(lines) or "No reminders are pending."
    )


@tool(
    group="reminders",
    effect=Effect.IDEMPOTENT,
    untrusted=True,
    keywords={"es": ("retrasa", "aplaza", "cambia el recordatorio"), "en": ("snooze", "postpone", "change reminder")},
    examples={"es": ("pasa el recordatorio del banco a las 10",), "en": ("move the bank reminder to 10",)},
)
async def reminder_change(
    ctx: ToolContext,
    id: _Id,
    text: Annotated[str | None, Field(description="New text", min_length=1, max_length=1000)] = None,
    at: Annotated[str | None, Field(description="New time, as for reminder_add; it replaces a repetition too")] = None,
    timezone: _Zone = "",
) -> ToolOutput:
    """Changes the text or the time of one pending reminder; what is not given stays."""
    if text is None and at is None:
        raise ModelError("nothing to change was given", hint="give text or at", code="bad_arguments")
    zone = find_zone(ctx.settings.workflows.timezone)
    due = None if at is None else _understood(ctx, at, timezone, "the reminder was not changed")
    one = await ctx.services.db.run(
        lambda conn: reminders.change(
            conn,
            ctx.principal,
            id,
            text=text,
            due_ms=due.ms if due else None,
            rule=due.rule if due else None,
            zone=due.zone if due else None,
        )
    )
    if one is None:
        raise ModelError(f"there is no pending reminder {id}", hint="reminder_list shows the ids", code="not_found")
    return _said(f"Reminder {one.id} is now set for", one, zone, due.note if due else "")


@tool(
    group="reminders",
    effect=Effect.IDEMPOTENT,
    keywords={"es": ("cancelar", "quitar"), "en": ("cancel", "remove")},
    examples={"es": ("cancela el recordatorio del banco",), "en": ("cancel the reminder about the bank",)},
)
async def reminder_cancel(ctx: ToolContext, id: _Id) -> ToolOutput:
    """Cancels one pending reminder, with all its repetitions."""
    cancelled = await ctx.services.db.run(lambda conn: reminders.cancel(conn, ctx.principal, id))
    text = f"Cancelled reminder {id}." if cancelled else f"There is no pending reminder {id} (any more)."
    return ToolOutput({"id": id, "cancelled": cancelled}, text)
