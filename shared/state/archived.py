"""What the archive takes out of the state, and what comes back from it. Thin: each change is one script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from shared.errors import StateUnavailable
from shared.settings import LimitSettings
from shared.state import keys
from shared.state.changes import Change
from shared.state.config import script_config
from shared.state.connection import mapped
from shared.state.pipeline import Pipeliner
from shared.state.scripting import Scripts

PAGE = 1000
JOB_S = 3600
"""How often a job is done that any coordinator may do."""


class NoRoom(StateUnavailable):
    """There is no memory for a session that would come back."""


@dataclass(frozen=True)
class LostRun:
    """A run whose state is gone, and what is to be said of it: log entries and events, and the reply as JSON."""

    run: str
    created_ms: int
    started_ms: int
    change: Change
    reply: str
    replies: tuple[str, ...]


@dataclass(frozen=True)
class ArchivedFact:
    """A shared fact as its last change left it: its version, and `value` and `by`."""

    version: int
    row: Mapping[str, JsonValue]


class ArchivedState:
    """The state as the archive sees it. Raises StateUnavailable; what rebuilds sessions also StateConflict."""

    def __init__(self, pipeline: Pipeliner, coordinator: str, limits: LimitSettings) -> None:
        self._pipe = pipeline
        self._scripts = Scripts(pipeline)
        self._cid = coordinator
        self._ttl_s = limits.session_ttl_s
        self._cfg = script_config(limits)

    async def unknown(self, sessions: Sequence[str]) -> list[str]:
        """Those of the sessions that have no owner here: new ones, and those that only the archive may know."""
        with mapped():
            owners = await asyncio.gather(*(self._pipe.execute("HGET", keys.session(s), "owner") for s in sessions))
        return [s for s, owner in zip(sessions, owners, strict=True) if owner is None]

    async def log(self, session: str, start: str) -> list[tuple[str, dict[str, str]]]:
        """A session's log from `start` on, as XRANGE takes it: stream ids and fields."""
        found: list[tuple[str, dict[str, str]]] = []
        while True:
            with mapped():
                page = await self._pipe.execute("XRANGE", keys.log(session), start, "+", "COUNT", PAGE)
            found.extend((entry_id, dict(fields)) for entry_id, fields in page)
            if len(page) < PAGE:
                return found
            start = f"({page[-1][0]}"

    async def copied_to(self, session: str) -> str:
        """The last entry of a session's log up to which the archive has everything; empty if that is not known."""
        with mapped():
            return await self._pipe.execute("HGET", keys.session(session), "archived") or ""

    async def set_copied(self, session: str, last: str) -> None:
        """Notes that the archive has everything up to the entry `last`."""
        key = keys.session(session)
        with mapped():
            await asyncio.gather(
                self._pipe.execute("HSET", key, "archived", last), self._pipe.execute("EXPIRE", key, self._ttl_s)
            )

    async def restore_page(
        self, session: str, part: str, after: str, rows: Sequence[tuple[str, dict[str, str]]]
    ) -> bool:
        """Adds a page of an archived log behind the entry `after` (empty: the first page) to the rebuilding `part`.

        False if the session has a log: there is nothing to rebuild. Raises NoRoom.
        """
        page = json.dumps([[i, f["t"], f["v"], f["run"], f["d"]] for i, f in rows], ensure_ascii=False)
        answer = str(await self._scripts.call("restore_page", session, part, after, page, self._cfg))
        if answer == "full":
            raise NoRoom("the state Redis has no memory for this session", hint="raise redis.max_memory_mb")
        return answer == "more"

    async def restore(
        self,
        session: str,
        owner: str,
        part: str,
        last: str,
        *,
        updated_ms: int,
        facts: Mapping[str, ArchivedFact],
        lost: Sequence[LostRun],
    ) -> list[str]:
        """Makes the rebuilding whose last entry is `last` the session's log, if it has none, and ends its lost runs.

        Returns those of them that have been told of, now or before; of the others this state knows better. Raises
        StateConflict if the session is another user's here, or the rebuilding has expired.
        """
        body = {
            "updated": updated_ms,
            "facts": {n: {"v": f.version, "d": json.dumps(f.row, ensure_ascii=False)} for n, f in facts.items()},
            "lost": [_ending(run) for run in lost],
        }
        text = json.dumps(body, ensure_ascii=False)
        return list(await self._scripts.call("restore_session", session, owner, part, last, text, self._cfg))

    async def take_turn(self, job: str) -> bool:
        """True for one coordinator in each `JOB_S` seconds: the job is its own to do until then."""
        with mapped():
            return bool(await self._pipe.execute("SET", keys.job(job), self._cid, "NX", "EX", JOB_S))


def _ending(lost: LostRun) -> dict[str, Any]:
    body = lost.change.body()
    return {
        "run": lost.run,
        "created": lost.created_ms,
        "started": lost.started_ms,
        "entries": body.get("entries", []),
        "events": body.get("events", []),
        "reply": lost.reply,
        "replies": list(lost.replies),
    }
