"""Sessions that have been idle for long get a note: what they were about, and the whole of them as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from pydantic import JsonValue

from shared.compress import snippet
from shared.contract import Effect
from shared.names import SYSTEM_SESSION
from shared.sql import notes, runs, sessions
from shared.sql.runs import Run
from workers.context import ToolContext
from workers.declare import ToolOutput
from workers.workflows.define import Inputs, Steps, step, workflow

TITLE: Final = "Session "
"""How the title of a session's note begins; its id follows."""

TAG: Final = "session"
_DAY_MS: Final = 86_400_000
_AT_ONCE: Final = 20
_MOST_RUNS: Final = 500
_SHOWN: Final = 300


@step(effect=Effect.IDEMPOTENT, timeout_s=120.0)
async def archive(ctx: ToolContext, inputs: Inputs) -> ToolOutput:
    """Writes the notes of sessions that are idle and have none since they were last used, the longest idle first."""
    before_ms = ctx.now_ms - ctx.settings.workflows.archive_idle_days * _DAY_MS
    done: list[str] = []
    idle = await ctx.services.db.run(
        lambda conn: sessions.idle(
            conn, ctx.principal, before_ms, noted=TITLE, without=(SYSTEM_SESSION,), limit=_AT_ONCE
        )
    )
    for session in [one.id for one in idle]:
        found = await ctx.services.db.run(
            lambda conn, session=session: runs.list_runs(conn, ctx.principal, session, _MOST_RUNS)  # type: ignore[misc]
        )
        asked = [one for one in reversed(found) if one.parent is None]
        if not asked:
            continue
        handle = await ctx.services.artifacts.put(ctx.principal, markdown(session, asked).encode(), "text/markdown")
        text = summary(asked, handle)
        await ctx.services.db.run(
            lambda conn, session=session, text=text: notes.save(  # type: ignore[misc]
                conn, ctx.principal, title=TITLE + session, text=text, tags=(TAG,), now_ms=ctx.now_ms
            )
        )
        done.append(session)
    value: JsonValue = {"archived": [*done]}
    return ToolOutput(value, f"Wrote a note of {len(done)} idle sessions: {', '.join(done)}." if done else " ")


def summary(asked: Sequence[Run], handle: str) -> str:
    """The text of the note: when, how much, how it began and how it ended."""
    first, last = asked[0], asked[-1]
    span = f"{_day(first.created_ms)} to {_day(last.created_ms)}"
    return "\n".join(
        [
            f"{len(asked)} messages, {span}.",
            f"Began with: {snippet(first.question, _SHOWN) or '(nothing)'}",
            f"Ended with: {snippet(last.answer or last.error, _SHOWN) or '(nothing)'}",
            f"All of it, as Markdown: {handle}",
        ]
    )


def markdown(session: str, asked: Sequence[Run]) -> str:
    """The session as Markdown: each message with its answer."""
    parts = [f"# Session {session}"]
    for one in asked:
        at = f"{datetime.fromtimestamp(one.created_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
        parts += [f"## {at}", _quoted(one.question), one.answer or f"*{one.state}: {one.error or one.finish_reason}*"]
    return "\n\n".join(parts) + "\n"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines()) or "> "


def _day(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d}"


@workflow("session-archive", title="Notes of idle sessions", result="archive")
def session_archive() -> Steps:
    """One step; no model."""
    return [archive]
