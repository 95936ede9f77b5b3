"""Programs as child processes: one, or several that feed each other, each the head of its own process group.

Whatever happens (end, deadline, cancellation, too much output), no member of these groups is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.tools import launch

_READ = 65_536
_REAP_S = 5.0


@dataclass(frozen=True)
class Limits:
    """Bounds of a pipeline. Sizes in bytes; `memory`, `file` and `processes` are each program's own."""

    seconds: float
    output: int
    memory: int
    file: int
    processes: int


@dataclass
class Ran:
    """What came out. `code` is the last program's (negative: a signal); `cut`: stopped at the limit of output."""

    code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    cut: bool = False
    expired: bool = False


class _Output:
    """Output of all programs together, bounded; `full` is set when there is more."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self.full = asyncio.Event()

    async def collect(self, stream: asyncio.StreamReader, into: bytearray) -> None:
        while chunk := await stream.read(_READ):
            into += chunk[: self._left]
            self._left -= len(chunk)
            if self._left < 0:
                self._left = 0
                self.full.set()
                return


async def run(
    pipeline: Sequence[Sequence[str]],
    *,
    folder: int,
    env: Mapping[str, str],
    limits: Limits,
    stdin: bytes = b"",
    lock: bool = True,
) -> Ran:
    """Runs programs (absolute path and arguments) whose outputs feed the next, in the open folder `folder`.

    `stdin` feeds the first. At the deadline or the limit of output they are killed, and what came until then is the
    result, which says so. Raises OSError when no process can be started.
    """
    ran = Ran()
    out, err = bytearray(), bytearray()
    output = _Output(limits.output)
    children: list[asyncio.subprocess.Process] = []
    try:
        async with asyncio.timeout(limits.seconds):
            await _start(children, pipeline, folder, env, limits, lock)
            await _until_done(children, output, out, err, stdin)
        ran.cut = output.full.is_set()
    except TimeoutError:
        ran.expired = True
    finally:
        await _end(children)
    ran.stdout, ran.stderr = bytes(out), bytes(err)
    ran.code = (children[-1].returncode or 0) if children else 0
    return ran


async def _start(
    children: list[asyncio.subprocess.Process],
    pipeline: Sequence[Sequence[str]],
    folder: int,
    env: Mapping[str, str],
    limits: Limits,
    lock: bool,
) -> None:
    """Starts all programs, appending each to `children` as soon as it lives."""
    feed: int = asyncio.subprocess.PIPE
    for at, argv in enumerate(pipeline):
        last = at == len(pipeline) - 1
        read, write = (-1, asyncio.subprocess.PIPE) if last else os.pipe()
        command = launch.command(
            [*argv],
            folder=folder,
            memory=limits.memory,
            file=limits.file,
            processes=limits.processes,
            cpu_s=math.ceil(limits.seconds) + 1,
            lock=lock,
        )
        try:
            child = await asyncio.create_subprocess_exec(
                *command,
                stdin=feed,
                stdout=write,
                stderr=asyncio.subprocess.PIPE,
                env=dict(env),
                pass_fds=(folder,),
                start_new_session=True,
            )
            children.append(child)
        except BaseException:
            if read >= 0:
                os.close(read)
            raise
        finally:  # the children have these now
            for descriptor in (feed, write):
                if descriptor >= 0:
                    os.close(descriptor)
        feed = read


async def _until_done(
    children: Sequence[asyncio.subprocess.Process], output: _Output, out: bytearray, err: bytearray, stdin: bytes
) -> None:
    """Feeds and reads until all have ended, or their output is too much."""
    last = children[-1].stdout
    tasks = [asyncio.create_task(_feed(children[0], stdin))]
    tasks += [asyncio.create_task(output.collect(child.stderr, err)) for child in children if child.stderr is not None]
    tasks += [asyncio.create_task(output.collect(last, out))] if last is not None else []
    tasks += [asyncio.create_task(_wait(child)) for child in children]
    full = asyncio.create_task(output.full.wait())
    everything = asyncio.gather(*tasks)
    try:
        first: set[asyncio.Future[Any]] = {everything, full}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if everything.done():
            everything.result()
    finally:
        full.cancel()
        everything.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await everything


async def _wait(child: asyncio.subprocess.Process) -> None:
    await child.wait()


async def _feed(child: asyncio.subprocess.Process, data: bytes) -> None:
    assert child.stdin is not None
    if data and not child.stdin.is_closing():  # a program that needs no input may be over already
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            child.stdin.write(data)
            await child.stdin.drain()
    child.stdin.close()


async def _end(children: Sequence[asyncio.subprocess.Process]) -> None:
    """Kills whatever is left of the groups, also what an ended program left behind, and reaps the programs."""
    for child in children:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    reaping = [asyncio.create_task(_wait(child)) for child in children]
    if reaping:
        await asyncio.wait(reaping, timeout=_REAP_S)
