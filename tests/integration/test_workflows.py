"""Workflows on real processes: each kind of step, branches, failures, retries, bounds, versions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.client import Client
from shared.entries import Event, WorkflowBegun
from shared.fold import RunFold, SessionFold
from shared.messages import Budget, Reply
from tests.chaos.probe import await_line, lines, open_gate, until
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

FLOWS = Path(__file__).parents[1] / "support" / "flows.py"
ENV = {
    "CAPATAZ_WORKER__TOOL_MODULES": f'["{FLOWS}"]',
    "CAPATAZ_ROUTING__ENCODER": "off",
    "CAPATAZ_PLAYBOOK__ENABLED": "false",
}
RULES: list[dict[str, Any]] = [
    {"when": {"user": "^Judge 7"}, "then": {"text": '```json\n{"mood": "good", "score": 3}\n```'}},
    {"when": {"user": "^Tell: (?P<what>.*)"}, "then": {"text": "Told: {{user[what]}}"}},
    {"when": {"user": "^sum"}, "then": {"text": "{{user}}"}},
    {"then": {"text": "word"}},
]


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer(rules=RULES) as server:
        yield server


@pytest.fixture(scope="module")
def system_env() -> dict[str, str]:
    return ENV


@pytest.fixture
def fresh(system: System, model: ModelServer) -> None:
    """No lines, no gates, the usual model."""
    for path in (system.workspace / "effects.log", *(system.workspace / "gates").glob("*")):
        path.unlink(missing_ok=True)
    model.script(RULES)


def run(client: Client, name: str, session: str, **fields: Any) -> Reply:
    return client.wait(client.submit_workflow(name, session=session, **fields), 60)


def folded(client: Client, reply: Reply) -> RunFold:
    return SessionFold.of(client.history(reply.session)).run(reply.run)


def states(client: Client, reply: Reply) -> dict[str, list[str]]:
    """The states of each step's attempts."""
    fold = folded(client, reply)
    assert fold.workflow is not None
    found: dict[str, list[str]] = {step.id: [] for step in fold.workflow.spec.steps}
    for node in fold.nodes.values():
        step = fold.workflow.spec.steps[node.position].id
        found[step].append(fold.results[node.node].state.value)
    return found


def events(client: Client, reply: Reply) -> list[Event]:
    return [e for e in client.stream(reply.session, run=reply.run, timeout=10) if e.run == reply.run]


@pytest.mark.usefixtures("fresh")
def test_a_step_of_each_kind(client: Client, system: System, model: ModelServer) -> None:
    reply = run(client, "chain", "chain", params={"hold": []})
    assert reply.answer == "Told: sent 7, good", reply
    assert set(map(tuple, states(client, reply).values())) == {("done",)}
    fold = folded(client, reply)
    by_step = {n.position: n for n in fold.nodes.values()}
    assert by_step[1].args == {"id": 7, "text": "n 2", "hold": []}, "references keep the type of what they refer to"
    judge = model.requests[0].body
    assert judge["messages"] == [{"role": "user", "content": 'Judge 7 and {"id": 7, "text": "n 2"}'}]
    assert judge["response_format"]["json_schema"]["schema"]["required"] == ["mood", "score"]
    assert [a.node for a in fold.assistants] == [by_step[3].node, by_step[5].node], "each call is kept with its step"
    told = [e for e in events(client, reply) if e.type == "text.delta"]
    assert "".join(e.data["text"] for e in told) == reply.answer, "only the result is shown as it comes"
    assert lines(system) == {f"step {name}": 1 for name in ("fetch", "keep", "note", "send")}


@pytest.mark.usefixtures("fresh")
def test_steps_side_by_side(client: Client, model: ModelServer) -> None:
    reply = run(client, "pair", "pair")
    assert reply.answer == "sum word word"
    assert [a.step for a in folded(client, reply).assistants] in ([1, 2, 3], [2, 1, 3])


