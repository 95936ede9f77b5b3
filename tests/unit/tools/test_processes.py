"""Child processes on the event loop that workers use."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from workers.tools import processes

LIMITS = processes.Limits(seconds=20, output=1_000_000, memory=1_000_000_000, file=1_000_000, processes=64)


@pytest.mark.parametrize("data", [b"", b"input that nobody reads"])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_feeding_a_program_that_is_over_already_is_no_error(
    data: bytes, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def main() -> None:
        child = await asyncio.create_subprocess_exec(
            "/bin/true", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        assert child.stdout is not None
        await child.wait()
        await child.stdout.read()
        await processes._feed(child, data)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


def test_a_pipeline_whose_head_reads_no_input_has_its_output(tmp_path: Path) -> None:
    async def main() -> processes.Ran:
        folder = os.open(tmp_path, os.O_RDONLY)
        try:
            env = {"PATH": "/bin:/usr/bin"}
            return await processes.run(
                [["/bin/echo", "one"], ["/bin/cat"]], folder=folder, env=env, limits=LIMITS, stdin=b"ignored"
            )
        finally:
            os.close(folder)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()).stdout == b"one\n"
