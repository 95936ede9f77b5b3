"""Public events that are not part of the log: deltas and passing notices.

One writer per run keeps its events in order. What arrives while a write is under way travels with the next one,
and deltas of one kind that stand side by side become one event.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Any

import redis.exceptions
import structlog

from shared.settings import LimitSettings
from shared.state import keys
from shared.state.pipeline import Pipeliner

log = structlog.get_logger(__name__)

_DELTAS = ("text.delta", "thinking.delta")


class EventWriter:
    """Writes events of one run. Losing some while Redis is away is allowed: the log has the whole message."""

    def __init__(self, pipeline: Pipeliner, session: str, run: str, limits: LimitSettings) -> None:
        self._pipe = pipeline
        self._key = keys.events(session)
        self._run = run
        self._kept = limits.events_kept
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._gate: asyncio.Task[Any] | None = None

    @property
    def idle(self) -> bool:
        """True if nothing waits to be written."""
        return not self._waiting and (self._writing is None or self._writing.done())

    def hold(self, task: asyncio.Task[Any]) -> None:
        """What is written from now on comes after `task` has ended, however it ends."""
        self._gate = task

    def delta(self, kind: str, attempt: int, text: str) -> None:
        """A piece of text or thinking of the attempt that is streaming now."""
        if self._waiting:
            last_kind, last = self._waiting[-1]
            if last_kind == kind and last["attempt"] == attempt:
                last["text"] += text
                return
        self.write(kind, attempt=attempt, text=text)

    def write(self, kind: str, **data: Any) -> None:
        """Any other event. Returns at once."""
        self._waiting.append((kind, data))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        if self._gate is not None:
            gate, self._gate = self._gate, None
            await asyncio.wait({gate})
        while self._waiting:
            batch = list(self._waiting)
            self._waiting.clear()
            try:
                await asyncio.gather(*(self._add(kind, data) for kind, data in batch))
            except (redis.exceptions.RedisError, OSError) as error:
                log.warning("events lost", run=self._run, count=len(batch), error=str(error))

    def _add(self, kind: str, data: dict[str, Any]) -> Any:
        text = json.dumps(data, ensure_ascii=False, default=str)
        return self._pipe.execute(
            "XADD", self._key, "MAXLEN", "~", self._kept, "*", "type", kind, "run", self._run, "data", text
        )

    async def flush(self) -> None:
        """Returns when all that was written before has been sent: the log's own events come after."""
        while self._writing is not None and not self._writing.done():
            await asyncio.shield(self._writing)