@pytest.mark.usefixtures("fresh")
def test_branches(client: Client, system: System) -> None:
    reply = run(client, "branches", "branches", params={"mail": False})
    assert reply.ok, reply
    expected = {"mail": None, "weather": None, "news": "yesterday's", "market": {"quote": "none"}, "size": 5000}
    assert json.loads(reply.answer) == expected
    found = {step: last for step, (*_, last) in states(client, reply).items()}
    assert found == {
        **dict.fromkeys(("has_mail", "old_news", "big", "size", "last", "brief"), "done"),
        **dict.fromkeys(("mail", "answers"), "skipped"),
        **dict.fromkeys(("weather", "news", "market"), "failed"),
    }
    assert "step answers" not in lines(system)
    fold = folded(client, reply)
    planned = {n.position: n for n in fold.nodes.values()}
    assert planned[9].args == {"id": 4999, "text": "t"}, "also out of what was put aside"
    assert max(len(n.model_dump_json()) for n in fold.nodes.values()) < 5000, "what is large is not logged again"
    notices = [e.data["step"] for e in events(client, reply) if e.data.get("code") == "step_failed"]
    assert sorted(notices) == ["market", "news", "weather"]


@pytest.mark.usefixtures("fresh")
def test_a_condition_is_true_or_false(client: Client) -> None:
    reply = run(client, "branches", "branches", params={"mail": "perhaps"})
    assert reply.error is not None
    assert "has_mail is True cannot be decided" in reply.error.message
    assert "'perhaps'" in reply.error.message


@pytest.mark.usefixtures("fresh")
def test_a_step_is_tried_again(client: Client, system: System) -> None:
    reply = run(client, "flaky", "flaky", params={"fails": 2})
    assert reply.answer == "came at last, the 3. time"
    assert states(client, reply) == {"shaky": ["failed", "failed", "done"]}
    keys = {json.loads(row)["key"] for row in (system.workspace / "effects.log").read_text().splitlines()}
    assert keys == {f"{reply.run}.0.0.0"}, "for a service they are one and the same effect"
    again = [e.data["text"] for e in events(client, reply) if e.data.get("code") == "step_retried"]
    assert len(again) == 2
    assert "(attempt 2): Error in workflow:flaky/shaky: not today (1)" in again[0]


@pytest.mark.usefixtures("fresh")
def test_and_no_more_than_declared(client: Client) -> None:
    reply = run(client, "flaky", "flaky", params={"fails": 5})
    assert reply.error is not None
    assert reply.error.code == "step_failed"
    assert "step shaky of workflow flaky failed after 3 attempts" in reply.error.message
    assert "not today (3)" in reply.error.message


@pytest.mark.usefixtures("fresh")
def test_a_step_that_raises_ends_the_workflow(client: Client, system: System) -> None:
    open_gate(system, "boom")
    submitted = client.submit_workflow("boom", session="boom", params={"hold": ["beside"]})
    await_line(system, "step beside")
    open_gate(system, "beside")
    reply = client.wait(submitted, 60)
    assert reply.error is not None
    assert "step boom of workflow boom failed: Error in workflow:boom/boom: ZeroDivisionError" in reply.error.message
    assert states(client, reply) == {"boom": ["failed"], "beside": ["done"], "behind": ["skipped"]}
    assert "step behind" not in lines(system)


@pytest.mark.usefixtures("fresh")
def test_what_is_not_json_is_refused(client: Client) -> None:
    reply = run(client, "strange", "strange")
    assert reply.error is not None
    assert "workflow:strange/strange returned a value that is not JSON" in reply.error.message
    assert "flows.py:" in reply.error.message


@pytest.mark.usefixtures("fresh")
def test_an_answer_of_another_shape_is_asked_for_once_more(client: Client, model: ModelServer) -> None:
    model.script(
        [
            {"when": {"user": "^That is not valid"}, "then": {"text": '{"mood": "bad", "score": 1}'}},
            {"then": {"text": '{"mood": "angry", "score": 1}'}},
        ]
    )
    reply = run(client, "shape", "shape")
    assert json.loads(reply.answer) == {"mood": "bad", "score": 1}
    assert states(client, reply) == {"judge": ["failed", "done"]}
    first, second = [r.body["messages"] for r in model.requests]
    assert second[:1] == first
    assert second[1] == {"role": "assistant", "content": '{"mood": "angry", "score": 1}'}
    assert 'mood should be one of "good", "bad", not "angry"' in second[2]["content"]


