"""Which tools a message gets: the router over the live catalogue, its encoder kept off the event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from coordinator.dispatch.directory import Directory
from coordinator.routing.router import Decision, Router
from shared.encoder import Encoder


class ToolChooser:
    """Routes messages. The router is built anew when the catalogue has changed."""

    def __init__(self, directory: Directory, encoder: Encoder | None, cache_dir: Path, max_tools: int) -> None:
        self._directory = directory
        self._encoder = encoder
        self._cache_dir = cache_dir
        self._max_tools = max_tools
        self._router: Router | None = None
        self._built_for: tuple[str, ...] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encoder")

    async def choose(self, text: str, *, sticky: tuple[str, ...], explicit: tuple[str, ...]) -> Decision:
        """The decision for one message."""
        router = self._current()
        decision = router.route_fast(text, sticky=sticky, explicit=explicit)
        if decision is not None:
            return decision
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._thread, lambda: router.route(text, sticky=sticky, explicit=explicit)
        )

    def _current(self) -> Router:
        if self._router is None or self._built_for != self._directory.digest:
            self._router = Router(self._directory.catalogue, self._encoder, self._cache_dir, self._max_tools)
            self._built_for = self._directory.digest
        return self._router

    def close(self) -> None:
        """Ends the encoder's thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)
