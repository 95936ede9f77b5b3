"""PERF2: graphs of calls in one turn, through real processes: makespan over critical path, and against one by one.

The makespan is from the first node planned to the last result in the log. It is held against the longest chain of the
durations that the tools were asked for, the bound that nothing gets below, and against their sum, which is what calls
one after the other take at the least. Durations are drawn between 50 ms and 1 s, evenly on a logarithmic scale; the
research scenario runs at a tenth of its times. Edges are references by value and orders without data in turn.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.client import Client
from tests.bench.report import Stopwatch, line
from tests.bench.turns import ask, call, script, system, times
from tests.support.model_server import ModelServer

SHORTEST_S, LONGEST_S = 0.05, 1.0
ROUNDS = 3
SEED = 13


@dataclass(frozen=True)
class Job:
    """One call: how long it takes, and the positions (from 1) of earlier calls that it needs."""

    seconds: float
    needs: tuple[int, ...] = ()


Graph = tuple[Job, ...]


def critical_s(graph: Graph) -> float:
    """Seconds along the longest chain."""
    until: list[float] = []
    for job in graph:
        until.append(job.seconds + max((until[n - 1] for n in job.needs), default=0.0))
    return max(until)


def work_s(graph: Graph) -> float:
    """Seconds of all calls one after the other."""
    return sum(job.seconds for job in graph)


def _seconds(rng: random.Random) -> float:
    return round(math.exp(rng.uniform(math.log(SHORTEST_S), math.log(LONGEST_S))), 3)


def chain(rng: random.Random, count: int = 5) -> Graph:
    """Each needs the one before."""
    return tuple(Job(_seconds(rng), (n,) if n else ()) for n in range(count))


def fan(rng: random.Random, count: int = 20) -> Graph:
    """None needs another."""
    return tuple(Job(_seconds(rng)) for _ in range(count))


def diamond(rng: random.Random) -> Graph:
    """One, then two of equal length side by side, then one that needs both."""
    middle = _seconds(rng)
    return (Job(_seconds(rng)), Job(middle, (1,)), Job(middle, (1,)), Job(_seconds(rng), (2, 3)))


def any_graph(rng: random.Random, count: int = 50) -> Graph:
    """Each needs up to three of those before it."""
    return tuple(
        Job(_seconds(rng), tuple(sorted(rng.sample(range(1, n + 1), min(n, rng.randint(0, 3)))))) for n in range(count)
    )


def research() -> Graph:
    """Trends and five competitors, reviews of each, a report of all, at a tenth of the scenario's times."""
    reviews = [Job(0.25, (n,)) for n in range(2, 7)]
    return (Job(0.2), *[Job(0.3)] * 5, *reviews, Job(0.15, tuple(range(1, 12))))


def calls_of(graph: Graph) -> list[dict[str, Any]]:
    """The graph as calls of one turn."""
    return [_call(number, job) for number, job in enumerate(graph, 1)]


def _call(number: int, job: Job) -> dict[str, Any]:
    arguments: dict[str, Any] = {"seconds": job.seconds, "tag": f"job {number}"}
    if len(job.needs) == 1:
        arguments["inputs"] = f"${job.needs[0]}"
    elif number % 2 and job.needs:
        arguments["_after"] = list(job.needs)
    elif job.needs:
        arguments["inputs"] = [f"${n}" for n in job.needs]
    return call("bench_step", **arguments)


def graphs() -> dict[str, Sequence[Graph]]:
    """What is measured, by name; of random graphs there are two."""
    rng = random.Random(SEED)
    return {
        "chain5": (chain(rng),),
        "fan20": (fan(rng),),
        "diamond": (diamond(rng),),
        "random50": (any_graph(rng), any_graph(rng)),
        "research": (research(),),
    }


def _run(client: Client, model: ModelServer, graph: Graph, session: str) -> tuple[float, float]:
    """Makespan and wall time of one turn, in seconds."""
    model.script(script(calls_of(graph)))
    watch = Stopwatch()
    ask(client, session, nodes=len(graph))
    return times(client.history(session)).makespan_s, watch.s


def measure() -> None:
    """Prints one line a kind of graph: medians of all rounds. `wall_ratio` counts the model calls in."""
    with ModelServer(rules=[]) as model, system(model.url, workers=2) as running:
        client = Client.connect(running.redis_url)
        _run(client, model, fan(random.Random(0), 4), "warm")
        for name, variants in graphs().items():
            rows = []
            for number, graph in enumerate(variants):
                rounds = 2 if len(variants) > 1 else ROUNDS
                for turn in range(rounds):
                    makespan, wall = _run(client, model, graph, f"{name}-{number}-{turn}")
                    least = critical_s(graph)
                    rows.append((makespan / least, work_s(graph) / makespan, wall / least))
            ratio, speedup, wall_ratio = (statistics.median(column) for column in zip(*rows, strict=True))
            line("PERF2", graph=name, nodes=len(variants[0]), ratio=ratio, speedup=speedup, wall_ratio=wall_ratio)
