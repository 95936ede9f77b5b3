"""Subagents, approvals and mail under harder conditions: one place for runs, kills at any depth, time that passes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ops.cli.main import app
from shared.client import Client
from shared.entries import Decided, NodeEnded, RunEnded, Steer, Terms, UserMessage, Waiting
from shared.fold import SessionFold
from tests.integration.conftest import PROBE_ENV
from tests.integration.test_messages import call, calls
from tests.integration.test_subagents import agent, agents, lead
from tests.integration.test_waits import ASKING, parked, seen, written
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = pytest.mark.integration

runner = CliRunner()


@pytest.fixture(scope="module")
def system(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """One coordinator with a place for one run: whatever waits must leave it to what it waits for."""
    env = {**PROBE_ENV, **agents(tmp_path_factory.mktemp("a") / "agents"), "CAPATAZ_COORDINATOR__MAX_RUNS": "1"}
    with System(model_url=model.url, env=env) as running:
        yield running


def children(client: Client, session: str) -> list[str]:
    """Runs of subagents of a session, in the order in which they began."""
    return [e.run for e in client.history(session) if isinstance(e.value, UserMessage) and e.value.parent]


def test_a_parent_with_three_children_needs_one_place(system: System, client: Client, model: ModelServer) -> None:
    jobs = ("job one", "job two", "job three")
    model.script(
        lead(*(call("agent_worker", task=job) for job in jobs))
        + [row for job in jobs for row in agent("a worker", job, call("probe_read", tag=job), then="{{results}}")]
        + [{"then": {"text": "hello"}}]
    )
    sent = client.submit("go on", session="crowd", agent="lead")
    others = [client.submit("hi", session=f"other-{n}") for n in range(5)]
    reply = client.wait(sent, 40)
    assert reply.ok
    assert all(f'"tag":"{job}"' in reply.answer for job in jobs)
    assert [client.wait(other, 20).answer for other in others] == ["hello"] * 5


def test_what_is_said_to_a_subagent_by_its_run_reaches_it_alone(
    system: System, client: Client, model: ModelServer
) -> None:
    model.script(
        lead(call("agent_worker", task="long"))
        + agent("a worker", "long", call("probe_read", tag="slow", seconds=2.0), then="done")
        + agent("a worker", "in Spanish", then="hecho")
    )
    sent = client.submit("go on", session="steer", agent="lead")
    child = seen(client, "steer", "subagent.started").data["run"]
    next(e for e in client.stream("steer", timeout=15) if e.type == "node.started" and e.run == child)
    assert client.control("steer", run=child, text="in Spanish, please").run == child
    reply = client.wait(sent, 20)
    assert "hecho" in reply.answer
    assert [e.run for e in client.history("steer") if isinstance(e.value, Steer)] == [child]
    fold = SessionFold.of(client.history("steer"))
    assert "in Spanish" in str(fold.conversation(child).messages)
    assert "in Spanish" not in str(fold.messages)


def test_what_a_parent_has_left_bounds_its_child(system: System, client: Client, model: ModelServer) -> None:
    model.script(
        [
            *lead(call("agent_worker", task="spend")),
            {"when": {"system": "a worker", "has_tools": False}, "then": {"text": "as far as I came"}},
            *agent("a worker", "spend", call("probe_read", tag="x"), then="never said"),
        ]
    )
    budget = {"tokens": 100_000, "dollars": 2.0, "seconds": 60, "steps": 7}
    assert client.ask("go on", session="wide", agent="lead", timeout=20, budget=budget).ok
    log = client.history("wide")
    [child] = children(client, "wide")
    terms = {e.run: e.value for e in log if isinstance(e.value, Terms)}
    [parent] = terms.keys() - {child}
    at = next(n for n, e in enumerate(log) if isinstance(e.value, Waiting))
    spent = SessionFold.of(log[:at]).run(parent).usage.total
    assert spent > 0
    assert terms[child].tokens == 100_000 - spent
    assert float(terms[child].dollars) <= 2.0
    assert 0 < terms[child].seconds <= terms[parent].seconds == 60

    reply = client.ask("go on", session="tight", agent="lead", timeout=20, budget={"tokens": spent + 20})
    log = client.history("tight")
    [child] = children(client, "tight")
    ends = {e.run: e.value.finish_reason for e in log if isinstance(e.value, RunEnded)}
    assert ends == {child: "budget_tokens", reply.run: "budget_tokens"}
    assert "as far as I came" in str(SessionFold.of(log).messages)


def test_a_message_that_interrupts_ends_a_parked_run_and_its_child(
    system: System, client: Client, model: ModelServer
) -> None:
    model.script(
        [
            {"when": {"user": "instead"}, "then": {"text": "as you wish"}},
            *lead(call("agent_scout", task="look")),
            *agent("a scout", "look", call("probe_read", tag="asked"), then="x"),
        ]
    )
    sent = client.submit("go on", session="break", agent="lead")
    asked = seen(client, "break", "approval.requested")
    parked(system, asked.run)
    assert client.ask("do this instead", session="break", agent="lead", mode="interrupt", timeout=20).ok
    assert client.wait(sent, 10).finish_reason == "cancelled"
    next(e for e in client.stream("break", timeout=10) if e.type == "subagent.finished")
    ends = {e.run: e.value.state for e in client.history("break") if isinstance(e.value, RunEnded)}
    assert ends[asked.run] == "cancelled"
    assert client.waiting("break") == []
    assert not client.approve(asked.data["node"]).ok
    assert "read asked" not in written(system)


def test_mail_in_the_last_step_of_a_workflow_does_not_keep_it(
    system: System, client: Client, model: ModelServer
) -> None:
    model.script([{"then": {"text": "nothing is due", "stream_ms": 2000, "delta_chars": 1}}])
    sent = client.submit_workflow("daily-brief", session="brief")
    model.wait_for_requests(1, 20)
    assert client.control("steer", session="brief", text="shorter").ok
    assert client.wait(sent, 20).answer == "nothing is due"


def test_an_approval_that_nobody_gave_is_a_no_also_where_nobody_runs_it(
    make_system: Callable[..., System], model: ModelServer
) -> None:
    system = make_system(env={**ASKING, "CAPATAZ_PERMISSIONS__EXPIRY_S": "1.5"})
    client = Client.connect(system.redis_url)
    model.script(calls(call("probe_write", tag="late"), call("ask_user", question="which?")))
    reply = client.ask("go", session="s", timeout=30)
    assert reply.ok
    assert "nobody approved it in time" in reply.answer
    assert "Nobody answered in time" in reply.answer
    assert "write late" not in written(system)
    states = sorted(e.value.result.state for e in client.history("s") if isinstance(e.value, NodeEnded))
    assert states == ["denied", "timed_out"]
    assert client.waiting("s") == []
    client.close()


def test_two_levels_outlive_all_coordinators(
    make_system: Callable[..., System], model: ModelServer, tmp_path: Path
) -> None:
    system = make_system(coordinators=2, env=agents(tmp_path / "agents"))
    client = Client.connect(system.redis_url)
    model.script(
        lead(call("agent_worker", task="outer"))
        + agent("a worker", "outer", call("agent_worker", task="inner"), then="outer: {{results}}")
        + agent("a worker", "inner", call("probe_write", tag="deep", seconds=1.5), then="inner: {{results}}")
    )
    sent = client.submit("go on", session="nested", agent="lead")
    next(
        e
        for e in client.stream("nested", timeout=20)
        if e.type == "node.started" and e.data.get("tool") != "agent_worker"
    )
    for coordinator in system.coordinators:
        system.kill(coordinator)
    system.coordinators[1].start()
    reply = client.wait(sent, 40)
    assert reply.ok
    assert '"tag":"deep"' in reply.answer
    assert written(system) == ["write deep"]
    fold = SessionFold.of(client.history("nested"))
    outer, inner = children(client, "nested")
    messages = [fold.run(run).message for run in (outer, inner)]
    assert [message.path for message in messages if message is not None] == [
        ("lead", "worker"),
        ("lead", "worker", "worker"),
    ]
    totals = [fold.run(run).usage.total for run in (reply.run, outer, inner)]
    assert totals[0] > totals[1] > totals[2] > 0
    client.close()


def test_always_outlives_a_restart_until_it_is_forgotten(
    make_system: Callable[..., System], model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = make_system(env=ASKING)
    client = Client.connect(system.redis_url)
    for name, value in system.env().items():
        monkeypatch.setenv(name, value)
    model.script(calls(call("probe_write", tag="{{user}}")))
    sent = client.submit("first", session="a")
    asked = seen(client, "a", "approval.requested")
    assert runner.invoke(app, ["approve", asked.data["node"], "--always"]).output == "approved\n"
    assert client.wait(sent, 20).ok

    assert system.terminate(system.coordinators[0]) == 0
    system.coordinators[0].start()
    system.wait_ready()
    assert client.ask("second", session="b", timeout=20).ok
    assert not [e for e in client.history("b") if isinstance(e.value, Waiting | Decided)]
    assert len([line for line in written(system) if line.startswith("write")]) == 2

    [grant] = json.loads(runner.invoke(app, ["permissions", "--json"]).output)["grants"]
    assert (grant["tool"], grant["agent"], grant["principal"]) == ("probe_write", "default", "owner")
    assert runner.invoke(app, ["permissions", "forget", grant["id"]]).exit_code == 0
    sent = client.submit("third", session="c")
    again = seen(client, "c", "approval.requested")
    assert runner.invoke(app, ["deny", again.data["node"], "no more"]).exit_code == 0
    assert "no more" in client.wait(sent, 20).answer
    client.close()
