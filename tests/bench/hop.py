"""PERF3: the hop of a node without work, from planned to result, against the raw operations that it consists of.

The floor is three durable writes (as plan, claim and end are) and one list ping-pong through the broker Redis between
two processes, done raw and one after the other.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from typing import Any

import redis

from coordinator.dispatch.publisher import Publisher
from shared.broker import make_app
from shared.contract import NodeOrder
from shared.settings import RedisSettings, Settings
from shared.state import keys
from shared.state.changes import Change
from shared.state.connection import connect
from shared.state.pipeline import Pipeliner
from shared.state.runs import Lease, RunState
from tests.bench.overhead import ENV
from tests.bench.report import Stopwatch, line, median_ms, p95_ms
from tests.support.model_server import ModelServer
from tests.support.processes import System
from tests.support.state import make_node, order_of

ROUNDS = 200


def _echo(url: str) -> None:
    client = redis.Redis.from_url(url, socket_timeout=None)
    while True:
        row: Any = client.blpop(["bench:ping"], timeout=0)
        if row[1] == b"stop":
            return
        client.rpush("bench:pong", row[1])


def _floor(state_url: str, broker_url: str) -> list[float]:
    echo = multiprocessing.get_context("spawn").Process(target=_echo, args=(broker_url,))
    echo.start()
    state, broker = redis.Redis.from_url(state_url), redis.Redis.from_url(broker_url, socket_timeout=None)
    seconds = []
    for i in range(ROUNDS + 20):
        watch = Stopwatch()
        state.xadd("bench:log", {"d": "planned"})
        broker.rpush("bench:ping", str(i))
        broker.blpop(["bench:pong"], timeout=0)
        state.xadd("bench:log", {"d": "claimed"})
        state.xadd("bench:log", {"d": "ended"})
        if i >= 20:
            seconds.append(watch.s)
    broker.rpush("bench:ping", "stop")
    echo.join()
    return seconds


async def _hops(system: System) -> list[float]:
    settings = Settings.model_construct(redis=RedisSettings(url=system.redis_url, broker_url=system.broker.broker_url))
    client, blocking = connect(system.redis_url), connect(system.redis_url, blocking=True)
    pipe = Pipeliner(client)
    state = RunState(pipe, "bench", settings.limits)
    await client.set(keys.coordinator("bench"), "1")
    lease = Lease("rbench", "bench", "owner", "bench", "nonce")
    await client.hset(
        keys.run(lease.run),
        mapping={
            "state": "active",
            "owner": "bench",
            "nonce": "nonce",
            "seq": 0,
            "session": "bench",
            "principal": "owner",
        },
    )  # type: ignore[misc]
    publisher = Publisher(make_app(settings), system.signing_key.encode(), 20, lambda _: 1)
    seconds, last = [], "0"
    for i in range(ROUNDS + 20):
        node = make_node(f"n{i}").model_copy(update={"tool": "no_such_tool"})
        order: NodeOrder = order_of(lease, node)
        order = order.model_copy(update={"args_hash": _hash(node.tool, node.args)})
        node = node.model_copy(update={"args_hash": order.args_hash})
        watch = Stopwatch()
        await state.append(lease, Change(nodes=[node]))
        publisher.publish("tools", order)
        rows: Any = await blocking.xread({keys.hints("bench"): last}, block=5000)
        await state.results(lease.run, [node.node])
        if i >= 20:
            seconds.append(watch.s)
        last = (await client.xrevrange(keys.hints("bench"), count=1))[0][0] if rows else last
    publisher.close()
    await pipe.aclose()
    await client.aclose()
    await blocking.aclose()
    return seconds


def _hash(tool: str, args: dict[str, Any]) -> str:
    from shared.signing import call_hash

    return call_hash(tool, args)


def measure() -> None:
    """Prints one line."""
    with ModelServer(rules=[{"then": {"text": "hi"}}]) as model:
        system = System(model_url=model.url, coordinators=0, env=ENV)
        try:
            system.start()
            time.sleep(0.5)  # the worker's consumer attaches a moment after its heartbeat
            floor = _floor(system.redis_url, system.broker.url)
            hops = asyncio.run(_hops(system))
        finally:
            system.stop()
    line(
        "PERF3",
        hop_ms=median_ms(hops),
        floor_ms=median_ms(floor),
        ratio=median_ms(hops) / median_ms(floor),
        p95_ratio=p95_ms(hops) / p95_ms(floor),
    )
