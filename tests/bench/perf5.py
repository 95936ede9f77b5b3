"""PERF5: many sessions stream at once on one coordinator, 20 tokens a second each; and how many fill one core.

Model server, coordinator, state Redis (durable) and reader are processes of their own on the same cores; what each
took is printed in percent of a core, and as `starved` how long the coordinator had work and no core: where that is
much, the machine was measured and not the program. All sessions begin to stream together when the last of them has
asked. The lag of an event counts from the write of its last token at the model server to the reader that got the
event, reading every 10 ms. `lost` counts tokens that are not in their place in the concatenated text. `mb_per_session`
is what the coordinator's PSS grew by while all of them stream, from what it was when it had run a few.

FULL lines go up in sessions until the coordinator has a core for itself and no more, or the lag is beyond its budget:
there CPU says little, since pieces that wait in sockets are read together, which makes each cheaper.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

from shared.client import Client
from shared.state import keys
from tests.bench import stream_reader, stream_source
from tests.bench.report import cpu_s, line, p95_ms, pss_mb, waited_s
from tests.bench.stream_reader import Report
from tests.bench.turns import ENV
from tests.support.processes import System

SESSIONS = 500
RATE = 20
SECONDS = 12
STEPS = (100, 200, 300, 400, 600, 800, 1000)
STEP_SECONDS = 6
LAG_BUDGET_MS = 150.0
FULL_PERCENT = 97.0
SETTLE_S = 1.0
_spawn = multiprocessing.get_context("spawn")


class _Told(NamedTuple):
    process: BaseProcess
    ear: Connection

    def next(self, timeout_s: float = 60.0) -> Any:
        if not self.ear.poll(timeout_s):
            raise TimeoutError(f"{self.process.name} said nothing for {timeout_s:.0f} s")
        return self.ear.recv()


@contextmanager
def _process(target: Any, *args: Any) -> Iterator[_Told]:
    ear, mouth = _spawn.Pipe(duplex=False)
    process = _spawn.Process(target=target, args=(mouth, *args), daemon=True)
    process.start()
    mouth.close()  # so that its end is the end of what it says
    try:
        yield _Told(process, ear)
    finally:
        process.terminate()
        process.join()


@dataclass(frozen=True)
class Load:
    """One round: what the reader found, and what it took. CPU in percent of a core, by process."""

    sessions: int
    report: Report
    behind_ms: float
    cpu: dict[str, float]
    pss_mb: float

    @property
    def lag_ms(self) -> float:
        """95th percentile of the lag."""
        return p95_ms(self.report.lags)

    def values(self) -> dict[str, object]:
        """What a line says of it."""
        lags = self.report.lags
        return {
            "lag_p50_ms": statistics.median(lags) * 1000,
            "lag_max_ms": max(lags) * 1000,
            "tokens_per_event": self.report.tokens / len(lags),
            "source_behind_ms": self.behind_ms,
            **self.cpu,
        }


class _Bench:
    def __init__(self, system: System, source: _Told) -> None:
        self._system = system
        self._source = source
        self._client = Client.connect(system.redis_url)
        self._round = 0

    def pss_mb(self) -> float:
        return pss_mb(self._system.coordinators[0].pid)

    def play(self, sessions: int, seconds: int) -> Load:
        """Raises RuntimeError if a run failed."""
        self._rest()
        self._round += 1
        name, tokens = f"r{self._round}", seconds * RATE
        names = [f"{name}-{n}" for n in range(sessions)]
        with _process(stream_reader.main, self._system.redis_url, names, tokens) as reader:
            for session in names:
                self._client.submit(f"stream {name} of {sessions} tokens {tokens} rate {RATE}", session=session)
            pids = {
                "coordinator": self._system.coordinators[0].pid,
                "redis": self._system.state.pid or 0,
                "source": self._source.process.pid or 0,
                "reader": reader.process.pid or 0,
            }
            self._source.next()
            time.sleep(SETTLE_S)  # the model calls have just begun: what that took is not part of streaming
            before, began = _used(pids), time.monotonic()
            time.sleep(seconds - 2 * SETTLE_S)
            took, after = time.monotonic() - began, _used(pids)
            memory = self.pss_mb()
            _, _, behind = self._source.next()
            report = Report(*reader.next())
        if report.failed:
            raise RuntimeError(f"{report.failed} of {sessions} runs failed")
        percent = {name: (after[name] - before[name]) / took * 100 for name in after}
        return Load(sessions, report, behind * 1000, percent, memory)

    def _rest(self) -> None:
        """Returns when nothing of the round before is left to do: copying its runs to SQL takes longer than they."""
        with self._system.client() as client:
            while client.zcard(keys.ARCHIVE) or client.scard(keys.ACTIVE):
                time.sleep(0.1)


def _used(pids: dict[str, int]) -> dict[str, float]:
    """CPU seconds by process, and for how long the coordinator had none."""
    return {f"{name}_cpu": cpu_s([pid]) for name, pid in pids.items()} | {"starved": waited_s(pids["coordinator"])}


@contextmanager
def _bench() -> Iterator[_Bench]:
    with _process(stream_source.main) as source:
        _, port = source.next()
        free = {f"CAPATAZ_LIMITS__{name}": "0" for name in ("RUNNING", "RATE_PER_MINUTE")}  # all are one user here
        env = ENV | free | {"CAPATAZ_COORDINATOR__MAX_RUNS": "2000", "CAPATAZ_LIMITS__WAITING": "10000"}
        system = System(model_url=f"http://127.0.0.1:{port}/v1", workers=1, env=env)
        try:
            bench = _Bench(system.start(), source)
            bench.play(5, 3)
            yield bench
        finally:
            system.stop()


def measure() -> None:
    """Prints one line."""
    with _bench() as bench:
        before = bench.pss_mb()
        load = bench.play(SESSIONS, SECONDS)
    values = load.values()
    per_session = (load.pss_mb - before) / SESSIONS
    line(
        "PERF5",
        sessions=SESSIONS,
        lag_p95_ms=load.lag_ms,
        lost=load.report.lost,
        mb_per_session=per_session,
        **values,
    )


def measure_full() -> None:
    """Prints one line a step, and at which step a core was full."""
    with _bench() as bench:
        for sessions in STEPS:
            load = bench.play(sessions, STEP_SECONDS)
            line("PERF5FULL", sessions=sessions, lag_p95_ms=load.lag_ms, lost=load.report.lost, **load.values())
            if load.cpu["coordinator_cpu"] >= FULL_PERCENT or load.lag_ms > LAG_BUDGET_MS:
                break
