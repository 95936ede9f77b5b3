"""`python -m tests.bench [NAME …]`: all measurements, or those named. Each prints its lines, the last one the total."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.bench import (
    claims,
    ctx5,
    early,
    elision,
    first_token,
    graph_cost,
    graphs,
    hop,
    llm,
    memory,
    overhead,
    perf5,
    perf7,
    perf9,
    plb5,
    recovery,
    scaling,
)
from tests.bench.report import Stopwatch


def _overhead() -> None:
    overhead.measure("strict")
    overhead.measure("relaxed", (20,))


MEASUREMENTS: dict[str, Callable[[], None]] = {
    "perf1": _overhead,
    "perf2": graphs.measure,
    "perf3": hop.measure,
    "perf4": first_token.measure,
    "perf5": perf5.measure,
    "perf6": memory.measure,
    "perf7": perf7.measure,
    "perf8": scaling.measure,
    "perf9": perf9.measure,
    "early": early.measure,
    "graphcost": graph_cost.measure,
    "dag6": elision.measure,
    "ctx5": ctx5.measure,
    "llm": llm.measure,
    "dur2": recovery.measure,
    "run4": claims.measure,
}

LONGER: dict[str, Callable[[], None]] = {"perf5full": perf5.measure_full, "plb5": plb5.measure}
"""Only if they are named."""


def main() -> None:
    """Runs what was asked for."""
    wanted = sys.argv[1:] or list(MEASUREMENTS)
    if unknown := [w for w in wanted if w not in MEASUREMENTS | LONGER]:
        sys.exit(f"unknown measurement {unknown[0]}; known are {', '.join(MEASUREMENTS | LONGER)}")
    total = Stopwatch()
    for name in wanted:
        watch = Stopwatch()
        (MEASUREMENTS | LONGER)[name]()
        print(f"{name}: {watch.s:.0f} s", flush=True)
    print(f"bench: {total.s:.0f} s in all", flush=True)


if __name__ == "__main__":
    main()