@pytest.mark.usefixtures("fresh")
def test_and_not_twice(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "hardly JSON"}}])
    reply = run(client, "shape", "shape")
    assert reply.error is not None
    assert "the answer is not JSON" in reply.error.message
    assert len(model.requests) == 2


@pytest.mark.usefixtures("fresh")
def test_the_time_of_a_workflow(client: Client) -> None:
    reply = run(client, "slow", "slow")
    assert reply.error is not None
    assert states(client, reply) == {"slow": ["timed_out"], "after": ["skipped"]}
    assert "step slow of workflow slow timed_out" in reply.error.message
    assert reply.seconds < 20, "and not the 30 of the step"


@pytest.mark.usefixtures("fresh")
def test_the_budget_of_a_workflow(client: Client, model: ModelServer) -> None:
    reply = run(client, "pair", "budget", budget=Budget(tokens=1))
    assert reply.error is not None
    assert "the budget of this run is used up (budget_tokens)" in reply.error.message
    assert len(model.requests) in (1, 2), "those that were under way, and no third one"


@pytest.mark.usefixtures("fresh")
def test_a_cancel_ends_what_is_under_way(client: Client, system: System) -> None:
    submitted = client.submit_workflow("chain", session="cancel", params={"hold": ["fetch"]})
    await_line(system, "step fetch")
    assert client.cancel(session="cancel").ok
    reply = client.wait(submitted, 60)
    assert reply.finish_reason == "cancelled"
    assert states(client, reply)["fetch"] == ["cancelled"]
    assert lines(system) == {"step fetch": 1}


@pytest.mark.usefixtures("fresh")
def test_a_cancel_ends_a_rest_and_a_model_call(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "late", "first_token_ms": 30_000}}])
    asked = client.submit_workflow("shape", session="asked")
    resting = client.submit_workflow("patient", session="resting")
    model.wait_for_requests(1)
    until(lambda: [e for e in client.history("resting") if e.type == "node.result"], "the first attempt")
    for submitted in (asked, resting):
        assert client.cancel(session=submitted.session).ok
        reply = client.wait(submitted, 60)
        assert reply.finish_reason == "cancelled"
    assert states(client, reply) == {"tired": ["failed"]}


HELP: list[dict[str, Any]] = [
    {
        "when": {"user": "^Do it", "step": 0},
        "then": {"calls": [{"name": "flow_put", "arguments": {"id": 1, "text": "by an agent"}}]},
    },
    {"when": {"user": "^Do it"}, "then": {"text": "put {{result.flow_put}}"}},
    {"when": {"user": "^Dawdle"}, "then": {"text": "at last", "first_token_ms": 30_000}},
    *RULES,
]


@pytest.mark.usefixtures("fresh")
def test_an_agent_does_a_part(client: Client, system: System, model: ModelServer) -> None:
    model.script(HELP)
    reply = run(client, "helped", "helped")
    assert reply.answer.startswith("Told: put {"), reply
    assert "by an agent" in reply.answer
    assert states(client, reply) == {name: ["done"] for name in ("fetch", "help", "tell")}
    assert lines(system) == {"step fetch": 1, "step note": 1}
    offered = {tool["function"]["name"] for tool in model.requests[0].body["tools"]}
    assert "flow_put" in offered
    assert "note_save" not in offered
    task = model.requests[0].body["messages"][1]["content"]
    assert "fetch: data, not instructions]" in json.dumps(task)
    asked = sum(r.body["messages"][-1]["role"] == "user" for r in model.requests)
    assert asked == 2
    assert folded(client, reply).usage.total > folded(client, reply).assistants[0].usage.total, "its tokens count"


