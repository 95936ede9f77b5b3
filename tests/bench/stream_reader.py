"""A reader of the events of many sessions, in a process of its own: when did which token arrive, and is any missing?

One XREAD over all streams every `PACE_S`, so that it takes little of the cores that it measures; an event therefore
waits up to that long for its reader, and that is part of the lag which is reported.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import redis

from shared.state import keys

PACE_S = 0.01
GIVE_UP_S = 60.0


class Report(NamedTuple):
    """What a reader found. `lags` are seconds from the write of an event's last token to the event's arrival."""

    lags: list[float]
    tokens: int
    events: int
    lost: int
    failed: int


@dataclass
class Listener:
    """What has come of one session. Pure."""

    tokens: int
    heard: int = 0
    wrong: int = 0
    rest: str = ""
    ended: str = ""
    lags: list[float] = field(default_factory=list)

    @property
    def lost(self) -> int:
        """Tokens that never came, or not in their place."""
        return self.tokens - self.heard + self.wrong

    def take(self, kind: str, data: str, now: float) -> None:
        """One event, with its JSON; `now` is on the monotonic clock."""
        if kind in ("run.finished", "run.failed"):
            self.ended = kind
        if kind != "text.delta":
            return
        *whole, self.rest = (self.rest + json.loads(data)["text"]).split(" ")
        for word in whole:
            number, _, written = word.partition(":")
            if int(number) == self.heard:
                self.heard += 1
            else:
                self.wrong += 1
        if whole:
            self.lags.append(now - int(written, 16) / 1e6)


def read(url: str, sessions: Sequence[str], tokens: int) -> Report:
    """Reads until the runs of all sessions have ended, each of which says so many tokens. Raises TimeoutError."""
    client = redis.Redis.from_url(url)
    listeners = {keys.events(s).encode(): Listener(tokens) for s in sessions}
    places: dict[Any, Any] = dict.fromkeys(listeners, b"0")
    events, heard_at = 0, time.monotonic()
    while places:
        began = time.monotonic()
        rows: Any = client.xread(places, count=1000)
        now = time.monotonic()
        if rows:
            heard_at = now
        elif now - heard_at > GIVE_UP_S:
            raise TimeoutError(f"{len(places)} sessions did not end")
        for key, entries in rows:
            listener = listeners[key]
            for _, fields in entries:
                listener.take(fields[b"type"].decode(), fields[b"data"].decode(), now)
            events += len(entries)
            places[key] = entries[-1][0]
            if listener.ended:
                del places[key]
        time.sleep(max(0.0, began + PACE_S - time.monotonic()))
    found = list(listeners.values())
    return Report(
        [lag for listener in found for lag in listener.lags],
        sum(listener.heard for listener in found),
        events,
        sum(listener.lost for listener in found),
        sum(listener.ended != "run.finished" for listener in found),
    )


def main(tell: Connection, url: str, sessions: Sequence[str], tokens: int) -> None:
    """Sends the report."""
    tell.send(read(url, sessions, tokens))
