"""Reads what a time line needs from a running system."""

from __future__ import annotations

import time

from ops.trace.model import timeline
from ops.trace.observed import moment
from ops.trace.values import Timeline
from shared.client import Client
from shared.entries import Event, UserMessage
from shared.errors import UserError

_RECENT = 1000  # as many as the state keeps
_QUIET_S = 2.0


def read(client: Client, run: str, session: str | None = None) -> Timeline:
    """The time line of a run; `session` is needed only for one that is no longer among the recent runs.

    Raises UserError for a run that is unknown or has not started, StateUnavailable.
    """
    where = session or _session_of(client, run)
    entries = client.history(where)
    started = next((e.id for e in entries if e.run == run and isinstance(e.value, UserMessage)), None)
    events = [] if started is None else events_since(client, where, moment(started))
    return timeline(run, entries, events, now_ms=int(time.time() * 1000))


def _session_of(client: Client, run: str) -> str:
    for row in client.runs(_RECENT):
        if row["run"] == run:
            return str(row["session"])
    hint = "`capataz runs` lists the recent ones; for an older one name its session with --session"
    raise UserError(f"{run!r} is not among the recent runs", code="unknown_run", hint=hint)


def events_since(client: Client, session: str, since_ms: int) -> list[Event]:
    """The session's events from `since_ms` to the newest one there is now; none if they were trimmed away."""
    newest = client.last_event(session)
    found: list[Event] = []
    if moment(newest) < since_ms:
        return found
    stream = client.stream(session, after=f"{since_ms - 1}-0", timeout=_QUIET_S)
    try:
        for event in stream:
            if event.type != "snapshot":
                found.append(event)
                if _order(event.id) >= _order(newest):
                    break
    except TimeoutError:
        pass  # the newest was trimmed in the meantime: what came is all there is
    return found


def _order(entry_id: str) -> tuple[int, int]:
    ms, _, sequence = entry_id.partition("-")
    return int(ms), int(sequence or 0)
