"""The deadlines of one model call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from shared.llm.dialects import Decoder
from shared.llm.errors import Timeout, TimeoutKind
from shared.settings import ModelSettings


@dataclass(frozen=True)
class Timeouts:
    """Deadlines in seconds. `first_token` and `total` count from the start of the call.

    `idle` bounds the silence between two pieces of content, `grace` the wait for usage after the model has
    finished. Comments and pings of the server are silence.
    """

    connect: float = 10.0
    first_token: float = 60.0
    idle: float = 30.0
    total: float = 300.0
    grace: float = 1.0

    @classmethod
    def of(cls, settings: ModelSettings) -> Timeouts:
        """Those of the settings."""
        return cls(settings.connect_s, settings.first_token_s, settings.idle_s, settings.total_s)


class Watch:
    """Reads a body under the deadlines of a call. Only time spent waiting for the server counts as silence.

    A timer per read would cost as much as the read: one timer serves the call, and is set again when it goes off
    too early.
    """

    def __init__(self, timeouts: Timeouts, *, whole: bool) -> None:
        self.whole = whole  # the answer comes in one piece: nothing but the total deadline makes sense
        self._timeouts = timeouts
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._silent = 0.0
        self._pieces = 0
        self._grace = timeouts.grace
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._waiting: asyncio.Task[object] | None = None
        self._expired = False
        self._task = asyncio.current_task()

    def timeout(self, kind: TimeoutKind) -> Timeout:
        """The error for a deadline that passed."""
        return Timeout(kind, float(getattr(self._timeouts, kind)))

    def first(self) -> tuple[float, TimeoutKind]:
        """Seconds until the response must begin, and the deadline that this is."""
        if self.whole or self._timeouts.total <= self._timeouts.first_token:
            return self._timeouts.total, "total"
        return self._timeouts.first_token, "first_token"

    def close(self) -> None:
        """Stops the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def read(self, chunks: AsyncIterator[bytes], decoder: Decoder) -> bytes | None:
        """The next bytes; None at the end of the body, or when the grace after the model's finish is over.

        Raises Timeout, and whatever the transport raises.
        """
        if decoder.pieces != self._pieces:
            self._pieces, self._silent = decoder.pieces, 0.0
        before = self._loop.time()
        seconds, kind = self._left(before, decoder)
        task = self._task
        cancelling = task.cancelling() if task is not None else 0
        self._arm(before + seconds, task)
        try:
            return await chunks.__anext__()
        except StopAsyncIteration:
            return None
        except asyncio.CancelledError as error:
            if not self._expired or task is None or task.uncancel() > cancelling:
                raise  # somebody else's wish
            if decoder.finished:
                return None
            raise self.timeout(kind) from error
        finally:
            self._waiting = None
            waited = self._loop.time() - before
            self._silent += waited
            if decoder.finished:
                self._grace -= waited

    def _left(self, now: float, decoder: Decoder) -> tuple[float, TimeoutKind]:
        total = self._start + self._timeouts.total - now
        if decoder.finished:
            return min(total, self._grace), "total"
        if self.whole:
            return total, "total"
        kind: TimeoutKind = "idle"
        if not decoder.pieces:
            left, kind = self._start + self._timeouts.first_token - now, "first_token"
        elif decoder.patient:
            left = max(self._timeouts.first_token, self._timeouts.idle) - self._silent
        else:
            left = self._timeouts.idle - self._silent
        return (left, kind) if left <= total else (total, "total")

    def _arm(self, due: float, task: asyncio.Task[object] | None) -> None:
        self._due, self._waiting = due, task
        if self._timer is not None and self._timer.when() > due:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._waiting is None:  # nobody waits: the next read sets the timer
            return
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._ring)
            return
        self._expired = True
        self._waiting.cancel()
