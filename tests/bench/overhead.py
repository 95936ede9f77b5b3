"""PERF1: one turn of N parallel 50 ms tools through real workers, beyond model time and 50 ms.

The scripted model answers after 40 ms and streams for 60 ms, twice a run. The floor is a bare httpx and asyncio loop
against the same server, with the tools as plain sleeps. Turns of both alternate, after some that only warm up, so that
whatever else the machine does meets both. Figures are medians; `best_ms` is the fastest turn, which is what the same
turn costs when nothing else wants the cores. `cpu_ms` is the CPU time of coordinator and worker for one turn.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from ops.redis_server import Durability
from shared.client import Client
from tests.bench.report import Stopwatch, cpu_s, line, median_ms
from tests.bench.turns import ask, call, system
from tests.support.model_server import ModelServer

TOOL_S = 0.05
MODEL_S = 2 * (0.04 + 0.06)
ROUNDS = 12
WARM_UP = 4
SIZES = (1, 5, 20)
TIMING = {"first_token_ms": 40, "stream_ms": 60}


def rules(n: int, user: str = "") -> list[dict[str, Any]]:
    """A model that calls the tool `n` times in one turn and then answers; only to messages like `user`, if given."""
    calls = [call("bench_sleep", seconds=TOOL_S, tag=str(i)) for i in range(n)]
    when = {"user": user} if user else {}
    return [
        {"when": {"step": 0, **when}, "then": {"calls": calls, "delta_chars": 40, **TIMING}},
        {"when": when, "then": {"text": "all done", **TIMING}},
    ]


def _merge(calls: dict[int, dict[str, Any]], chunk: dict[str, Any]) -> list[str]:
    """Puts the fragments of a streamed chunk to their calls; returns its text."""
    for choice in chunk["choices"]:
        for delta in choice["delta"].get("tool_calls") or []:
            empty = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            slot = calls.setdefault(delta["index"], empty)
            slot["id"] = slot["id"] or delta.get("id") or ""
            slot["function"]["name"] += delta["function"].get("name") or ""
            slot["function"]["arguments"] += delta["function"].get("arguments") or ""
    return [choice["delta"].get("content") or "" for choice in chunk["choices"]]


async def sleep(seconds: float, tag: str = "") -> str:
    """The tool of the bare loop."""
    await asyncio.sleep(seconds)
    return tag or "done"


async def bare_turn(client: httpx.AsyncClient, url: str, text: str, tool: Callable[..., Awaitable[str]] = sleep) -> str:
    """The answer of a loop that does nothing for durability, validation or errors."""
    tools = [{"type": "function", "function": {"name": "bench_sleep", "parameters": {"type": "object"}}}]
    messages: list[dict[str, Any]] = [{"role": "user", "content": text}]
    while True:
        said: list[str] = []
        calls: dict[int, dict[str, Any]] = {}
        body = {"model": "rehearsal", "stream": True, "messages": messages, "tools": tools}
        async with client.stream("POST", f"{url}/chat/completions", json=body) as response:
            async for row in response.aiter_lines():
                if row.startswith("data: {"):
                    said += _merge(calls, json.loads(row[6:]))
        if not calls:
            return "".join(said)
        messages.append({"role": "assistant", "content": None, "tool_calls": list(calls.values())})
        found = await asyncio.gather(*(tool(**json.loads(c["function"]["arguments"])) for c in calls.values()))
        answers = zip(calls.values(), found, strict=True)
        messages += [{"role": "tool", "tool_call_id": c["id"], "content": text} for c, text in answers]


def _alternate(client: Client, url: str, n: int, pids: list[int]) -> tuple[list[float], list[float], float]:
    """Seconds of our turns and of bare ones beyond model and tools, and CPU seconds of one of ours."""
    ours, bare, used = [], [], 0.0
    with asyncio.Runner() as runner:
        http = httpx.AsyncClient()
        for number in range(WARM_UP + ROUNDS):
            watch = Stopwatch()
            runner.run(bare_turn(http, url, "bench"))
            bare_s, before, watch = watch.s, cpu_s(pids), Stopwatch()
            ask(client, f"b{n}-{number}")
            if number >= WARM_UP:
                ours.append(watch.s - MODEL_S - TOOL_S)
                bare.append(bare_s - MODEL_S - TOOL_S)
                used += cpu_s(pids) - before
        runner.run(http.aclose())
    return ours, bare, used / ROUNDS


def measure(durability: Durability, sizes: tuple[int, ...] = SIZES, **also: str) -> None:
    """Prints one line for each number of tools; `also` are further keys of the line."""
    with ModelServer(rules=rules(1)) as model, system(model.url, durability=durability) as running:
        client = Client.connect(running.redis_url)
        pids = [p.pid for p in (*running.coordinators, *running.workers)]
        for n in sizes:
            model.script(rules(n))
            ours, bare, used = _alternate(client, model.url, n, pids)
            overhead, floor = median_ms(ours), median_ms(bare)
            line(
                "PERF1",
                **also,
                n=n,
                mode="strict" if durability == "strict" else "relaxed",
                overhead_ms=overhead,
                floor_ms=floor,
                ratio=overhead / floor,
                cpu_ms=used * 1000,
                best_ms=min(ours) * 1000,
            )
