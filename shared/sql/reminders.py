"""Reminders: set, listed, changed; claimed when they are due, and told once.

A reminder stays pending until the run that tells it has said so here, and the first one to say so tells it: whatever
dies in between, it is claimed again and told by the next. What repeats goes on to its next time instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Update, exists, or_, select, update

from shared.ids import sortable_id
from shared.sql.tables import insert, reminders

CLAIM_MS: Final = 10 * 60_000
"""After so long somebody else may claim a reminder that has been claimed and is not told yet."""


class ReminderState(StrEnum):
    """A reminder is pending until it has fired for the last time or is cancelled."""

    PENDING = "pending"
    FIRED = "fired"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Reminder:
    """A reminder, told in `session` at `due_ms` (Unix milliseconds).

    `rule` is the RRULE of one that repeats, in the time zone `zone`. `claim` names who delivers it since `claimed_ms`;
    `told_by` is the run that told it last, for `told_due_ms`. `language` is what it is told in: es or en.
    """

    id: str
    principal: str
    text: str
    due_ms: int
    session: str
    state: ReminderState
    created_ms: int
    rule: str | None = None
    zone: str | None = None
    language: str | None = None
    claim: str | None = None
    claimed_ms: int | None = None
    told_by: str | None = None
    told_due_ms: int | None = None


def _reminder(row: Row[Any]) -> Reminder:
    return Reminder(**(dict(row._mapping) | {"state": ReminderState(row.state)}))


def _owned(principal: str, reminder: str) -> ColumnElement[bool]:
    return (reminders.c.id == reminder) & (reminders.c.principal == principal)


_PENDING: Final = reminders.c.state == ReminderState.PENDING.value


def add(
    conn: Connection,
    principal: str,
    *,
    text: str,
    due_ms: int,
    session: str,
    now_ms: int,
    rule: str | None = None,
    zone: str | None = None,
    language: str | None = None,
    id: str = "",
) -> Reminder:
    """A new pending reminder. With an `id` that the user has already, the one that is there."""
    new = id or "m" + sortable_id(now_ms)
    values = {"id": new, "principal": principal, "text": text, "due_ms": due_ms, "session": session}
    values |= {"state": ReminderState.PENDING.value, "created_ms": now_ms}
    row = insert(conn, reminders).values(**values, rule=rule, zone=zone, language=language)
    conn.execute(row.on_conflict_do_nothing(index_elements=["id"]))
    return _reminder(conn.execute(select(reminders).where(_owned(principal, new))).one())


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


def get(conn: Connection, principal: str, reminder: str) -> Reminder | None:
    """One reminder of the user, in any state."""
    row = conn.execute(select(reminders).where(_owned(principal, reminder))).one_or_none()
    return _reminder(row) if row else None


def change(
    conn: Connection,
    principal: str,
    reminder: str,
    *,
    text: str | None = None,
    due_ms: int | None = None,
    rule: str | None = None,
    zone: str | None = None,
) -> Reminder | None:
    """Changes the text, or the time (`due_ms`, with `rule` and `zone` as they are to be), of a pending reminder.

    None if the user has no such one or it is not pending any more.
    """
    values: dict[str, Any] = {} if text is None else {"text": text}
    if due_ms is not None:
        values |= {"due_ms": due_ms, "rule": rule, "zone": zone, "claim": None, "claimed_ms": None}
    mine = _owned(principal, reminder) & _PENDING
    changed = conn.execute(update(reminders).where(mine).values(**values).returning(*reminders.c)).one_or_none()
    return _reminder(changed) if changed else None


def cancel(conn: Connection, principal: str, reminder: str) -> bool:
    """Cancels a pending reminder; False if the user has no such one or it is not pending any more."""
    change = update(reminders).where(_owned(principal, reminder), _PENDING)
    return conn.execute(change.values(state=ReminderState.CANCELLED.value)).rowcount > 0


def due(conn: Connection, now_ms: int, limit: int = 100) -> list[Reminder]:
    """Pending reminders of all users whose time has come, claimed or not, the first due first."""
    query = select(reminders).where(_PENDING, reminders.c.due_ms <= now_ms)
    return [_reminder(row) for row in conn.execute(query.order_by(reminders.c.due_ms, reminders.c.id).limit(limit))]


def _claimable(now_ms: int, mark: str = "") -> ColumnElement[bool]:
    free = [reminders.c.claim.is_(None), reminders.c.claimed_ms <= now_ms - CLAIM_MS]
    return _PENDING & (reminders.c.due_ms <= now_ms) & or_(*free, *([reminders.c.claim == mark] if mark else []))


def any_due(conn: Connection, now_ms: int) -> bool:
    """True if a reminder is due that nobody is delivering."""
    return bool(conn.execute(select(exists().where(_claimable(now_ms)))).scalar())


def claim_due(conn: Connection, mark: str, now_ms: int, limit: int = 100) -> list[Reminder]:
    """Claims due reminders of all users for `mark`, the first due first, each for one mark only.

    Applied again with the same mark it returns the same ones, those told meanwhile left out.
    """
    chosen = select(reminders.c.id).where(_claimable(now_ms, mark)).order_by(reminders.c.due_ms, reminders.c.id)
    # The condition once more: PostgreSQL looks at it again when it had to wait for another claimer.
    taken = update(reminders).where(reminders.c.id.in_(chosen.limit(limit)), _claimable(now_ms, mark))
    rows = conn.execute(taken.values(claim=mark, claimed_ms=now_ms).returning(*reminders.c))
    return sorted((_reminder(row) for row in rows), key=lambda one: (one.due_ms, one.id))


def tell(
    conn: Connection,
    principal: str,
    reminder: str,
    due_ms: int,
    run: str,
    following: Callable[[Reminder], int | None],
) -> Reminder | None:
    """Takes the reminder that was due at `due_ms` for `run` to tell: exactly one run gets it, as often as it asks.

    `following` says when one that repeats is due next (None: never again). None if another run has told it, or it was
    cancelled or changed meanwhile.
    """
    row = conn.execute(select(reminders).where(_owned(principal, reminder)).with_for_update()).one_or_none()
    if row is None:
        return None
    one = _reminder(row)
    if one.told_by == run and one.told_due_ms == due_ms:
        return one
    if one.state is not ReminderState.PENDING or one.due_ms != due_ms:
        return None
    following_ms = following(one)
    told = _told(one, run, following_ms)
    return _reminder(conn.execute(told.returning(*reminders.c)).one())


def _told(one: Reminder, run: str, following_ms: int | None) -> Update:
    values: dict[str, Any] = {"told_by": run, "told_due_ms": one.due_ms, "claim": None, "claimed_ms": None}
    if following_ms is None:
        values["state"] = ReminderState.FIRED.value
    else:
        values["due_ms"] = following_ms
    return update(reminders).where(reminders.c.id == one.id).values(**values)
