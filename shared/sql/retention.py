"""What the archive forgets when its time has passed. Each function takes one small batch and says how large it was.

A batch is one transaction, so that other writers of SQLite wait for moments only. Its place in the file is used
again; the file does not shrink. Notes, pending reminders and grants are a user's own, and stay.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, exists, select, tuple_

from shared.playbook import BulletState
from shared.sql.reminders import ReminderState
from shared.sql.runs import RunState
from shared.sql.tables import (
    artifacts,
    bullet_ledger,
    bullets,
    log_entries,
    model_calls,
    reminders,
    runs,
    sessions,
)


def ended_runs(conn: Connection, before_ms: int, limit: int) -> int:
    """Removes runs that ended before `before_ms`, with their log entries. Returns how many runs were removed."""
    old = select(runs.c.id).where(runs.c.ended_ms < before_ms, runs.c.state != RunState.RUNNING.value)
    ids = list(conn.execute(old.order_by(runs.c.ended_ms).limit(limit)).scalars())
    conn.execute(delete(log_entries).where(log_entries.c.run.in_(ids)))
    conn.execute(delete(runs).where(runs.c.id.in_(ids)))
    return len(ids)


def unused_sessions(conn: Connection, before_ms: int, limit: int) -> int:
    """Removes what is left of sessions that have no run any more and were last used before `before_ms`.

    Their names are free then. Returns how many rows were removed; at most `limit` log entries at once.
    """
    has_runs = exists().where(runs.c.session == sessions.c.id)
    old = select(sessions.c.id).where(sessions.c.updated_ms < before_ms, ~has_runs)
    ids = list(conn.execute(old.limit(limit)).scalars())
    rest = _delete(conn, log_entries, log_entries.c.session.in_(ids), limit)
    if rest:
        return rest
    return conn.execute(delete(sessions).where(sessions.c.id.in_(ids))).rowcount


def costs(conn: Connection, before_ms: int, limit: int) -> int:
    """Removes the bill of whole days (UTC) before the one of `before_ms`. Returns how many calls were removed."""
    day = datetime.fromtimestamp(before_ms / 1000, UTC).date().isoformat()
    return _delete(conn, model_calls, model_calls.c.day < day, limit)


def playbook_changes(conn: Connection, before_ms: int, limit: int) -> int:
    """Removes changes of playbooks made before `before_ms`: they can be undone no more. Returns how many."""
    oldest = conn.execute(select(bullet_ledger.c.id, bullet_ledger.c.at_ms).order_by(bullet_ledger.c.id).limit(limit))
    ids = [row.id for row in oldest if row.at_ms < before_ms]
    return conn.execute(delete(bullet_ledger).where(bullet_ledger.c.id.in_(ids))).rowcount


def retired_bullets(conn: Connection, before_ms: int, limit: int) -> int:
    """Removes bullets that were retired before `before_ms`. Returns how many."""
    old = (bullets.c.state == BulletState.RETIRED.value) & (bullets.c.updated_ms < before_ms)
    return _delete(conn, bullets, old, limit)


def past_reminders(conn: Connection, before_ms: int, limit: int) -> int:
    """Removes reminders that were due before `before_ms` and have fired or were cancelled. Returns how many."""
    old = (reminders.c.state != ReminderState.PENDING.value) & (reminders.c.due_ms < before_ms)
    return _delete(conn, reminders, old, limit)


def expired_artifacts(conn: Connection, before_ms: int, limit: int) -> int:
    """Removes values whose time had passed by `before_ms`. Returns how many."""
    return _delete(conn, artifacts, artifacts.c.expires_ms <= before_ms, limit)


def untimed_artifacts(conn: Connection, before_ms: int, limit: int) -> int:
    """Removes values that were made before `before_ms`, when values were given no time. Returns how many."""
    return _delete(conn, artifacts, artifacts.c.expires_ms.is_(None) & (artifacts.c.created_ms < before_ms), limit)


def _delete(conn: Connection, table: Table, which: ColumnElement[bool], limit: int) -> int:
    """Deletes at most `limit` of the rows; neither database has a LIMIT for that."""
    place: Any = tuple_(*table.primary_key.columns)
    chosen = select(*table.primary_key.columns).where(which).limit(limit)
    return conn.execute(delete(table).where(place.in_(chosen))).rowcount
