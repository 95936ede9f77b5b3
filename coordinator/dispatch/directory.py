"""What live workers offer, kept up to date: tools, workflows, how many workers consume a queue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

import structlog

from shared.catalogue import merge_catalogues
from shared.contract import Catalogue, ToolSpec, WorkerInfo, WorkflowSpec
from shared.state.session import SessionState

log = structlog.get_logger(__name__)


class Directory:
    """A view of the workers. Workers with another signing key are not counted: they would refuse our nodes."""

    def __init__(self, state: SessionState, key_id: str, own: Sequence[ToolSpec] = (), patience_s: float = 0.0) -> None:
        """`own` are tools that the coordinator itself carries out, offered beside those of workers. `patience_s`: how
        long from now on `ready` waits for a first worker."""
        self._state = state
        self._own = tuple(own)
        self._patient_until = time.monotonic() + patience_s
        self._known = asyncio.Event()
        self._key_id = key_id
        self._catalogues: dict[str, Catalogue] = {}
        self._refused: set[str] = set()
        self._digests: tuple[str, ...] = ()
        self.workers: list[WorkerInfo] = []
        self.catalogue = Catalogue(tools=self._own)
        self._tools: dict[str, ToolSpec] = {t.name: t for t in self._own}

    @property
    def digest(self) -> tuple[str, ...]:
        """Changes when the catalogue does."""
        return self._digests

    @property
    def foreign(self) -> list[str]:
        """Ids of live workers whose signing key is not ours."""
        return sorted(self._refused)

    async def refresh(self) -> None:
        """Reads heartbeats, and catalogues that are new. With no worker left, what they offered stays known."""
        found = await self._state.workers()
        ours = [w for w in found if w.key_id == self._key_id]
        refused = {w.id for w in found} - {w.id for w in ours}
        for worker in refused - self._refused:
            log.error("worker has another signing key; it gets no nodes", worker=worker, hint="CAPATAZ_SIGNING_KEY")
        self._refused = refused
        self.workers = ours
        digests = tuple(sorted({w.catalogue for w in ours}))
        if not digests or digests == self._digests:
            return
        for digest in digests:
            if digest not in self._catalogues and (c := await self._state.catalogue_of(digest)) is not None:
                self._catalogues[digest] = c
        known = [self._catalogues[d] for d in digests if d in self._catalogues]
        if len(known) == len(digests):
            self._digests = digests
            self._known.set()
        self._catalogues = {d: c for d, c in self._catalogues.items() if d in digests}
        merged = merge_catalogues(known)
        self.catalogue = merged.model_copy(update={"tools": (*merged.tools, *self._own)})
        self._tools = {t.name: t for t in self.catalogue.tools}

    async def ready(self) -> None:
        """Returns when the tools of a worker are known, or the patience is over and there may be none. Somebody else
        refreshes meanwhile. Raises StateUnavailable."""
        if not self._known.is_set():
            await self.refresh()  # of a system that has just started
        left = self._patient_until - time.monotonic()
        if not self._known.is_set() and left > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._known.wait()

    def tool(self, name: str) -> ToolSpec | None:
        """The tool of that name, if a live worker offers it."""
        return self._tools.get(name)

    def workflow(self, name: str) -> WorkflowSpec | None:
        """The workflow of that name."""
        return next((w for w in self.catalogue.workflows if w.name == name), None)

    def holders(self, queue: str, tool: str) -> tuple[list[str], int]:
        """Ids of the live workers of a queue that have a tool, or the step of a workflow that it runs; and how many
        others there are."""
        served = [w for w in self.workers if queue in w.queues]
        having = {digest for digest, found in self._catalogues.items() if _has(found, tool)}
        holding = [w.id for w in served if w.catalogue in having]
        return holding, len(served) - len(holding)

    def workers_of(self, queue: str) -> int:
        """How many live workers consume a queue."""
        return sum(queue in w.queues or queue == f"worker.{w.id}" for w in self.workers)


def _has(catalogue: Catalogue, tool: str) -> bool:
    return any(t.name == tool for t in catalogue.tools) or any(
        step.tool == tool for workflow in catalogue.workflows for step in workflow.steps if step.kind == "code"
    )
