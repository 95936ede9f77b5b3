"""One coordinator process: heartbeat, readers, sweeps, and the runs that it works on, on one event loop."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import structlog

from coordinator.archive import Archiver
from coordinator.context.agent import Agents
from coordinator.context.tools import ToolChooser
from coordinator.dispatch.directory import Directory
from coordinator.dispatch.publisher import Publisher
from coordinator.intake import Alarm, Hints, Intake
from coordinator.loop.attachments import Documents
from coordinator.loop.own_tools import SPECS as OWN_TOOLS
from coordinator.loop.services import LoopServices
from coordinator.restore import Restorer
from coordinator.retention import Retention
from coordinator.supervision import Supervision
from shared.artifacts import SqlArtifacts
from shared.broker import make_app
from shared.embeddings import encoder_of
from shared.errors import ArchiveUnavailable, CapatazError, ConfigError, StateUnavailable
from shared.failover import Failover, price_by
from shared.ids import process_id
from shared.keyring import load_key
from shared.llm.client import ModelClient, Timeouts
from shared.llm.pricing import load_prices
from shared.models import Tiers
from shared.settings import Settings
from shared.signing import key_id
from shared.sql.engine import Database, database_url
from shared.state.archived import ArchivedState
from shared.state.connection import connect, connect_sync
from shared.state.gate import Gate
from shared.state.heartbeat import Heartbeat
from shared.state.nodes import beat_coordinator, forget_coordinator
from shared.state.pipeline import Pipeliner
from shared.state.runs import RunState
from shared.state.session import SessionState

log = structlog.get_logger(__name__)

SWEEP_S = 1.0
UPKEEP_S = 60.0
ARCHIVE_S = 5.0
"""How often copies are looked for that whoever ended their runs did not make."""
ARCHIVE_PAUSE_S = 0.1
"""How long a copy waits, so that what ends together is copied together, and the next message goes first."""
PAUSE_S = 0.5


class Coordinator:
    """Starts, works until `stop` is set, ends in order."""

    def __init__(self, settings: Settings) -> None:
        if not settings.redis.url:
            raise ConfigError("no state Redis is configured", hint="set REDIS_URL, or start with `capataz up`")
        self.settings = settings
        self.id = process_id("coordinator")
        self._key = load_key(settings.data.dir)
        self._tiers = Tiers(settings.models)
        self._tiers.chain("default")
        self._redis = connect(settings.redis.url)
        self._blocking = connect(settings.redis.url, blocking=True, connections=4)
        self._pipeline = Pipeliner(self._redis)
        self._state = RunState(self._pipeline, self.id, settings.limits)
        self._database = Database(database_url(settings))
        self._archived = ArchivedState(self._pipeline, self.id, settings.limits)
        self._restorer = Restorer(self._archived, self._database)
        self._retention = Retention(self._archived, self._database, settings.retention)
        self._stopping = asyncio.Event()
        self._room = asyncio.Event()
        self._copy_due = asyncio.Event()
        self._taking = asyncio.Lock()
        """Held while runs are taken: a claim whose answer is on its way must not look like a run that was lost."""
        self._put_off: dict[str, None] = {}
        """Runs that this process was asked to take when it could not; they go before messages that have not begun."""
        self._swept_archive = 0.0
        self._connected_since = 0.0
        self._state_ok = True

    async def run(self) -> None:
        """Works until `request_stop`."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._database.migrate)
        client = connect_sync(self.settings.redis.url)
        ttl = self.settings.coordinator.lease_ttl_s
        heartbeat = Heartbeat(
            partial(beat_coordinator, client, self.id, ttl), partial(forget_coordinator, client, self.id), ttl
        )
        await heartbeat.start()
        self._connected_since = time.monotonic()
        await self._build()
        jobs = [
            asyncio.create_task(self._forever(job), name=job.__name__)
            for job in (
                self._alarm_once,
                self._hints_once,
                self._sweep_once,
                self._claim_once,
                self._ended_once,
                self._archive_once,
                self._upkeep_once,
            )
        ]
        # What is there now stays. Folds of long sessions make many objects that live: the default thresholds would look
        # through all of them again and again, for half of a fold's time.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        log.info("coordinator ready", coordinator=self.id)
        await self._stopping.wait()
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await self._runs.stop(self.settings.coordinator.stop_grace_s)
        await heartbeat.stop()
        await self._close()
        log.info("coordinator stopped", coordinator=self.id)

    def request_stop(self) -> None:
        """Ends `run` soon; runs are handed over."""
        self._stopping.set()

    async def _build(self) -> None:
        settings = self.settings
        session_state = SessionState(self._pipeline, settings.limits)
        epoch = self._epoch = await self._state.epoch()
        await self._restorer.end_lost(epoch)
        self._directory = Directory(
            session_state, key_id(self._key), OWN_TOOLS, self.settings.coordinator.wait_for_workers_s
        )
        await self._directory.refresh()
        self._publisher = Publisher(
            make_app(settings), self._key, settings.coordinator.batch, self._directory.workers_of
        )
        encoder = encoder_of(settings, os.environ)
        artifacts = SqlArtifacts(self._database, ttl_s=settings.retention.artifacts_s)
        agents = Agents(settings.coordinator.agents_dir)
        self._chooser = ToolChooser(self._directory, encoder, settings.data.dir, settings.routing.max_tools)
        self._models = ModelClient(timeouts=Timeouts.of(settings.models))
        price = price_by(load_prices(settings.models.prices))
        gate = Gate(self._pipeline, self.id, settings.models, settings.budget)
        self._failover = Failover(settings, gate, price)
        services = LoopServices(
            settings=settings,
            session_state=session_state,
            directory=self._directory,
            publisher=self._publisher,
            agents=agents,
            chooser=self._chooser,
            models=self._models,
            tiers=self._tiers,
            gate=gate,
            failover=self._failover,
            price=price,
            database=self._database,
            artifacts=artifacts,
            documents=Documents(artifacts, settings.attachments, self._key),
            epoch=epoch,
        )
        self._runs = Supervision(self._state, services, self._pipeline)
        self._intake = Intake(self._state, settings, agents, artifacts, self._restorer)
        self._alarm = Alarm(self._blocking, self.id, self._intake.inboxes)
        self._hints = Hints(self._blocking, self.id)
        self._archiver = Archiver(self._state, self._archived, self._database, epoch)

    async def _check_epoch(self) -> None:
        """A Redis that came back without its data is another state. Work goes on in it: runs of the old one lose
        their leases with it, and sessions come back from the archive as they are needed."""
        epoch = await self._state.epoch()
        if epoch == self._epoch:
            return
        log.error("the state was lost while this coordinator ran; it goes on with an empty one", epoch=epoch)
        self._epoch = self._archiver.epoch = epoch
        self._runs.renew(epoch)
        await self._restorer.end_lost(epoch)

    async def _forever(self, job: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await job()
                if not self._state_ok:
                    self._state_ok = True
                    self._connected_since = time.monotonic()
                    self._runs.hint_all()
                    log.info("the state Redis answers again")
                    await self._check_epoch()
            except StateUnavailable as error:
                if self._state_ok:
                    self._state_ok = False
                    log.error("the state Redis is away", error=str(error))
                await asyncio.sleep(PAUSE_S)
            except CapatazError as error:
                log.error("background job failed", job=job.__name__, error=str(error))
                await asyncio.sleep(PAUSE_S)
            except Exception:
                # A fault of ours in one round must not end the job, and with it the whole coordinator's work.
                log.exception("background job failed by a fault of ours", job=job.__name__)
                await asyncio.sleep(PAUSE_S)

    async def _alarm_once(self) -> None:
        if await self._alarm.ring():
            await self._intake.work(then=self._claim)

    async def _hints_once(self) -> None:
        for hint in await self._hints.read():
            if hint["kind"] == "runnable":
                self._room.set()
            elif hint["kind"] == "adopt":
                await self._take(hint["run"], dead_owners=False)
            else:
                self._runs.hint(hint["kind"], hint["run"])

    async def _sweep_once(self) -> None:
        """Once a second: what no hint announced."""
        await asyncio.sleep(SWEEP_S)
        await self._directory.refresh()
        await self._intake.work()
        for run in await self._state.lost(self._runs.leases):
            self._runs.let_go(run)
        for run in await self._state.with_mail(self._runs.runs):
            self._runs.hint("mail", run)
        await self._state.wake_due()
        await self._adopt()
        self._room.set()
        if time.monotonic() - self._swept_archive >= ARCHIVE_S:
            self._swept_archive = time.monotonic()
            self._runs.ended.set()

    async def _adopt(self) -> None:
        """Takes over runs that were given back, our own that we lost sight of, and those whose owner is gone.

        After Redis was away nobody's heartbeat counts as missing before everybody had time to renew it.
        """
        settled = time.monotonic() - self._connected_since >= self.settings.coordinator.lease_ttl_s
        for run in sorted(await self._state.active_runs() - self._runs.runs):
            if len(self._runs) >= self.settings.coordinator.max_runs:
                return
            await self._take(run, dead_owners=settled)

    async def _take(self, run: str, *, dead_owners: bool) -> None:
        """Takes over one run, if it is to be had; later, if there is no room or it is about to be parked here."""
        async with self._taking:
            if run in self._runs.runs or len(self._runs) >= self.settings.coordinator.max_runs:
                self._put_off[run] = None
                return
            if (lease := await self._state.take_over(run, dead_owners=dead_owners)) is not None:
                log.info("run taken over", run=run)
                self._runs.start(lease)

    async def _claim_once(self) -> None:
        """Starts runs while there is room and something is runnable."""
        await self._room.wait()
        self._room.clear()
        await self._claim()

    async def _claim(self) -> None:
        asked, self._put_off = self._put_off, {}
        for run in asked:
            await self._take(run, dead_owners=False)
        while (room := self.settings.coordinator.max_runs - len(self._runs)) > 0:
            async with self._taking:
                claimed = await self._state.claim(min(room, 50))
                for lease, _ in claimed:
                    self._runs.start(lease)
            if len(claimed) < min(room, 50):
                return

    async def _ended_once(self) -> None:
        await self._runs.ended.wait()
        self._runs.ended.clear()
        self._room.set()
        self._copy_due.set()

    async def _archive_once(self) -> None:
        await self._copy_due.wait()
        await asyncio.sleep(ARCHIVE_PAUSE_S)
        self._copy_due.clear()
        try:
            await self._archiver.work()
        except ArchiveUnavailable as error:
            log.error("archive copy postponed", error=str(error))

    async def _upkeep_once(self) -> None:
        """Once a minute: runs that were lost and nobody has told of, and what the archive need not keep."""
        await asyncio.sleep(UPKEEP_S)
        await self._restorer.end_lost(self._epoch)
        await self._retention.work()

    async def _close(self) -> None:
        with suppress(ArchiveUnavailable, StateUnavailable):
            await self._archiver.work()
        self._publisher.close()
        self._chooser.close()
        await self._failover.aclose()
        await self._models.aclose()
        await self._pipeline.aclose()
        await self._redis.aclose()
        await self._blocking.aclose()
        self._database.close()
