"""How measurements are taken and printed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import psutil


def line(name: str, **values: object) -> None:
    """Prints one result."""
    text = " ".join(f"{k}={_show(v)}" for k, v in values.items())
    print(f"BENCH {name} {text}", flush=True)


def _show(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def median_ms(seconds: Sequence[float]) -> float:
    """Median in milliseconds."""
    return statistics.median(seconds) * 1000


def p95_ms(seconds: Sequence[float]) -> float:
    """95th percentile in milliseconds."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))] * 1000


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    @property
    def s(self) -> float:
        """Elapsed seconds."""
        return time.perf_counter() - self._start


def cpu_s(pids: Sequence[int]) -> float:
    """CPU seconds used so far by processes (user and system), without their children."""
    total = 0.0
    for pid in pids:
        times = psutil.Process(pid).cpu_times()
        total += times.user + times.system
    return total


def waited_s(pid: int) -> float:
    """Seconds that the main thread of a process could have run and had no core, since others had them."""
    _, waited_ns, _ = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()
    return int(waited_ns) / 1e9


def pss_mb(pid: int) -> float:
    """Proportional set size in MB of a process and all its descendants."""
    root = psutil.Process(pid)
    return float(sum(p.memory_full_info().pss for p in [root, *root.children(recursive=True)])) / 2**20
