"""Playbooks as `shared.playbook` makes them: bullets, a version per playbook, and a ledger of all changes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Table, or_, select, update

from shared.errors import StateConflict, UserError
from shared.playbook import (
    Add,
    Bullet,
    BulletState,
    Change,
    Merge,
    Operation,
    Rollback,
    Scope,
    ScopeKind,
    display_order,
    merge,
    revert,
)
from shared.sql.tables import bullet_ledger, bullets, insert, playbook_version


@dataclass(frozen=True, slots=True)
class Playbook:
    """A playbook's active bullets in display order, and the version to give back when changing them."""

    version: int
    bullets: tuple[Bullet, ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """The playbook after a change, and what was done; changes with `refused` set did nothing."""

    playbook: Playbook
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One change of the past. `run` is the run that it was learned from, empty for the user's own."""

    id: int
    at_ms: int
    run: str
    change: Change


_COLUMNS: Final = [column for column in bullets.c if column.name not in ("vector", "vector_of")]
_MOST_FORGOTTEN: Final = 500
_ACTIVE: Final = bullets.c.state == BulletState.ACTIVE.value


def _of(table: Table, scope: Scope) -> ColumnElement[bool]:
    return (table.c.scope == scope.kind.value) & (table.c.scope_key == scope.key)


def _bullet(row: Row[Any]) -> Bullet:
    values = dict(row._mapping)
    scope = Scope(kind=ScopeKind(values.pop("scope")), key=values.pop("scope_key"))
    return Bullet(scope=scope, **values)


def find(conn: Connection, id: str) -> Bullet | None:
    """A bullet of whatever playbook and state."""
    row = conn.execute(select(*_COLUMNS).where(bullets.c.id == id)).one_or_none()
    return _bullet(row) if row is not None else None


def scopes(conn: Connection) -> list[Scope]:
    """All playbooks that have active bullets."""
    rows = conn.execute(select(bullets.c.scope, bullets.c.scope_key).where(_ACTIVE).distinct())
    return sorted((Scope(kind=ScopeKind(r.scope), key=r.scope_key) for r in rows), key=lambda s: (s.kind, s.key))


def _values(bullet: Bullet) -> dict[str, Any]:
    scope = {"scope": bullet.scope.kind.value, "scope_key": bullet.scope.key}
    return bullet.model_dump(mode="json", exclude={"scope"}) | scope


def active(conn: Connection, scopes: Sequence[Scope]) -> list[Bullet]:
    """The active bullets of several playbooks: pinned first, then by importance, then the oldest first."""
    if not scopes:
        return []
    rows = conn.execute(select(*_COLUMNS).where(_ACTIVE, or_(*(_of(bullets, scope) for scope in scopes))))
    return sorted(map(_bullet, rows), key=display_order)


def read(conn: Connection, scope: Scope) -> Playbook:
    """One playbook. The version is read first: if it is stale, `apply` refuses."""
    version: int | None = conn.execute(
        select(playbook_version.c.version).where(_of(playbook_version, scope))
    ).scalar_one_or_none()
    return Playbook(version or 0, tuple(active(conn, [scope])))


def retired(conn: Connection, scope: Scope, limit: int = 100, offset: int = 0) -> list[Bullet]:
    """The retired bullets of a playbook, the last retired first."""
    query = select(*_COLUMNS).where(_of(bullets, scope), bullets.c.state == BulletState.RETIRED.value)
    query = query.order_by(bullets.c.updated_ms.desc(), bullets.c.id.desc()).limit(limit).offset(offset)
    return [_bullet(row) for row in conn.execute(query)]


def forgotten(conn: Connection, scope: Scope) -> list[Bullet]:
    """What the user took away, the last first: nothing that says the same is to be learned again."""
    query = select(*_COLUMNS).where(_of(bullets, scope), bullets.c.state == BulletState.FORGOTTEN.value)
    query = query.order_by(bullets.c.updated_ms.desc(), bullets.c.id.desc())
    return [_bullet(row) for row in conn.execute(query.limit(_MOST_FORGOTTEN))]


def vectors(conn: Connection, scope: Scope, encoder: str) -> dict[str, bytes]:
    """What is kept of meanings of active and forgotten bullets, by text: vectors of that encoder, as stored."""
    query = select(bullets.c.text, bullets.c.vector, bullets.c.vector_of)
    query = query.where(
        _of(bullets, scope), bullets.c.state != BulletState.RETIRED.value, bullets.c.vector.is_not(None)
    )
    return {row.text: row.vector for row in conn.execute(query) if row.vector_of == _vector_of(row.text, encoder)}


def keep_vectors(conn: Connection, scope: Scope, encoder: str, found: Mapping[str, bytes]) -> None:
    """Keeps vectors with the bullets that have these texts; of other texts nothing is kept."""
    for text, vector in found.items():
        which = _of(bullets, scope) & (bullets.c.text == text)
        conn.execute(update(bullets).where(which).values(vector=vector, vector_of=_vector_of(text, encoder)))


def _vector_of(text: str, encoder: str) -> str:
    """Names encoder and text, so that a vector of an earlier wording is no longer used."""
    return f"{encoder}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def ledger(conn: Connection, scope: Scope, limit: int = 50, before: int | None = None) -> list[LedgerEntry]:
    """Changes of a playbook, the newest first; `before` an entry's id to page on."""
    query = select(bullet_ledger).where(_of(bullet_ledger, scope))
    if before is not None:
        query = query.where(bullet_ledger.c.id < before)
    return [_entry(row) for row in conn.execute(query.order_by(bullet_ledger.c.id.desc()).limit(limit))]


def apply(
    conn: Connection,
    scope: Scope,
    operations: Sequence[Operation],
    *,
    version: int,
    now_ms: int,
    limit: int,
    run: str = "",
    by_user: bool = False,
) -> Applied:
    """Applies operations to one playbook, if it still has the `version` that they were thought out for.

    Raises StateConflict if it has not: read again and think again, so that of two learners none undoes the
    other. All that is learned from a run for a playbook goes in one call: a second call for the same run
    changes nothing. `limit` bounds the active bullets. Raises UserError for an addition to another playbook.
    """
    _refuse_foreign_additions(conn, scope, operations)
    _lock(conn, scope)
    present = read(conn, scope)
    if run and _has_learned(conn, scope, run):
        return Applied(present, ())
    if present.version != version:
        raise StateConflict(f"the playbook is at version {present.version}, not {version}", hint="read it again")
    known = (*present.bullets, *_mentioned(conn, scope, operations))
    _, changes = merge(known, operations, now_ms, limit, by_user=by_user)
    return _store(conn, scope, present, changes, now_ms, run)


def rollback(conn: Connection, scope: Scope, entry: int, *, now_ms: int, limit: int) -> Applied:
    """Undoes one change of a playbook; the undoing is a change in the ledger too.

    Raises UserError if the playbook has no such entry, StateConflict if its bullets have changed since.
    """
    _lock(conn, scope)
    row = conn.execute(
        select(bullet_ledger).where(_of(bullet_ledger, scope), bullet_ledger.c.id == entry)
    ).one_or_none()
    if row is None:
        raise UserError(f"the playbook's ledger has no entry {entry}", hint="list the ledger to find it")
    change = _entry(row).change
    present = read(conn, scope)
    touched = _by_ids(conn, scope, {bullet.id for bullet in change.after})
    _, changes = revert({b.id: b for b in (*present.bullets, *touched)}.values(), entry, change, now_ms, limit)
    return _store(conn, scope, present, changes, now_ms, "")


def _lock(conn: Connection, scope: Scope) -> None:
    """Makes other writers of this playbook wait until the transaction ends (on SQLite they do anyway)."""
    row = insert(conn, playbook_version).values(scope=scope.kind.value, scope_key=scope.key, version=0)
    conn.execute(row.on_conflict_do_nothing(index_elements=["scope", "scope_key"]))
    conn.execute(select(playbook_version).where(_of(playbook_version, scope)).with_for_update()).one()


def _has_learned(conn: Connection, scope: Scope, run: str) -> bool:
    query = select(bullet_ledger.c.id).where(_of(bullet_ledger, scope), bullet_ledger.c.run == run)
    return conn.execute(query.limit(1)).first() is not None


def _refuse_foreign_additions(conn: Connection, scope: Scope, operations: Sequence[Operation]) -> None:
    """A bullet is added to its own playbook only, and never under the id of another playbook's bullet."""
    additions = [operation for operation in operations if isinstance(operation, Add)]
    taken = select(bullets.c.id).where(bullets.c.id.in_({add.id for add in additions}), ~_of(bullets, scope))
    foreign = {add.id for add in additions if add.scope != scope}.union(conn.execute(taken).scalars())
    if foreign:
        raise UserError(f"bullets of another playbook: {', '.join(sorted(foreign))}", hint="add them to their own")


def _mentioned(conn: Connection, scope: Scope, operations: Sequence[Operation]) -> list[Bullet]:
    """This playbook's bullets that the operations name, retired ones too: an id that was used once stays used."""
    ids: set[str] = set()
    for operation in operations:
        if isinstance(operation, Merge):
            ids.update(operation.ids)
        elif not isinstance(operation, Rollback):
            ids.add(operation.id)
    return _by_ids(conn, scope, ids)


def _by_ids(conn: Connection, scope: Scope, ids: set[str]) -> list[Bullet]:
    query = select(*_COLUMNS).where(_of(bullets, scope), bullets.c.id.in_(ids))
    return [_bullet(row) for row in conn.execute(query)]


def _entry(row: Row[Any]) -> LedgerEntry:
    change = Change.model_validate({"operation": row.op, "before": row.before, "after": row.after})
    return LedgerEntry(row.id, row.at_ms, row.run, change)


def _store(
    conn: Connection, scope: Scope, present: Playbook, changes: tuple[Change, ...], now_ms: int, run: str
) -> Applied:
    """Writes the bullets that changed, a ledger entry per change, and the next version, if anything changed."""
    done = [change for change in changes if not change.refused]
    if not done:
        return Applied(present, changes)
    last = {bullet.id: bullet for change in done for bullet in change.after}
    statement = insert(conn, bullets)
    new = {column.name: statement.excluded[column.name] for column in _COLUMNS if column.name != "id"}
    conn.execute(
        statement.on_conflict_do_update(index_elements=["id"], set_=new), [_values(bullet) for bullet in last.values()]
    )
    conn.execute(bullet_ledger.insert(), [_ledger_values(scope, change, now_ms, run) for change in done])
    raised = update(playbook_version).where(_of(playbook_version, scope))
    conn.execute(raised.values(version=playbook_version.c.version + 1))
    return Applied(read(conn, scope), changes)


def _ledger_values(scope: Scope, change: Change, now_ms: int, run: str) -> dict[str, Any]:
    dump = change.model_dump(mode="json", include={"operation", "before", "after"})
    return {
        "scope": scope.kind.value,
        "scope_key": scope.key,
        "at_ms": now_ms,
        "op": dump["operation"],
        "before": dump["before"],
        "after": dump["after"],
        "run": run,
    }
