"""PERF9: what a turn costs when 1,000 turns lie behind it, against 10; beyond the size of what is sent.

The whole history is part of each request, so a long one costs more to read, to build and to send, whatever the
program. What must not grow is the cost *for each byte of the request*: `ratio` is that of turn 1,000 over that of turn
10 (`turn…_ms` over `sent…_kb`), and grows with the history if anything is quadratic. Since fixed costs make the first
turns dear and so hide growth, `marginal` compares what a further byte costs: from turn 500 to 1,000, over from turn 10
to 500. It is 1 where everything is linear.

Two shapes. `session`: each turn is a run of its own, and the next one reads and folds the whole log before it asks.
`run`: one run makes so many steps, and the next step folds only what is new. Both are CPU time of this process, as the
coordinator spends it (fold, request, encoding), and the append of a step by the script in a real Redis on the clock.
PART lines say where it goes. SYSTEM is a whole turn with two model calls and two tool calls through real processes:
CPU of the coordinator.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from coordinator.loop import decide
from coordinator.loop.guard import Call, LoopGuard
from coordinator.models.picker import prompt_tokens
from shared.client import Client
from shared.entries import LogEntry, Stored
from shared.fold import RunFold, SessionFold
from shared.llm.check import repair
from shared.llm.dialects import prepare
from shared.llm.model import Request, ToolDefinition
from shared.llm.provider import Provider
from shared.messages import Budget
from shared.settings import BudgetSettings
from shared.state.changes import Change
from tests.bench.long_session import TOOL, opening, seed, step
from tests.bench.report import cpu_s, line
from tests.bench.turns import TOOLS, ask, call, script, system
from tests.support.model_server import ModelServer
from tests.support.redis import redis_server
from tests.support.state import Rig, with_rig

SIZES: Final = (10, 500, 1000)
ROUNDS = 5
APPENDS = 40
SYSTEM_TURNS = 6
PROVIDER = Provider(name="rehearsal", dialect="openai", base_url="http://127.0.0.1:1")
DEFINITION = ToolDefinition(name=TOOL, description="Looks a figure up.", parameters={"type": "object"})
LIMITS = decide.Limits.of(BudgetSettings(steps=1000, seconds=10**9), Budget())
NOW = "1790000000000-0"


@dataclass
class Costs:
    """Milliseconds of one turn by part, and bytes of its request."""

    ms: dict[str, float] = field(default_factory=dict)
    sent: int = 0

    @property
    def total(self) -> float:
        """Of all parts."""
        return sum(self.ms.values())

    def take(self, part: str, work: Callable[[], object]) -> None:
        """Does some work, and keeps the least CPU time of several rounds."""
        taken = []
        for _ in range(ROUNDS):
            began = time.process_time()
            work()
            taken.append(time.process_time() - began)
        self.ms[part] = min(taken) * 1000


def _stored(run: str, entry: LogEntry) -> Stored:
    return Stored.model_construct(id=NOW, run=run, type=entry.T, value=entry)


def _request(costs: Costs, fold: SessionFold, run: RunFold) -> None:
    """What a step does before it asks the model."""
    messages = fold.conversation(run.run).messages
    request = Request(model="m", system="You help.", messages=repair(tuple(messages))[0], tools=(DEFINITION,))

    def encoded() -> bytes:
        return json.dumps(prepare(PROVIDER, request).body, ensure_ascii=False, separators=(",", ":")).encode()

    costs.take("decide", lambda: decide.decide(run, LIMITS, 0.0))
    costs.take("messages", lambda: repair(tuple(fold.conversation(run.run).messages)))
    costs.take("route", lambda: prompt_tokens("You help.", fold.conversation(run.run).messages, ()))
    costs.take("encode", encoded)
    costs.sent = len(encoded())


async def _append(rig: Rig, session: str) -> float:
    """Median of the append of a step with two calls to a session that has a history, on the clock."""
    lease = await rig.started(session=session, text="bench")
    taken = []
    for number in range(1, APPENDS + 1):
        message, nodes, _ = step(lease.run, number)
        began = time.perf_counter()
        await rig.c1.append(lease, Change(entries=[message], nodes=nodes))
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000


async def _of_session(rig: Rig, url: str, count: int) -> Costs:
    """The next run of a session of so many turns."""
    costs, session, run = Costs(), f"s{count}", "rnew"
    seed(url, session, count)
    entries: list[Stored] = []
    taken: list[float] = []
    for _ in range(ROUNDS):
        began = time.process_time()
        entries = await rig.c1.log(session)
        taken.append(time.process_time() - began)
    costs.ms["load"] = min(taken) * 1000
    entries += (_stored(run, e) for e in opening(session, run, count + 1))
    costs.take("fold", lambda: SessionFold.of(entries))
    fold = SessionFold.of(entries)
    _request(costs, fold, fold.run(run))
    costs.ms["append"] = await _append(rig, session)
    return costs


async def _of_run(rig: Rig, count: int) -> Costs:
    """The next step of a run of so many steps, in a session without any other."""
    costs, session, run = Costs(), f"r{count}", "rlong"
    fold, guard = SessionFold(), LoopGuard()
    for entry in opening(session, run, 1):
        fold.apply(_stored(run, entry))

    def one(number: int) -> None:
        message, nodes, ends = step(run, number)
        entries: list[LogEntry] = [message, *nodes, *ends]
        for entry in entries:
            fold.apply(_stored(run, entry))
        made = [Call.of(n.tool, n.args, n.effect) for n in nodes]
        guard.check(made)
        guard.observe(zip(made, (e.result for e in ends), strict=True))

    for number in range(1, count + 1):
        one(number)
    numbers = iter(range(count + 1, count + 1 + ROUNDS))
    costs.take("fold", lambda: one(next(numbers)))
    _request(costs, fold, fold.run(run))
    costs.ms["append"] = await _append(rig, session)
    return costs


def _print(shape: str, costs: dict[int, Costs]) -> None:
    first, middle, last = (costs[size] for size in SIZES)
    further = (last.total - middle.total) / (last.sent - middle.sent)
    before = (middle.total - first.total) / (middle.sent - first.sent)
    line(
        "PERF9",
        shape=shape,
        turn10_ms=first.total,
        turn1000_ms=last.total,
        ratio=(last.total / last.sent) / (first.total / first.sent),
        marginal=further / before,
        sent10_kb=first.sent / 1024,
        sent1000_kb=last.sent / 1024,
    )
    for part in first.ms:
        line("PERF9PART", shape=shape, part=part, **{f"turn{size}_ms": costs[size].ms[part] for size in SIZES})


def _system() -> None:
    """A turn through real processes, in sessions of 10 and of 1,000 turns."""
    calls = [call(TOOL, seconds=0.0, tag=str(n)) for n in range(2)]
    cpu: dict[int, float] = {}
    sent: dict[int, float] = {}
    with ModelServer(rules=script(calls), keep=2) as model, system(model.url) as running:
        client, pid = Client.connect(running.redis_url), running.coordinators[0].pid
        ask(client, "warm")
        for size in (SIZES[0], SIZES[-1]):
            session = f"long-{size}"
            seed(running.redis_url, session, size)
            ask(client, session, tools=TOOLS)
            before = cpu_s([pid])
            for _ in range(SYSTEM_TURNS):
                ask(client, session, tools=TOOLS)
            cpu[size] = (cpu_s([pid]) - before) * 1000 / SYSTEM_TURNS
            sent[size] = sum(len(json.dumps(r.body, ensure_ascii=False)) for r in model.requests) / 1024
    first, last = SIZES[0], SIZES[-1]
    line(
        "PERF9SYSTEM",
        turn10_cpu_ms=cpu[first],
        turn1000_cpu_ms=cpu[last],
        ratio=(cpu[last] / sent[last]) / (cpu[first] / sent[first]),
        sent10_kb=sent[first],
        sent1000_kb=sent[last],
    )


def measure() -> None:
    """Prints a line for each shape with its parts, and one for the whole system."""
    with redis_server() as server:

        async def both(rig: Rig) -> None:
            _print("session", {size: await _of_session(rig, server.url, size) for size in SIZES})
            _print("run", {size: await _of_run(rig, size) for size in SIZES})

        asyncio.run(with_rig(server.url, both))
    _system()
