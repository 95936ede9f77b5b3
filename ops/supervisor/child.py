"""One supervised process: started, kept up, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from ops.supervisor.backoff import Backoff
from ops.supervisor.launch import Launcher, Running, execute
from ops.supervisor.plan import ProcessSpec
from shared.names import EXIT_DEAF

MAX_LOG_BYTES = 20_000_000
REPLACE_GRACE_S = 5.0
"""What a process that is replaced gets for an orderly end: its leases are lost already."""


class State(StrEnum):
    """What a supervised process is doing."""

    WAITING = "waiting"
    RUNNING = "running"
    BACKING_OFF = "backing off"
    REPLACING = "replacing"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Row:
    """One line of the status table. `since` is Unix seconds; `note` says why, where there is something to say."""

    name: str
    role: str
    pid: int | None
    state: State
    since: float
    restarts: int
    note: str = ""


class Child:
    """Keeps one process running until `stop`. Must be used from the main thread's event loop."""

    def __init__(
        self, spec: ProcessSpec, log_dir: Path, on_change: Callable[[Child], None], launch: Launcher = execute
    ) -> None:
        self.spec = spec
        self._launch = launch
        self.log_file = log_dir / f"{spec.name}.log"
        self._on_change = on_change
        self._backoff = Backoff()
        self._process: Running | None = None
        self._stopping = asyncio.Event()
        self._reason = ""
        self._task: asyncio.Task[None] | None = None
        self.row = Row(spec.name, spec.role, None, State.WAITING, time.time(), 0)

    def start(self) -> None:
        """Begins to keep it up."""
        self._task = asyncio.create_task(self._keep(), name=f"keep {self.spec.name}")

    async def stop(self) -> None:
        """SIGTERM, SIGKILL to its process group after its grace, and no restart. Harmless when repeated."""
        self._stopping.set()
        if self._task is not None and not self._task.done():
            self._set(State.STOPPING)
            self._send(signal.SIGTERM)
            await asyncio.wait({self._task}, timeout=self.spec.grace_s)
            if not self._task.done():
                self.kill()
            await self._task
        self._set(State.STOPPED, pid=None)

    async def replace(self, reason: str) -> None:
        """Ends the running process, so that it is started anew; `reason` is told.

        SIGTERM, with SIGCONT so that a paused one hears it, and SIGKILL after `REPLACE_GRACE_S`.
        """
        process = self._process
        if process is None or self.row.state is not State.RUNNING:
            return
        self._reason = reason
        self._set(State.REPLACING, note=reason)
        self._send(signal.SIGTERM)
        self._send(signal.SIGCONT)
        try:
            async with asyncio.timeout(REPLACE_GRACE_S):
                await process.wait()
        except TimeoutError:
            if process.returncode is None:
                self.kill()

    def kill(self) -> None:
        """SIGKILL to its whole process group."""
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def trim_log(self) -> None:
        """Moves a long log aside; the process goes on writing to the same file, which it opened for appending."""
        try:
            if self.log_file.stat().st_size > MAX_LOG_BYTES:
                self.log_file.with_suffix(".log.1").write_bytes(self.log_file.read_bytes())
                os.truncate(self.log_file, 0)
        except FileNotFoundError:
            pass

    async def _keep(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            code = await self._run_once()
            self.kill()  # what the process left behind in its group
            if self._stopping.is_set():
                return
            now = time.monotonic()
            verdict = self._backoff.died(now, now - began)
            reason, self._reason = self._reason or _ending(code), ""
            note = f"{reason}; again in {verdict.delay_s:g} s"
            if verdict.loud:
                note = f"KEEPS DYING, look at {self.log_file}: {note}"
            self._set(State.BACKING_OFF, pid=None, restarts=self.row.restarts + 1, note=note)
            try:
                async with asyncio.timeout(verdict.delay_s):
                    await self._stopping.wait()
            except TimeoutError:
                continue

    async def _run_once(self) -> int:
        """Starts the process and waits for its end; 127 when it cannot be started."""
        self.trim_log()
        try:
            with self._open_log() as log:
                self._process = await self._launch(self.spec, log)
        except OSError as error:
            print(f"capataz: cannot start {self.spec.name}: {error}", file=sys.stderr)
            return 127
        self._set(State.RUNNING, pid=self._process.pid)
        if self._stopping.is_set():  # asked while it was being started
            self._send(signal.SIGTERM)
        return await self._process.wait()

    def _open_log(self) -> BinaryIO:
        return open(self.log_file, "ab")

    def _send(self, signum: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signum)

    def _set(self, state: State, *, pid: int | None = -1, restarts: int | None = None, note: str = "") -> None:
        row = self.row
        self.row = Row(
            row.name,
            row.role,
            row.pid if pid == -1 else pid,
            state,
            time.time() if state != row.state else row.since,
            row.restarts if restarts is None else restarts,
            note,
        )
        self._on_change(self)


def _ending(code: int) -> str:
    """How a process ended, in words."""
    if code == EXIT_DEAF:
        return "no longer got the broker's messages"
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
