"""Data references between calls of one turn, over real workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shared.client import Client
from shared.contract import NodeState
from shared.entries import Elided, Node, NodeEnded
from tests.integration.test_messages import call, calls, of_agents
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = pytest.mark.integration


def ended(client: Client, session: str) -> dict[str, Any]:
    """Results of a session's nodes by tool and tag."""
    entries = [e.value for e in client.history(session)]
    nodes = {e.node: e for e in entries if isinstance(e, Node)}
    return {
        f"{nodes[e.node].tool} {nodes[e.node].args.get('tag', nodes[e.node].position)}": e.result
        for e in entries
        if isinstance(e, NodeEnded)
    }


def test_a_reference_takes_the_value_of_another_call(client: Client, model: ModelServer) -> None:
    model.script(
        calls(
            call("probe_read", tag="$2.tag"),
            call("probe_read", tag="first"),
            call("probe_read", tag="${1.tag} and ${2.tag}"),
        )
    )
    reply = client.ask("go", session="refs", timeout=20)
    assert reply.ok
    assert '"tag":"first and first"' in reply.answer
    assert reply.answer.index('"tag":"first"') < reply.answer.index("first and first")


def test_dependents_start_when_their_inputs_exist(client: Client, model: ModelServer) -> None:
    model.script(
        calls(
            call("probe_read", tag="slow", seconds=1.0),
            call("probe_read", tag="quick"),
            call("probe_read", tag="${2.tag}-child", seconds=0.1),
        )
    )
    client.ask("go", session="flow", timeout=20)
    results = ended(client, "flow")
    child = next(r for name, r in results.items() if "child" in name)
    slow = results["probe_read slow"]
    assert child.started_ms < slow.ended_ms


def test_a_failure_reaches_its_dependents_only(client: Client, model: ModelServer) -> None:
    model.script(
        calls(
            call("probe_fail", tag="x"),
            call("probe_read", tag="$1.tag"),
            call("probe_read", tag="${2.tag}!"),
            call("probe_read", tag="alone"),
        )
    )
    reply = client.ask("go", session="failing", timeout=20)
    states = [e.value.result.state for e in client.history("failing") if isinstance(e.value, NodeEnded)]
    assert sorted(states) == ["done", "failed", "skipped", "skipped"]
    assert '"tag":"alone"' in reply.answer
    tools = [m for m in of_agents(model)[-1].body["messages"] if m["role"] == "tool"]
    assert len(tools) == 4


def test_cycle_is_refused_and_the_rest_runs(client: Client, model: ModelServer) -> None:
    model.script(
        calls(call("probe_read", tag="$2.tag"), call("probe_read", tag="$1.tag"), call("probe_read", tag="free"))
    )
    reply = client.ask("go", session="cycle", timeout=20)
    assert "circle: 1 -> 2 -> 1" in reply.answer
    assert '"tag":"free"' in reply.answer


def test_dollars_in_outputs_and_texts_stay(client: Client, model: ModelServer) -> None:
    model.script(
        calls(
            call("probe_read", tag="costs $5 or $1,000, see ${9.x} and $HOME"),
            call("probe_read", tag="$1.tag"),
        )
    )
    reply = client.ask("go", session="dollars", timeout=20)
    assert reply.answer.count("costs $5 or $1,000, see ${9.x} and $HOME") == 2


def test_labels_and_order_without_data(client: Client, model: ModelServer) -> None:
    model.script(
        calls(
            call("probe_write", tag="second", _after=["one"]),
            call("probe_write", tag="first", seconds=0.3, _label="one"),
        )
    )
    client.ask("go", session="order", timeout=20)
    results = ended(client, "order")
    assert results["probe_write first"].ended_ms <= results["probe_write second"].started_ms


def test_outputs_that_only_fed_others_are_not_repeated(client: Client, model: ModelServer) -> None:
    model.script(calls(call("probe_large", size=3000), call("probe_read", tag="${1}")))
    client.ask("go", session="elide", timeout=20)
    last = [m["content"] for m in of_agents(model)[-1].body["messages"] if m["role"] == "tool"]
    assert len(last[0]) < 200
    assert "read_artifact" in last[0]
    assert "x" * 3000 in last[1]
    assert any(isinstance(e.value, Elided) for e in client.history("elide"))


def test_path_that_leads_nowhere_is_told_with_what_there_is(client: Client, model: ModelServer) -> None:
    model.script(calls(call("probe_read", tag="a"), call("probe_read", tag="$1.title")))
    reply = client.ask("go", session="path", timeout=20)
    assert "title" in reply.answer
    assert "tag" in reply.answer


