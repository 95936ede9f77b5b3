"""The fork server over real processes; a module in a folder of the test stands for ours."""

import asyncio
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from ops.supervisor import plan
from ops.supervisor.child import Child, State
from ops.supervisor.launch import ForkServer, Running, can_fork
from ops.supervisor.plan import ProcessSpec
from tests.unit.ops.test_child import Watch

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not can_fork(), reason="forks without exec are safe on Linux only"),
]

_SECRET = "sk-never-to-be-seen-elsewhere"
_STAND_IN = """
import atexit, json, os, sys, threading, time
import shared.lean

def tell(**what):
    print(json.dumps(what), flush=True)

atexit.register(lambda: tell(exit="handled"))
tell(
    argv=sys.argv[1:], name=__name__, key=os.environ.get("KEY"), env=sorted(os.environ), group=os.getpgrp(),
    stdin=os.read(0, 1).decode(), celery="celery" in sys.modules, rich=sys.modules.get("rich", "not there"),
    descriptors=sorted(os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if int(n) > 2
                       if os.path.exists(f"/proc/self/fd/{n}")),
)
what = sys.argv[1]
if what == "sleep":
    time.sleep(600)
if what == "raise":
    raise RuntimeError("as told")
sys.exit(int(what))
"""
_PARENT = """
import asyncio, os, sys
from pathlib import Path
from ops.supervisor.launch import ForkServer
from ops.supervisor.plan import ProcessSpec, python

async def main():
    env = dict(os.environ)
    folder = Path(sys.argv[1])
    server = ForkServer(env, folder / "server.log")
    await server.start()
    with open(folder / "p.log", "ab") as log:
        child = await server.launch(ProcessSpec("p", "worker", python("standin", "sleep"), env), log)
    print(child.pid, os.getppid(), flush=True)
    await child.wait()

asyncio.run(main())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds the stand-in, a module that the server loads at its start, and logs."""
    (tmp_path / "standin.py").write_text(_STAND_IN)
    (tmp_path / "sitecustomize.py").write_text("")
    return tmp_path


