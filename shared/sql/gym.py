"""What users trained, one row for each exercise of a session, and their routines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue
from sqlalchemy import Connection, Row, delete, select, update

from shared.errors import ModelError
from shared.sql.notes import fold
from shared.sql.tables import gym_entries, gym_routines, insert

NAME_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class GymEntry:
    """One exercise of a session. `day` is an ISO date, `sets` JSON that the tools know how to read."""

    id: str
    principal: str
    day: str
    exercise: str
    sets: list[dict[str, JsonValue]]
    note: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class Routine:
    """A named plan: lines in the notation of training."""

    name: str
    plan: tuple[str, ...]
    updated_ms: int


def add(conn: Connection, entries: Sequence[GymEntry]) -> list[GymEntry]:
    """Logs entries; one whose id is there already stays as it is. Returns them as they are now, in the same order."""
    for one in entries:
        row = insert(conn, gym_entries).values(**_values(one))
        conn.execute(row.on_conflict_do_nothing(index_elements=["id"]))
    found = {row.id: _entry(row) for row in conn.execute(_select([one.id for one in entries]))}
    return [found[one.id] for one in entries]


def _values(one: GymEntry) -> dict[str, Any]:
    return {name: getattr(one, name) for name in GymEntry.__slots__}


def _select(ids: Sequence[str]) -> Any:
    return select(gym_entries).where(gym_entries.c.id.in_(ids))


def _entry(row: Row[Any]) -> GymEntry:
    return GymEntry(**row._mapping)


def history(
    conn: Connection, principal: str, *, exercise: str | None = None, since: str | None = None, limit: int = 10_000
) -> list[GymEntry]:
    """A user's entries, the newest day first: of one exercise, from an ISO date on."""
    query = select(gym_entries).where(gym_entries.c.principal == principal)
    if exercise is not None:
        query = query.where(gym_entries.c.exercise == exercise)
    if since is not None:
        query = query.where(gym_entries.c.day >= since)
    order = (gym_entries.c.day.desc(), gym_entries.c.created_ms.desc(), gym_entries.c.id)
    return [_entry(row) for row in conn.execute(query.order_by(*order).limit(limit))]


def correct(
    conn: Connection,
    principal: str,
    entry: str,
    *,
    exercise: str | None = None,
    sets: list[dict[str, JsonValue]] | None = None,
    note: str | None = None,
    day: str | None = None,
) -> GymEntry | None:
    """Changes what is given of an entry; None if the user has no such one."""
    given = {"exercise": exercise, "sets": sets, "note": note, "day": day}
    values = {name: value for name, value in given.items() if value is not None}
    mine = (gym_entries.c.id == entry) & (gym_entries.c.principal == principal)
    row = conn.execute(update(gym_entries).where(mine).values(**values).returning(*gym_entries.c)).one_or_none()
    return _entry(row) if row else None


def remove(conn: Connection, principal: str, entry: str) -> bool:
    """Removes an entry; False if the user has no such one."""
    mine = (gym_entries.c.id == entry) & (gym_entries.c.principal == principal)
    return conn.execute(delete(gym_entries).where(mine)).rowcount > 0


def save_routine(conn: Connection, principal: str, name: str, plan: Sequence[str], now_ms: int) -> bool:
    """Saves a routine or replaces the one of that name (case and accents do not count); True if it is new.

    Raises ModelError for a name that is empty or too long.
    """
    if not (folded := fold(name).strip()) or len(name) > NAME_MAX:
        raise ModelError(f"a routine needs a name of 1 to {NAME_MAX} characters", code="bad_arguments")
    values = {"name": name.strip(), "plan": list(plan), "updated_ms": now_ms}
    known = routine(conn, principal, name) is not None
    row = insert(conn, gym_routines).values(principal=principal, folded=folded, **values)
    conn.execute(row.on_conflict_do_update(index_elements=["principal", "folded"], set_=values))
    return not known


def routines(conn: Connection, principal: str) -> list[Routine]:
    """A user's routines by name."""
    query = select(gym_routines).where(gym_routines.c.principal == principal).order_by(gym_routines.c.folded)
    return [Routine(row.name, tuple(row.plan), row.updated_ms) for row in conn.execute(query)]


def routine(conn: Connection, principal: str, name: str) -> Routine | None:
    """One routine, by its name without case and accents."""
    mine = (gym_routines.c.principal == principal) & (gym_routines.c.folded == fold(name).strip())
    row = conn.execute(select(gym_routines).where(mine)).one_or_none()
    return Routine(row.name, tuple(row.plan), row.updated_ms) if row else None


def delete_routine(conn: Connection, principal: str, name: str) -> bool:
    """Deletes a routine; False if the user has none of that name."""
    mine = (gym_routines.c.principal == principal) & (gym_routines.c.folded == fold(name).strip())
    return conn.execute(delete(gym_routines).where(mine)).rowcount > 0
