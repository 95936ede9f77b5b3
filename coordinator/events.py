"""Public events that are not part of the log: deltas and passing notices.

All runs of a process share one feed. What they say while a call is under way travels with the next one, so that an
event of a busy process costs microseconds, and one of an idle process goes at once. The events of a run stay in order;
deltas of one kind that stand side by side become one event.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import structlog

from shared.errors import CapatazError
from shared.settings import LimitSettings
from shared.state.config import script_config
from shared.state.pipeline import Pipeliner
from shared.state.scripting import Scripts

log = structlog.get_logger(__name__)

MANY: Final = 8
"""A call with so many events is a sign of load: the next one waits for company."""
PACE_S: Final = 0.01
"""Under load, from the beginning of one call to the next at least."""
MOST_PER_CALL: Final = 500
"""Redis does nothing else while it adds them: about 2 ms."""

_json: Final = json.JSONEncoder(ensure_ascii=False, default=str).encode


@dataclass(slots=True)
class _Event:
    session: str
    run: str
    kind: str
    data: str = ""
    """JSON; empty for a delta, which is written down when it goes."""
    attempt: int = 0
    text: str = ""
    waits: bool = True

    def leave(self) -> str:
        """The lines that `tell` takes, since a single argument costs a tenth of many; from now on nothing joins it."""
        self.waits = False
        data = self.data or f'{{"attempt":{self.attempt},"text":{_json(self.text)}}}'
        return f"{self.session}\n{self.kind}\n{self.run}\n{data}\n"


class EventFeed:
    """Sends the events of all runs of a process, one call at a time."""

    def __init__(self, pipeline: Pipeliner, limits: LimitSettings) -> None:
        self._scripts = Scripts(pipeline)
        self._config = script_config(limits)
        self._waiting: list[_Event] = []
        self._trip: asyncio.Future[None] | None = None
        self._sender: asyncio.Task[None] | None = None
        self._hurried = False
        self._pause: asyncio.Future[None] | None = None

    def put(self, event: _Event) -> asyncio.Future[None]:
        """Takes an event; the answer is done when the event has been sent, or was lost."""
        self._waiting.append(event)
        if self._trip is None:
            self._trip = asyncio.get_running_loop().create_future()
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send())
        return self._trip

    def hurry(self) -> None:
        """Somebody waits: no pause before the next call."""
        self._hurried = True
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and self._trip is not None:
            began = loop.time()
            events, self._waiting = self._waiting, []
            trip, self._trip = self._trip, None
            self._hurried = False
            try:
                for start in range(0, len(events), MOST_PER_CALL):
                    await self._call(events[start : start + MOST_PER_CALL])
            finally:
                trip.set_result(None)
            if len(events) >= MANY:
                await self._rest(began + PACE_S)

    async def _call(self, events: list[_Event]) -> None:
        lines = "".join([event.leave() for event in events])
        try:
            # Not repeated: an event that is there twice is worse than a delta that is missing.
            await self._scripts.call("tell", self._config, lines, retry=False)
        except CapatazError as error:
            log.warning("events lost", count=len(events), error=str(error))

    async def _rest(self, until: float) -> None:
        """Returns at that moment of the loop's clock, or when somebody is in a hurry."""
        loop = asyncio.get_running_loop()
        if self._hurried or until <= loop.time():
            return
        self._pause = loop.create_future()
        timer = loop.call_at(until, self.hurry)
        try:
            await self._pause
        finally:
            timer.cancel()
            self._pause = None


@cache
def feed_of(pipeline: Pipeliner, limits: LimitSettings) -> EventFeed:
    """The feed of all who share a pipeliner."""
    return EventFeed(pipeline, limits)


class EventWriter:
    """Writes events of one run. Losing some while Redis is away is allowed: the log has the whole message."""

    def __init__(self, pipeline: Pipeliner, session: str, run: str, limits: LimitSettings) -> None:
        self._feed = feed_of(pipeline, limits)
        self._session = session
        self._run = run
        self._last: _Event | None = None
        self._trip: asyncio.Future[None] | None = None
        self._gate: asyncio.Task[Any] | None = None
        self._held: list[_Event] = []

    @property
    def idle(self) -> bool:
        """True if nothing waits to be written."""
        return not self._held and (self._trip is None or self._trip.done())

    def hold(self, task: asyncio.Task[Any]) -> None:
        """What is written from now on comes after `task` has ended, however it ends."""
        self._gate = task
        task.add_done_callback(self._open)

    def _open(self, task: asyncio.Task[Any]) -> None:
        if self._gate is task:
            self._gate = None
            held, self._held = self._held, []
            for event in held:
                self._trip = self._feed.put(event)

    def delta(self, kind: str, attempt: int, text: str) -> None:
        """A piece of text or thinking of the attempt that is streaming now."""
        last = self._last
        if last is not None and last.waits and last.attempt == attempt and last.kind == kind:
            last.text += text
        else:
            self._put(_Event(self._session, self._run, kind, attempt=attempt, text=text))

    def write(self, kind: str, **data: Any) -> None:
        """Any other event. Returns at once."""
        self._put(_Event(self._session, self._run, kind, _json(data)))

    def _put(self, event: _Event) -> None:
        self._last = event
        if self._gate is None:
            self._trip = self._feed.put(event)
        else:
            self._held.append(event)

    async def flush(self) -> None:
        """Returns when all that was written before has been sent: the log's own events come after.

        The task that events are held for does not wait for them.
        """
        if self._gate is not None and self._gate is not asyncio.current_task():
            await asyncio.wait({self._gate})
        while self._trip is not None and not self._trip.done():
            self._feed.hurry()
            await asyncio.shield(self._trip)
