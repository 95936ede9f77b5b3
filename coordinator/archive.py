"""Copies ended runs and their sessions' logs to SQL."""

from __future__ import annotations

import time
from decimal import Decimal

import structlog
from sqlalchemy import Connection

from shared.entries import Assistant, RunEnded, Stored, UserMessage
from shared.errors import ArchiveUnavailable, CapatazError
from shared.models import Payer
from shared.sql import archive, costs, runs
from shared.sql.engine import Database
from shared.state.runs import RunState

log = structlog.get_logger(__name__)


class Archiver:
    """Takes what is due, oldest first. A copy that fails stays due."""

    def __init__(self, state: RunState, database: Database, epoch: str) -> None:
        self._state = state
        self._database = database
        self._epoch = epoch
        self._failing = False

    async def work(self) -> int:
        """Copies what is due now; returns how many runs were copied."""
        done = 0
        while due := await self._state.archive_due():
            copied: list[str] = []
            for run in due:
                try:
                    await self._copy(run)
                except ArchiveUnavailable as error:
                    if not self._failing:
                        log.error("archive copy postponed", error=str(error))
                    self._failing = True
                    await self._state.archived(copied)
                    return done
                except CapatazError as error:
                    log.error("run cannot be archived", run=run, error=str(error))
                self._failing = False
                copied.append(run)
            await self._state.archived(copied)
            done += len(copied)
        return done

    async def _copy(self, run: str) -> None:
        row = await self._state.run_row(run)
        session, principal = row.get("session", ""), row.get("principal", "")
        if not session:
            return
        entries = [e for e in await self._state.log(session) if e.run == run]
        record = run_record(run, session, principal, self._epoch, entries)
        copies = [
            archive.ArchivedEntry(e.id, e.run, e.type, 1, e.value.model_dump(mode="json") if e.value else {})
            for e in entries
        ]

        calls = run_calls(entries, Payer(principal, session, run))

        def write(conn: Connection) -> None:
            if record is not None:
                runs.end_run(conn, record)
            archive.append_entries(conn, session, principal, copies, int(time.time() * 1000))
            costs.add(conn, calls)

        await self._database.run(write)


def run_calls(entries: list[Stored], payer: Payer) -> list[costs.Call]:
    """The model calls of a run, by its log entries. Pure."""
    steps = [(int(e.id.partition("-")[0]), e.value) for e in entries if isinstance(e.value, Assistant)]
    return [call for at_ms, entry in steps for call in costs.of_step(entry, at_ms, payer)]


def run_record(run: str, session: str, principal: str, epoch: str, entries: list[Stored]) -> runs.Run | None:
    """The run's whole row from its log entries; None if its end is not among them. Pure."""
    message = next((e.value for e in entries if isinstance(e.value, UserMessage)), None)
    ended = next(((e.id, e.value) for e in entries if isinstance(e.value, RunEnded)), None)
    if message is None or ended is None:
        return None
    at, end = int(ended[0].partition("-")[0]), ended[1]
    return runs.Run(
        id=run,
        session=session,
        principal=principal,
        agent=message.agent,
        epoch=epoch,
        created_ms=message.received_ms,
        started_ms=at - int(end.seconds * 1000),
        ended_ms=at,
        state=runs.RunState(end.state),
        finish_reason=end.finish_reason,
        question=message.text[:2000] or f"[workflow {message.workflow}]",
        answer=end.answer,
        error_code=end.error.code if end.error else "",
        error=end.error.message if end.error else "",
        steps=end.steps,
        usage=end.usage.model_dump(mode="json"),
        cost=Decimal(end.cost) if end.cost is not None else None,
        seconds=end.seconds,
    )
