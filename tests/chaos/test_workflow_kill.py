"""kill -9 at every boundary of a workflow's steps and inside each of them: what has ended never runs again, a write in
the middle ends as outcome unknown, and its user is told so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.client import Client, Submitted
from shared.entries import Event
from shared.fold import RunFold, SessionFold
from shared.state import keys
from tests.chaos.probe import await_events, await_line, lines, open_gate, owner, until
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = [pytest.mark.integration, pytest.mark.chaos, pytest.mark.timeout(300)]

FLOWS = Path(__file__).parents[1] / "support" / "flows.py"
ENV = {
    "CAPATAZ_WORKER__TOOL_MODULES": f'["{FLOWS}"]',
    "CAPATAZ_ROUTING__ENCODER": "off",
    "CAPATAZ_PLAYBOOK__ENABLED": "false",
}
STEPS = ("fetch", "note", "keep", "judge", "send", "tell")
AT_WORKERS = ("fetch", "note", "keep", "send")
MakeSystem = Callable[..., System]


def rules(slow: str = "") -> list[dict[str, Any]]:
    """The model: `slow` names the step whose first answer takes its time."""
    late = {"judge": "^Judge", "tell": "^Tell"}
    first = {"text": "late", "first_token_ms": 20_000}
    held = [{"when": {"user": late[slow]}, "times": 1, "then": first}] if slow else []
    return [
        *held,
        {"when": {"user": "^Judge"}, "then": {"text": '{"mood": "good", "score": 3}'}},
        {"when": {"user": "^Tell: (?P<what>.*)"}, "then": {"text": "Told: {{user[what]}}"}},
    ]


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer(rules=rules()) as server:
        yield server


@pytest.fixture
def system_env() -> dict[str, str]:
    return ENV


def begin(system: System, *hold: str) -> tuple[Client, Submitted]:
    client = Client.connect(system.redis_url)
    return client, client.submit_workflow("chain", session="s", params={"hold": list(hold)})


def folded(client: Client, run: str) -> RunFold:
    return SessionFold.of(client.history("s")).run(run)


def planned(client: Client, name: str) -> Event:
    """The event that a step's node was planned."""
    for event in client.stream("s", timeout=60):
        if event.type == "node.planned" and event.data["name"] == name:
            return event
    raise AssertionError(name)


def finished(client: Client, name: str) -> Event:
    """The event that a step's node has ended."""
    node = planned(client, name).data["node"]
    for event in client.stream("s", timeout=60):
        if event.type == "node.finished" and event.data["node"] == node:
            return event
    raise AssertionError(name)


def concluded(client: Client, system: System, submitted: Submitted) -> None:
    """The workflow went on to its end, and each step has run once."""
    reply = client.wait(submitted, 90)
    assert reply.answer == "Told: sent 7, good", reply
    fold = folded(client, reply.run)
    assert sorted(n.position for n in fold.nodes.values()) == [0, 1, 2, 3, 4, 5], "no attempt beyond the first"
    assert {r.state.value for r in fold.results.values()} == {"done"}
    assert len([e for e in client.history("s") if e.type == "workflow.begun"]) == 1


@pytest.mark.parametrize("step", AT_WORKERS)
def test_the_coordinator_dies_inside_a_step(make_system: MakeSystem, step: str) -> None:
    system = make_system(coordinators=2, workers=1)
    client, submitted = begin(system, step)
    await_line(system, f"step {step}")
    system.kill(owner(system, planned(client, step).run))
    open_gate(system, step)
    concluded(client, system, submitted)
    assert lines(system) == {f"step {name}": 1 for name in AT_WORKERS}, "no worker died: each ran once"


@pytest.mark.parametrize("step", ["judge", "tell"])
def test_the_coordinator_dies_while_a_model_is_asked(make_system: MakeSystem, model: ModelServer, step: str) -> None:
    model.script(rules(slow=step))
    system = make_system(coordinators=2, workers=1)
    client, submitted = begin(system)
    node = planned(client, step)
    model.wait_for_requests(1 if step == "judge" else 2, 60)
    system.kill(owner(system, node.run))
    concluded(client, system, submitted)
    assert lines(system) == {f"step {name}": 1 for name in AT_WORKERS}


