"""`python -m tests.soak [--minutes M]`: steady mixed load, in which memory, connections, keys and files stay as many.

Prints each value after the warm-up and at the end (medians of a few samples), then `SOAK ok` or what grew. Exit code 1
if anything did.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.soak.run import play


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--users", type=int, default=4)
    parser.add_argument("--logs", type=Path, help="a folder for what the processes print")
    options = parser.parse_args()
    report = play(options.minutes * 60, options.users, options.logs)
    print(report, flush=True)
    sys.exit(bool(report.wrong))


if __name__ == "__main__":
    main()
