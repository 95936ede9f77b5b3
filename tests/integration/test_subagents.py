"""Subagents: runs of their own on any coordinator, in the session of their parent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.client import Client
from shared.entries import NodeEnded, RunEnded, UserMessage
from shared.fold import SessionFold
from tests.integration.conftest import PROBE_ENV
from tests.integration.test_messages import call, of_agents
from tests.integration.test_waits import parked, seen, written
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = pytest.mark.integration

LEAD = """---
name: lead
description: Has others do the work.
subagents: [worker, scout, nobody]
tools: [probe]
---
You are Capataz, the lead.
"""
WORKER = """---
name: worker
description: Does one thing.
tools: [probe_read, probe_write, fact_set, fact_get]
subagents: [worker]
---
You are Capataz, a worker.
"""
SCOUT = """---
name: scout
description: Looks around.
tools: [probe_read]
permissions: {default: ask}
---
You are Capataz, a scout.
"""


def agents(folder: Path) -> dict[str, str]:
    """Writes the agent files; the setting that names their folder."""
    folder.mkdir()
    for name, text in (("lead", LEAD), ("worker", WORKER), ("scout", SCOUT)):
        (folder / f"{name}.md").write_text(text, "utf-8")
    return {"CAPATAZ_COORDINATOR__AGENTS_DIR": str(folder)}


@pytest.fixture(scope="module")
def system(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    env = {**PROBE_ENV, **agents(tmp_path_factory.mktemp("a") / "agents")}
    with System(model_url=model.url, coordinators=2, env=env) as running:
        yield running


def lead(*rows: dict[str, Any], then: str = "lead: {{results}}") -> list[dict[str, Any]]:
    """Rules of a lead that makes these calls and then answers with their results."""
    return [
        {"when": {"system": "the lead", "step": 0}, "then": {"calls": list(rows)}},
        {"when": {"system": "the lead", "min_step": 1}, "then": {"text": then}},
    ]


def agent(who: str, user: str, *rows: dict[str, Any], then: str) -> list[dict[str, Any]]:
    """Rules of a subagent with the task `user`."""
    return [
        {"when": {"system": who, "user": user, "step": 0}, "then": {"calls": list(rows)} if rows else {"text": then}},
        {"when": {"system": who, "user": user, "min_step": 1}, "then": {"text": then}},
    ]


def test_several_work_at_once_and_their_answers_come_home(system: System, client: Client, model: ModelServer) -> None:
    model.script(
        lead(call("agent_worker", task="job one"), call("agent_worker", task="job two"), call("probe_read", tag="mine"))
        + agent("a worker", "job one", call("probe_read", tag="w1", seconds=0.3), then="one: {{results}}")
        + agent("a worker", "job two", call("probe_read", tag="w2", seconds=0.3), then="two: {{results}}")
    )
    reply = client.ask("go on", session="many", agent="lead", timeout=30)
    assert reply.ok
    assert '"tag":"w1"' in reply.answer
    assert '"tag":"w2"' in reply.answer
    assert '"tag":"mine"' in reply.answer
    events = list(client.stream("many", run=reply.run, timeout=10))
    started = [e for e in events if e.type == "subagent.started"]
    assert [e.data["path"] for e in started] == [["lead", "worker"]] * 2
    assert len([e for e in events if e.type == "subagent.finished" and e.data["ok"]]) == 2
    assert [e.run for e in events if e.type == "run.finished"] == [reply.run]
    log = client.history("many")
    children = [e.run for e in log if isinstance(e.value, UserMessage) and e.value.parent]
    fold = SessionFold.of(log)
    spent = fold.run(reply.run).usage.total
    assert spent > sum(fold.run(c).usage.total for c in children) > 0
    assert [m.role for m in fold.messages] == ["user", "assistant", "tool", "assistant"]
    assert reply.usage["input"] == fold.run(reply.run).usage.input


def test_one_knows_the_talk_and_the_facts(system: System, client: Client, model: ModelServer) -> None:
    model.script(
        [
            {"when": {"system": "the lead", "user": "my dog"}, "then": {"text": "Hello to Rufo."}},
            *lead(call("agent_worker", task="remember"), then="lead: {{results}}"),
            *agent("a worker", "remember", then="ok"),
        ]
    )
    client.ask("my dog is called Rufo", session="talk", agent="lead", timeout=20)
    client.ask("remind me to feed him", session="talk", agent="lead", timeout=20)
    asked = [r.body["messages"] for r in model.requests if "a worker" in r.body["messages"][0]["content"]]
    text = str(asked[0][1:])
    assert "my dog is called Rufo" in text
    assert "Hello to Rufo." in text
    assert "remind me to feed him" in text
    assert "the lead" not in asked[0][0]["content"]


def test_what_one_learns_the_others_know_at_their_next_step(system: System, client: Client, model: ModelServer) -> None:
    model.script(
        lead(call("agent_worker", task="teach"), call("agent_worker", task="learn"))
        + agent("a worker", "teach", call("fact_set", name="colour", value="green"), then="told")
        + agent("a worker", "learn", call("probe_read", tag="slow", seconds=2.0), then="done")
    )
    assert client.ask("go on", session="facts", agent="lead", timeout=30).ok
    told = {"lead": "", "learn": ""}
    for request in of_agents(model):
        system_part, asked = request.body["messages"][0]["content"], str(request.body["messages"][1]["content"])
        if "the lead" in system_part:
            told["lead"] = str(request.body["messages"])
        elif "learn" in asked:
            told["learn"] = str(request.body["messages"])
    assert all("colour" in text and "green" in text for text in told.values()), told


def test_a_subagent_asks_through_the_session_of_its_root(system: System, client: Client, model: ModelServer) -> None:
    model.script(
        lead(call("agent_scout", task="look"))
        + agent("a scout", "look", call("probe_read", tag="seen"), then="{{results}}")
    )
    sent = client.submit("go on", session="bubble", agent="lead")
    asked = seen(client, "bubble", "approval.requested")
    assert asked.data["path"] == ["lead", "scout"]
    parked(system, asked.run)
    assert [w.tool for w in client.waiting("bubble")] == ["probe_read"]
    assert client.approve(asked.data["node"]).ok
    reply = client.wait(sent, 20)
    assert '"tag":"seen"' in reply.answer
    assert client.waiting("bubble") == []


def test_a_cancel_reaches_the_children_of_a_parked_run(system: System, client: Client, model: ModelServer) -> None:
    model.script(
        lead(call("agent_worker", task="long"))
        + agent("a worker", "long", call("probe_read", tag="l", seconds=25), then="x")
    )
    sent = client.submit("go on", session="tree", agent="lead")
    child = seen(client, "tree", "subagent.started").data["run"]
    next(e for e in client.stream("tree", timeout=15) if e.type == "node.started" and e.run == child)
    assert client.cancel(session="tree").ok
    assert client.wait(sent, 10).finish_reason == "cancelled"
    next(e for e in client.stream("tree", timeout=10) if e.type == "subagent.finished")
    ends = {e.run: e.value.state for e in client.history("tree") if isinstance(e.value, RunEnded)}
    assert len(ends) == 2
    assert set(ends.values()) == {"cancelled"}


def test_a_child_that_is_cancelled_alone_is_a_result(system: System, client: Client, model: ModelServer) -> None:
    model.script(
        lead(call("agent_worker", task="long"))
        + agent("a worker", "long", call("probe_read", tag="l", seconds=25), then="x")
    )
    sent = client.submit("go on", session="alone", agent="lead")
    child = seen(client, "alone", "subagent.started").data["run"]
    assert client.cancel(run=child).ok
    reply = client.wait(sent, 15)
    assert reply.ok
    assert "cancelled" in reply.answer


def test_depth_is_bounded(system: System, client: Client, model: ModelServer) -> None:
    model.script(
        [
            *lead(call("agent_worker", task="deeper")),
            {"when": {"system": "a worker", "step": 0}, "then": {"calls": [call("agent_worker", task="deeper")]}},
            {"when": {"system": "a worker", "min_step": 1}, "then": {"text": "got {{results}}"}},
        ]
    )
    reply = client.ask("go on", session="deep", agent="lead", timeout=30)
    assert "as deep as subagents may go" in reply.answer
    refused = [e.value.result for e in client.history("deep") if isinstance(e.value, NodeEnded)]
    assert sum(r.state == "refused" for r in refused) == 1


def test_parent_and_child_outlive_their_coordinators(
    make_system: Callable[..., System], model: ModelServer, tmp_path: Path
) -> None:
    system = make_system(coordinators=2, env=agents(tmp_path / "agents"))
    client = Client.connect(system.redis_url)
    model.script(
        lead(call("agent_worker", task="job one"), call("agent_worker", task="job two"))
        + agent("a worker", "job one", call("probe_write", tag="w1", seconds=1.0), then="one: {{results}}")
        + agent("a worker", "job two", call("probe_write", tag="w2", seconds=1.0), then="two: {{results}}")
    )
    sent = client.submit("go on", session="kill", agent="lead")
    seen(client, "kill", "node.started")
    for coordinator in system.coordinators:
        system.kill(coordinator)
    system.coordinators[0].start()
    reply = client.wait(sent, 40)
    assert reply.ok
    assert '"tag":"w1"' in reply.answer
    assert '"tag":"w2"' in reply.answer
    assert sorted(x for x in written(system) if x.startswith("write")) == ["write w1", "write w2"]
    client.close()
