"""One worker process: an event loop in a thread of its own, and everything that lives on it.

Celery's threads hand batches over and wait; all tools of the process run on this one loop, so asynchronous clients
live as long as the process does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import structlog

from shared.artifacts import SqlArtifacts
from shared.catalogue import digest_of
from shared.contract import NodeOrder, NodeResult, WorkerInfo
from shared.errors import ArchiveUnavailable, CapatazError, StateUnavailable
from shared.ids import nonce, process_id
from shared.keyring import load_key
from shared.settings import Settings
from shared.signing import key_id
from shared.sql.engine import Database, database_url
from shared.state.connection import connect, connect_sync
from shared.state.gate import Gate
from shared.state.heartbeat import Heartbeat
from shared.state.nodes import NodeLedger, beat_worker, forget_worker
from shared.state.pipeline import Pipeliner
from shared.state.session import SessionState
from shared.state.ticks import LastTick, note_tick
from shared.tier_client import TierClient
from workers.billing import Bill
from workers.context import Services
from workers.declare import Registry
from workers.envelope.execute import Claim, Envelope
from workers.schedule import tick

log = structlog.get_logger(__name__)

T = TypeVar("T")
WATCH_S = 1.0
WANTED_S = 10.0
"""How long a workflow may take to say whether its slot has anything to do."""


def _new_loop() -> asyncio.AbstractEventLoop:
    """An event loop for the tools: uvloop where it is installed, a tenth less CPU."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@dataclass
class _Outside:
    """Connections to everything outside of the process."""

    database: Database
    redis: Any
    pipeline: Pipeliner
    ledger: NodeLedger
    model: TierClient
    services: Services

    @classmethod
    async def open(cls, settings: Settings, worker: str, token: str) -> _Outside:
        """Connects. `token` is of this incarnation of the worker."""
        database = Database(database_url(settings))
        await asyncio.get_running_loop().run_in_executor(None, database.migrate)
        client = connect(settings.redis.url)
        pipeline = Pipeliner(client)
        gate = Gate(pipeline, worker, settings.models, settings.budget)
        bill = Bill(database)
        model = TierClient(settings, gate, bill)
        services = Services(
            db=database,
            artifacts=SqlArtifacts(database, ttl_s=settings.retention.artifacts_s),
            state=SessionState(pipeline, settings.limits),
            model=model,
            bill=bill,
            gate=gate,
            http=httpx.AsyncClient,
            blocking=ThreadPoolExecutor(settings.worker.blocking_threads, thread_name_prefix="tool"),
        )
        return cls(database, client, pipeline, NodeLedger(pipeline, worker, token, settings.limits), model, services)

    async def close(self) -> None:
        """Lets go of them."""
        await self.model.aclose()
        await self.pipeline.aclose()
        await self.redis.aclose()
        self.database.close()


@dataclass
class _Parts:
    """What lives on the loop."""

    envelope: Envelope
    outside: _Outside
    heartbeat: Heartbeat
    watcher: asyncio.Task[None]


