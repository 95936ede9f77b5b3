"""The daily brief: today's reminders and events, unread mail and recent notes, picked by code, summed up by one model
call. A user without mail or calendar has a brief without them; one whose server is away is told so in it."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from shared.compress import snippet
from shared.errors import ModelError
from shared.sql import notes, reminders
from workers.context import ToolContext
from workers.declare import ToolOutput
from workers.tools.calendar import calendar_today
from workers.tools.mail import mail_list
from workers.tools.utility import find_zone
from workers.tools.when import fold
from workers.workflows.define import Inputs, Steps, model_step, prompt_file, step, workflow

_READ = 50
_MAX_NOTES = 12
_MAX_DUE = 20
_MAX_MAILS = 15
_PART_CHARS = 4_000
_ENTRY_CHARS = 240  # all entries together stay under what travels inline
_RECENT_DAYS = 7


@step()
async def read_notes(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """The user's last changed notes."""
    found = await ctx.services.db.run(lambda conn: notes.list_notes(conn, ctx.principal, _READ))
    return [
        {"title": one.title, "text": snippet(one.text, _ENTRY_CHARS), "updated_ms": one.updated_ms} for one in found
    ]


@step()
async def due_reminders(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """The user's pending reminders, the next one first."""
    found = await ctx.services.db.run(lambda conn: reminders.list_reminders(conn, ctx.principal, limit=_READ))
    return [{"text": one.text, "due_ms": one.due_ms} for one in found]


@step(timeout_s=60.0)
async def read_calendar(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """Today's events, a line each; empty without a calendar."""
    if ctx.principal not in ctx.settings.calendar.accounts:
        return ""
    return await _shown(calendar_today.call(ctx, {}), "the calendar")


@step(timeout_s=60.0)
async def read_mail(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """Senders and subjects of unread mail, a line each; empty without a mailbox."""
    if ctx.principal not in ctx.settings.mail.accounts:
        return ""
    return await _shown(mail_list.call(ctx, {"unread": True, "limit": _MAX_MAILS}), "mail")


async def _shown(call: Awaitable[ToolOutput], what: str) -> str:
    """What a tool shows, or why it could not: one service that is away is no reason for no brief."""
    try:
        return (await call).seen[:_PART_CHARS]
    except ModelError as error:
        return f"({what} could not be read: {error.message})"


@step(needs=["read_notes", "due_reminders", "read_calendar", "read_mail"])
def filter(ctx: ToolContext, inputs: Inputs) -> ToolOutput:
    """What is due today and what was noted lately: newest first, without repetitions, bounded. Then events and mail."""
    now = datetime.fromtimestamp(ctx.services.now(), find_zone(ctx.settings.workflows.timezone))
    parts = [brief_entries(inputs["read_notes"], inputs["due_reminders"], now)]
    parts += [f"Calendar: {text}" for text in [inputs.get("read_calendar")] if text]
    parts += [f"Unread mail: {text}" for text in [inputs.get("read_mail")] if text]
    text = "\n\n".join(parts)
    return ToolOutput(text, text)


def brief_entries(found: Iterable[Mapping[str, Any]], due: Iterable[Mapping[str, Any]], now: datetime) -> str:
    """One line an entry, for the day of `now` (aware): reminders of today, overdue ones too, then recent notes."""
    zone = now.tzinfo
    lines: dict[str, str] = {}
    for one in sorted(due, key=lambda reminder: int(reminder["due_ms"])):
        at = datetime.fromtimestamp(int(one["due_ms"]) / 1000, zone)
        if at.date() <= now.date() and len(lines) < _MAX_DUE:
            day = "" if at.date() == now.date() else f"{at:%Y-%m-%d} "
            _put(lines, str(one["text"]), f"- due {day}{at:%H:%M}: {snippet(str(one['text']), _ENTRY_CHARS)}")
    reminded = len(lines)
    oldest = now.timestamp() - _RECENT_DAYS * 86_400
    for one in sorted(found, key=lambda note: -int(note["updated_ms"])):
        if int(one["updated_ms"]) / 1000 < oldest or len(lines) - reminded >= _MAX_NOTES:
            break
        body = snippet(f"{one['title']}: {one['text']}", _ENTRY_CHARS)
        _put(lines, str(one["text"]) or str(one["title"]), f"- note: {body}")
    return "\n".join(lines.values()) or "(no entries)"


def _put(lines: dict[str, str], content: str, line: str) -> None:
    """The first line of equal contents stays."""
    lines.setdefault(fold(content), line)


@workflow("daily-brief", title="Daily brief", cron="0 7 * * *", result="summarise")
def daily_brief() -> Steps:
    """Every morning: what is due today, what came by mail, and what was noted lately."""
    prompt = prompt_file("workers.workflows", "daily_brief.md")
    steps = [read_notes, due_reminders, read_calendar, read_mail, filter]
    return [*steps, model_step("summarise", needs=["filter"], prompt=prompt)]