def _env(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(folder), *plan.import_path({}).values()])
    return {"PATH": os.environ["PATH"], "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def _spec(folder: Path, what: str) -> ProcessSpec:
    return ProcessSpec("standin-1", "worker", plan.python("standin", what, "ñ"), {**_env(folder), "KEY": _SECRET})


@asynccontextmanager
async def _server(folder: Path, env: dict[str, str] | None = None) -> AsyncIterator[ForkServer]:
    server = ForkServer(env or _env(folder), folder / "server.log")
    await server.start()
    try:
        yield server
    finally:
        await server.close()


async def _launch(server: ForkServer, spec: ProcessSpec, log: Path) -> Running:
    with log.open("ab") as file:
        return await server.launch(spec, file)


def _told(log: Path) -> dict[str, object]:
    """What the stand-ins have said, later lines over earlier ones."""
    told: dict[str, object] = {}
    for line in log.read_text("utf-8").splitlines() if log.exists() else ():
        if line.startswith("{"):
            told |= json.loads(line)
    return told


async def _until_told(log: Path) -> dict[str, object]:
    async with asyncio.timeout(30):
        while "argv" not in (told := _told(log)):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
    return told


def _title(pid: int) -> str:
    return str(psutil.Process(pid).cmdline()[0])


def _ended(pid: int) -> bool:
    """Whether it runs no more, though nobody may have taken notice of that."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def _start_environment(pid: int) -> bytes:
    """What the process list says."""
    return Path(f"/proc/{pid}/environ").read_bytes()


def _memory(pid: int) -> Iterator[bytes]:
    """All that a process can write to."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            found = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
            if found and "[v" not in line:
                start, end = (int(part, 16) for part in found.groups())
                memory.seek(start)
                yield memory.read(end - start)


def test_a_forked_process_is_as_if_it_had_been_executed(folder: Path) -> None:
    log = folder / "p.log"

    async def main() -> None:
        async with _server(folder) as server:
            child = await _launch(server, _spec(folder, "sleep"), log)
            told = await _until_told(log)
            assert _title(child.pid) == "capataz standin-1"
            assert _title(psutil.Process(child.pid).ppid()) == "capataz forkserver"
            assert told["argv"] == ["sleep", "ñ"]
            assert told["name"] == "__main__"
            assert told["key"] == _SECRET
            assert set(map(str, told["env"])) >= {"KEY", "OPENBLAS_NUM_THREADS"}  # type: ignore[call-overload]
            assert told["group"] == child.pid
            assert told["stdin"] == ""
            assert told["celery"] is True
            assert told["rich"] is None
            assert told["descriptors"] == []
            running = child.returncode
            child.send_signal(signal.SIGTERM)
            assert await child.wait() == child.returncode == -signal.SIGTERM
            assert running is None
            child.send_signal(signal.SIGTERM)  # harmless now

    asyncio.run(main())


def test_keys_reach_the_process_that_needs_them_and_no_other(folder: Path) -> None:
    """Neither the server's memory nor the process list shows the environment of a child."""
    log = folder / "p.log"

    async def main() -> None:
        async with _server(folder) as server:
            child = await _launch(server, _spec(folder, "sleep"), log)
            await _until_told(log)
            parent = psutil.Process(child.pid).parent()
            assert parent is not None
            secret = _SECRET.encode()
            assert any(secret in part for part in _memory(child.pid))
            assert not any(secret in part for part in _memory(parent.pid))
            assert secret not in _start_environment(child.pid)

    asyncio.run(main())


@pytest.mark.parametrize(("what", "code"), [("0", 0), ("3", 3), ("raise", 1)])
def test_the_end_is_told_with_its_code_and_exit_handlers_run(folder: Path, what: str, code: int) -> None:
    log = folder / "p.log"

    async def main() -> None:
        async with _server(folder) as server:
            child = await _launch(server, _spec(folder, what), log)
            assert await child.wait() == code

    asyncio.run(main())
    assert _told(log)["exit"] == "handled"
    assert ("RuntimeError: as told" in log.read_text()) == (what == "raise")


def test_many_at_once_each_get_their_own_end(folder: Path) -> None:
    async def main() -> list[int]:
        async with _server(folder) as server:
            children = [_launch(server, _spec(folder, str(n)), folder / f"{n}.log") for n in range(12)]
            return [await child.wait() for child in await asyncio.gather(*children)]

    assert asyncio.run(main()) == list(range(12))


@pytest.mark.parametrize("change", ["touched", "gone"])
def test_after_an_upgrade_processes_load_everything_anew(
    folder: Path, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Modules that were loaded before would meet later ones that do not fit them."""
    log = folder / "p.log"
    loaded = folder / "sitecustomize.py"

    async def main() -> None:
        async with _server(folder) as server:
            first = await _launch(server, _spec(folder, "0"), folder / "before.log")
            await first.wait()
            if change == "touched":
                os.utime(loaded, ns=(time.time_ns(), loaded.stat().st_mtime_ns + 1_000_000))
            else:
                loaded.unlink()
            child = await _launch(server, _spec(folder, "4"), log)
            assert await child.wait() == 4

    asyncio.run(main())
    assert _told(folder / "before.log")["celery"] is True
    assert _told(log)["celery"] is False
    assert f"{loaded} has changed" in capsys.readouterr().err


def test_a_server_that_cannot_start_is_done_without(folder: Path) -> None:
    broken = {**_env(folder), "PYTHONPATH": os.pathsep.join([str(folder / "broken"), _env(folder)["PYTHONPATH"]])}
    (folder / "broken").mkdir()
    (folder / "broken" / "structlog.py").write_text("raise ImportError('no structlog today')")

    async def main() -> None:
        async with _server(folder, broken) as server:
            for number in range(2):
                child = await _launch(server, _spec(folder, "5"), folder / f"{number}.log")
                assert await child.wait() == 5

    asyncio.run(main())
    assert _told(folder / "1.log")["celery"] is False
    assert "no structlog today" in (folder / "server.log").read_text()


def test_a_killed_server_is_started_anew_and_so_are_its_children(folder: Path) -> None:
    async def main() -> None:
        watch = Watch()
        async with _server(folder) as server:
            child = Child(_spec(folder, "sleep"), folder, watch, server.launch)
            child.start()
            try:
                first = await watch.until(lambda row: row.state is State.RUNNING)
                await _until_told(child.log_file)
                parent = psutil.Process(first.pid).parent()
                assert parent is not None
                parent.kill()
                again = await watch.until(lambda row: row.state is State.RUNNING and row.pid != first.pid)
                assert _ended(first.pid or 0)
                other = psutil.Process(again.pid).parent()
                assert other is not None
                assert other.pid not in (parent.pid, os.getpid()), "the new one is forked as well"
            finally:
                await child.stop()

    asyncio.run(main())


def test_nothing_outlives_a_supervisor_that_is_killed(folder: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(folder)], stdout=subprocess.PIPE, text=True, env=_env(folder)
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline().split()[0])
    server = psutil.Process(child).ppid()
    watches = [os.pidfd_open(child), os.pidfd_open(server)]
    try:
        parent.kill()
        parent.wait()
        for watch in watches:
            assert select.select([watch], [], [], 30)[0], "a process outlived its supervisor"
    finally:
        parent.stdout.close()
        for watch in watches:
            os.close(watch)
