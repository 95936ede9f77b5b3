"""PERF1: one turn of N parallel 50 ms tools through real workers, beyond model time and 50 ms.

The scripted model answers after 40 ms and streams for 60 ms, twice a run. The floor is a bare httpx and asyncio loop
against the same server, with the tools as plain sleeps.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx

from ops.redis_server import Durability
from shared.client import Client
from tests.bench.report import Stopwatch, cpu_s, line, median_ms
from tests.support.model_server import ModelServer
from tests.support.processes import System

TOOL_S = 0.05
MODEL_S = 2 * (0.04 + 0.06)
ROUNDS = 15
ENV = {
    "CAPATAZ_WORKER__TOOL_MODULES": json.dumps([str(Path(__file__).with_name("bench_tools.py"))]),
    "CAPATAZ_PLAYBOOK__ENABLED": "false",  # the learner works after a run, on the cores that the next one needs
}
TIMING = {"first_token_ms": 40, "stream_ms": 60}


def rules(n: int) -> list[dict[str, Any]]:
    """A model that calls the tool `n` times in one turn and then answers."""
    row = {"name": "bench_sleep", "arguments": {"seconds": TOOL_S}}
    calls = [row | {"arguments": {"seconds": TOOL_S, "tag": str(i)}} for i in range(n)]
    return [
        {"when": {"step": 0}, "then": {"calls": calls, "delta_chars": 40, **TIMING}},
        {"then": {"text": "all done", **TIMING}},
    ]


async def _bare_turn(client: httpx.AsyncClient, url: str, n: int) -> None:
    tools = [{"type": "function", "function": {"name": "bench_sleep", "parameters": {"type": "object"}}}]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "bench"}]
    for _ in range(2):
        calls: dict[int, dict[str, Any]] = {}
        body = {"model": "rehearsal", "stream": True, "messages": messages, "tools": tools}
        async with client.stream("POST", f"{url}/chat/completions", json=body) as response:
            async for text in response.aiter_lines():
                if not text.startswith("data: {"):
                    continue
                for choice in json.loads(text[6:])["choices"]:
                    for delta in choice["delta"].get("tool_calls") or []:
                        slot = calls.setdefault(delta["index"], {"id": "", "name": "", "arguments": ""})
                        slot["id"] = slot["id"] or delta.get("id") or ""
                        slot["name"] += delta["function"].get("name") or ""
                        slot["arguments"] += delta["function"].get("arguments") or ""
        if calls:
            asked = [{"id": c["id"], "type": "function", "function": c | {"id": None}} for c in calls.values()]
            for a in asked:
                a["function"].pop("id")  # type: ignore[attr-defined]
            messages.append({"role": "assistant", "content": None, "tool_calls": asked})
            await asyncio.gather(*(asyncio.sleep(json.loads(c["arguments"])["seconds"]) for c in calls.values()))
            messages += [{"role": "tool", "tool_call_id": c["id"], "content": "done"} for c in calls.values()]


async def _bare(url: str, n: int) -> list[float]:
    seconds = []
    async with httpx.AsyncClient() as client:
        for _ in range(ROUNDS):
            watch = Stopwatch()
            await _bare_turn(client, url, n)
            seconds.append(watch.s - MODEL_S - TOOL_S)
    return seconds


def measure(durability: Durability, sizes: tuple[int, ...] = (1, 5, 20)) -> None:
    """Prints one line for each number of tools."""
    with ModelServer(rules=rules(1)) as model:
        system = System(model_url=model.url, durability=durability, env=ENV)
        try:
            system.start()
            client = Client.connect(system.redis_url)
            client.ask("bench", session="warm", tools=("bench",), timeout=30)
            pids = [p.pid for p in (*system.coordinators, *system.workers)]
            for n in sizes:
                model.script(rules(n))
                floor = median_ms(asyncio.run(_bare(model.url, n)))
                seconds, used = [], cpu_s(pids)
                for i in range(ROUNDS):
                    watch = Stopwatch()
                    reply = client.ask("bench", session=f"b{n}-{i}", tools=("bench",), timeout=30)
                    seconds.append(watch.s - MODEL_S - TOOL_S)
                    if not reply.ok:
                        raise RuntimeError(f"the run failed: {reply}")
                overhead = median_ms(seconds)
                line(
                    "PERF1",
                    n=n,
                    mode="strict" if durability == "strict" else "relaxed",
                    overhead_ms=overhead,
                    floor_ms=floor,
                    ratio=overhead / floor,
                    cpu_ms=(cpu_s(pids) - used) * 1000 / ROUNDS,
                )
        finally:
            system.stop()
