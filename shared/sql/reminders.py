"""Reminders. One that is due is told first and marked as fired then: a crash in between tells it twice, not never."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, Update, select, update

from shared.ids import sortable_id
from shared.sql.tables import insert, reminders


class ReminderState(StrEnum):
    """A reminder is pending until it fires or is cancelled."""

    PENDING = "pending"
    FIRED = "fired"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Reminder:
    """A reminder, told in `session` at `due_ms` (Unix milliseconds)."""

    id: str
    principal: str
    text: str
    due_ms: int
    session: str
    state: ReminderState
    created_ms: int


def _reminder(row: Row[Any]) -> Reminder:
    return Reminder(**(dict(row._mapping) | {"state": ReminderState(row.state)}))


def add(conn: Connection, principal: str, *, text: str, due_ms: int, session: str, now_ms: int) -> Reminder:
    """A new pending reminder."""
    statement = insert(conn, reminders).values(
        id="m" + sortable_id(now_ms),
        principal=principal,
        text=text,
        due_ms=due_ms,
        session=session,
        state=ReminderState.PENDING.value,
        created_ms=now_ms,
    )
    return _reminder(conn.execute(statement.returning(*reminders.c)).one())


def list_reminders(
    conn: Connection,
    principal: str,
    state: ReminderState | None = ReminderState.PENDING,
    limit: int = 50,
    offset: int = 0,
) -> list[Reminder]:
    """Reminders of a user in a state (None: in any), the first due first."""
    query = select(reminders).where(reminders.c.principal == principal)
    if state is not None:
        query = query.where(reminders.c.state == state.value)
    query = query.order_by(reminders.c.due_ms, reminders.c.id).limit(limit).offset(offset)
    return [_reminder(row) for row in conn.execute(query)]


def cancel(conn: Connection, principal: str, reminder: str) -> bool:
    """Cancels a pending reminder; False if the user has no such one or it is not pending any more."""
    change = _leave_pending(reminder, ReminderState.CANCELLED).where(reminders.c.principal == principal)
    return conn.execute(change).rowcount > 0


def due(conn: Connection, now_ms: int, limit: int = 100) -> list[Reminder]:
    """Pending reminders of all users whose time has come, the first due first."""
    query = select(reminders).where(reminders.c.state == ReminderState.PENDING.value, reminders.c.due_ms <= now_ms)
    return [_reminder(row) for row in conn.execute(query.order_by(reminders.c.due_ms, reminders.c.id).limit(limit))]


def mark_fired(conn: Connection, reminder: str) -> bool:
    """Marks a pending reminder as fired; True for exactly one of several callers."""
    return conn.execute(_leave_pending(reminder, ReminderState.FIRED)).rowcount > 0


def _leave_pending(reminder: str, state: ReminderState) -> Update:
    pending = (reminders.c.id == reminder) & (reminders.c.state == ReminderState.PENDING.value)
    return update(reminders).where(pending).values(state=state.value)