@pytest.mark.parametrize("step", STEPS)
def test_the_coordinator_dies_behind_a_step(make_system: MakeSystem, model: ModelServer, step: str) -> None:
    """Paused at the next gate or model call, so that it dies between the end of a step and that of the next one."""
    model.script(rules())
    system = make_system(coordinators=2, workers=1)
    client, submitted = begin(system)
    run = finished(client, step).run
    system.kill(owner(system, run) if folded(client, run).ended is None else system.coordinators[0])
    concluded(client, system, submitted)
    assert lines(system) == {f"step {name}": 1 for name in AT_WORKERS}


@pytest.mark.parametrize("step", AT_WORKERS)
def test_the_worker_dies_inside_a_step(make_system: MakeSystem, model: ModelServer, step: str) -> None:
    model.script(rules())
    system = make_system(coordinators=1, workers=1)
    client, submitted = begin(system, step)
    await_line(system, f"step {step}")
    system.kill(system.workers[0])
    system.workers[0].start()
    open_gate(system, step)
    if step != "send":
        concluded(client, system, submitted)
        ran = lines(system)
        assert ran.pop(f"step {step}") == 2, "it has no effect, or the same again: another worker runs it"
        assert set(ran.values()) == {1} or step in ("note", "keep")
        keys = {json.loads(row)["key"] for row in (system.workspace / "effects.log").read_text().splitlines()}
        assert len(keys) == len(AT_WORKERS), "under the same key"
        return
    reply = client.wait(submitted, 90)
    assert not reply.ok
    assert reply.error is not None
    assert reply.error.code == "outcome_unknown"
    assert "step send of workflow chain outcome_unknown: Outcome unknown" in reply.error.message
    fold = folded(client, reply.run)
    assert {n.position: fold.results[n.node].state.value for n in fold.nodes.values()} == {
        **dict.fromkeys(range(4), "done"),
        4: "outcome_unknown",
        5: "skipped",
    }
    assert lines(system)["step send"] == 1, "and it is not run again"


@pytest.mark.parametrize("step", AT_WORKERS)
def test_the_worker_dies_behind_a_step(make_system: MakeSystem, model: ModelServer, step: str) -> None:
    model.script(rules())
    system = make_system(coordinators=1, workers=1)
    following = {"fetch": "keep", "note": "send", "keep": "send", "send": ""}[step]
    client, submitted = begin(system, *filter(None, [following]))
    finished(client, step)
    system.kill(system.workers[0])
    system.workers[0].start()
    open_gate(system, *filter(None, [following]))
    reply = client.wait(submitted, 90)
    assert lines(system)[f"step {step}"] == 1
    if following == "send" and not reply.ok:
        assert reply.error is not None, "it had reached the write already"
        assert reply.error.code == "outcome_unknown"
    else:
        assert reply.answer == "Told: sent 7, good", reply


def test_the_coordinator_of_an_agent_dies(make_system: MakeSystem, model: ModelServer) -> None:
    put = {"calls": [{"name": "flow_put", "arguments": {"id": 1, "text": "once"}}]}
    late = {"when": {"user": "^Do it", "min_step": 1}, "times": 1, "then": {"text": "late", "first_token_ms": 20_000}}
    done = {"when": {"user": "^Do it", "min_step": 1}, "then": {"text": "done"}}
    model.script([late, done, {"when": {"user": "^Do it"}, "then": put}, *rules()])
    system = make_system(coordinators=2, workers=1)
    client = Client.connect(system.redis_url)
    submitted = client.submit_workflow("helped", session="s")
    [begun] = await_events(client, "s", "subagent.started")
    model.wait_for_requests(2, 60)
    with system.client() as raw:
        assert until(lambda: raw.hget(keys.run(begun.run), "state") == "parked", "its parking")
    system.kill(owner(system, str(begun.data["run"])))
    reply = client.wait(submitted, 90)
    assert reply.answer == "Told: done", reply
    assert lines(system) == {"step fetch": 1, "step note": 1}
    assert {r.state.value for r in folded(client, reply.run).results.values()} == {"done"}


def test_both_die_while_a_step_rests(make_system: MakeSystem) -> None:
    system = make_system(coordinators=1, workers=1)
    client = Client.connect(system.redis_url)
    submitted = client.submit_workflow("patient", session="s")
    await_events(client, "s", "node.finished")
    for proc in (system.coordinators[0], system.workers[0]):
        system.kill(proc)
        proc.start()
    reply = client.wait(submitted, 90)
    assert reply.answer == "rested"
    first, second = folded(client, reply.run).nodes
    assert (first.split(".")[2], second.split(".")[2]) == ("0", "1")
    assert lines(system) == {"step tired": 2}
