"""The record of each run.

A run has its row before anything is logged or sent of its first model call, so that a lost Redis cannot hide it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from enum import StrEnum
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, Insert, Row, select, update
from sqlalchemy.sql.dml import ReturningInsert

from shared.errors import StateConflict
from shared.sql import sessions
from shared.sql.tables import insert_into, runs


class RunState(StrEnum):
    """How a run stands. `lost`: the state Redis that held it is gone."""

    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Run:
    """A run. Times are Unix milliseconds, `cost` dollars, `epoch` that of the state Redis it started in.

    `replies` are the names of the reply lists on which its answer is waited for, as far as known at its start.
    """

    id: str
    session: str
    principal: str
    agent: str
    epoch: str
    created_ms: int
    parent: str | None = None
    state: RunState = RunState.RUNNING
    started_ms: int | None = None
    ended_ms: int | None = None
    finish_reason: str = ""
    question: str = ""
    answer: str = ""
    error_code: str = ""
    error: str = ""
    model: str = ""
    steps: int = 0
    usage: Mapping[str, Any] = field(default_factory=dict)
    cost: Decimal | None = None
    seconds: float | None = None
    replies: tuple[str, ...] = ()


WORKFLOW: Final = "[workflow"
"""What the question of a run of a workflow begins with."""

_COLUMNS: Final = tuple(f.name for f in fields(Run))
_IDENTITY: Final = frozenset(
    {"id", "session", "principal", "agent", "epoch", "created_ms", "parent", "question", "replies"}
)


def _values(run: Run) -> dict[str, Any]:
    plain = {"state": run.state.value, "usage": dict(run.usage), "replies": list(run.replies)}
    return {name: getattr(run, name) for name in _COLUMNS} | plain


def _run(row: Row[Any]) -> Run:
    return Run(**(dict(row._mapping) | {"state": RunState(row.state), "replies": tuple(row.replies or ())}))


def start_run(conn: Connection, run: Run) -> None:
    """Records a run, and its session if that is new. Done twice, it changes nothing the second time.

    Raises UserError if the session is another user's.
    """
    sessions.ensure(conn, run.session, run.principal, run.created_ms)
    conn.execute(_starting(conn.dialect.name), _values(run))


@cache
def _starting(dialect: str) -> Insert:
    return insert_into(dialect, runs).on_conflict_do_nothing(index_elements=["id"])


def end_run(conn: Connection, run: Run) -> None:
    """Records how a run ended, whether or not its start was recorded; doing it again changes nothing.

    `run` is the whole record. It overrules `lost`, which is only a guess made from outside. Raises UserError
    if the session, StateConflict if the run's id is another user's.
    """
    sessions.ensure(conn, run.session, run.principal, run.ended_ms or run.created_ms)
    if conn.execute(_ending(conn.dialect.name), _values(run)).one_or_none() is None:
        raise StateConflict(f"run {run.id} is recorded for another session", hint="run ids must be unique")


@cache
def _ending(dialect: str) -> ReturningInsert[Any]:
    """Writes the whole row, or how the run ended into the one that is there; no row comes back for another user's."""
    new = insert_into(dialect, runs)
    outcome = {name: new.excluded[name] for name in _COLUMNS if name not in _IDENTITY}
    mine = (runs.c.principal == new.excluded.principal) & (runs.c.session == new.excluded.session)
    return new.on_conflict_do_update(index_elements=["id"], set_=outcome, where=mine).returning(runs.c.id)


def running_runs(conn: Connection, *, not_epoch: str | None = None, session: str | None = None) -> list[Run]:
    """Runs that are recorded as running, oldest first: in a state Redis other than `not_epoch`, of one session."""
    query = select(runs).where(runs.c.state == RunState.RUNNING.value)
    if not_epoch is not None:
        query = query.where(runs.c.epoch != not_epoch)
    if session is not None:
        query = query.where(runs.c.session == session)
    return [_run(row) for row in conn.execute(query.order_by(runs.c.created_ms, runs.c.id))]


def close_lost(conn: Connection, ids: Collection[str], *, now_ms: int) -> list[str]:
    """Closes those of the runs that are still running as lost; returns their ids, to one caller only.

    Tell the users first and close then: telling again does nothing, and a crash between the two must not mean never.
    """
    close = update(runs).where(runs.c.id.in_(ids), runs.c.state == RunState.RUNNING.value)
    lost = {
        "state": RunState.LOST.value,
        "ended_ms": now_ms,
        "finish_reason": "error",
        "error_code": "lost",
        "error": "the state of this run was lost with its Redis; what it had begun may have had effects",
    }
    return sorted(conn.execute(close.values(lost).returning(runs.c.id)).scalars())


def get_run(conn: Connection, run: str, principal: str | None) -> Run | None:
    """One run; None if there is none or it is not `principal`'s (None: whoever's, for the operator)."""
    query = select(runs).where(runs.c.id == run)
    if principal is not None:
        query = query.where(runs.c.principal == principal)
    row = conn.execute(query).one_or_none()
    return _run(row) if row else None


def workflow_runs(
    conn: Connection, principal: str | None, workflow: str = "", limit: int = 50, *, without: Collection[str] = ()
) -> list[Run]:
    """Runs of a workflow, or of all but those `without`, of a user (None: of all), the newest first."""
    begins = WORKFLOW + (f" {workflow}]" if workflow else " ")
    others = [~runs.c.question.startswith(f"{WORKFLOW} {name}]", autoescape=True) for name in without]
    query = select(runs).where(runs.c.question.startswith(begins, autoescape=True), *others)
    if principal is not None:
        query = query.where(runs.c.principal == principal)
    return [_run(row) for row in conn.execute(query.order_by(runs.c.created_ms.desc(), runs.c.id.desc()).limit(limit))]


def question_of(text: str, workflow: str) -> str:
    """What stands for the question of a run in lists: the message's text, behind its workflow if it has one."""
    return (f"{WORKFLOW} {workflow}] {text}".strip() if workflow else text)[:2000]


def list_runs(
    conn: Connection, principal: str | None, session: str | None = None, limit: int = 50, offset: int = 0
) -> list[Run]:
    """Runs of a user (None: of all, for the operator), of one session if it is given, the newest first."""
    query = select(runs).order_by(runs.c.created_ms.desc(), runs.c.id.desc()).limit(limit).offset(offset)
    if principal is not None:
        query = query.where(runs.c.principal == principal)
    if session is not None:
        query = query.where(runs.c.session == session)
    return [_run(row) for row in conn.execute(query)]
