"""The worker's side of the ledger: claim, end, give back, heartbeat."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import redis
import redis.exceptions

from shared.contract import Catalogue, NodeOrder, NodeResult, NodeState, WorkerInfo
from shared.errors import StateUnavailable
from shared.ids import nonce
from shared.settings import LimitSettings
from shared.state import keys
from shared.state.changes import settlement
from shared.state.config import script_config
from shared.state.connection import mapped
from shared.state.pipeline import Pipeliner
from shared.state.scripting import Scripts, digest, source

T = TypeVar("T")

CATALOGUE_TTL_S = 60
PAUSE_S = 0.5
PATIENCE_MS = 60_000
"""How long after a node's deadline its result is still tried to be stored."""


class NodeLedger:
    """What a worker may do with ledger rows. Raises StateUnavailable."""

    def __init__(self, pipeline: Pipeliner, worker: str, token: str, limits: LimitSettings) -> None:
        self._pipe = pipeline
        self._scripts = Scripts(pipeline)
        self.worker = worker
        self._nonce = token
        self._who = f"{worker}/{token}"
        self._cfg = script_config(limits)

    async def claim(self, orders: Sequence[NodeOrder]) -> list[int | str]:
        """Claims rows; per node the attempt number, or why not: unknown, changed, late, taken, ended, deaf."""
        body = json.dumps(
            [{"run": o.run, "session": o.session, "node": o.node, "hash": o.args_hash, "tool": o.tool} for o in orders]
        )
        claim = nonce()
        return list(
            await self._until_stored(
                orders, lambda: self._scripts.call("claim_nodes", self.worker, body, self._cfg, self._nonce, claim)
            )
        )

    async def _until_stored(self, orders: Sequence[NodeOrder], call: Callable[[], Awaitable[T]]) -> T:
        """Repeats a call while the state is away, for as long as anybody waits for one of these nodes."""
        while True:
            try:
                return await call()
            except StateUnavailable:
                if time.time() * 1000 > max(o.not_after_ms for o in orders) + PATIENCE_MS:
                    raise
                await asyncio.sleep(PAUSE_S)

    async def end(self, order: NodeOrder, attempt: int, result: NodeResult) -> bool:
        """Ends a claimed row. False if the row is no longer this claim's (somebody ended it or took it away)."""
        s = settlement(order.node, order.tool, result)
        values = (s["result"], s["log"], s["event"], self._cfg)
        outcome = await self._until_stored(
            (order,),
            lambda: self._scripts.call("end_node", self._who, order.run, order.node, attempt, result.state, *values),
        )
        return outcome in ("ok", "again")

    async def give_back(self, order: NodeOrder, attempt: int) -> bool:
        """Gives a row back that has had no effect, for another worker."""
        return bool(await self._scripts.call("give_back", self._who, order.run, order.node, attempt))

    async def still_mine(self, order: NodeOrder, attempt: int) -> bool:
        """True while the row is running under this very claim."""
        with mapped():
            row = await self._pipe.execute(
                "HMGET",
                keys.ledger(order.run),
                f"{order.node}:s",
                f"{order.node}:a",
                f"{order.node}:w",
            )
        return list(row) == [NodeState.RUNNING, str(attempt), self._who]

    async def may_start(self, order: NodeOrder, attempt: int) -> bool:
        """The look directly before an effect: the row is this claim's, and this worker's heartbeat is in Redis.

        While the state or the heartbeat is away it waits. False if the row was taken away.
        """
        while await self._until_stored((order,), lambda: self.still_mine(order, attempt)):
            if await self._until_stored((order,), self.alive):
                return True
            await asyncio.sleep(PAUSE_S)
        return False

    async def alive(self) -> bool:
        """True while this worker's heartbeat is in Redis."""
        with mapped():
            return bool(await self._pipe.execute("EXISTS", keys.worker(self.worker)))

    async def progress(self, order: NodeOrder, text: str) -> None:
        """A public node.progress event."""
        data = json.dumps({"node": order.node, "text": text}, ensure_ascii=False)
        with mapped():
            await self._pipe.execute(
                "XADD", keys.events(order.session), "*", "type", "node.progress", "run", order.run, "data", data
            )


@contextmanager
def _also_when_full(client: redis.Redis, kind: str, who: str, value: str, ttl_s: float, now: int) -> Iterator[None]:
    """Repeats a heartbeat that was refused because memory is full, as a script that may write all the same.

    In a script at all times it would cost more: its writes are logged as a transaction.
    """
    try:
        yield
    except redis.exceptions.OutOfMemoryError:
        args = (kind, who, value, int(ttl_s * 1000), now)
        try:
            client.evalsha(digest("beat"), 0, *args)
        except redis.exceptions.NoScriptError:
            client.eval(source("beat"), 0, *args)


def beat_worker(client: redis.Redis, info: WorkerInfo, catalogue: Catalogue, ttl_s: float) -> None:
    """One heartbeat of a worker. Whoever sees it finds the catalogue that it names."""
    now, value = int(time.time() * 1000), info.model_dump_json()
    with mapped(), _also_when_full(client, "worker", info.id, value, ttl_s, now):
        if not client.expire(keys.catalogue(info.catalogue), CATALOGUE_TTL_S):  # some 50 KB: only if it is not there
            client.set(keys.catalogue(info.catalogue), catalogue.model_dump_json(), ex=CATALOGUE_TTL_S)
        pipe = client.pipeline(transaction=False)
        pipe.set(keys.worker(info.id), value, px=int(ttl_s * 1000))
        pipe.zadd(keys.WORKERS, {info.id: now})
        pipe.zremrangebyscore(keys.WORKERS, 0, now - 3_600_000)
        pipe.execute()


def forget_worker(client: redis.Redis, worker: str) -> None:
    """Removes a stopping worker's heartbeat, so that nobody waits for it to expire."""
    with mapped():
        pipe = client.pipeline(transaction=False)
        pipe.delete(keys.worker(worker))
        pipe.zrem(keys.WORKERS, worker)
        pipe.execute()


def beat_coordinator(client: redis.Redis, coordinator: str, ttl_s: float) -> None:
    """One heartbeat of a coordinator."""
    now = int(time.time() * 1000)
    with mapped(), _also_when_full(client, "coordinator", coordinator, str(now), ttl_s, now):
        pipe = client.pipeline(transaction=False)
        pipe.set(keys.coordinator(coordinator), now, px=int(ttl_s * 1000))
        pipe.zadd(keys.COORDINATORS, {coordinator: now})
        pipe.zremrangebyscore(keys.COORDINATORS, 0, now - 3_600_000)
        pipe.execute()


def forget_coordinator(client: redis.Redis, coordinator: str) -> None:
    """Removes a stopping coordinator's heartbeat."""
    with mapped():
        pipe = client.pipeline(transaction=False)
        pipe.delete(keys.coordinator(coordinator))
        pipe.zrem(keys.COORDINATORS, coordinator)
        pipe.execute()
