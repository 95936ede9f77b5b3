"""`python -m coordinator`: one coordinator process."""

from __future__ import annotations

import shared.lean  # noqa: F401  # isort: skip  # before anything that would load what it keeps out
import asyncio
import signal
import sys

from coordinator.process import Coordinator
from shared.errors import CapatazError
from shared.logs import configure
from shared.settings import load


async def _main() -> None:
    coordinator = Coordinator(load())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, coordinator.request_stop)
    await coordinator.run()


def main() -> None:
    """Runs until SIGTERM or SIGINT, on uvloop where it is installed."""
    configure("coordinator")
    try:
        import uvloop
    except ImportError:
        run = asyncio.run
    else:
        run = uvloop.run
    try:
        run(_main())
    except CapatazError as error:
        sys.exit(f"coordinator cannot start: {error}")


if __name__ == "__main__":
    main()
