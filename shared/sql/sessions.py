"""Sessions in the archive, and the state's epoch that this installation last saw."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, case, exists, func, literal, select, update
from sqlalchemy.sql.dml import ReturningInsert

from shared.errors import UserError
from shared.sql.tables import insert, insert_into, installation, notes, runs, sessions


@dataclass(frozen=True, slots=True)
class Session:
    """A session. Times are Unix milliseconds; `updated_ms` is that of its newest run or entry."""

    id: str
    owner: str
    created_ms: int
    updated_ms: int
    title: str


class Overview(NamedTuple):
    """A session in a list: how many messages and workflows ran in it, and what the first of them asked."""

    session: str
    owner: str
    updated_ms: int
    runs: int
    begins: str


def ensure(conn: Connection, session: str, principal: str, now_ms: int) -> None:
    """Makes the session if it is new and marks it as used. Raises UserError if it is another user's."""
    row = {"id": session, "owner": principal, "created_ms": now_ms, "updated_ms": now_ms, "title": ""}
    if conn.execute(_ensuring(conn.dialect.name), row).one_or_none() is None:
        raise UserError(f"session {session!r} belongs to another user", hint="use another session id", code="not_yours")


@cache
def _ensuring(dialect: str) -> ReturningInsert[Any]:
    """Makes a session, or marks its owner's as used; no row comes back for another user's."""
    new = insert_into(dialect, sessions)
    newest = case(
        (sessions.c.updated_ms > new.excluded.updated_ms, sessions.c.updated_ms), else_=new.excluded.updated_ms
    )
    mine = sessions.c.owner == new.excluded.owner
    return new.on_conflict_do_update(index_elements=["id"], set_={"updated_ms": newest}, where=mine).returning(
        sessions.c.id
    )


def get(conn: Connection, session: str, principal: str | None) -> Session | None:
    """One session; None if there is none or it is not `principal`'s (None: whoever's, for the operator)."""
    query = select(sessions).where(sessions.c.id == session)
    if principal is not None:
        query = query.where(sessions.c.owner == principal)
    row = conn.execute(query).one_or_none()
    return Session(**row._mapping) if row else None


def list_sessions(conn: Connection, principal: str | None, limit: int = 50, offset: int = 0) -> list[Session]:
    """Sessions of a user (None: of all, for the operator), the last used first."""
    query = select(sessions).order_by(sessions.c.updated_ms.desc(), sessions.c.id.desc()).limit(limit).offset(offset)
    if principal is not None:
        query = query.where(sessions.c.owner == principal)
    return [Session(**row._mapping) for row in conn.execute(query)]


def set_title(conn: Connection, session: str, principal: str, title: str) -> bool:
    """Names a session; False if the user has no such session."""
    change = update(sessions).where(sessions.c.id == session, sessions.c.owner == principal).values(title=title)
    return conn.execute(change).rowcount > 0


def overview(
    conn: Connection, principal: str | None, limit: int = 50, *, without: Collection[str] = ()
) -> list[Overview]:
    """Sessions of a user (None: of all) with what a list of them shows, the last used first. `without` has beginnings
    of ids to leave out."""
    mine = select(runs).where(runs.c.session == sessions.c.id, runs.c.parent.is_(None)).correlate(sessions)
    count = mine.with_only_columns(func.count()).scalar_subquery()
    first = mine.with_only_columns(runs.c.question).order_by(runs.c.created_ms, runs.c.id).limit(1).scalar_subquery()
    query = select(sessions.c.id, sessions.c.owner, sessions.c.updated_ms, count, func.coalesce(first, ""))
    if principal is not None:
        query = query.where(sessions.c.owner == principal)
    query = query.where(*_not_of(without))
    query = query.order_by(sessions.c.updated_ms.desc(), sessions.c.id.desc()).limit(limit)
    return [Overview(*row) for row in conn.execute(query)]


def known_epoch(conn: Connection) -> str | None:
    """The random epoch of the state Redis that was stored last; None on a new installation."""
    epoch: str | None = conn.execute(select(installation.c.epoch)).scalar_one_or_none()
    return epoch


def set_epoch(conn: Connection, epoch: str, now_ms: int) -> None:
    """Stores the epoch of the state Redis."""
    row = insert(conn, installation).values(id=1, epoch=epoch, updated_ms=now_ms)
    conn.execute(row.on_conflict_do_update(index_elements=["id"], set_={"epoch": epoch, "updated_ms": now_ms}))


def _not_of(beginnings: Collection[str]) -> list[ColumnElement[bool]]:
    return [~sessions.c.id.startswith(one, autoescape=True) for one in beginnings]


def idle(
    conn: Connection, principal: str, before_ms: int, *, noted: str, without: Collection[str] = (), limit: int = 20
) -> list[Session]:
    """A user's sessions that were last used before a time and have no note since, the longest idle first.

    A session's note has the title `noted` and its id. `without` has beginnings of ids to leave out.
    """
    note = exists().where(
        notes.c.principal == sessions.c.owner,
        notes.c.title == literal(noted) + sessions.c.id,
        notes.c.updated_ms >= sessions.c.updated_ms,
    )
    query = select(sessions).where(sessions.c.owner == principal, sessions.c.updated_ms < before_ms, ~note)
    query = query.where(*_not_of(without)).order_by(sessions.c.updated_ms, sessions.c.id).limit(limit)
    return [Session(**row._mapping) for row in conn.execute(query)]
