"""Who is alive: coordinators and workers by their heartbeats in the state Redis."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import redis

from shared.state import keys

LIVE_S = 5.0
"""A process is live while its last heartbeat is at most this old, in seconds."""


@dataclass(frozen=True)
class Alive:
    """Ids of the live processes."""

    coordinators: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()

    def has(self, pid: int | None) -> bool:
        """True if the process `pid` of this machine is among them: ids hold the process id between dashes."""
        return pid is not None and any(f"-{pid}-" in one for one in (*self.coordinators, *self.workers))


def alive(client: redis.Redis, now: Callable[[], float] = time.time) -> Alive:
    """Reads both heartbeat sets once. Raises redis-py's errors; `now` gives Unix seconds."""
    oldest = int((now() - LIVE_S) * 1000)
    coordinators = client.zrangebyscore(keys.COORDINATORS, oldest, "+inf")
    workers = client.zrangebyscore(keys.WORKERS, oldest, "+inf")
    return Alive(_texts(coordinators), _texts(workers))


def _texts(members: object) -> tuple[str, ...]:
    assert isinstance(members, list)
    return tuple(sorted(member.decode() if isinstance(member, bytes) else str(member) for member in members))
