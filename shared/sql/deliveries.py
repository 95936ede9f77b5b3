"""Deliveries: results on their way to the channels of users, each tried by one worker at a time.

A try is claimed here before it is made. So whoever finds one that began and did not end knows that it may have arrived.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, delete, exists, or_, select, update

from shared.sql.tables import deliveries, insert

STALE_MS: Final = 10 * 60_000
"""A try that has not ended for so long was interrupted: longer than any can take."""

KEPT_MS: Final = 30 * 86_400_000
"""How long one that is over is kept, so that the same is not made twice."""


class DeliveryState(StrEnum):
    """`pending` waits for its next try, `sending` is being tried; the others are final."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Delivery:
    """The result of `run` in `session`, for a channel of `principal`. `attempts` have begun; `due_ms`: the next."""

    id: str
    principal: str
    channel: str
    session: str
    run: str
    title: str
    text: str
    created_ms: int
    due_ms: int
    state: DeliveryState = DeliveryState.PENDING
    attempts: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """A try that may be made now. `interrupted`: one before it began, and nobody knows how it ended."""

    delivery: Delivery
    interrupted: bool


def _delivery(row: Row[Any]) -> Delivery:
    values = {name: row._mapping[name] for name in Delivery.__slots__}
    return Delivery(**(values | {"state": DeliveryState(row.state)}))


def add(conn: Connection, one: Delivery) -> None:
    """Puts down a delivery; one that is known already stays as it is. Those long over are removed."""
    over = deliveries.c.state.in_([DeliveryState.SENT, DeliveryState.FAILED, DeliveryState.UNKNOWN])
    conn.execute(delete(deliveries).where(over, deliveries.c.created_ms < one.created_ms - KEPT_MS))
    row = insert(conn, deliveries).values(**asdict(one) | {"state": one.state.value})
    conn.execute(row.on_conflict_do_nothing(index_elements=["id"]))


def take(conn: Connection, principal: str, id: str, mark: str, now_ms: int) -> Taken | None:
    """Claims the next try of a delivery for `mark`, also again if `mark` has begun one and not ended it.

    None if it is over, not due yet, somebody else's at the moment, or not this user's.
    """
    mine = (deliveries.c.id == id) & (deliveries.c.principal == principal)
    row = conn.execute(select(deliveries).where(mine).with_for_update()).one_or_none()
    if row is None:
        return None
    interrupted = row.state == DeliveryState.SENDING and (row.claim == mark or row.claimed_ms <= now_ms - STALE_MS)
    if not interrupted and (row.state != DeliveryState.PENDING or row.due_ms > now_ms):
        return None
    begun = (
        update(deliveries)
        .where(mine)
        .values(state=DeliveryState.SENDING.value, claim=mark, claimed_ms=now_ms, attempts=deliveries.c.attempts + 1)
    )
    return Taken(_delivery(conn.execute(begun.returning(*deliveries.c)).one()), bool(interrupted))


def end(conn: Connection, id: str, mark: str, state: DeliveryState, error: str, due_ms: int) -> bool:
    """How the try of `mark` ended; pending with the time of the next. False if it is not `mark`'s any more."""
    mine = (deliveries.c.id == id) & (deliveries.c.claim == mark) & (deliveries.c.state == DeliveryState.SENDING)
    values = {"state": state.value, "error": error, "due_ms": due_ms, "claim": None, "claimed_ms": None}
    return conn.execute(update(deliveries).where(mine).values(**values)).rowcount > 0


def _due(now_ms: int) -> ColumnElement[bool]:
    again = (deliveries.c.state == DeliveryState.PENDING) & (deliveries.c.due_ms <= now_ms)
    stale = (deliveries.c.state == DeliveryState.SENDING) & (deliveries.c.claimed_ms <= now_ms - STALE_MS)
    return or_(again, stale)


def any_due(conn: Connection, now_ms: int) -> bool:
    """True if a delivery waits for a try that may be made now."""
    return bool(conn.execute(select(exists().where(_due(now_ms)))).scalar())


def due(conn: Connection, now_ms: int, limit: int = 100) -> list[Delivery]:
    """Deliveries of all users whose next try may be made now, the first due first."""
    query = select(deliveries).where(_due(now_ms)).order_by(deliveries.c.due_ms, deliveries.c.id)
    return [_delivery(row) for row in conn.execute(query.limit(limit))]


def get(conn: Connection, id: str) -> Delivery | None:
    """One delivery."""
    row = conn.execute(select(deliveries).where(deliveries.c.id == id)).one_or_none()
    return _delivery(row) if row else None
