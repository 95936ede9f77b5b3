"""PERF3: the hop of a node without work, from planned to result, against the raw operations that it consists of.

The floor is three durable writes (as plan, claim and end are) and one list ping-pong through the broker Redis between
two processes, done raw and one after the other. Both alternate, after some rounds that only warm up. `best_ratio` is
the fastest hop over the fastest floor.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import redis
import redis.asyncio

from coordinator.dispatch.publisher import Publisher
from shared.broker import make_app
from shared.settings import RedisSettings, Settings
from shared.signing import call_hash
from shared.state import keys
from shared.state.changes import Change
from shared.state.connection import connect
from shared.state.pipeline import Pipeliner
from shared.state.runs import Lease, RunState
from tests.bench.report import Stopwatch, line, median_ms, p95_ms
from tests.bench.turns import ENV
from tests.support.model_server import ModelServer
from tests.support.processes import System
from tests.support.state import make_node, order_of

ROUNDS = 300
WARM_UP = 50
LEASE: Final = Lease("rbench", "bench", "owner", "bench", "nonce")


def _echo(url: str) -> None:
    client = redis.Redis.from_url(url, socket_timeout=None)
    while True:
        row: Any = client.blpop(["bench:ping"], timeout=0)
        if row[1] == b"stop":
            return
        client.rpush("bench:pong", row[1])


class _Floor:
    """The raw operations."""

    def __init__(self, state_url: str, broker_url: str) -> None:
        self._state = redis.Redis.from_url(state_url)
        self._broker = redis.Redis.from_url(broker_url, socket_timeout=None)

    def once(self) -> float:
        """Seconds of one floor."""
        watch = Stopwatch()
        self._state.xadd("bench:log", {"d": "planned"})
        self._broker.rpush("bench:ping", "1")
        self._broker.blpop(["bench:pong"], timeout=0)
        self._state.xadd("bench:log", {"d": "claimed"})
        self._state.xadd("bench:log", {"d": "ended"})
        return watch.s

    def end(self) -> None:
        """Lets the other process end."""
        self._broker.rpush("bench:ping", "stop")


@contextmanager
def _floor(state_url: str, broker_url: str) -> Iterator[_Floor]:
    echo = multiprocessing.get_context("spawn").Process(target=_echo, args=(broker_url,))
    echo.start()
    floor = _Floor(state_url, broker_url)
    try:
        yield floor
    finally:
        floor.end()
        echo.join()


class _Hop:
    """A run that this process owns, as a coordinator would."""

    def __init__(self, system: System) -> None:
        urls = RedisSettings(url=system.redis_url, broker_url=system.broker.broker_url)
        settings = Settings.model_construct(redis=urls)
        self._client = connect(system.redis_url)
        self._blocking = connect(system.redis_url, blocking=True)
        self._pipe = Pipeliner(self._client)
        self._state = RunState(self._pipe, "bench", settings.limits)
        self._publisher = Publisher(make_app(settings), system.signing_key.encode(), 20, lambda _: 1)
        self._last = "0"

    async def begin(self) -> None:
        """Makes the run."""
        await self._client.set(keys.coordinator("bench"), "1")
        row: dict[Any, Any] = {
            "state": "active",
            "owner": "bench",
            "nonce": LEASE.nonce,
            "seq": 0,
            "session": LEASE.session,
            "principal": LEASE.principal,
        }
        await self._client.hset(keys.run(LEASE.run), mapping=row)

    async def once(self, number: int) -> float:
        """Seconds of one hop."""
        node = make_node(f"n{number}").model_copy(update={"tool": "no_such_tool"})
        node = node.model_copy(update={"args_hash": call_hash(node.tool, node.args)})
        order = order_of(LEASE, node)
        watch = Stopwatch()
        await self._state.append(LEASE, Change(nodes=[node]))
        self._publisher.publish("tools", order)
        await self._blocking.xread({keys.hints("bench"): self._last}, block=5000)
        results = await self._state.results(LEASE.run, [node.node])
        taken = watch.s
        if node.node not in results:
            raise RuntimeError(f"{node.node} did not end")
        rows: Any = await self._client.xrevrange(keys.hints("bench"), count=1)
        self._last = rows[0][0]
        return taken

    async def aclose(self) -> None:
        """Closes all connections."""
        self._publisher.close()
        await self._pipe.aclose()
        await self._client.aclose()
        await self._blocking.aclose()


async def _alternate(system: System) -> tuple[list[float], list[float]]:
    """Seconds of hops and of floors."""
    hop = _Hop(system)
    hops, floors = [], []
    with _floor(system.redis_url, system.broker.url) as floor:
        await hop.begin()
        for number in range(WARM_UP + ROUNDS):
            hop_s, floor_s = await hop.once(number), floor.once()
            if number >= WARM_UP:
                hops.append(hop_s)
                floors.append(floor_s)
        await hop.aclose()
    return hops, floors


def measure() -> None:
    """Prints one line."""
    with ModelServer(rules=[{"then": {"text": "hi"}}]) as model:
        system = System(model_url=model.url, coordinators=0, env=ENV)
        try:
            system.start()
            time.sleep(0.5)  # the worker's consumer attaches a moment after its heartbeat
            hops, floors = asyncio.run(_alternate(system))
        finally:
            system.stop()
    line(
        "PERF3",
        hop_ms=median_ms(hops),
        floor_ms=median_ms(floors),
        ratio=median_ms(hops) / median_ms(floors),
        p95_ratio=p95_ms(hops) / p95_ms(floors),
        best_ratio=min(hops) / min(floors),
    )
