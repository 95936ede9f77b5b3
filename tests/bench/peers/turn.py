"""What the engines share: the tool, and how turns are counted. Standard library only, for any environment.

A process gets its orders as one JSON argument and prints one JSON object a line: median seconds beyond model and tool,
CPU seconds of one turn, and the most memory that the process has had so far.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass

Turn = Callable[[str], Awaitable[str]]
"""Takes the user's message, returns the answer."""

ANSWER = "all done"
_ran: list[str] = []


async def bench_sleep(seconds: float, tag: str = "") -> str:
    """Sleeps for the benchmark."""
    _ran.append(tag)
    await asyncio.sleep(seconds)
    return tag or "done"


@dataclass(frozen=True)
class Orders:
    """What to run: turns of each size, those that warm up first. `least_s` is what a turn takes at the least."""

    url: str
    sizes: tuple[int, ...]
    warm_up: int
    rounds: int
    least_s: float

    def dump(self) -> str:
        """As the argument of a process."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Row:
    """One size measured."""

    n: int
    overhead_ms: float
    cpu_ms: float
    rss_mb: float


def message(n: int) -> str:
    """The user's message that makes the scripted model call the tool `n` times."""
    return f"bench {n}"


def main(engine: Callable[[str], AbstractAsyncContextManager[Turn]]) -> None:
    """Runs the orders; `engine` gives, for the model's base URL, a turn. Raises RuntimeError if one goes wrong."""
    orders = Orders(**json.loads(sys.argv[1]))
    asyncio.run(_measure(engine, orders))


async def _measure(engine: Callable[[str], AbstractAsyncContextManager[Turn]], orders: Orders) -> None:
    async with engine(orders.url) as turn:
        for n in orders.sizes:
            seconds, cpu = [], []
            for number in range(orders.warm_up + orders.rounds):
                wall_s, cpu_s = await _once(turn, n)
                if number >= orders.warm_up:
                    seconds.append(wall_s - orders.least_s)
                    cpu.append(cpu_s)
            rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            row = Row(n, statistics.median(seconds) * 1000, statistics.mean(cpu) * 1000, rss_mb)
            print(json.dumps(asdict(row)), flush=True)


async def _once(turn: Turn, n: int) -> tuple[float, float]:
    """Wall and CPU seconds of one turn."""
    _ran.clear()
    began, used = time.perf_counter(), time.process_time()
    answer = await turn(message(n))
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - used
    if answer != ANSWER or sorted(_ran) != sorted(str(i) for i in range(n)):
        raise RuntimeError(f"{n} tools should have run, and {len(_ran)} have; the answer was {answer!r}")
    return wall_s, cpu_s
