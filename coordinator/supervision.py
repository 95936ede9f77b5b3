"""Starts runs, takes runs over, gives runs back: the life of a run in this process, around its loop."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog

from coordinator.dispatch.collector import end_open
from coordinator.events import EventWriter
from coordinator.handle import Handle, Parked, RunCancelled
from coordinator.loop.ending import Outcome, cancelled, defect, end_run, failed
from coordinator.loop.react import ReactRun
from coordinator.loop.services import LoopServices
from coordinator.loop.workflow import WorkflowRun
from shared.errors import CapatazError, LeaseLost, StateConflict, StateUnavailable
from shared.fold import SessionFold
from shared.state.changes import Change
from shared.state.pipeline import Pipeliner
from shared.state.runs import Lease, RunState

log = structlog.get_logger(__name__)


class Supervision:
    """All runs of this process by id."""

    def __init__(self, state: RunState, services: LoopServices, pipeline: Pipeliner) -> None:
        self._state = state
        self._services = services
        self._pipeline = pipeline
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._handles: dict[str, Handle] = {}
        self.ended = asyncio.Event()
        """Set whenever a run has ended here: there is room, and perhaps an archive copy due."""

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def runs(self) -> set[str]:
        """Ids of runs that this process works on."""
        return set(self._tasks)

    def start(self, lease: Lease) -> None:
        """Works on a claimed or taken over run from now on."""
        task = asyncio.create_task(self._live(lease), name=f"run {lease.run}")
        self._tasks[lease.run] = task
        task.add_done_callback(lambda done: self._gone(lease.run, done))

    def _gone(self, run: str, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("work on a run ended by a fault of ours; it is taken up again", run=run, exc_info=error)
        if self._tasks.get(run) is task:  # else the run was taken up anew, under another lease
            del self._tasks[run]
            self._handles.pop(run, None)
        self.ended.set()

    @property
    def leases(self) -> list[Lease]:
        """The leases under which this process works."""
        return [handle.lease for handle in self._handles.values()]

    def let_go(self, run: str) -> None:
        """Ends the local work on a run that is another's now: what it still says would only get in that one's way."""
        log.warning("run let go: its lease is gone", run=run)
        if (task := self._tasks.get(run)) is not None:
            task.cancel()

    def hint(self, kind: str, run: str) -> None:
        """Something of a run changed."""
        if (handle := self._handles.get(run)) is not None:
            if kind == "mail":
                handle.mail.set()
            else:
                handle.nodes_changed.set()

    def hint_all(self) -> None:
        """Hints may have been missed: look everywhere."""
        for handle in self._handles.values():
            handle.mail.set()
            handle.nodes_changed.set()

    async def _live(self, lease: Lease) -> None:
        try:
            entries, replies = await asyncio.gather(self._state.log(lease.session), self._state.reply_names(lease.run))
            fold = SessionFold.of(entries)
            events = EventWriter(self._pipeline, lease.session, lease.run, self._services.settings.limits)
            handle = Handle(lease, self._state, fold, events)
            handle.replies = replies
            self._handles[lease.run] = handle
            await self._work(handle)
        except LeaseLost:
            log.warning("run let go: its lease is gone", run=lease.run)
        except (StateUnavailable, StateConflict) as error:
            # The run stays where it is; the sweep finds it when the state is back.
            log.warning("run let go for now", run=lease.run, error=str(error))

    async def _work(self, handle: Handle) -> None:
        while True:
            try:
                outcome, change = await self._outcome(handle)
            except Parked as parked:
                if await handle.park(parked):
                    log.info("run parked", run=handle.lease.run, waits_for=parked.nodes)
                    return
                continue
            if await end_run(handle, self._services, outcome, change):
                log.info("run ended", run=handle.lease.run, state=outcome.state, reason=outcome.finish_reason)
                return
            log.info("mail came at the end of a run; going on", run=handle.lease.run)

    async def _outcome(self, handle: Handle) -> tuple[Outcome, Change]:
        loop: ReactRun | WorkflowRun
        try:
            if handle.message.kind == "workflow":
                loop = await WorkflowRun.prepare(handle, self._services)
            else:
                loop = ReactRun(handle, self._services)
            # Nodes that were started early for a message that never came have no effect and no reader.
            return await loop.run(), end_open(handle, "nobody asks for it any more")
        except RunCancelled as stop:
            return cancelled(stop.message), end_open(handle, stop.message)
        except (LeaseLost, StateUnavailable, StateConflict, Parked):
            raise
        except CapatazError as error:
            log.warning("run failed", run=handle.lease.run, error=str(error))
            return failed(error), end_open(handle, "the run failed")
        except Exception:
            log.exception("run failed by a fault of ours", run=handle.lease.run)
            return defect(), end_open(handle, "the run failed")

    def renew(self, epoch: str) -> None:
        """The state is another one from now on; runs of the old one are lost, and let go of by themselves."""
        self._services = replace(self._services, epoch=epoch)

    async def stop(self, grace_s: float) -> None:
        """Ends the local work on all runs and gives their leases back, so that others go on at once."""
        leases = [h.lease for h in self._handles.values()]
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        for lease in leases:
            try:
                await self._state.release(lease)
            except StateUnavailable as error:
                log.warning("lease stays until it expires", run=lease.run, error=str(error))
