"""The copy of the sessions' logs, entry by entry as they stand in Redis."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, select, tuple_
from sqlalchemy.sql.dml import ReturningInsert

from shared.sql import sessions
from shared.sql.tables import insert_into, log_entries
from shared.sql.tables import sessions as sessions_table

_ENTRY_ID: Final = re.compile(r"(\d{1,19})-(\d{1,19})")


@dataclass(frozen=True, slots=True)
class ArchivedEntry:
    """A log entry: its stream id (`ms-seq`), run, type, version and JSON data."""

    entry_id: str
    run: str
    type: str
    v: int
    data: Mapping[str, Any]

    @classmethod
    def from_stream(cls, entry_id: str, fields: Mapping[str, str]) -> ArchivedEntry:
        """An entry as Redis gives it (fields `t`, `v`, `run`, `d`). Raises ValueError if it is malformed."""
        return cls(entry_id, fields.get("run", ""), fields["t"], int(fields.get("v", 1)), json.loads(fields["d"]))

    def to_stream(self) -> dict[str, str]:
        """The fields to write it back to Redis with."""
        data = json.dumps(self.data, separators=(",", ":"), ensure_ascii=False)
        return {"t": self.type, "v": str(self.v), "run": self.run, "d": data}


def position(entry_id: str) -> tuple[int, int]:
    """A stream id as its two numbers, which sort as the stream does. Raises ValueError if it is none."""
    match = _ENTRY_ID.fullmatch(entry_id)
    if match is None:
        raise ValueError(f"not the id of a stream entry: {entry_id!r}")
    return int(match[1]), int(match[2])


def append_entries(
    conn: Connection, session: str, principal: str, entries: Sequence[ArchivedEntry], now_ms: int
) -> int:
    """Adds entries to the copy of a session's log; those it has already are left as they are.

    Returns how many were new. Raises UserError if the session is another user's, ValueError for an id that is
    not `ms-seq`.
    """
    sessions.ensure(conn, session, principal, now_ms)
    return add_entries(conn, session, entries)


def add_entries(conn: Connection, session: str, entries: Sequence[ArchivedEntry]) -> int:
    """The same, in a transaction that has made sure of the session already."""
    rows = []
    for entry in entries:
        ms, seq = position(entry.entry_id)
        values = {"run": entry.run, "type": entry.type, "v": entry.v, "data": dict(entry.data)}
        rows.append({"session": session, "entry_ms": ms, "entry_seq": seq} | values)
    if not rows:
        return 0
    return len(conn.execute(_adding(conn.dialect.name), rows).all())


@cache
def _adding(dialect: str) -> ReturningInsert[Any]:
    new = insert_into(dialect, log_entries).on_conflict_do_nothing(index_elements=["session", "entry_ms", "entry_seq"])
    return new.returning(log_entries.c.entry_seq)


def owners(conn: Connection, wanted: Collection[str]) -> dict[str, str]:
    """Whose those of the sessions are that the archive has, by session."""
    query = select(sessions_table.c.id, sessions_table.c.owner).where(sessions_table.c.id.in_(wanted))
    return {row.id: row.owner for row in conn.execute(query)}


def entries(
    conn: Connection, session: str, principal: str | None, after: str = "0-0", limit: int | None = None
) -> list[ArchivedEntry]:
    """Entries of a session after a stream id, in the order of the stream.

    None are returned if the session is not `principal`'s (None: whoever's, for the operator and recovery).
    """
    place = tuple_(log_entries.c.entry_ms, log_entries.c.entry_seq)
    query = select(log_entries).where(log_entries.c.session == session, place > position(after))
    query = query.order_by(log_entries.c.entry_ms, log_entries.c.entry_seq).limit(limit)
    if principal is not None:
        query = query.join(sessions_table, sessions_table.c.id == log_entries.c.session)
        query = query.where(sessions_table.c.owner == principal)
    return [
        ArchivedEntry(f"{row.entry_ms}-{row.entry_seq}", row.run, row.type, row.v, row.data)
        for row in conn.execute(query)
    ]
