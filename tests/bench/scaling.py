"""PERF8: nodes a second with 1, 2 and 4 worker processes, and what one node costs each process.

Eight sessions at once each run one turn of 30 calls; counted is from the first node planned to the last result. Two
kinds of work: `wait` sleeps 100 ms in workers of 8 slots, which bounds a worker to 80 nodes a second; `cpu` computes
about 5 ms in pure Python, which bounds a worker to one core. Model, coordinator, Redis and load generator take their
share of the same cores: on two cores `cpu` cannot double from two workers to four, whatever the system does, and `wait`
ends at what the cores can hand out. NODECOST says how much that is: milliseconds of CPU for one node in coordinator,
workers, state Redis and broker, and what the state Redis executed for it. With one node a message instead of twenty the
difference is the cost of a Celery message. RUNCOST is the same for whole runs of a single call.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from shared.client import Client
from tests.bench.bench_tools import spin
from tests.bench.report import cpu_s, line
from tests.bench.turns import Times, ask, call, script, system, times
from tests.support.model_server import ModelServer
from tests.support.processes import System

WORKERS = (1, 2, 4)
SESSIONS = 8
CALLS = 30
SLOTS = 8
WAIT_S = 0.1
SPIN_S = 0.005


def loops_for(seconds: float) -> int:
    """How many loops of `spin` take that much CPU time here."""
    probe = 100_000
    taken = []
    for _ in range(5):
        began = time.thread_time()
        spin(probe)
        taken.append(time.thread_time() - began)
    return round(probe * seconds / min(taken))


def _load(client: Client, name: str, calls: int = CALLS) -> float:
    """Runs all sessions at once; returns nodes a second."""
    names = [f"{name}-{number}" for number in range(SESSIONS)]
    with ThreadPoolExecutor(SESSIONS) as pool:
        list(pool.map(lambda session: ask(client, session), names))
    found: list[Times] = [times(client.history(session)) for session in names]
    nodes = [timing for turn in found for timing in turn.nodes]
    if len(nodes) != SESSIONS * calls:
        raise RuntimeError(f"{len(nodes)} nodes ran instead of {SESSIONS * calls}")
    return len(nodes) * 1000 / (max(n.ended_ms for n in nodes) - min(n.planned_ms for n in nodes))


def _kinds() -> dict[str, list[dict[str, Any]]]:
    loops = loops_for(SPIN_S)
    return {
        "wait": [call("bench_sleep", seconds=WAIT_S, tag=str(n)) for n in range(CALLS)],
        "cpu": [call("bench_spin", loops=loops, tag=str(n)) for n in range(CALLS)],
    }


def _grow(running: System, count: int) -> None:
    """Adds workers, and waits until the coordinator knows of all of them and they consume."""
    while len(running.workers) < count:
        running.add_worker()
    running.wait_ready()
    time.sleep(2.0)  # the coordinator looks once a second; a consumer attaches a moment after its heartbeat


def measure() -> None:
    """Prints one line for each number of workers and kind of work, then what nodes cost."""
    kinds = _kinds()
    with ModelServer(rules=[]) as model:
        with system(model.url, WORKER__SLOTS=str(SLOTS)) as running:
            client = Client.connect(running.redis_url)
            for count in WORKERS:
                _grow(running, count)
                for kind, calls in kinds.items():
                    model.script(script(calls))
                    ask(client, f"warm-{count}-{kind}")
                    rate = max(_load(client, f"{kind}-{count}-{turn}") for turn in range(2))
                    line("PERF8", workers=count, kind=kind, nodes_per_s=rate)
        for batch in (20, 1):
            with system(model.url, COORDINATOR__BATCH=str(batch)) as running:
                _print_costs(running, model, "NODECOST", calls=CALLS, loads=1, batch=batch)
                if batch > 1:
                    _print_costs(running, model, "RUNCOST", calls=1, loads=5)


@dataclass(frozen=True)
class _Used:
    """CPU seconds by process, and calls of the state Redis by command, so far."""

    cpu: dict[str, float]
    calls: dict[str, int]

    @classmethod
    def of(cls, running: System) -> _Used:
        pids = {
            "coordinator": [p.pid for p in running.coordinators],
            "worker": [p.pid for p in running.workers],
            "state": [pid for pid in (running.state.pid,) if pid],
            "broker": [pid for pid in (running.broker.pid,) if pid],
        }
        with running.client() as client:
            stats: dict[str, Any] = client.info("commandstats")
        return cls(
            {name: cpu_s(found) for name, found in pids.items()},
            {name.removeprefix("cmdstat_"): int(row["calls"]) for name, row in stats.items()},
        )


def _print_costs(running: System, model: ModelServer, name: str, *, calls: int, loads: int, **also: int) -> None:
    """Prints what one call without work costs, in turns of `calls` calls, when the system has nothing else to do."""
    model.script(script([call("bench_sleep", seconds=0.0, tag=str(n)) for n in range(calls)]))
    client = Client.connect(running.redis_url)
    ask(client, f"warm-{name}")
    before = _Used.of(running)
    for number in range(loads):
        _load(client, f"{name}-{number}", calls)
    after = _Used.of(running)
    count = SESSIONS * calls * loads
    cpu = {f"{place}_ms": (after.cpu[place] - before.cpu[place]) * 1000 / count for place in after.cpu}
    done = {command: total - before.calls.get(command, 0) for command, total in after.calls.items()}
    line(name, **also, **cpu, scripts=done.get("evalsha", 0) / count, commands=sum(done.values()) / count)
