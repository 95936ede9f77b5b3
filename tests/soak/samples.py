"""What a soak looks at, and when it has grown. The judgement is pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psutil
import redis

from shared.state.keys import PREFIX
from tests.support.processes import System

Sample = dict[str, float]
"""Values by name: `pss_mb coordinator-1`, `keys state session` …"""

SMOOTHED: Final = 5
"""Samples whose median stands for the beginning and for the end."""


@dataclass(frozen=True)
class Tolerance:
    """How much more is no growth: a share of the first value, and so much in any case."""

    share: float
    plus: float

    def allows(self, first: float, last: float) -> bool:
        """True if `last` is within it."""
        return last <= first * (1 + self.share) + self.plus


TOLERANCES: Final[Mapping[str, Tolerance]] = {
    "pss_mb": Tolerance(0.05, 4.0),  # allocators keep what a burst took
    "fds": Tolerance(0.0, 8.0),  # connections come and go with the load
    "threads": Tolerance(0.0, 6.0),  # pools fill up to their bound
    "connections": Tolerance(0.0, 8.0),
    "keys": Tolerance(0.25, 60.0),  # the load of a minute is not that of the next
    "memory_mb": Tolerance(0.15, 3.0),
}
"""By the first word of a value's name."""


@dataclass(frozen=True)
class Row:
    """One value over the soak: at its beginning (after the warm-up), at its end, at most."""

    name: str
    first: float
    last: float
    most: float

    @property
    def grew(self) -> bool:
        """True if it grew beyond its tolerance."""
        return not TOLERANCES[self.name.split()[0]].allows(self.first, self.last)

    def __str__(self) -> str:
        mark = "  GREW" if self.grew else ""
        return f"{self.name:36} {self.first:10.1f} {self.last:10.1f} {self.most:10.1f}{mark}"


def judged(samples: Sequence[Sample]) -> list[Row]:
    """A row for each name, in order. What is not there in a sample counts as 0."""
    names = sorted({name for sample in samples for name in sample})
    rows = []
    for name in names:
        values = [sample.get(name, 0.0) for sample in samples]
        first, last = (statistics.median(part) for part in (values[:SMOOTHED], values[-SMOOTHED:]))
        rows.append(Row(name, first, last, max(values)))
    return rows


def take(system: System) -> Sample:
    """One sample of a running system."""
    sample: Sample = {}
    for name, pid in _processes(system).items():
        process = psutil.Process(pid)
        sample[f"pss_mb {name}"] = process.memory_full_info().pss / 2**20
        sample[f"fds {name}"] = process.num_fds()
        sample[f"threads {name}"] = process.num_threads()
    for name, server in (("state", system.state), ("broker", system.broker)):
        with server.client() as client:
            sample |= _of_server(name, client)
    return sample


def _processes(system: System) -> dict[str, int]:
    """Ids by name."""
    found = {p.name: p.pid for p in (*system.coordinators, *system.workers, *system.others)}
    return found | {f"{name}-redis": s.pid or 0 for name, s in (("state", system.state), ("broker", system.broker))}


def _of_server(name: str, client: redis.Redis) -> Sample:
    memory: Any = client.info("memory")
    clients: Any = client.client_list()
    counts: Counter[str] = Counter(kind_of(str(key)) for key in client.scan_iter(count=1000))
    return {
        f"memory_mb {name}": memory["used_memory"] / 2**20,
        f"connections {name}": len(clients),
        **{f"keys {name} {kind}": count for kind, count in counts.items()},
    }


def kind_of(key: str) -> str:
    """What a key is called without the names in it: `session`, `session:log`, `run:ledger`, `inbox`."""
    if not key.startswith(PREFIX):
        return "celery"
    parts = key.removeprefix(PREFIX).split(":")
    return f"{parts[0]}:{parts[2]}" if parts[0] in ("session", "run") and len(parts) > 2 else parts[0]
