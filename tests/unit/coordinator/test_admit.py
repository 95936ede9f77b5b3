"""What becomes of a node that is ready: sent, held, or ended before it starts."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from coordinator.context.agent import Agents, parse_agent
from coordinator.loop.admit import Admission, Go, Hold
from coordinator.loop.own_tools import SPECS, subagent_specs
from coordinator.loop.permit import Permit
from shared.contract import Effect, NodeResult, NodeState, ToolSpec
from shared.entries import Decided, Waiting
from shared.fold import RunFold
from shared.messages import Budget, QueuedMessage
from shared.permissions import Policy, Rule
from shared.signing import call_hash

NOW = 1_700_000_000_000
NODE = "r1.1.1.0"
PROBE = ToolSpec(name="probe", group="probe", description="", parameters={}, effect=Effect.WRITE)
OWN = {spec.name: spec for spec in SPECS}
WORKER = "---\nname: worker\n---\nYou work.\n"
ASKS, DENIES = Rule(action="ask", tools=("probe", "agent_*"), reason="care"), Rule(action="deny", tools=("probe",))
LEFT = Budget(seconds=60, tokens=1000)


@pytest.fixture
def agents(tmp_path: Path) -> Agents:
    (tmp_path / "worker.md").write_text(WORKER, "utf-8")
    return Agents(tmp_path)


def admission(
    agents: Agents, *rules: Rule, path: tuple[str, ...] = ("default",), depth: int = 3, **fields: Any
) -> Admission:
    base = {"run": "r1", "principal": "eva", "session": "s", "received_ms": 1}
    message = QueuedMessage.model_validate(base | fields)
    chain = [agents.get(name) for name in path]
    return Admission(
        message=message,
        path=path,
        permit=Permit.of(message, chain, Policy(rules=rules), "deny", []),
        agents=agents,
        budget=lambda: LEFT,
        depth=depth,
        expiry_s=1.5,
        zone=UTC,
    )


def admitted(found: Admission, spec: ToolSpec, args: dict[str, Any], run: RunFold | None = None) -> Any:
    return found.admit(NODE, spec, args, call_hash(spec.name, args), run or RunFold("r1"), NOW)


def child_tool() -> ToolSpec:
    return subagent_specs([parse_agent(WORKER, "worker.md")])[0]


def approved(args: dict[str, Any], allowed: bool = True) -> Decided:
    return Decided(node=NODE, tool="probe", args_hash=call_hash("probe", args), allowed=allowed, rules=(ASKS.id,))


def test_what_no_rule_speaks_about_is_sent(agents: Agents) -> None:
    assert admitted(admission(agents), PROBE, {}) == Go()


def test_what_is_denied_ends(agents: Agents) -> None:
    result = admitted(admission(agents, DENIES), PROBE, {})
    assert isinstance(result, NodeResult)
    assert result.state is NodeState.DENIED
    assert DENIES.id in result.text


def test_what_rules_ask_about_waits_for_an_approval_of_these_arguments(agents: Agents) -> None:
    args = {"tag": "x"}
    hold = admitted(admission(agents, ASKS), PROBE, args)
    assert hold.child is None
    wait = hold.wait
    assert (wait.kind, wait.node, wait.tool, wait.args) == ("approval", NODE, "probe", args)
    assert (wait.args_hash, wait.rules, wait.until_ms) == (call_hash("probe", args), (ASKS.id,), NOW + 1500)
    assert "care" in wait.text


def test_what_waits_goes_on_waiting_for_the_same(agents: Agents) -> None:
    wait = Waiting(node=NODE, kind="approval", tool="probe", until_ms=NOW - 1)
    run = RunFold("r1", waiting={NODE: wait})
    for rules in ((), (ASKS,), (DENIES,)):
        assert admitted(admission(agents, *rules), PROBE, {}, run) == Hold(wait)


def test_what_was_approved_goes_and_nothing_else(agents: Agents) -> None:
    args = {"tag": "x"}
    first = admitted(admission(agents, ASKS), PROBE, args)
    run = RunFold("r1", waiting={NODE: first.wait}, decided={NODE: approved(args)})
    assert admitted(admission(agents, ASKS), PROBE, args, run) == Go(NODE)
    other = admitted(admission(agents, ASKS), PROBE, {"tag": "y"}, run)
    assert isinstance(other, Hold)
    assert other.wait.args == {"tag": "y"}
    denies = admitted(admission(agents, ASKS, DENIES), PROBE, args, run)
    assert denies.state is NodeState.DENIED  # a rule that came meanwhile


def test_headless_nothing_waits_for_people(agents: Agents) -> None:
    found = admission(agents, ASKS, approvals="deny")
    assert admitted(found, PROBE, {}).state is NodeState.DENIED
    asked = admitted(found, OWN["ask_user"], {"question": "may I?"})
    assert (asked.state, asked.error.code) == (NodeState.REFUSED, "headless")
    assert isinstance(admitted(found, OWN["wait"], {"seconds": 1}), Hold)


def test_a_question_waits_for_an_answer(agents: Agents) -> None:
    args = {"question": "which?", "options": ["a", "b"], "recommended": "b"}
    wait = admitted(admission(agents), OWN["ask_user"], args).wait
    assert (wait.kind, wait.text, wait.options, wait.recommended) == ("question", "which?", ("a", "b"), "b")
    assert wait.until_ms == NOW + 1500


@pytest.mark.parametrize(
    ("args", "until_ms"),
    [
        ({"seconds": 2}, NOW + 2000),
        ({"seconds": 0.0001}, NOW + 1),
        ({"until": "2020-01-01"}, NOW + 1),  # past: at once, but not `never`
    ],
)
def test_a_pause_waits_for_its_time(agents: Agents, args: dict[str, Any], until_ms: int) -> None:
    wait = admitted(admission(agents), OWN["wait"], args).wait
    assert (wait.kind, wait.until_ms) == ("timer", until_ms)


@pytest.mark.parametrize(
    ("tool", "args"), [("ask_user", {}), ("wait", {"seconds": -1}), ("agent_worker", {"job": "x"})]
)
def test_bad_arguments_are_refused(agents: Agents, tool: str, args: dict[str, Any]) -> None:
    spec = OWN.get(tool) or child_tool()
    result = admitted(admission(agents), spec, args)
    assert (result.state, result.error.code) == (NodeState.REFUSED, "bad_arguments")


def test_a_subagent_is_a_run_of_its_own_within_its_parents_bounds(agents: Agents) -> None:
    hold = admitted(admission(agents, approvals="ask"), child_tool(), {"task": " do it "})
    child, wait = hold.child, hold.wait
    assert (wait.kind, wait.run, wait.text, wait.until_ms) == ("agent", child.run, "do it", 0)
    assert (child.principal, child.session, child.agent, child.text) == ("eva", "s", "worker", "do it")
    assert (child.parent, child.path, child.budget) == (NODE, ("default", "worker"), LEFT)
    assert child.run != "r1"
    assert not child.headless


@pytest.mark.parametrize("fields", [{"approvals": "deny"}, {"kind": "workflow", "workflow": "w"}])
def test_who_is_started_headless_is_headless(agents: Agents, fields: dict[str, Any]) -> None:
    child = admitted(admission(agents, **fields), child_tool(), {"task": "t"}).child
    assert child.headless


def test_a_subagent_can_be_asked_about_and_denied(agents: Agents) -> None:
    hold = admitted(admission(agents, ASKS), child_tool(), {"task": "t"})
    assert (hold.wait.kind, hold.child) == ("approval", None)
    no = Rule(action="deny", groups=("agents",))
    assert admitted(admission(agents, no), child_tool(), {"task": "t"}).state is NodeState.DENIED


@pytest.mark.parametrize(
    ("length", "depth", "code"), [(1, 0, "too_deep"), (1, 1, None), (3, 3, None), (4, 3, "too_deep")]
)
def test_depth_is_bounded(agents: Agents, length: int, depth: int, code: str | None) -> None:
    path = ("default", *["worker"] * (length - 1))
    found = admitted(admission(agents, path=path, depth=depth), child_tool(), {"task": "t"})
    if code is None:
        assert found.child.path == (*path, "worker")
    else:
        assert (found.state, found.error.code) == (NodeState.REFUSED, code)
        assert " > ".join(path) in found.text


def test_an_agent_whose_file_is_gone_is_refused(agents: Agents, tmp_path: Path) -> None:
    found = admission(agents)
    (tmp_path / "worker.md").unlink()
    result = admitted(found, child_tool(), {"task": "t"})
    assert (result.state, result.error.code) == (NodeState.REFUSED, "unknown_agent")
    assert "'worker'" in result.text
