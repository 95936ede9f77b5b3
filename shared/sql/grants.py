"""Standing grants: what users have allowed for good. The rules that they lift are not here but in the settings."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, delete, select

from shared.permissions import Grant
from shared.sql.tables import grants, insert


def add_grant(conn: Connection, grant: Grant, *, now_ms: int) -> Grant:
    """Keeps a grant and returns it as it is kept; one that says the same already stays as it is.

    Raises ValueError for a grant that is not for `always`, or is for certain arguments only.
    """
    if grant.scope != "always" or grant.args_hash:
        raise ValueError(f"grant {grant.id} ({grant.scope}) is not one for good")
    same = {name: getattr(grant, name) for name in ("principal", "agent", "tool", "rule_id")}
    row = insert(conn, grants).values(id=grant.id, created_ms=now_ms, by_text=grant.by_text, **same)
    conn.execute(row.on_conflict_do_nothing(index_elements=list(same)))
    return _grant(conn.execute(select(grants).filter_by(**same)).one())


def grants_of(conn: Connection, principal: str) -> list[Grant]:
    """All standing grants of a user, the oldest first."""
    query = select(grants).where(grants.c.principal == principal).order_by(grants.c.created_ms, grants.c.id)
    return [_grant(row) for row in conn.execute(query)]


def remove_grant(conn: Connection, principal: str, id: str) -> bool:
    """Takes a grant back; False if the user has no such one."""
    return conn.execute(delete(grants).where(grants.c.principal == principal, grants.c.id == id)).rowcount > 0


def _grant(row: Row[Any]) -> Grant:
    return Grant(**row._mapping, scope="always")