class Runtime:
    """Starts the loop thread, the services, the heartbeat; runs batches; stops in order."""

    def __init__(self, settings: Settings, queues: tuple[str, ...], worker: str = "") -> None:
        self.worker = worker or process_id("worker")
        self._settings = settings
        self._queues = queues
        self._key = load_key(settings.data.dir)
        self._registry = Registry()
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tools-loop", daemon=True)
        self._parts: _Parts | None = None
        self._ticking = threading.Lock()

    def start(self) -> None:
        """Loads the tools and begins to beat. Raises CapatazError or TimeoutError when a service is away."""
        self._registry.load_builtin()
        for problem in self._registry.load_user(self._settings.worker.tool_modules):
            log.error("user tools not loaded", problem=problem)
        self._thread.start()
        self._call(self._build()).result(timeout=60)
        log.info("worker ready", worker=self.worker, queues=",".join(self._queues), tools=len(self._registry.tools))

    def run(self, orders: list[dict[str, Any]]) -> int:
        """Runs a batch to its end; called from a Celery thread. Returns how many nodes were claimed."""
        return self._call(self._running.envelope.run_batch(orders)).result()

    def tick(self) -> int:
        """Serves what is due now, and notes that somebody looked; called from a Celery thread.

        Returns how many messages were sent. What fails is logged, and the next tick tries again.
        """
        if not self._ticking.acquire(blocking=False):
            return 0  # the last one is under way, and sees what this one would
        try:
            return self._call(self._tick(self._running.outside)).result()
        except (ArchiveUnavailable, StateUnavailable) as error:
            log.warning("what is due waits for the next tick", error=str(error))
            return 0
        finally:
            self._ticking.release()

    async def _tick(self, outside: _Outside) -> int:
        ticked = await tick(outside.services, self._settings, self._wanted, f"{self.worker}:{nonce()}")
        await note_tick(outside.pipeline, LastTick(at_ms=int(time.time() * 1000), worker=self.worker))
        for principal, why in ticked.refused.items():
            log.error(
                "what is due for a user waits: this worker cannot write to the inbox", principal=principal, error=why
            )
        return len(ticked.sent)

    async def _wanted(self, workflow: str) -> bool:
        """False if a workflow says that its slot has nothing to do. One that cannot say it runs."""
        known = self._registry.workflows.get(workflow)
        if known is None or known.when is None:
            return True
        try:
            async with asyncio.timeout(WANTED_S):
                return await known.when(self._running.outside.services)
        except (ArchiveUnavailable, StateUnavailable):
            raise
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything; it must not stop the clock
            log.error("a workflow cannot say whether there is anything to do", workflow=workflow, error=repr(error))
            return True

    def drain(self) -> None:
        """Stops claiming and lets go of running nodes; returns when none is left or the grace is over."""
        if self._parts is not None:
            self._call(self._parts.envelope.drain(self._settings.worker.drain_s)).result()

    def stop(self) -> None:
        """Ends everything."""
        if self._parts is not None:
            self._call(self._close(self._parts)).result(timeout=30)
            self._parts = None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)

    @property
    def _running(self) -> _Parts:
        if self._parts is None:
            raise CapatazError("the worker runtime has not been started")
        return self._parts

    def _call(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _build(self) -> None:
        token = nonce()
        outside = await _Outside.open(self._settings, self.worker, token)
        envelope = Envelope(self._registry, outside.ledger, outside.services, self._settings, self._key)
        heartbeat = self._heartbeat(token)
        await heartbeat.start()
        watcher = asyncio.create_task(self._watch(envelope))
        self._parts = _Parts(envelope, outside, heartbeat, watcher)

    def _heartbeat(self, token: str) -> Heartbeat:
        settings = self._settings
        catalogue = self._registry.catalogue(settings)
        info = WorkerInfo(
            id=self.worker,
            nonce=token,
            catalogue=digest_of(catalogue),
            queues=self._queues,
            slots=settings.worker.slots,
            key_id=key_id(self._key),
            host=socket.gethostname(),
            pid=os.getpid(),
            started_ms=int(time.time() * 1000),
        )
        client = connect_sync(settings.redis.url)
        ttl = settings.worker.lease_ttl_s
        return Heartbeat(
            lambda: beat_worker(client, info, catalogue, ttl), lambda: forget_worker(client, self.worker), ttl
        )

    async def _watch(self, envelope: Envelope) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            try:
                await envelope.watch()
            except StateUnavailable as error:
                log.warning("cannot look after running nodes", error=str(error))

    async def _close(self, parts: _Parts) -> None:
        parts.watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await parts.watcher
        await parts.heartbeat.stop()
        await parts.outside.close()


async def run_one(settings: Settings, order: NodeOrder) -> NodeResult:
    """Runs one order that a worker has claimed, in this process and for that worker: no claim, no heartbeat."""
    registry = Registry()
    registry.load_builtin()
    registry.load_user(settings.worker.tool_modules)
    outside = await _Outside.open(settings, os.environ.get("CAPATAZ_WORKER_ID", "alone"), nonce())
    try:
        envelope = Envelope(registry, outside.ledger, outside.services, settings, load_key(settings.data.dir))
        return await envelope.result(Claim(order, attempt=1))
    finally:
        await outside.close()
