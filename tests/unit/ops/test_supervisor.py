"""The supervisor over real Redis servers and stand-ins for our processes."""

import asyncio
import io
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from ops.supervisor import plan, run_file
from ops.supervisor.plan import Endpoints, ProcessSpec
from ops.supervisor.report import LineReporter
from ops.supervisor.run_file import RunInfo
from ops.supervisor.supervisor import Options, Supervisor
from shared.errors import OperatorError
from shared.settings import (
    DataSettings,
    FlowerSettings,
    ModelSettings,
    RedisSettings,
    Settings,
    SupervisorSettings,
    WorkspaceSettings,
)
from shared.state.connection import connect_sync

pytestmark = pytest.mark.integration

# Says that it is alive as the real processes do, and notes when it was asked to stop.
_STAND_IN = """
import os, signal, sys, time, threading, redis
name, role, key, notes = sys.argv[1:]
client = redis.Redis.from_url(os.environ["REDIS_URL"])
asked = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: asked.set())
while not asked.wait(0.2):
    if key:
        client.zadd(key, {name + "-" + str(os.getpid()) + "-0": int(time.time() * 1000)})
with open(notes, "a") as file:
    file.write(role + "\\n")
"""

_KEYS = {"coordinator": "capataz:coordinators", "worker": "capataz:workers"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.model_construct(
        data=DataSettings(dir=tmp_path / "data"),
        workspace=WorkspaceSettings(dir=tmp_path / "workspace"),
        models=ModelSettings(tiers={"default": ("a/b",)}),
        flower=FlowerSettings(enabled=True),
    )


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replaces the real processes; the file in which the stand-ins note their end."""
    path = tmp_path / "notes"

    def processes(settings: Settings, endpoints: Endpoints, env: dict[str, str], **_: Any) -> list[ProcessSpec]:
        return [
            ProcessSpec(
                f"{role}-1", role, (sys.executable, "-c", _STAND_IN, role, role, _KEYS.get(role, ""), str(path)), env
            )
            for role in ("worker", "coordinator", "beat")
        ]

    monkeypatch.setattr(plan, "processes", processes)
    return path


async def _with_system(settings: Settings, steps: Any) -> str:
    out = io.StringIO()
    supervisor = Supervisor(settings, Options(), LineReporter(out), {"PATH": os.environ["PATH"]})
    running = asyncio.create_task(supervisor.run())
    ready = asyncio.create_task(supervisor.ready())
    try:
        async with asyncio.timeout(60):
            await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            await steps(supervisor, ready.result())
            supervisor.request_stop()
            await running
    finally:
        ready.cancel()
        supervisor.request_stop()
        await asyncio.gather(running, return_exceptions=True)
    return out.getvalue()


def test_up_and_down_in_order(settings: Settings, notes: Path) -> None:
    seen: list[RunInfo] = []

    async def steps(supervisor: Supervisor, info: RunInfo) -> None:
        found = run_file.read(settings.data.dir)
        assert found is not None
        seen.append(found)
        with connect_sync(info.redis_url) as client:
            client.xadd("log", {"a": "1"})

    printed = asyncio.run(_with_system(settings, steps))
    assert notes.read_text().split() == ["beat", "coordinator", "worker"]
    (info,) = seen
    assert set(info.processes) == {"redis-state", "redis-broker", "coordinator-1", "worker-1", "beat-1"}
    assert info.model == "a/b"
    for pid in info.processes.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert "ready in" in printed
    assert run_file.read(settings.data.dir) is None

    async def again(supervisor: Supervisor, info: RunInfo) -> None:
        with connect_sync(info.redis_url) as client:
            assert client.xlen("log") == 1, "the state outlives the system"

    asyncio.run(_with_system(settings, again))


def test_a_killed_redis_comes_back_at_the_same_address_with_its_data(settings: Settings, notes: Path) -> None:
    async def steps(supervisor: Supervisor, info: RunInfo) -> None:
        with connect_sync(info.redis_url) as client:
            client.xadd("log", {"a": "1"})
        before = run_file.read(settings.data.dir)
        assert before is not None
        os.kill(before.processes["redis-state"], signal.SIGKILL)
        async with asyncio.timeout(30):
            while (now := run_file.read(settings.data.dir)) is None or now.processes.get(  # noqa: ASYNC110 - another process
                "redis-state", before.processes["redis-state"]
            ) == before.processes["redis-state"]:
                await asyncio.sleep(0.02)
            while not await asyncio.to_thread(_has_log, info.redis_url):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)

    asyncio.run(_with_system(settings, steps))


@pytest.mark.parametrize("role", ["worker", "coordinator"])
def test_a_paused_process_is_replaced(settings: Settings, notes: Path, role: str) -> None:
    """It lives, so its end is not to be waited for; its heartbeat is missed."""
    impatient = settings.model_copy(update={"supervisor": SupervisorSettings(stuck_s=0.5)})

    async def steps(supervisor: Supervisor, info: RunInfo) -> None:
        child = next(one for one in supervisor.children if one.spec.role == role)
        first = child.row.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        while child.row.pid in (first, None):  # noqa: ASYNC110 - bounded by the caller
            await asyncio.sleep(0.02)
        assert child.row.restarts == 1

    printed = asyncio.run(_with_system(impatient, steps))
    [line] = [line for line in printed.splitlines() if "backing off" in line]
    assert line.startswith(f"{role}-1")
    assert "lived without a heartbeat" in line


def _has_log(url: str) -> bool:
    import redis

    try:
        with connect_sync(url) as client:
            return bool(client.xlen("log") == 1)
    except redis.ConnectionError:
        return False


def test_a_redis_that_cannot_start_ends_it_with_the_reason(settings: Settings, notes: Path) -> None:
    folder = settings.data.dir / "redis-state"
    folder.mkdir(parents=True)
    (folder / "appendonlydir").write_text("in the way")

    async def steps(*_: Any) -> None:
        raise AssertionError("must not become ready")

    with pytest.raises(OperatorError, match="state Redis ended with code 1"):
        asyncio.run(_with_system(settings, steps))
    assert not notes.exists()


def test_a_named_redis_that_is_not_there_is_told_at_once(settings: Settings, notes: Path) -> None:
    lost = settings.model_copy(update={"redis": RedisSettings(url="redis://127.0.0.1:9/0")})

    async def steps(*_: Any) -> None:
        raise AssertionError("must not become ready")

    with pytest.raises(OperatorError, match=r"127\.0\.0\.1:9"):
        asyncio.run(_with_system(lost, steps))


def test_the_relaxed_promise_is_printed(settings: Settings, notes: Path) -> None:
    relaxed = settings.model_copy(update={"redis": RedisSettings(durability="relaxed")})

    async def steps(*_: Any) -> None:
        return None

    assert "may lose the last second" in asyncio.run(_with_system(relaxed, steps))
