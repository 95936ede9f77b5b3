"""A call in a process of its own, for a node whose workers have died twice: if it kills this one too, nobody else dies.

`workers/alone.py` is the other end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from shared.contract import NodeOrder, NodeResult

START_S = 20.0
"""What the child may need to start, beyond the call's own time."""


class Died(Exception):
    """The child ended without a result; `how` says with what."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


async def run_alone(order: NodeOrder, seconds: float) -> NodeResult:
    """The result of the call, which has `seconds`. Raises Died, or TimeoutError; no process is left behind."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "workers.alone",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds + START_S):
            out, _ = await child.communicate(order.model_dump_json().encode())
    finally:
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)
            await child.wait()
    if child.returncode == 0 and out:
        return NodeResult.model_validate_json(out)
    code = child.returncode
    raise Died(f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}")
