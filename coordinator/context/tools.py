"""Which tools a message gets: the router over the live catalogue, its encoder kept off the event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import structlog

from coordinator.dispatch.directory import Directory
from coordinator.routing.router import Decision, Router
from shared.encoder import Encoder

log = structlog.get_logger(__name__)


class ToolChooser:
    """Routes messages. The router is built anew when the catalogue has changed.

    No message waits for the encoder to be loaded: until that is done in the background, what the words alone do not
    settle gets the layer `all`.
    """

    def __init__(self, directory: Directory, encoder: Encoder | None, cache_dir: Path, max_tools: int) -> None:
        self._directory = directory
        self._encoder = encoder
        self._cache_dir = cache_dir
        self._max_tools = max_tools
        self._built_for: tuple[str, ...] | None = None
        self._router = self._plain = Router(directory.catalogue, None, None, max_tools)
        self._warm: Future[None] | None = None
        self._building = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encoder")

    async def choose(self, text: str, *, sticky: tuple[str, ...], explicit: tuple[str, ...]) -> Decision:
        """The decision for one message."""
        await self._follow_catalogue()
        router = self._router
        decision = router.route_fast(text, sticky=sticky, explicit=explicit)
        if decision is not None:
            return decision
        if self._warm is None:
            self._warm = self._thread.submit(router.prepare)
            self._warm.add_done_callback(_report)
        if not self._warm.done() or self._warm.exception() is not None:
            return self._plain.route(text, sticky=sticky, explicit=explicit)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: router.route(text, sticky=sticky, explicit=explicit))

    async def _follow_catalogue(self) -> None:
        """Builds routers for a new catalogue, in a thread: with many tools that takes most of a second."""
        async with self._building:
            digest, catalogue = self._directory.digest, self._directory.catalogue
            if self._built_for == digest:
                return
            self._plain = await asyncio.to_thread(Router, catalogue, None, None, self._max_tools)
            self._router = self._plain
            if self._encoder is not None:
                self._router = await asyncio.to_thread(
                    Router, catalogue, self._encoder, self._cache_dir, self._max_tools
                )
            self._built_for = digest
            self._warm = None

    def close(self) -> None:
        """Ends the encoder's thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _report(warm: Future[None]) -> None:
    if not warm.cancelled() and (error := warm.exception()) is not None:
        log.error("the encoder cannot be used; messages are routed by words alone", exc_info=error)
