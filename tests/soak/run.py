"""One soak: a system under steady mixed load, looked at every few seconds, in which nothing may grow for ever."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.run import ENV as CHAOS_ENV
from tests.soak.load import RULES, Users
from tests.soak.samples import SMOOTHED, Row, Sample, judged, take
from tests.support.model_server import ModelServer
from tests.support.processes import System

TTL_S = 60
"""The shortest that sessions and runs may have."""
PERIOD_S = 4.0
WARM_UP_S = TTL_S + 30.0
"""Until then keys pile up that nothing has outlived yet."""
ENV = CHAOS_ENV | {
    "CAPATAZ_LIMITS__SESSION_TTL_S": str(TTL_S),
    "CAPATAZ_LIMITS__RUN_TTL_S": str(TTL_S),
    "CAPATAZ_LIMITS__DEDUPE_TTL_S": str(TTL_S),
    "CAPATAZ_LIMITS__REPLY_TTL_S": "30",
    "CAPATAZ_LIMITS__EVENTS_KEPT": "200",
}


@dataclass(frozen=True)
class Report:
    """What came of it. `wrong` is what is not as it must be, one line each."""

    rows: list[Row]
    wrong: list[str]
    sent: int

    def __str__(self) -> str:
        head = f"{'after the warm-up, at the end, at most':36} {'first':>10} {'last':>10} {'most':>10}"
        verdict = "\n".join(f"SOAK {line}" for line in self.wrong) or "SOAK ok"
        return "\n".join([head, *map(str, self.rows), f"messages sent: {self.sent}", verdict])


def play(seconds: float, users: int = 4, logs: Path | None = None) -> Report:
    """Runs it, warm-up included; what the processes print is kept in `logs`. Raises ValueError if time is too short to
    say anything."""
    if seconds < WARM_UP_S + 2 * SMOOTHED * PERIOD_S:
        raise ValueError(f"a soak takes {(WARM_UP_S + 2 * SMOOTHED * PERIOD_S) / 60:.1f} minutes at least")
    with ModelServer(rules=RULES, keep=100) as model:
        system = System(model_url=model.url, coordinators=2, workers=2, beat=True, env=ENV)
        try:
            system.start()
            load = Users(system.redis_url, users)
            load.start()
            try:
                samples = _watch(system, seconds)
            finally:
                load.stop()
            return _report(samples, system, load)
        finally:
            if logs is not None:
                logs.mkdir(parents=True, exist_ok=True)
                for log in system.folder.glob("*.log"):
                    shutil.copy(log, logs / log.name)
            system.stop()


def _watch(system: System, seconds: float) -> list[Sample]:
    """Samples from the end of the warm-up to the end."""
    began = time.monotonic()
    samples: list[Sample] = []
    while (now := time.monotonic() - began) < seconds:
        if now >= WARM_UP_S:
            samples.append(take(system))
        time.sleep(PERIOD_S)
    return samples


def _report(samples: list[Sample], system: System, load: Users) -> Report:
    rows = judged(samples)
    wrong = [f"{row.name} grew from {row.first:.1f} to {row.last:.1f}" for row in rows if row.grew]
    processes = (*system.coordinators, *system.workers, *system.others)
    wrong += [f"{p.name} ended with {p.popen.returncode}" for p in processes if not p.alive]
    if load.missing:
        wrong.append(f"{load.missing} messages were not answered")
    if not load.answered:
        wrong.append("nothing was answered at all")
    return Report(rows, wrong, load.sent)
