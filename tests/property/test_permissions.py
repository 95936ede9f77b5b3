"""Permission rules under generated policies, calls and grants: what may never widen does not."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contract import Effect
from shared.permissions import DEFAULT_RULE, Action, CallFacts, Grant, Policy, Rule, Verdict, judge

pytestmark = pytest.mark.property

STRICTNESS: Final = {"allow": 0, "ask": 1, "deny": 2}
TOOLS, GROUPS = ("shell_run", "web_get", "learn:reflect"), ("shell", "web")
AGENTS, PRINCIPALS, KEYS = ("default", "writer"), ("owner", "eva"), ("path", "to", "to.host")
ACTIONS: Final[tuple[Action, ...]] = ("allow", "ask", "deny")

texts = st.sampled_from(("a", "b", "a/b", "a/../b", "B", '["a", "b"]', '{"host": "a"}', "")) | st.text(max_size=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | texts, inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(st.sampled_from(KEYS) | texts, json_values, max_size=3)


def few(values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    """Globs over some names, none of them more often than not."""
    globs = st.sampled_from((*values, "*", "s*"))
    return st.just(()) | st.lists(globs, max_size=2).map(tuple)


def rules(actions: tuple[Action, ...] = ACTIONS) -> st.SearchStrategy[Rule]:
    """Rules with those actions."""
    return st.builds(
        Rule,
        action=st.sampled_from(actions),
        tools=few(TOOLS),
        groups=few(GROUPS),
        effects=st.just(()) | st.lists(st.sampled_from(Effect), max_size=2).map(tuple),
        args=st.just({})
        | st.dictionaries(st.sampled_from(KEYS), st.sampled_from(("*", "a*", "?", "a", "b")), max_size=2),
        agents=few(AGENTS),
        principals=few(PRINCIPALS),
        reason=st.sampled_from(("", "because")),
    )


policies = st.builds(Policy, default=st.sampled_from(ACTIONS), rules=st.lists(rules(), max_size=4).map(tuple))
layers = st.lists(policies, max_size=3)
calls = st.builds(
    CallFacts,
    tool=st.sampled_from(TOOLS),
    group=st.sampled_from(GROUPS),
    effect=st.sampled_from(Effect),
    args=arguments,
    agent_path=st.lists(st.sampled_from(AGENTS), max_size=3).map(tuple),
    principal=st.sampled_from(PRINCIPALS),
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Policy], CallFacts, list[Grant]]:
    """Layers, a call, and grants, of which many speak about the call and rules of the layers."""
    found, call = draw(layers), draw(calls)
    ids = [rule.id for policy in found for rule in policy.rules] + [DEFAULT_RULE]
    some = st.builds(
        Grant,
        id=st.sampled_from(("g1", "g2", "g3")),
        tool=st.just(call.tool) | st.sampled_from(TOOLS),
        rule_id=st.sampled_from(ids),
        agent=st.just(call.agent) | st.sampled_from(AGENTS),
        principal=st.just(call.principal) | st.sampled_from(PRINCIPALS),
        scope=st.sampled_from(("session", "always")),
        args_hash=st.just("") | st.just("0" * 64),
    )
    return found, call, draw(st.lists(some, max_size=4))


def strictness(verdict: Verdict) -> int:
    return STRICTNESS[verdict.action]


@given(cases())
def test_it_decides_about_everything_and_always_the_same(case: tuple[list[Policy], CallFacts, list[Grant]]) -> None:
    found, call, grants = case
    verdict = judge(found, call, grants)
    assert verdict.action in ACTIONS
    assert verdict.reason
    assert bool(verdict.asking) == (verdict.action == "ask")
    assert judge(found, call, grants[::-1]) == verdict
    if verdict.rule is not None:
        assert verdict.rule_id == verdict.rule.id


@given(cases(), st.data())
def test_the_order_of_rules_does_not_matter(
    case: tuple[list[Policy], CallFacts, list[Grant]], data: st.DataObject
) -> None:
    found, call, grants = case
    shuffled = [p.model_copy(update={"rules": tuple(data.draw(st.permutations(p.rules)))}) for p in found]
    assert judge(shuffled, call, grants) == judge(found, call, grants)


@given(cases(), rules(("deny",)), st.integers(0, 3))
def test_a_deny_rule_anywhere_makes_nothing_more_allowed(
    case: tuple[list[Policy], CallFacts, list[Grant]], extra: Rule, where: int
) -> None:
    found, call, grants = case
    stricter = [
        policy.model_copy(update={"rules": (*policy.rules, extra)}) if n == where else policy
        for n, policy in enumerate(found)
    ]
    before, after = judge(found, call, grants), judge(stricter, call, grants)
    assert strictness(after) >= strictness(before)
    if where < len(found) and extra.matches(call):
        assert after.action == "deny"


@given(cases(), policies, st.integers(0, 3))
def test_a_layer_more_widens_nothing(
    case: tuple[list[Policy], CallFacts, list[Grant]], extra: Policy, where: int
) -> None:
    found, call, grants = case
    assert strictness(judge([*found[:where], extra, *found[where:]], call, grants)) >= strictness(
        judge(found, call, grants)
    )


@given(cases())
def test_a_grant_lifts_asks_and_never_a_deny(case: tuple[list[Policy], CallFacts, list[Grant]]) -> None:
    found, call, grants = case
    without, given_them = judge(found, call), judge(found, call, grants)
    if without.action == "ask":
        assert given_them.action in ("ask", "allow")
        assert set(given_them.asking) <= set(without.asking)
        assert (given_them.action == "allow") == bool(given_them.approval)
    else:
        assert given_them.action == without.action


@given(layers, calls)
def test_the_grants_that_are_asked_for_let_the_call_through(found: list[Policy], call: CallFacts) -> None:
    verdict = judge(found, call)
    base = {"id": "g1", "tool": call.tool, "agent": call.agent, "principal": call.principal, "scope": "session"}
    grants = [Grant.model_validate({**base, "rule_id": rule_id}) for rule_id in verdict.asking]
    if verdict.action == "ask":
        assert judge(found, call, grants).action == "allow"


@given(arguments, st.sampled_from(KEYS), st.sampled_from(("*", "a*", "?", "a")))
def test_what_a_condition_permits_the_same_condition_would_restrict(args: dict[str, Any], path: str, glob: str) -> None:
    """So a rule can be turned from a permission into a restriction without losing a call."""
    call = CallFacts("web_get", "web", Effect.READ, args, ("default",), "owner")
    if Rule(action="allow", args={path: glob}).matches(call):
        assert Rule(action="deny", args={path: glob}).matches(call)
