"""`python -m workers.alone`: one order from standard input, its result on standard output; see `envelope/alone.py`."""

from __future__ import annotations

import asyncio
import os
import sys

from shared.contract import NodeOrder
from shared.logs import configure
from shared.settings import load
from workers.runtime import run_one


def main() -> None:
    """Runs one order, signed or not: whoever can start this process is the worker."""
    result_to = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a tool prints is no result
    configure("alone")
    order = NodeOrder.model_validate_json(sys.stdin.buffer.read())
    result = asyncio.run(run_one(load(), order))
    with open(result_to, "wb") as out:
        out.write(result.model_dump_json().encode())
        out.flush()
        os._exit(0)  # a blocking call may still be under way in a thread; its result is out of date


if __name__ == "__main__":
    main()
