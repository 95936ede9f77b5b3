"""Starts the processes of a system: a Python module by the fork server where there is one, all else by exec."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from ops.supervisor import plan, shim
from ops.supervisor.plan import ProcessSpec

if TYPE_CHECKING:  # importing it prepares a process for the life of a service
    from ops.supervisor.forkserver import Order

_MESSAGE = 4096


class Running(Protocol):
    """A process that was started: as much of `asyncio.subprocess.Process` as its keeper needs."""

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its group."""

    @property
    def returncode(self) -> int | None:
        """None as long as it runs; a negative one is the signal that ended it."""

    async def wait(self) -> int:
        """Its return code, once it has ended."""

    def send_signal(self, signum: int) -> None:
        """Sends it a signal, if it still runs."""


class Launcher(Protocol):
    """How a keeper starts its process."""

    async def __call__(self, spec: ProcessSpec, log: BinaryIO) -> Running:
        """Starts it with its output appended to `log`. Raises OSError when it cannot be started."""


async def execute(spec: ProcessSpec, log: BinaryIO) -> Running:
    """A process group of its own that ends with this process: killed, or for a Redis asked to end."""
    signum = signal.SIGTERM if spec.role in ("state", "broker") else signal.SIGKILL
    return await asyncio.create_subprocess_exec(
        *shim.command(list(spec.argv), signum=signum),
        env=dict(spec.env),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        process_group=0,
    )


class _Forked:
    """A child of the fork server."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def returncode(self) -> int | None:
        return self._code.result() if self._code.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._code)

    def send_signal(self, signum: int) -> None:
        if not self._code.done():
            os.kill(self.pid, signum)

    def ended(self, code: int) -> None:
        if not self._code.done():
            self._code.set_result(code)


class ForkServer:
    """The supervisor's end of `ops/supervisor/forkserver.py`, which it starts, and starts anew when it has ended.

    `env` is the server's own environment: no keys. Only where `can_fork`.
    """

    def __init__(self, env: Mapping[str, str], log_file: Path) -> None:
        self._env = env
        self._log_file = log_file
        self._socket: socket.socket | None = None
        self._reader: asyncio.Task[None] | None = None
        self._children: dict[int, _Forked] = {}
        self._answer: asyncio.Future[_Forked | None] | None = None
        self._one_at_a_time = asyncio.Lock()

    async def start(self) -> None:
        """Begins to start it; orders may be given at once. Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._log_file.open("ab") as log:
            ours.setblocking(False)
            argv = plan.python("ops.supervisor.forkserver", str(theirs.fileno()))
            try:
                process = await asyncio.create_subprocess_exec(
                    *shim.command(list(argv)),
                    env=dict(self._env),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    process_group=0,
                    pass_fds=(theirs.fileno(),),
                )
            except OSError:
                ours.close()
                raise
        self._socket = ours
        self._reader = asyncio.create_task(self._read(ours, process), name="fork server")

    async def launch(self, spec: ProcessSpec, log: BinaryIO) -> Running:
        """Forks what the server can become, and executes what it cannot: another program, or sources that changed."""
        forked = await self._fork(spec, log) if spec.module else None
        return forked or await execute(spec, log)

    async def close(self) -> None:
        """Ends the server, and children that are left."""
        if self._socket is not None:
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._reader is not None:
            await self._reader

    async def _fork(self, spec: ProcessSpec, log: BinaryIO) -> Running | None:
        async with self._one_at_a_time:
            if self._socket is None:
                await self.start()
            assert self._socket is not None
            self._answer = asyncio.get_running_loop().create_future()
            order: Order = {"title": spec.name, "argv": spec.module, "env": dict(spec.env)}
            memory = os.memfd_create("order")
            try:
                os.write(memory, json.dumps(order).encode())
                os.lseek(memory, 0, os.SEEK_SET)
                socket.send_fds(self._socket, [b"fork"], [memory, log.fileno()])
            except (BrokenPipeError, ConnectionResetError):  # it has just ended, which `_read` is about to see
                return None
            finally:
                os.close(memory)
            return await self._answer

    async def _read(self, server: socket.socket, process: asyncio.subprocess.Process) -> None:
        """Takes what the server says until it has ended."""
        loop = asyncio.get_running_loop()
        try:
            while message := await loop.sock_recv(server, _MESSAGE):
                self._hear(json.loads(message))
        except ConnectionResetError:
            pass
        finally:
            server.close()
            self._socket = None
            children, self._children = self._children, {}
            for child in children.values():  # the kernel has killed them with the server
                child.ended(-signal.SIGKILL)
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(None)
            await process.wait()

    def _hear(self, said: dict[str, int | str]) -> None:
        pid = said.get("pid")
        if isinstance(code := said.get("code"), int) and isinstance(pid, int):
            self._children.pop(pid).ended(code)
            return
        child = None
        if isinstance(pid, int):
            child = self._children[pid] = _Forked(pid)
        else:
            print(
                f"capataz: {said['stale']} has changed since the start: what starts now loads everything anew",
                file=sys.stderr,
            )
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(child)


def can_fork() -> bool:
    """Elsewhere than on Linux libraries that numpy stands on do not survive a fork without exec."""
    return sys.platform == "linux"
