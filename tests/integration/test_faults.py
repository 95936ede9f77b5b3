"""Processes that die, servers that are away, keys that are wrong: the run still ends, and says what happened."""

from __future__ import annotations

import itertools
import resource
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shared.client import Client
from tests.integration.test_messages import call, calls, of_agents
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

MakeSystem = Callable[..., System]


def await_event(client: Client, session: str, kind: str, timeout: float = 20) -> Any:
    return next(e for e in client.stream(session, timeout=timeout) if e.type == kind)


def probe_lines(system: System) -> list[str]:
    path = system.workspace / "probe.log"
    return path.read_text().splitlines() if path.exists() else []


def await_line(system: System, line: str, timeout_s: float = 15) -> None:
    """Waits until a probe tool has written `line`: claiming a node comes before its effect."""
    give_up = time.monotonic() + timeout_s
    while line not in probe_lines(system):
        assert time.monotonic() < give_up, f"{line!r} was never written"
        time.sleep(0.02)


def test_worker_killed_in_a_read_tool(make_system: MakeSystem, model: ModelServer) -> None:
    system = make_system(workers=2)
    client = Client.connect(system.redis_url)
    model.script(calls(call("probe_read", tag="patient", seconds=2.0)))
    submitted = client.submit("go", session="s")
    started = await_event(client, "s", "node.started")
    victim = next(w for w in system.workers if started.data["worker"].startswith(f"{w.name}-"))
    await_line(system, "read patient")
    system.kill(victim)
    reply = client.wait(submitted, 30)
    assert reply.ok
    assert '"tag":"patient"' in reply.answer
    assert probe_lines(system) == ["read patient"] * 2


def test_worker_killed_in_a_write_tool(make_system: MakeSystem, model: ModelServer) -> None:
    system = make_system(workers=2)
    client = Client.connect(system.redis_url)
    model.script(calls(call("probe_write", tag="payment", seconds=5.0), call("probe_read", tag="other")))
    submitted = client.submit("go", session="s")
    started = next(
        e for e in client.stream("s", timeout=20) if e.type == "node.started" and e.data["tool"] == "probe_write"
    )
    victim = next(w for w in system.workers if started.data["worker"].startswith(f"{w.name}-"))
    await_line(system, "write payment")
    system.kill(victim)
    reply = client.wait(submitted, 30)
    assert "Outcome unknown" in reply.answer
    assert probe_lines(system).count("write payment") == 1


def test_coordinator_killed_in_the_middle_of_a_run(make_system: MakeSystem, model: ModelServer) -> None:
    system = make_system(coordinators=2)
    client = Client.connect(system.redis_url)
    rows = [call("probe_read", tag="quick"), call("probe_write", tag="slow", seconds=3.0)]
    model.script(calls(*rows))
    submitted = client.submit("go", session="s")
    await_event(client, "s", "node.finished")
    with system.client() as raw:
        [run] = raw.smembers("capataz:runs:active")
        owner = str(raw.hget(f"capataz:run:{run}", "owner"))
    victim = next(c for c in system.coordinators if f"-{c.pid}-" in owner)
    system.kill(victim)
    reply = client.wait(submitted, 30)
    assert reply.ok
    assert '"tag":"quick"' in reply.answer
    assert '"tag":"slow"' in reply.answer
    assert sorted(probe_lines(system)) == ["read quick", "write slow"]
    assert len(of_agents(model)) == 2


def test_coordinator_killed_while_the_model_streams(make_system: MakeSystem, model: ModelServer) -> None:
    system = make_system(coordinators=2)
    client = Client.connect(system.redis_url)
    model.script([{"then": {"text": "a long answer that takes its time", "stream_ms": 1500}}])
    submitted = client.submit("go", session="s")
    await_event(client, "s", "text.delta")
    with system.client() as raw:
        [run] = raw.smembers("capataz:runs:active")
        owner = str(raw.hget(f"capataz:run:{run}", "owner"))
    system.kill(next(c for c in system.coordinators if f"-{c.pid}-" in owner))
    reply = client.wait(submitted, 30)
    assert reply.answer == "a long answer that takes its time"
    assert [e.value.T for e in client.history("s") if e.value].count("assistant.message") == 1


def test_stopped_coordinator_hands_its_run_over(make_system: MakeSystem, model: ModelServer) -> None:
    system = make_system(coordinators=2)
    client = Client.connect(system.redis_url)
    model.script(calls(call("probe_read", tag="x", seconds=3.0)))
    submitted = client.submit("go", session="s")
    await_event(client, "s", "node.started")
    with system.client() as raw:
        [run] = raw.smembers("capataz:runs:active")
        owner = str(raw.hget(f"capataz:run:{run}", "owner"))
    assert system.terminate(next(c for c in system.coordinators if f"-{c.pid}-" in owner)) == 0
    reply = client.wait(submitted, 20)
    assert reply.ok
    assert probe_lines(system) == ["read x"]


