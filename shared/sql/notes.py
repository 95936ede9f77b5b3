"""Notes, each with a title that is unique for its user."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from shared.errors import ModelError
from shared.ids import sortable_id
from shared.sql.tables import insert
from shared.sql.tables import notes as table

TITLE_MAX: Final = 200
"""Characters of a title; it is part of an index, whose entries PostgreSQL bounds."""

_WORDS_MAX: Final = 32
_WORD_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Note:
    """A note. Times are Unix milliseconds."""

    id: str
    principal: str
    title: str
    text: str
    tags: tuple[str, ...]
    created_ms: int
    updated_ms: int


_COLUMNS: Final = tuple(column for column in table.c if column.name != "folded")


def fold(text: str) -> str:
    """The text without case and accents, for comparing: `Ñandú` and `NANDU` both give `nandu`."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(c for c in folded if not unicodedata.combining(c))


def _note(row: Row[Any]) -> Note:
    return Note(**(dict(row._mapping) | {"tags": tuple(row.tags)}))


def _content(title: str, text: str, tags: Sequence[str]) -> dict[str, Any]:
    if not 0 < len(title) <= TITLE_MAX:
        raise ModelError(f"a note needs a title of 1 to {TITLE_MAX} characters", hint="put the rest into the text")
    return {"title": title, "text": text, "tags": list(tags), "folded": fold("\n".join((title, text, *tags)))}


def save(
    conn: Connection, principal: str, *, title: str, text: str, tags: Sequence[str] = (), now_ms: int
) -> tuple[Note, bool]:
    """Makes a note, or replaces the user's note of the same title. Returns it and whether it is new.

    Raises ModelError for an empty or too long title.
    """
    content = _content(title, text, tags)
    new = "n" + sortable_id(now_ms)
    statement = insert(conn, table).values(id=new, principal=principal, created_ms=now_ms, updated_ms=now_ms, **content)
    statement = statement.on_conflict_do_update(
        index_elements=["principal", "title"], set_=content | {"updated_ms": now_ms}
    )
    note = _note(conn.execute(statement.returning(*_COLUMNS)).one())
    return note, note.id == new


def get(conn: Connection, principal: str, note: str) -> Note | None:
    """One note of the user."""
    row = conn.execute(select(*_COLUMNS).where(table.c.id == note, table.c.principal == principal)).one_or_none()
    return _note(row) if row else None


def list_notes(conn: Connection, principal: str, limit: int = 20, offset: int = 0) -> list[Note]:
    """Notes of the user, the last changed first."""
    return search(conn, principal, "", limit, offset)


def search(conn: Connection, principal: str, query: str, limit: int = 20, offset: int = 0) -> list[Note]:
    """Notes of the user in whose title, text or tags every word of `query` occurs, the last changed first.

    Case and accents do not count, and parts of words match. Raises ModelError for too many or too long words.
    """
    words = sorted(set(fold(query).split()))
    if len(words) > _WORDS_MAX or any(len(word) > _WORD_MAX for word in words):
        raise ModelError(f"search with at most {_WORDS_MAX} words of {_WORD_MAX} characters")
    found = select(*_COLUMNS).where(table.c.principal == principal)
    for word in words:
        found = found.where(table.c.folded.contains(word, autoescape=True))
    found = found.order_by(table.c.updated_ms.desc(), table.c.id.desc()).limit(limit).offset(offset)
    return [_note(row) for row in conn.execute(found)]


def update(
    conn: Connection,
    principal: str,
    note: str,
    *,
    title: str | None = None,
    text: str | None = None,
    tags: Sequence[str] | None = None,
    now_ms: int,
) -> Note | None:
    """Changes what is given of a note; None if the user has no such note.

    Raises ModelError if the title is taken by another of the user's notes, empty or too long.
    """
    mine = (table.c.id == note) & (table.c.principal == principal)
    row = conn.execute(select(*_COLUMNS).where(mine).with_for_update()).one_or_none()
    if row is None:
        return None
    old = _note(row)
    content = _content(
        old.title if title is None else title, old.text if text is None else text, old.tags if tags is None else tags
    )
    same = select(table.c.id).where(
        table.c.principal == principal, table.c.title == content["title"], table.c.id != note
    )
    if (other := conn.execute(same).scalar_one_or_none()) is not None:
        raise ModelError(f"note {other} has this title already", hint="choose another title or change that note")
    updated = table.update().where(mine).values(content | {"updated_ms": now_ms}).returning(*_COLUMNS)
    return _note(conn.execute(updated).one())


def delete(conn: Connection, principal: str, note: str) -> bool:
    """Deletes a note; False if the user has no such note."""
    return conn.execute(table.delete().where(table.c.id == note, table.c.principal == principal)).rowcount > 0
