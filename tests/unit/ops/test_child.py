import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ops.supervisor import child as module
from ops.supervisor import plan
from ops.supervisor.backoff import Backoff
from ops.supervisor.child import Child, Row, State
from ops.supervisor.plan import ProcessSpec

pytestmark = pytest.mark.integration

_SLEEP = "import time; time.sleep(600)"
_PARENT = """
import subprocess, sys
from ops.supervisor import shim
child = subprocess.Popen(shim.command([sys.executable, "-c", "print('up', flush=True); import time; time.sleep(600)"]),
                         stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
import time; time.sleep(600)
"""


def _spec(code: str, grace_s: float = 5.0, role: str = "worker") -> ProcessSpec:
    return ProcessSpec("p", role, (sys.executable, "-c", code), dict(os.environ), grace_s)


class Watch:
    """Collects rows, and lets a test wait for one."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._news = asyncio.Event()

    def __call__(self, child: Child) -> None:
        self.rows.append(child.row)
        self._news.set()

    async def until(self, fits: Callable[[Row], bool]) -> Row:
        async with asyncio.timeout(30):
            while True:
                for row in self.rows:
                    if fits(row):
                        return row
                self._news.clear()
                await self._news.wait()


def _run(tmp_path: Path, spec: ProcessSpec, steps: Callable[[Child, Watch], Awaitable[None]]) -> Watch:
    async def main() -> Watch:
        watch = Watch()
        child = Child(spec, tmp_path, watch)
        child.start()
        try:
            await steps(child, watch)
        finally:
            await child.stop()
        return watch

    return asyncio.run(main())


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_dead_process_is_started_again_and_its_end_told(tmp_path: Path) -> None:
    async def steps(child: Child, watch: Watch) -> None:
        first = await watch.until(lambda row: row.state is State.RUNNING)
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        await watch.until(lambda row: row.state is State.RUNNING and row.pid != first.pid)
        assert child.row.restarts == 1

    watch = _run(tmp_path, _spec(_SLEEP), steps)
    assert any("SIGKILL" in row.note for row in watch.rows if row.state is State.BACKING_OFF)
    assert watch.rows[-1].state is State.STOPPED


def test_one_that_keeps_dying_is_told_loudly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Backoff", lambda: Backoff(first_s=0.001, most_s=0.001))

    async def steps(child: Child, watch: Watch) -> None:
        await watch.until(lambda row: "KEEPS DYING" in row.note)

    watch = _run(tmp_path, _spec("raise SystemExit(3)"), steps)
    assert any("code 3" in row.note for row in watch.rows)


def test_a_command_that_is_not_there_is_not_the_end_of_the_supervisor(tmp_path: Path) -> None:
    async def steps(child: Child, watch: Watch) -> None:
        await watch.until(lambda row: "code 127" in row.note)

    _run(tmp_path, ProcessSpec("p", "worker", ("/no/such/program",), {}), steps)
    assert "/no/such/program" in (tmp_path / "p.log").read_text()


def test_one_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    pids: list[int] = []
    fifo = tmp_path / "deaf"
    os.mkfifo(fifo)
    stubborn = (
        "import signal, time, pathlib; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"pathlib.Path({str(fifo)!r}).write_text('deaf now'); time.sleep(600)"
    )

    async def steps(child: Child, watch: Watch) -> None:
        row = await watch.until(lambda row: row.state is State.RUNNING)
        pids.append(row.pid or 0)
        assert await asyncio.to_thread(fifo.read_text) == "deaf now"

    watch = _run(tmp_path, _spec(stubborn, grace_s=0.2), steps)
    assert _gone(pids[0])
    assert [row.state for row in watch.rows] == [State.RUNNING, State.STOPPING, State.STOPPED]


@pytest.mark.parametrize("paused", [False, True])
def test_a_replaced_one_is_started_anew_and_the_reason_told(tmp_path: Path, paused: bool) -> None:
    """A paused process is woken to hear that it shall end."""

    async def steps(child: Child, watch: Watch) -> None:
        first = await watch.until(lambda row: row.state is State.RUNNING)
        assert first.pid is not None
        if paused:
            os.kill(first.pid, signal.SIGSTOP)
        await child.replace("lived without a heartbeat")
        await watch.until(lambda row: row.state is State.RUNNING and row.pid != first.pid)
        assert _gone(first.pid)

    watch = _run(tmp_path, _spec(_SLEEP), steps)
    assert State.REPLACING in [row.state for row in watch.rows]
    [told] = [row.note for row in watch.rows if row.state is State.BACKING_OFF]
    assert told.startswith("lived without a heartbeat; again in")


def test_a_replaced_one_that_does_not_hear_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPLACE_GRACE_S", 0.2)
    fifo = tmp_path / "deaf"
    os.mkfifo(fifo)
    stubborn = (
        "import signal, time, pathlib; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"pathlib.Path({str(fifo)!r}).write_text('deaf now'); time.sleep(600)"
    )

    async def steps(child: Child, watch: Watch) -> None:
        row = await watch.until(lambda row: row.state is State.RUNNING)
        await asyncio.to_thread(fifo.read_text)
        await child.replace("stuck")
        await watch.until(lambda one: one.state is State.RUNNING and one.pid != row.pid)
        assert row.pid is not None
        assert _gone(row.pid)
        await asyncio.to_thread(fifo.read_text)  # the new one is up: it may be stopped

    _run(tmp_path, _spec(stubborn, grace_s=0.2), steps)


def test_stop_right_after_start_leaves_nothing(tmp_path: Path) -> None:
    async def steps(child: Child, watch: Watch) -> None:
        return None

    watch = _run(tmp_path, _spec(_SLEEP), steps)
    assert watch.rows[-1].state is State.STOPPED
    assert all(_gone(row.pid) for row in watch.rows if row.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_children_die_with_a_parent_that_is_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **plan.import_path(os.environ)},
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    watch = os.pidfd_open(pid)
    try:
        parent.kill()
        parent.wait()
        readable, _, _ = select.select([watch], [], [], 30)
        assert readable, "the child outlived its parent"
    finally:
        os.close(watch)


def test_a_long_log_is_moved_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LOG_BYTES", 10)
    child = Child(_spec(_SLEEP), tmp_path, lambda _child: None)
    with open(child.log_file, "ab") as log:
        log.write(b"x" * 20)
        log.flush()
        child.trim_log()
        log.write(b"new")
    assert child.log_file.read_bytes() == b"new"
    assert (tmp_path / "p.log.1").read_bytes() == b"x" * 20
