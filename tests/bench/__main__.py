"""`python -m tests.bench [NAME …]`: all measurements, or those named (llm, perf1, perf3, perf4, perf6)."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.bench import first_token, hop, llm, memory, overhead


def _overhead() -> None:
    overhead.measure("strict")
    overhead.measure("relaxed", (20,))


MEASUREMENTS: dict[str, Callable[[], None]] = {
    "llm": llm.measure,
    "perf1": _overhead,
    "perf3": hop.measure,
    "perf4": first_token.measure,
    "perf6": memory.measure,
}


def main() -> None:
    """Runs what was asked for."""
    wanted = sys.argv[1:] or list(MEASUREMENTS)
    if unknown := [w for w in wanted if w not in MEASUREMENTS]:
        sys.exit(f"unknown measurement {unknown[0]}; known are {', '.join(MEASUREMENTS)}")
    for name in wanted:
        MEASUREMENTS[name]()


if __name__ == "__main__":
    main()
