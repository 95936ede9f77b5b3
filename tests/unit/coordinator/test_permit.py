"""Whether a node may run: what was decided of it, what was granted, and where nobody can be asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coordinator.context.agent import Agent
from coordinator.loop.permit import Permit, denied, grants_of
from shared.contract import Effect, NodeState, ToolSpec
from shared.entries import Decided
from shared.messages import QueuedMessage
from shared.permissions import Policy, Rule
from shared.signing import call_hash

SPEC = ToolSpec(name="pay", group="bank", description="", parameters={}, effect=Effect.WRITE)
ARGS: dict[str, Any] = {"to": "eva", "sum": 5}
HASH = call_hash("pay", ARGS)
ASKS = Rule(action="ask", tools=("pay",), reason="it costs")
OTHER = Rule(action="ask", groups=("bank",), reason="a bank")
ROOT, CHILD = Agent(name="root"), Agent(name="child")


def message(**fields: Any) -> QueuedMessage:
    base = {"run": "r1", "principal": "owner", "session": "s", "received_ms": 1}
    return QueuedMessage.model_validate(base | fields)


def permit(*rules: Rule, agents: tuple[Agent, ...] = (ROOT,), becomes: Any = "deny", **fields: Any) -> Permit:
    return Permit.of(message(**fields), agents, Policy(rules=rules), becomes, [])


def said(**fields: Any) -> Decided:
    base = {"node": "r1.1.1.0", "tool": "pay", "args_hash": HASH, "allowed": True, "agent": "root"}
    return Decided.model_validate({**base, "rules": (ASKS.id,), **fields})


def test_without_rules_everything_may_run() -> None:
    verdict = permit().verdict(SPEC, ARGS)
    assert (verdict.action, verdict.approval) == ("allow", "")


def test_an_approval_lets_exactly_the_call_through_that_was_shown() -> None:
    found = permit(ASKS, OTHER)
    assert set(found.verdict(SPEC, ARGS, HASH).asking) == {ASKS.id, OTHER.id}
    yes = found.verdict(SPEC, ARGS, HASH, said())
    assert (yes.action, yes.asking, yes.approval) == ("allow", (), "r1.1.1.0")
    changed = ARGS | {"sum": 6}
    again = found.verdict(SPEC, changed, call_hash("pay", changed), said())
    assert (again.action, again.approval) == ("ask", "")
    assert found.verdict(SPEC, ARGS, HASH, said(allowed=False)).action == "ask"


def test_no_approval_lifts_a_denial() -> None:
    found = permit(Rule(action="deny", tools=("pay",)))
    found.granted.append(said(scope="session"))
    assert found.verdict(SPEC, ARGS, HASH, said()).action == "deny"


@pytest.mark.parametrize("scope", ["session", "always"])
def test_what_reaches_further_lets_other_calls_through(scope: str) -> None:
    found = permit(ASKS)
    found.granted.append(said(scope=scope))
    verdict = found.verdict(SPEC, ARGS | {"sum": 6}, "another")
    assert (verdict.action, verdict.approval) == ("allow", f"r1.1.1.0.{ASKS.id}")


@pytest.mark.parametrize(
    "fields",
    [
        {"agent": "child"},
        {"tool": "lend"},
        {"rules": ("another",)},
        {"rules": ()},
        {"allowed": False},
        {"scope": "once", "args_hash": "another"},
    ],
)
def test_a_grant_is_for_one_agent_tool_and_rule(fields: dict[str, Any]) -> None:
    found = permit(ASKS)
    found.granted.append(said(**{"scope": "session", **fields}))
    assert found.verdict(SPEC, ARGS, HASH).action == "ask"


def test_of_two_rules_that_ask_each_needs_its_yes() -> None:
    found = permit(ASKS, OTHER)
    found.granted.append(said(scope="session"))
    assert found.verdict(SPEC, ARGS, HASH).asking == (OTHER.id,)
    found.granted.append(said(scope="session", rules=(OTHER.id,), node="r1.2.1.0"))
    assert found.verdict(SPEC, ARGS, HASH).action == "allow"


def test_grants_for_good_count_as_well() -> None:
    found = permit(ASKS)
    found.standing = grants_of(said(scope="always"), "owner")
    assert found.verdict(SPEC, {}, "any").action == "allow"
    found.standing = grants_of(said(scope="always"), "eva")
    assert found.verdict(SPEC, {}, "any").action == "ask"


def test_an_approval_that_comes_while_it_is_used_counts() -> None:
    granted: list[Decided] = []
    found = Permit.of(message(), (ROOT,), Policy(rules=(ASKS,)), "deny", granted)
    assert found.verdict(SPEC, ARGS).action == "ask"
    granted.append(said(scope="session"))
    assert found.verdict(SPEC, ARGS).action == "allow"


def test_where_nobody_can_be_asked_the_setting_decides() -> None:
    no = permit(ASKS, approvals="deny").verdict(SPEC, ARGS)
    assert (no.action, no.asking) == ("deny", ())
    assert "nobody can be asked" in no.reason
    yes = permit(ASKS, approvals="deny", becomes="allow").verdict(SPEC, ARGS)
    assert (yes.action, yes.approval) == ("allow", "unattended")
    workflow = permit(ASKS, kind="workflow", workflow="w", agents=()).verdict(SPEC, ARGS)
    assert workflow.action == "deny"
    asked = permit(ASKS, kind="workflow", workflow="w", agents=(), approvals="ask").verdict(SPEC, ARGS)
    assert asked.action == "ask"


def test_agents_of_the_path_can_only_narrow() -> None:
    strict = Agent(name="root", permissions=Policy(rules=(Rule(action="deny", tools=("pay",)),)))
    lax = Agent(name="child", permissions=Policy(rules=(Rule(action="allow", tools=("pay",)),)))
    assert permit(agents=(strict, lax)).verdict(SPEC, ARGS).action == "deny"
    assert permit(agents=(ROOT, lax)).verdict(SPEC, ARGS).action == "allow"
    asking = replace(permit(agents=(ROOT, CHILD)), layers=[Policy(), Policy(default="ask"), Policy()])
    verdict = asking.verdict(SPEC, ARGS)
    assert (verdict.action, verdict.asking) == ("ask", ("default",))
    asking.granted.append(said(agent="child", rules=("default",), scope="session"))
    assert asking.verdict(SPEC, ARGS).action == "allow"


def test_what_a_decision_grants() -> None:
    both = grants_of(said(scope="always", rules=(ASKS.id, OTHER.id), text="go ahead"), "owner")
    assert [(g.id, g.rule_id, g.args_hash) for g in both] == [
        (f"r1.1.1.0.{ASKS.id}", ASKS.id, ""),
        (f"r1.1.1.0.{OTHER.id}", OTHER.id, ""),
    ]
    assert {(g.tool, g.agent, g.principal, g.scope, g.by_text) for g in both} == {
        ("pay", "root", "owner", "always", "go ahead")
    }
    [once] = grants_of(said(), "owner")
    assert once.args_hash == HASH
    assert grants_of(said(allowed=False, scope="always"), "owner") == []


def test_the_model_is_told_not_to_go_around_it() -> None:
    result = denied("pay", "the user said no")
    assert result.state is NodeState.DENIED
    assert result.text.startswith("pay was not run: the user said no.")
    assert "Do not try" in result.text
    assert result.error is not None
    assert (result.error.code, result.error.may_have_had_effect) == ("denied", False)
    assert denied("pay", "late", "approval_expired").error is not None
