"""`python -m ops.rehearsal`: runs the rehearsal model until SIGINT or SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from ops.rehearsal.scenario import DEFAULT_SCENARIOS, load
from ops.rehearsal.server import RehearsalServer
from shared.errors import CapatazError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the server. Returns 0 after a signal, 2 if the scenario or the address is wrong."""
    parser = argparse.ArgumentParser(prog="python -m ops.rehearsal", description="A scripted model over HTTP.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument(
        "--scenario",
        nargs="+",
        action="extend",
        metavar="FILE",
        help=f"YAML files or names of shipped scenarios, tried in this order (default: {' '.join(DEFAULT_SCENARIOS)})",
    )
    parser.add_argument("--ready-file", type=Path, metavar="PATH", help="the URL is written here once it listens")
    options = parser.parse_args(argv)
    try:
        scenario = load(options.scenario or DEFAULT_SCENARIOS)
        asyncio.run(_run(RehearsalServer(scenario, host=options.host, port=options.port), options.ready_file))
    except CapatazError as error:
        print(f"rehearsal: {error}", file=sys.stderr)
        return 2
    return 0


async def _run(server: RehearsalServer, ready_file: Path | None) -> None:
    asked_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked_to_stop.set)
    await server.start()
    try:
        print(f"rehearsal model on {server.url}", flush=True)
        if ready_file is not None:
            _publish(ready_file, server.url)
        await asked_to_stop.wait()
    finally:
        await server.stop()


def _publish(path: Path, url: str) -> None:
    """Writes the URL under its name in one go: a reader finds the whole line or no file."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(url + "\n", "utf-8")
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main())