def test_stopped_worker_gives_read_back_and_lets_write_finish(make_system: MakeSystem, model: ModelServer) -> None:
    system = make_system(workers=2)
    client = Client.connect(system.redis_url)
    model.script(calls(call("probe_write", tag="w", seconds=2.0), call("probe_read", tag="r", seconds=2.0)))
    submitted = client.submit("go", session="s")
    begun = (e for e in client.stream("s", timeout=20) if e.type == "node.started")
    started = [e.data["worker"] for e in itertools.islice(begun, 2)]
    await_line(system, "write w")
    for victim in {w.name: w for w in system.workers if any(s.startswith(f"{w.name}-") for s in started)}.values():
        if len(set(started)) == 1 or victim.name in started[0]:
            assert system.terminate(victim) == 0
    reply = client.wait(submitted, 30)
    assert reply.ok
    assert '"tag":"w"' in reply.answer
    assert '"tag":"r"' in reply.answer
    assert probe_lines(system).count("write w") == 1


def test_redis_killed_and_back(make_system: MakeSystem, model: ModelServer) -> None:
    system = make_system()
    client = Client.connect(system.redis_url)
    model.script(calls(call("probe_write", tag="once", seconds=1.0), call("probe_read", tag="r")))
    submitted = client.submit("go", session="s")
    await_event(client, "s", "node.started")
    client.close()
    system.state.kill()
    system.state.restart()
    client = Client.connect(system.redis_url)
    reply = client.wait(submitted, 40)
    assert reply.ok
    assert probe_lines(system).count("write once") == 1
    assert "once" in reply.answer


def test_broker_killed_and_back(make_system: MakeSystem, model: ModelServer) -> None:
    system = make_system()
    client = Client.connect(system.redis_url)
    model.script([{"then": {"text": "warm"}}])
    client.ask("hi", session="warm", timeout=20)
    system.broker.kill()
    system.broker.restart()
    model.script(calls(call("probe_read", tag="after")))
    reply = client.ask("go", session="s", timeout=60)
    assert '"tag":"after"' in reply.answer


def test_model_server_down(make_system: MakeSystem, model: ModelServer) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    definition = f'{{"rehearsal": {{"preset": "rehearsal", "base_url": "{dead}"}}}}'
    system = make_system(env={"CAPATAZ_MODELS__PROVIDERS": definition, "CAPATAZ_MODELS__ATTEMPTS": "2"})
    client = Client.connect(system.redis_url)
    reply = client.ask("hi", session="s", timeout=30)
    assert not reply.ok
    assert reply.error is not None
    assert "base_url" in reply.error.hint
    again = client.ask("hi", session="s", timeout=30)
    assert again.run != reply.run


def test_no_worker_alive(make_system: MakeSystem, model: ModelServer) -> None:
    system = make_system()
    client = Client.connect(system.redis_url)
    model.script(calls(call("probe_read", tag="x")))
    assert client.ask("go", session="s", timeout=20).ok
    system.kill(system.workers[0])
    model.script(calls(call("probe_read", tag="y")))
    reply = client.ask("go", session="s", timeout=40)
    assert "no worker is alive for the queue 'tools'" in reply.answer
    system.add_worker()
    model.script(calls(call("probe_read", tag="z")))
    reply = client.ask("go", session="s", timeout=40)
    assert '"tag":"z"' in reply.answer


def test_worker_with_another_key_gets_no_nodes(make_system: MakeSystem, model: ModelServer) -> None:
    system = make_system(workers=1)
    client = Client.connect(system.redis_url)
    model.script(calls(call("probe_read", tag="x")))
    assert client.ask("go", session="s", timeout=20).ok
    system.kill(system.workers[0])
    system.signing_key = "0" * 64
    system.add_worker()
    reply = client.ask("go", session="s", timeout=40)
    assert "another signing key" in reply.answer
    assert probe_lines(system) == ["read x"]


def test_full_disk(make_system: MakeSystem, model: ModelServer) -> None:
    system = make_system()
    client = Client.connect(system.redis_url)
    model.script([{"then": {"text": "fine"}}])
    assert client.ask("hi", session="s", timeout=20).ok
    pid = system.coordinators[0].pid
    limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, limits[1]))  # no file of the process can grow any more
    reply = client.ask("hi", session="s", timeout=60)
    assert not reply.ok
    assert reply.error is not None
    assert reply.error.code == "archive_unavailable"
    assert ".db" in reply.error.message
    resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
    assert client.ask("hi", session="s", timeout=30).ok
    assert system.coordinators[0].alive


def test_unwritable_archive_fails_the_message_clearly(make_system: MakeSystem, model: ModelServer) -> None:
    system = make_system()
    client = Client.connect(system.redis_url)
    model.script([{"then": {"text": "fine"}}])
    assert client.ask("hi", session="s", timeout=20).ok
    database = next(p for p in (system.folder / "data").iterdir() if p.suffix == ".db")
    hold = _exclusive(database)
    reply = client.ask("hi", session="s", timeout=60)
    hold()
    assert not reply.ok
    assert reply.error is not None
    assert str(database.name) in reply.error.message
    assert client.ask("hi", session="s", timeout=30).ok


def _exclusive(database: Path) -> Callable[[], None]:
    """Locks the database against writers; returns what lets go."""
    import sqlite3

    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")

    def release() -> None:
        connection.execute("ROLLBACK")
        connection.close()

    return release
