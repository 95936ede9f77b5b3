"""Which tools a message gets: the router over the live catalogue, its encoder kept off the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import structlog

from coordinator.dispatch.directory import Directory
from coordinator.routing.router import Decision, Router
from shared.encoder import Encoder, PackagedEncoder
from shared.resemblance import Vector

log = structlog.get_logger(__name__)

WARM_AGAIN_S = 60.0
"""How long after an encoder could not be used it is tried again: an endpoint may have come back."""

MEANINGS_KEPT = 500
"""Texts whose vectors are kept, some 4 KB each."""


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
        self._warm_again = 0.0
        self._building = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encoder")
        self._meanings: dict[str, Vector] = {}

    async def choose(self, text: str, *, sticky: tuple[str, ...], explicit: tuple[str, ...]) -> Decision:
        """The decision for one message."""
        await self._follow_catalogue()
        router = self._router
        decision = router.route_fast(text, sticky=sticky, explicit=explicit)
        if decision is not None:
            return decision
        if self._warm is None or (_failed(self._warm) and time.monotonic() >= self._warm_again):
            self._warm_again = time.monotonic() + WARM_AGAIN_S
            self._warm = self._thread.submit(router.prepare)
            self._warm.add_done_callback(_report)
        if not self._warm.done() or _failed(self._warm):
            return self._plain.route(text, sticky=sticky, explicit=explicit)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: router.route(text, sticky=sticky, explicit=explicit))

    async def meanings(self, texts: Sequence[str]) -> dict[str, Vector] | None:
        """Vectors by text, those of earlier calls kept; None if the encoder is not in memory. It is not loaded here."""
        encoder = self._encoder
        if not isinstance(encoder, PackagedEncoder) or not encoder.loaded:
            return None
        new = [text for text in dict.fromkeys(texts) if text not in self._meanings]
        loop = asyncio.get_running_loop()
        rows = await loop.run_in_executor(self._thread, encoder.encode, new)
        if len(self._meanings) > MEANINGS_KEPT:
            self._meanings.clear()
        found = self._meanings | dict(zip(new, rows.tolist(), strict=True))
        self._meanings.update((text, found[text]) for text in texts)
        return found

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


def _failed(warm: Future[None]) -> bool:
    return warm.done() and (warm.cancelled() or warm.exception() is not None)


def _report(warm: Future[None]) -> None:
    if not warm.cancelled() and (error := warm.exception()) is not None:
        log.error("the encoder cannot be used; messages are routed by words alone", exc_info=error)