def test_many_independent_calls_end_without_flooding(client: Client, model: ModelServer) -> None:
    model.script(calls(*[call("probe_read", tag=f"t{n}") for n in range(792)], then="{{count}} results"))
    reply = client.ask("go", session="many", timeout=110)
    assert reply.answer == "792 results"


def test_a_model_that_goes_in_circles_is_made_to_answer(client: Client, model: ModelServer) -> None:
    model.script(
        [
            {"when": {"has_tools": False}, "then": {"text": "I give up searching"}},
            {"then": {"calls": [call("probe_read", tag="again")]}},
        ]
    )
    reply = client.ask("go", session="circles", timeout=30)
    assert reply.answer == "I give up searching"
    assert reply.finish_reason == "loop"
    states = [e.value.result.state for e in client.history("circles") if isinstance(e.value, NodeEnded)]
    assert states.count(NodeState.DONE) == 3
    told = json.dumps(of_agents(model)[-1].body["messages"][-1])
    assert "probe_read" in told


def test_plan_tool_runs_a_whole_graph(make_system: Callable[..., System], model: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "planner.md").write_text("---\nname: planner\ncalls: plan\n---\nYou plan.")
    system = make_system(env={"CAPATAZ_COORDINATOR__AGENTS_DIR": str(tmp_path)})
    client = Client.connect(system.redis_url)
    steps = [
        {"id": "a", "tool": "probe_read", "args": {"tag": "first"}},
        {"id": "b", "tool": "probe_read", "args": {"tag": "${a.tag}-b"}},
        {"id": "c", "tool": "probe_fail", "args": {"tag": "x"}},
        {"id": "d", "tool": "probe_read", "args": {"tag": "$c"}},
    ]
    model.script(
        [
            {"when": {"step": 0}, "then": {"calls": [call("plan", steps=[*steps[:1], {"id": "z", "tool": "nope"}])]}},
            {"when": {"step": 1}, "then": {"calls": [call("plan", steps=steps)]}},
            {"then": {"text": "{{result.1}}\n---\n{{result.2}}"}},
        ]
    )
    reply = client.ask("go", session="plan", agent="planner", timeout=30)
    refused, ran = reply.answer.split("---")
    assert "nope" in refused
    assert '"tag":"first-b"' in ran
    assert "## c (probe_fail): failed" in ran
    assert "## d (probe_read): skipped" in ran


def test_a_whole_call_starts_while_the_model_still_streams(client: Client, model: ModelServer) -> None:
    rows = [call("probe_read", tag=f"early{n}", seconds=0.05) for n in range(4)]
    rows.append(call("probe_write", tag="late"))
    model.script(
        [
            {"when": {"step": 0}, "then": {"calls": rows, "stream_ms": 1500}},
            {"then": {"text": "{{results}}"}},
        ]
    )
    reply = client.ask("go", session="early", timeout=20)
    assert all(f'"tag":"early{n}"' in reply.answer for n in range(4))
    events = list(client.stream("early", run=reply.run, timeout=5))
    kinds = [(e.type, e.data.get("tool"), bool(e.data.get("early"))) for e in events]
    usage = kinds.index(next(k for k in kinds if k[0] == "usage"))
    assert ("node.finished", "probe_read", False) in kinds[:usage]
    assert ("node.started", "probe_write", False) not in kinds[:usage]
    ends = [e for e in events if e.type == "node.finished"]
    assert len(ends) == 5
    log = [e.value for e in client.history("early") if isinstance(e.value, Node)]
    assert len({n.node for n in log}) == len(log) == 5


def test_a_stream_that_fails_leaves_nothing_and_its_results_are_taken_over(
    client: Client, model: ModelServer, system: System
) -> None:
    rows = [call("probe_read", tag=f"once{n}") for n in range(3)]
    model.script(
        [
            {
                "when": {"step": 0},
                "times": 1,
                "then": {"calls": rows, "stream_ms": 1000, "error": {"status": 500, "after": 140}},
            },
            {"when": {"step": 0}, "then": {"calls": rows, "stream_ms": 50}},
            {"then": {"text": "{{results}}"}},
        ]
    )
    reply = client.ask("go", session="early-fail", timeout=30)
    assert all(f'"tag":"once{n}"' in reply.answer for n in range(3))
    ran = (system.workspace / "probe.log").read_text().splitlines()
    assert [ran.count(f"read once{n}") for n in range(3)] == [1, 1, 1]
    roles = [m["role"] for m in of_agents(model)[-1].body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "tool"]
