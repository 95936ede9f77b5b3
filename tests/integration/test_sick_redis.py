"""Redis servers that hang, restart, or are not there yet: all runs end, no write happens twice, and it is said."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ops.supervisor import plan
from shared.client import Client
from shared.ids import nonce
from tests.chaos import check, probe
from tests.chaos import tools as chaos_tools
from tests.chaos.load import Submitter, plain_client
from tests.chaos.model import RULES, call
from tests.chaos.run import wait_for_rest
from tests.support.model_server import ModelServer
from tests.support.processes import Proc, System

pytestmark = [pytest.mark.integration, pytest.mark.chaos, pytest.mark.timeout(300)]

MakeSystem = Callable[..., System]
LEASE_S = 5.0
HANGS_S = 8.0
ENV = {
    "CAPATAZ_WORKER__TOOL_MODULES": json.dumps([str(Path(str(chaos_tools.__file__)))]),
    "CAPATAZ_ROUTING__ENCODER": "off",
    "CAPATAZ_PLAYBOOK__ENABLED": "false",
}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer(rules=RULES) as server:
        yield server


@pytest.fixture(scope="module")
def system_env() -> dict[str, str]:
    return ENV


def nothing_wrong(system: System) -> list[str]:
    """What is wrong when everything has come to rest."""
    with system.client() as raw:
        probe.until(lambda: not check.leftovers(raw), "rest")
        world = check.World.read(raw, system.workspace)
    return [*check.effects(world, hurt=()), *check.histories(world)]


def test_runs_outlive_a_state_that_hangs_for_longer_than_their_leases(
    make_system: MakeSystem, model: ModelServer
) -> None:
    """One run is in its tools, whose results are ready meanwhile; one streams; one has not begun."""
    tools = [call("chaos_write", tag="w", after="go"), call("chaos_look", tag="r", after="go")]
    model.script(
        [
            {"when": {"user": "^tools", "step": 0}, "then": {"calls": tools}},
            {"when": {"user": "^tools"}, "then": {"text": "tools: {{results}}"}},
            {"when": {"user": "^stream"}, "then": {"text": "word " * 40, "stream_ms": 4000}},
            {"then": {"text": "at last"}},
        ]
    )
    system = make_system(coordinators=2, workers=2)
    client = Client.connect(system.redis_url)
    sent = [client.submit(text, session=text, tools=("chaos",)) for text in ("tools", "stream")]
    probe.await_line(system, "write w")
    probe.await_line(system, "look r")
    probe.await_events(client, "stream", "text.delta")
    sent.append(client.submit("later", session="stream"))
    client.close()
    system.state.pause()
    probe.open_gate(system, "go")
    assert HANGS_S > LEASE_S
    time.sleep(HANGS_S)  # nothing can be asked meanwhile
    system.state.resume()
    client = Client.connect(system.redis_url)
    replies = [client.wait(one, 120) for one in sent]
    assert [reply.ok for reply in replies] == [True] * 3
    assert "at last" in replies[2].answer
    assert probe.lines(system)["write w"] == 1
    assert probe.states(client, "tools") == {"w": "done", "r": "done"}
    assert nothing_wrong(system) == []
    assert all(proc.alive for proc in (*system.coordinators, *system.workers))


def _sends(submitter: Submitter, more: int) -> Callable[[], bool]:
    goal = len(submitter.sent) + more
    return lambda: len(submitter.sent) >= goal


def test_a_state_that_restarts_under_load_loses_nothing(make_system: MakeSystem, model: ModelServer) -> None:
    system = make_system(coordinators=2, workers=2)
    submitter = Submitter(lambda: plain_client(system.redis_url))
    stop = threading.Event()

    def user(number: int) -> None:
        while not stop.wait(0.3):
            submitter.message(f"user{number}", f"mix {nonce()}")

    threads = [threading.Thread(target=user, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        probe.until(_sends(submitter, 6), "load")
        system.state.restart()  # a clean SHUTDOWN; its append-only file is all that is left
    stop.set()
    for thread in threads:
        thread.join()
    wait_for_rest(system, submitter, 120)
    with system.client() as raw:
        world = check.World.read(raw, system.workspace)
        assert check.answers(world, submitter.sent, raw) == []
    assert nothing_wrong(system) == []
    assert all(proc.alive for proc in (*system.coordinators, *system.workers))


@pytest.mark.parametrize("sick", ["killed", "paused"])
def test_a_run_outlives_its_broker(make_system: MakeSystem, model: ModelServer, sick: str) -> None:
    """The broker goes away while a turn runs; the next turn's calls cannot be sent until it is back."""
    model.script(
        [
            {"when": {"step": 0}, "then": {"calls": [call("chaos_write", tag="w1", after="go")]}},
            {"when": {"step": 1}, "then": {"calls": [call("chaos_write", tag="w2"), call("chaos_look", tag="r")]}},
            {"then": {"text": "done: {{results}}"}},
        ]
    )
    system = make_system()
    client = Client.connect(system.redis_url)
    submitted = client.submit("go", session="s", tools=("chaos",))
    probe.await_line(system, "write w1")
    if sick == "killed":
        system.broker.kill()
    else:
        system.broker.pause()
    probe.open_gate(system, "go")
    [coordinator] = system.coordinators
    probe.until(lambda: "the broker does not take messages" in coordinator.output(), "the failed publish")
    system.broker.restart() if sick == "killed" else system.broker.resume()
    reply = client.wait(submitted, 120)
    assert reply.ok
    assert probe.states(client, "s") == {"w1": "done", "w2": "done", "r": "done"}
    assert probe.lines(system)["write w1"] == probe.lines(system)["write w2"] == 1
    assert "Traceback" not in "".join(proc.output() for proc in (coordinator, *system.workers))
    assert nothing_wrong(system) == []


COMMANDS = {
    "coordinator": plan.python("coordinator"),
    "worker": plan.python("workers", "--name", "early"),
    "beat": plan.python("workers.beat"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_who_starts_before_the_state_says_so_and_ends(model: ModelServer, name: str) -> None:
    """Whoever keeps it up tries again; nobody has to read a traceback."""
    system = System(model_url=model.url, coordinators=0, workers=0, env=ENV)
    try:
        system.broker.start()  # and no state Redis
        proc = Proc(name, COMMANDS[name], system.env(), system.folder / f"{name}.log")
        system.others.append(proc)
        assert proc.popen.wait(60) not in (0, None)
        said = proc.output()
        assert f"{name} cannot start: " in said
        assert "Redis" in said
        assert "Traceback" not in said
    finally:
        system.stop()


def test_who_starts_before_the_broker_waits_for_it(make_system: MakeSystem, model: ModelServer) -> None:
    model.script([{"when": {"step": 0}, "then": {"calls": [call("chaos_look", tag="x")]}}, {"then": {"text": "ok"}}])
    system = System(model_url=model.url, coordinators=1, workers=1, env=ENV)
    try:
        system.state.start()  # and no broker
        system.add_coordinator()
        worker = system.add_worker()
        system.wait_ready()
        probe.until(lambda: "Cannot connect to" in worker.output(), "the complaint")
        assert "Traceback" not in worker.output()
        system.broker.start()
        assert Client.connect(system.redis_url).ask("go", session="s", tools=("chaos",), timeout=60).ok
        assert probe.lines(system)["look x"] == 1
    finally:
        system.stop()
