"""The coordinator's side of the state: routing, leases, the log, the ledger. Thin: each change is one script."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shared.contract import NodeResult
from shared.entries import Stored, decode
from shared.ids import nonce as new_nonce
from shared.messages import QueuedMessage, Reply
from shared.settings import LimitSettings
from shared.state import keys
from shared.state.changes import Change, settlement
from shared.state.config import script_config
from shared.state.connection import mapped
from shared.state.pipeline import Pipeliner
from shared.state.scripting import Scripts

MOST_CLAIMS = 3
"""A node that took its worker down this often is not tried again."""

PAGE = 1000


@dataclass
class Lease:
    """The right to write to one run. `sequence` counts the changes applied under it."""

    run: str
    session: str
    principal: str
    coordinator: str
    nonce: str
    sequence: int = 0
    waited_ms: int = 0
    """How long the run's clock stood still while it was parked."""


@dataclass(frozen=True)
class Reviewed:
    """What `review_nodes` found for one node: planned, running, ended, requeued or missing."""

    node: str
    state: str


class RunState:
    """All that a coordinator reads and writes about runs. Raises LeaseLost, StateConflict, StateUnavailable."""

    def __init__(self, pipeline: Pipeliner, coordinator: str, limits: LimitSettings) -> None:
        self._pipe = pipeline
        self._scripts = Scripts(pipeline)
        self._cid = coordinator
        self._cfg = script_config(limits)

    async def read_inbox(self, inbox: str, count: int = 200) -> list[tuple[str, dict[str, str]]]:
        """The oldest entries of an inbox: (entry id, fields)."""
        with mapped():
            return [(i, dict(f)) for i, f in await self._pipe.execute("XRANGE", inbox, "-", "+", "COUNT", count)]

    async def inbox_beyond(self, inbox: str, most: int, count: int) -> list[tuple[str, dict[str, str]]]:
        """What an inbox holds beyond its `most` oldest entries: the newest of it, `count` at most, oldest first."""
        with mapped():
            beyond = await self._pipe.execute("XLEN", inbox) - most
            if beyond <= 0:
                return []
            page = await self._pipe.execute("XREVRANGE", inbox, "+", "-", "COUNT", min(beyond, count))
        return [(i, dict(f)) for i, f in reversed(page)]

    async def route(self, inbox: str, principal: str, decisions: Sequence[dict[str, Any]]) -> int:
        """Carries out classified entries, each once. Returns how many were still there."""
        if not decisions:
            return 0
        # What others wrote may hold bytes that are no text; a script gets a question mark for them.
        text = json.dumps(list(decisions), ensure_ascii=False).encode("utf-8", "replace").decode()
        return int(await self._scripts.call("route", inbox, principal, text, self._cfg))

    async def claim(self, most: int) -> list[tuple[Lease, QueuedMessage]]:
        """Starts up to `most` runs: users in turn, of each the session that has waited longest."""
        token = new_nonce()
        nonces = [f"{token}-{n}" for n in range(most)]  # most claims find one run or none
        rows = await self._scripts.call("claim_runs", self._cid, json.dumps(nonces), self._cfg, retry=False)
        return [
            (Lease(run, session, principal, self._cid, nonce), QueuedMessage.model_validate_json(payload))
            for run, session, principal, nonce, payload in rows
        ]

    async def active_runs(self) -> set[str]:
        """Ids of all runs that hold their session's slot."""
        with mapped():
            return set(await self._pipe.execute("SMEMBERS", keys.ACTIVE))

    async def take_over(self, run: str, *, dead_owners: bool) -> Lease | None:
        """A lease on a run that was given back, or that is ours and lost sight of; with `dead_owners` also on one
        whose owner's heartbeat is gone. None if it is in good hands."""
        token = new_nonce()
        row = await self._scripts.call("take_over", run, self._cid, token, self._cfg, "1" if dead_owners else "0")
        if not row:
            return None
        return Lease(run, row[0], row[1], self._cid, token, int(row[2]), int(row[3]))

    async def lost(self, leases: Iterable[Lease]) -> list[str]:
        """The runs of those leases that somebody else has taken over."""
        held = list(leases)
        with mapped():
            rows = []
            for at in range(0, len(held), 50):
                rows += await asyncio.gather(
                    *(
                        self._pipe.execute("HMGET", keys.run(lease.run), "owner", "nonce")
                        for lease in held[at : at + 50]
                    )
                )
        pairs = zip(held, rows, strict=True)
        return [lease.run for lease, row in pairs if list(row) != [lease.coordinator, lease.nonce]]

    async def append(self, lease: Lease, change: Change) -> list[str]:
        """Applies a change; returns the log ids of its entries."""
        number = lease.sequence + 1
        outcome = await self._scripts.call(
            "append", lease.run, self._cid, lease.nonce, number, change.append_json(), self._cfg
        )
        lease.sequence = number
        return list(json.loads(outcome))

    async def finish(
        self,
        lease: Lease,
        change: Change,
        reply: Reply,
        *,
        follow_ups: Sequence[QueuedMessage] = (),
        up: tuple[str, str, NodeResult] | None = None,
        force: bool = False,
    ) -> bool:
        """Ends the run; `up` (node, tool, result) ends the node that waits for it. False if mail arrived that must be
        read first (nothing was changed then)."""
        number = lease.sequence + 1
        body = change.finish_json(reply, follow_ups, force=force, up=up)
        outcome = await self._scripts.call("finish", lease.run, self._cid, lease.nonce, number, body, self._cfg)
        if outcome != "ended":
            return False
        lease.sequence = number
        return True

    async def release(self, lease: Lease) -> bool:
        """Gives the run back for another coordinator."""
        return bool(await self._scripts.call("release", lease.run, self._cid, lease.nonce))

    async def park(self, lease: Lease, nodes: Sequence[str], until_ms: int, *, clock_stops: bool) -> bool:
        """Gives the lease back until mail comes, one of `nodes` ends, or `until_ms` (0: never) is there. False if there
        is news already (nothing was changed then)."""
        until = until_ms or "+inf"
        stopped = "1" if clock_stops else "0"
        answer = await self._scripts.call(
            "park", lease.run, self._cid, lease.nonce, json.dumps(list(nodes)), until, stopped
        )
        return bool(answer == "parked")

    async def wake_due(self) -> int:
        """Lets parked runs whose time has come be taken over; returns how many."""
        with mapped():
            due = await self._pipe.execute("ZCOUNT", keys.PARKED, "-inf", int(time.time() * 1000))
        return int(await self._scripts.call("wake_due", 100)) if due else 0

    async def mail(self, run: str) -> list[dict[str, Any]]:
        """The run's mailbox, oldest first; consumed by the `mail_read` of the change that deals with it."""
        with mapped():
            return [json.loads(m) for m in await self._pipe.execute("LRANGE", keys.mail(run), 0, -1)]

    async def with_mail(self, runs: Iterable[str]) -> list[str]:
        """Those of the runs whose mailbox is not empty."""
        wanted = list(runs)
        with mapped():
            counts = []
            for at in range(0, len(wanted), 50):
                counts += await asyncio.gather(
                    *(self._pipe.execute("LLEN", keys.mail(r)) for r in wanted[at : at + 50])
                )
        return [r for r, count in zip(wanted, counts, strict=True) if count]

    async def log(self, session: str, after: str = "-") -> list[Stored]:
        """The session's log, from the entry behind `after`."""
        out: list[Stored] = []
        start = after if after == "-" else f"({after}"
        while True:
            with mapped():
                page = await self._pipe.execute("XRANGE", keys.log(session), start, "+", "COUNT", PAGE)
            out.extend(decode(i, dict(f)) for i, f in page)
            if len(page) < PAGE:
                return out
            start = f"({page[-1][0]}"

    async def results(self, run: str, nodes: Sequence[str]) -> dict[str, NodeResult]:
        """The results of those nodes that have ended."""
        if not nodes:
            return {}
        with mapped():
            rows = await self._pipe.execute("HMGET", keys.ledger(run), *(f"{n}:r" for n in nodes))
        return {n: NodeResult.model_validate_json(row) for n, row in zip(nodes, rows, strict=True) if row is not None}

    async def review(self, lease: Lease, nodes: Iterable[tuple[str, str, NodeResult, NodeResult]]) -> list[Reviewed]:
        """Looks at outstanding nodes (node, tool, result if its effect is unknown, result if it failed for good)."""
        wanted = list(nodes)
        body = json.dumps(
            [
                {"node": n, "unknown": settlement(n, tool, unknown), "failed": settlement(n, tool, failed)}
                for n, tool, unknown, failed in wanted
            ]
        )
        states = await self._scripts.call(
            "review_nodes", lease.run, self._cid, lease.nonce, body, MOST_CLAIMS, self._cfg
        )
        return [Reviewed(n, s) for (n, _, _, _), s in zip(wanted, states, strict=True)]

    async def reply_names(self, run: str) -> tuple[str, ...]:
        """Names of the lists on which the run's reply is waited for."""
        with mapped():
            return tuple(sorted(await self._pipe.execute("SMEMBERS", keys.replies(run))))

    async def archive_due(self, count: int = 50) -> list[str]:
        """Ended runs whose copy in SQL is due, oldest first."""
        with mapped():
            return list(await self._pipe.execute("ZRANGE", keys.ARCHIVE, 0, count - 1))

    async def archived(self, runs: Sequence[str]) -> None:
        """Marks runs as copied."""
        if runs:
            with mapped():
                await self._pipe.execute("ZREM", keys.ARCHIVE, *runs)

    async def run_row(self, run: str) -> dict[str, str]:
        """All fields of a run's hash."""
        with mapped():
            return dict(await self._pipe.execute("HGETALL", keys.run(run)))

    async def epoch(self) -> str:
        """The state's random epoch, made at first use. Another value than before means that the state was lost."""
        with mapped():
            await self._pipe.execute("SET", keys.EPOCH, new_nonce() + f"-{int(time.time())}", "NX")
            return str(await self._pipe.execute("GET", keys.EPOCH))
