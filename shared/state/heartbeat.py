"""A heartbeat that tells the truth: a thread renews it only while the event loop beside it still turns.

A process that is paused, or whose loop is stuck, loses its heartbeat key and with it every lease and claim.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import structlog

from shared.errors import StateUnavailable

log = structlog.get_logger(__name__)

TICK_S = 0.25


class Heartbeat:
    """Calls `beat` every `ttl_s` / 5 seconds from a thread, unless the loop has not ticked for 0.8 x `ttl_s`.

    `stop` calls `farewell` if no beat is under way.
    """

    def __init__(self, beat: Callable[[], None], farewell: Callable[[], None], ttl_s: float) -> None:
        self._beat = beat
        self._farewell = farewell
        self._period = ttl_s / 5
        self._stale = ttl_s * 0.8
        self._ticked = time.monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._ticker: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Beats once in this call (raising StateUnavailable if that fails), then goes on in the background."""
        await asyncio.get_running_loop().run_in_executor(None, self._beat)
        self._ticked = time.monotonic()
        self._ticker = asyncio.create_task(self._tick())
        self._thread.start()

    async def _tick(self) -> None:
        while True:
            self._ticked = time.monotonic()
            await asyncio.sleep(TICK_S)

    def _run(self) -> None:
        failing = False
        while not self._stopping.wait(self._period):
            stuck = time.monotonic() - self._ticked
            if stuck > self._stale:
                log.warning("event loop is stuck; heartbeat withheld", seconds=round(stuck, 1))
                continue
            try:
                self._beat()
                failing = False
            except StateUnavailable as error:
                if not failing:
                    log.warning("heartbeat failed", error=str(error))
                failing = True

    async def stop(self) -> None:
        """Ends the heartbeat and takes its key away."""
        self._stopping.set()
        if self._ticker is not None:
            self._ticker.cancel()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._thread.join)
        try:
            await loop.run_in_executor(None, self._farewell)
        except StateUnavailable as error:
            log.warning("heartbeat key stays until it expires", error=str(error))
