"""`python -m tests.chaos [--minutes M] [--seed N]`: a longer round of chaos; prints its counts, and what is wrong."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.chaos.run import play


def main() -> None:
    """Runs it; exit code 1 if a check failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--users", type=int, default=6)
    parser.add_argument("--logs", type=Path, help="a folder for what the processes print")
    options = parser.parse_args()
    report = play(options.seed, options.minutes * 60, options.users, options.logs)
    print(f"seed={options.seed} minutes={options.minutes:g} {report}", flush=True)
    sys.exit(bool(report.wrong))


if __name__ == "__main__":
    main()
