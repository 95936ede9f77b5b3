"""Copies ended runs and their sessions' logs to SQL."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

import structlog
from sqlalchemy import Connection

from shared.entries import Assistant, RunEnded, Stored, UserMessage, decode
from shared.errors import ArchiveUnavailable, CapatazError, StateUnavailable
from shared.ids import run_of
from shared.models import Payer
from shared.sql import archive, costs, runs
from shared.sql.engine import Database
from shared.state.archived import ArchivedState
from shared.state.runs import RunState

log = structlog.get_logger(__name__)


class Archiver:
    """Takes what is due, oldest first. A copy that fails stays due. `epoch` is that of the state."""

    def __init__(self, state: RunState, archived: ArchivedState, database: Database, epoch: str) -> None:
        self._state = state
        self._archived = archived
        self._database = database
        self.epoch = epoch
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
                except StateUnavailable:
                    raise  # it stays due as well
                except (CapatazError, ValueError) as error:  # also an entry that nobody could read again
                    log.error("run cannot be archived", run=run, error=str(error))
                self._failing = False
                copied.append(run)
            await self._state.archived(copied)
            done += len(copied)
        return done

    async def _copy(self, run: str) -> None:
        """Copies the run's record, and the session's log as far as it has not been copied: entries that stand between
        runs, or that runs of subagents wrote, are in nobody else's keeping."""
        row = await self._state.run_row(run)
        session, principal = row.get("session", ""), row.get("principal", "")
        if not session:
            return
        copied_to = await self._archived.copied_to(session)
        found = await self._archived.log(session, copy_from(row.get("started", ""), copied_to))
        own = [decode(entry_id, fields) for entry_id, fields in found if run_of(fields["run"]) == run]
        record = run_record(run, session, principal, self.epoch, own)
        copies = [archived_entry(entry_id, fields) for entry_id, fields in found]
        calls = run_calls(own, Payer(principal, session, run))

        def write(conn: Connection) -> None:
            if record is not None:
                runs.end_run(conn, record)
                archive.add_entries(conn, session, copies)
            else:
                archive.append_entries(conn, session, principal, copies, int(time.time() * 1000))
            costs.add(conn, calls)

        await self._database.run(write)
        if copies:
            await self._archived.set_copied(session, copies[-1].entry_id)


def copy_from(started: str, copied_to: str) -> str:
    """Where in its session's log the copy of a run begins, as XRANGE takes it: at the run's start (Unix milliseconds),
    or behind the entry `copied_to` if that is older. Empty: not known, and all is to be copied. Pure."""
    if not started or not copied_to:
        return "-"
    if archive.position(copied_to) < (int(started), 0):
        return f"({copied_to}"
    return started


def archived_entry(entry_id: str, fields: Mapping[str, str]) -> archive.ArchivedEntry:
    """A log entry as it is archived: under its run, also if one of its nodes wrote it. Pure."""
    entry = archive.ArchivedEntry.from_stream(entry_id, fields)
    return replace(entry, run=run_of(entry.run))


def run_calls(entries: list[Stored], payer: Payer) -> list[costs.Call]:
    """The model calls of a run, by its log entries. Pure."""
    steps = [(int(e.id.partition("-")[0]), e.value) for e in entries if isinstance(e.value, Assistant)]
    return [call for at_ms, entry in steps for call in costs.of_step(entry, at_ms, payer)]


def run_record(run: str, session: str, principal: str, epoch: str, entries: list[Stored]) -> runs.Run | None:
    """The run's whole row from its log entries; None if its end is not among them. Pure."""
    begun = next(((e.id, e.value) for e in entries if isinstance(e.value, UserMessage)), None)
    ended = next(((e.id, e.value) for e in entries if isinstance(e.value, RunEnded)), None)
    if begun is None or ended is None:
        return None
    (opened, message), (closed, end) = begun, ended
    return runs.Run(
        id=run,
        session=session,
        principal=principal,
        agent=message.agent,
        epoch=epoch,
        created_ms=message.received_ms,
        started_ms=int(opened.partition("-")[0]),
        ended_ms=int(closed.partition("-")[0]),
        state=runs.RunState(end.state),
        finish_reason=end.finish_reason,
        question=runs.question_of(message.text, message.workflow),
        answer=end.answer,
        error_code=end.error.code if end.error else "",
        error=end.error.message if end.error else "",
        steps=end.steps,
        usage=end.usage.model_dump(mode="json"),
        cost=Decimal(end.cost) if end.cost is not None else None,
        seconds=end.seconds,
    )