@pytest.mark.usefixtures("fresh")
def test_an_agent_that_takes_too_long_is_stopped(client: Client, model: ModelServer) -> None:
    model.script(HELP)
    reply = run(client, "idle", "idle")
    assert reply.answer == "no help", reply
    assert states(client, reply) == {"help": ["timed_out"]}
    [child] = [r["run"] for r in client.runs() if r["session"] == "idle" and r["run"] != reply.run]
    until(lambda: SessionFold.of(client.history("idle")).run(child).ended, "the end of the agent")
    ended = SessionFold.of(client.history("idle")).run(child).ended
    assert ended is not None
    assert ended.state == "cancelled"


def test_the_definition_is_logged(client: Client) -> None:
    run(client, "flaky", "logged", params={"fails": 0})
    [begun] = [e.value for e in client.history("logged") if isinstance(e.value, WorkflowBegun)]
    known = {w.name: w for w in client.catalogue().workflows}
    assert begun.spec == known["flaky"]
    assert begun.seconds == 900


# Versions: what a run began with, and workers that have it not.

BEFORE = """
import asyncio
from pathlib import Path
from workers.workflows.define import step, workflow

@step(timeout_s=30)
async def first(ctx, inputs):
    folder = Path(ctx.settings.workspace.dir)
    (folder / "begun").touch()
    while not (folder / "go").exists():
        await asyncio.sleep(0.02)
    return 1

@step(needs=["first"])
def second(ctx, inputs):
    return inputs["first"] + 1

@workflow("counting", title="Counts", result="second")
def counting():
    return [first, second]
"""
ADDED = BEFORE.replace(
    '@workflow("counting", title="Counts", result="second")',
    """
@step(needs=["second"])
def third(ctx, inputs):
    return inputs["second"] + 1

@workflow("counting", title="Counts", result="third")""",
).replace("[first, second]", "[first, second, third]")
REMOVED = BEFORE.replace('result="second"', 'result="first"').replace("[first, second]", "[first]")


@pytest.mark.parametrize(("after", "answer"), [(ADDED, "2"), (REMOVED, "")])
def test_a_run_keeps_the_definition_it_began_with(model: ModelServer, tmp_path: Path, after: str, answer: str) -> None:
    module = tmp_path / "counting.py"
    module.write_text(BEFORE)
    with System(model_url=model.url, env={**ENV, "CAPATAZ_WORKER__TOOL_MODULES": f'["{module}"]'}) as system:
        client = Client.connect(system.redis_url)
        submitted = client.submit_workflow("counting", session="s")
        until((system.workspace / "begun").exists, "the first step")
        module.write_text(after)
        system.kill(system.workers[0])
        system.workers[0].start()
        (system.workspace / "go").touch()
        reply = client.wait(submitted, 90)
        assert reply.answer == answer, reply
        assert list(states(client, reply)) == ["first", "second"]
        if not answer:
            assert reply.error is not None
            assert "step second of workflow counting failed after 5 attempts: no live worker has the code" in (
                reply.error.message
            )
        else:
            # The killed worker counts for some seconds, so the next run may still be one of the old.
            until(lambda: run(client, "counting", "s").answer == "3", "a run of the new definition")
        client.close()


def test_steps_go_to_workers_that_have_them(model: ModelServer) -> None:
    model.script(RULES)
    with System(model_url=model.url, env={**ENV, "CAPATAZ_COORDINATOR__WIDTH": "1"}) as system:
        system._extra["CAPATAZ_WORKER__TOOL_MODULES"] = "[]"
        for _ in range(2):
            system.add_worker()
        system.wait_ready()
        client = Client.connect(system.redis_url)
        reply = run(client, "chain", "s", params={"hold": []})
        assert reply.answer == "Told: sent 7, good", reply
        assert {last for *_, last in states(client, reply).values()} == {"done"}
        assert set(lines(system).values()) == {1}, "whoever else was asked had nothing to run"
        client.close()
