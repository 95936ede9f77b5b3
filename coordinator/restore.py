"""What comes back from the archive when the state Redis does not have it: sessions that were lost or have expired,
and word of the runs that were under way when their state was lost."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Connection

from shared.entries import FactSet, Nudge, RunEnded
from shared.errors import ArchiveUnavailable, CapatazError, StateConflict
from shared.ids import nonce
from shared.messages import ErrorInfo, Reply
from shared.sql import archive, runs, sessions
from shared.sql.engine import Database
from shared.state.archived import ArchivedFact, ArchivedState, LostRun, NoRoom
from shared.state.changes import Change

log = structlog.get_logger(__name__)

PAGE = 200
QUOTED_CHARS = 200
RETRY_AFTER_S = 10.0
SESSION_FIELDS = ("session", "to")


class Restorer:
    """Brings sessions back one at a time, each when somebody needs it.

    Any number of coordinators may do the same at once: pages go into a key of their own, and the script that makes
    them the session's log does so only if it has none.
    """

    def __init__(self, state: ArchivedState, database: Database) -> None:
        self._state = state
        self._database = database

    async def look_up(self, principal: str, decisions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The decisions on inbox entries of a user, with what the archive knows of their sessions.

        A session that the state does not know is the archive's owner's, before anybody else can take its name. The
        user's own come back here; somebody else's do not, as a wrong name must not cost memory.
        """
        names = {decision[field] for decision in decisions for field in SESSION_FIELDS if decision.get(field)}
        unknown = await self._state.unknown(sorted(names))
        owners: dict[str, str] = {}
        refused: dict[str, CapatazError] = {}
        if unknown:
            try:
                owners = await self._database.read(lambda conn: archive.owners(conn, unknown))
            except ArchiveUnavailable as error:
                refused = dict.fromkeys(unknown, error)
        for session in (s for s, owner in owners.items() if owner == principal):
            try:
                await self.session(session, principal)
            except (ArchiveUnavailable, NoRoom) as error:
                refused[session] = error
        for session, reason in refused.items():
            log.error("a session cannot come back; its messages are refused", session=session, error=str(reason))
        told = informed(decisions, principal, unknown, owners)
        return [untold(d, refused[d["session"]]) if d.get("session") in refused else d for d in told]

    async def end_lost(self, epoch: str) -> list[str]:
        """Ends the runs of lost states: in their sessions, for whoever waits for them, and in the archive.

        Returns those that were ended. A run of which the present state knows more is left alone.
        """
        found = await self._database.run(lambda conn: runs.running_runs(conn, not_epoch=epoch))
        ended: list[str] = []
        for session, owner in {run.session: run.principal for run in found}.items():
            try:
                ended += await self.session(session, owner)
            except (StateConflict, NoRoom) as error:
                log.error("lost runs cannot be told of in their session", session=session, error=str(error))
        return ended

    async def session(self, session: str, owner: str) -> list[str]:
        """Rebuilds a session that has no log in the state, and ends its lost runs. Returns these.

        Raises StateConflict if the state knows the session as another user's.
        """
        part, last = nonce(), ""
        facts: dict[str, ArchivedFact] = {}
        while page := await self._database.run(partial(_page, session=session, owner=owner, after=last)):
            rows = [(entry.entry_id, entry.to_stream()) for entry in page]
            if not await self._state.restore_page(session, part, last, rows):
                break
            last = page[-1].entry_id
            facts |= facts_of(page)
        row, running = await self._database.run(partial(_standing, session=session, owner=owner))
        lost = [lost_run(run) for run in running if run.principal == owner]
        updated_ms = row.updated_ms if row else int(time.time() * 1000)
        told = await self._state.restore(session, owner, part, last, updated_ms=updated_ms, facts=facts, lost=lost)
        if last:
            log.info("session rebuilt from the archive", session=session, entries_to=last)
        if told:
            log.error("runs were lost with the state that held them", session=session, runs=told)
            now_ms = int(time.time() * 1000)
            await self._database.run(lambda conn: runs.close_lost(conn, told, now_ms=now_ms))
        return told


def informed(
    decisions: Sequence[dict[str, Any]], principal: str, unknown: Collection[str], owners: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The decisions with `known` (the state has the session: if it has not any more, look again), `owner` (the archive
    has it, and it is this user's) and `taken` (the archive has the session that is to be made). Pure."""
    found = []
    for decision in decisions:
        session = decision.get("session") or ""
        told: dict[str, Any] = {}
        if session and (session not in unknown or owners.get(session) == principal):
            told["known"] = True
        elif session in owners:
            told["owner"] = owners[session]
        if decision.get("to") in owners:
            told["taken"] = True
        found.append(decision | told)
    return found


def untold(decision: dict[str, Any], error: CapatazError) -> dict[str, Any]:
    """The refusal of an entry whose session is not to be had at the moment. Pure."""
    if decision["action"] not in ("message", "command"):
        return decision
    info = ErrorInfo(code=error.code, message=error.message, hint=error.hint, retry_after=RETRY_AFTER_S)
    reply = Reply(ok=False, id=decision["id"], session=decision["session"], error=info)
    return {
        "action": "reject",
        "entry": decision["entry"],
        "raw": decision["raw"],
        "code": error.code,
        "reason": str(error),
        "reply_to": decision["reply_to"],
        "reply": reply.model_dump_json(exclude_none=True),
    }


def _page(conn: Connection, session: str, owner: str, after: str) -> list[archive.ArchivedEntry]:
    return archive.entries(conn, session, owner, after=after or "0-0", limit=PAGE)


def _standing(conn: Connection, session: str, owner: str) -> tuple[sessions.Session | None, list[runs.Run]]:
    return sessions.get(conn, session, owner), runs.running_runs(conn, session=session)


def facts_of(entries: Sequence[archive.ArchivedEntry]) -> dict[str, ArchivedFact]:
    """The shared facts as these entries leave them. Pure."""
    changes = (FactSet.model_validate(e.data) for e in entries if e.type == FactSet.T)
    return {change.name: ArchivedFact(change.version, change.row) for change in changes}


def lost_run(run: runs.Run) -> LostRun:
    """What is said of a run that was under way when its state was lost. Pure."""
    question = run.question if len(run.question) <= QUOTED_CHARS else f"{run.question[:QUOTED_CHARS]}…"
    error = ErrorInfo(
        code="lost",
        message=f'the state that held this run was lost while it worked on: "{question}". How far it got is not '
        "known; calls that it had made may have had an effect",
        hint="look whether they had, before you ask again",
    )
    told = (
        f'The work on "{question}" was cut off: its state was lost, and its calls and results with it. How far it got '
        "is not known, and calls may have had an effect. Do not repeat any without a look at what is there."
    )
    reply = Reply(ok=False, run=run.id, session=run.session, finish_reason="error", error=error)
    change = Change(entries=[Nudge(reason="lost", text=told)])
    change.entries.append(RunEnded(state="lost", finish_reason="error", error=error))
    change.event("run.failed", **reply.model_dump(mode="json", exclude_none=True))
    return LostRun(
        run=run.id,
        created_ms=run.created_ms,
        started_ms=run.started_ms or run.created_ms,
        change=change,
        reply=reply.model_dump_json(exclude_none=True),
        replies=run.replies,
    )
