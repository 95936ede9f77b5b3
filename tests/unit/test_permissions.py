"""Permission rules: what they match, who wins, what a grant lifts, and what is said about it."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import ValidationError

from shared.contract import Effect
from shared.permissions import (
    DEFAULT_RULE,
    CallFacts,
    Grant,
    Policy,
    Rule,
    judge,
    refusal,
    unattended,
)
from shared.signing import call_hash


def call(
    tool: str = "shell_run",
    *,
    group: str = "shell",
    effect: Effect = Effect.WRITE,
    agents: tuple[str, ...] = ("default",),
    principal: str = "owner",
    **args: Any,
) -> CallFacts:
    return CallFacts(tool, group, effect, args, agents, principal)


def rule(action: Literal["allow", "ask", "deny"], **fields: Any) -> Rule:
    return Rule(action=action, **fields)


def action(policy: Policy, facts: CallFacts, *grants: Grant) -> str:
    return judge([policy], facts, grants).action


def only(*rules: Rule, default: Literal["allow", "ask", "deny"] = "allow") -> Policy:
    return Policy(default=default, rules=rules)


def grant(rule_id: str, **fields: Any) -> Grant:
    base = {"id": "g1", "tool": "shell_run", "agent": "default", "principal": "owner", "scope": "always"}
    return Grant.model_validate({**base, "rule_id": rule_id, **fields})


# What a rule matches.


@pytest.mark.parametrize(
    ("fields", "matches"),
    [
        ({}, True),
        ({"tools": ("shell_*",)}, True),
        ({"tools": ("web_*", "shell_run")}, True),
        ({"tools": ("shell",)}, False),
        ({"tools": ("SHELL_*",)}, False),
        ({"groups": ("sh*",)}, True),
        ({"groups": ("web",)}, False),
        ({"effects": ("read", "write")}, True),
        ({"effects": ("read",)}, False),
        ({"principals": ("owner",)}, True),
        ({"principals": ("a*",)}, False),
        ({"tools": ("shell_*",), "groups": ("web",)}, False),
    ],
)
def test_all_conditions_must_hold_and_of_each_one_glob(fields: dict[str, Any], matches: bool) -> None:
    assert action(only(rule("deny", **fields)), call()) == ("deny" if matches else "allow")


def test_what_restricts_an_agent_restricts_those_that_it_starts_and_what_permits_it_does_not() -> None:
    below = call(agents=("default", "writer"))
    assert action(only(rule("deny", agents=("default",))), below) == "deny"
    assert action(only(rule("allow", agents=("default",)), default="deny"), below) == "deny"
    assert action(only(rule("allow", agents=("wri*",)), default="deny"), below) == "allow"
    assert action(only(rule("deny", agents=("*",))), call(agents=())) == "allow", "code is no agent"


ARGUMENTS = [
    # arguments, glob at "at", denied by a deny rule, allowed by an allow rule
    ({"at": "abc"}, "a*", True, True),
    ({"at": "abc"}, "b*", False, False),
    ({"at": "a\nb"}, "a*", True, True),
    ({}, "*", False, False),
    ({"at": None}, "*", False, False),
    ({"at": []}, "*", False, False),
    ({"at": {}}, "*", False, False),
    ({"at": True}, "true", True, True),
    ({"at": 3}, "3", True, True),
    ({"at": 3.0}, "3", True, True),
    ({"at": 2.5}, "2.5", True, True),
    ({"at": ["abc", "xyz"]}, "a*", True, False),
    ({"at": ["abc", "abd"]}, "a*", True, True),
    ({"at": ["abc", None]}, "a*", True, False),
    ({"at": {"x": "abc", "y": ["xyz"]}}, "a*", True, False),
    ({"at": {"x": "abc", "y": ["abd"]}}, "a*", True, True),
    ({"at": '["abc", "abd"]'}, "a*", True, False),
    ({"at": '["abc"'}, "a*", False, False),
    ({"at": "ABC"}, "a*", True, False),
    ({"at": "x/../abc"}, "a*", True, False),
    ({"at": "a/../xyz"}, "a/*", True, False),
    ({"at": "./abc"}, "a*", True, False),
]


@pytest.mark.parametrize(("args", "glob", "denied", "allowed"), ARGUMENTS)
def test_arguments_are_matched_generously_to_restrict_and_strictly_to_permit(
    args: dict[str, Any], glob: str, denied: bool, allowed: bool
) -> None:
    condition = {"at": glob}
    for restricting in ("ask", "deny"):
        assert (action(only(Rule(action=restricting, args=condition)), call(**args)) == restricting) == denied
    assert (action(only(rule("allow", args=condition), default="deny"), call(**args)) == "allow") == allowed


@pytest.mark.parametrize(
    ("args", "path", "found"),
    [
        ({"at": {"host": "evil"}}, "at.host", True),
        ({"at": [{"host": "good"}, {"host": "evil"}]}, "at.host", True),
        ({"at": {"host": {"name": "evil"}}}, "at.host", True),
        ({"at": {"x.host": "evil"}}, "at.x.host", True),
        ({"at.host": "evil"}, "at.host", True),
        ({"at": '{"host": "evil"}'}, "at.host", True),
        ({"at": "evil"}, "at.host", False),
        ({"host": "evil"}, "at.host", False),
    ],
)
def test_dotted_paths(args: dict[str, Any], path: str, found: bool) -> None:
    assert (action(only(rule("deny", args={path: "evil"})), call(**args)) == "deny") == found


@pytest.mark.parametrize(
    ("value", "glob"),
    [
        ("/../etc/passwd", "/etc/*"),
        ("/tmp/../etc/passwd", "/etc/*"),
        ("/etc//passwd", "/etc/passwd"),
        ("notes/./../secrets/x", "secrets/*"),
        ("https://host/public/../private", "https://host/private*"),
        ("https://host/../private", "https://host/private*"),
    ],
)
def test_another_spelling_of_a_path_is_denied_and_not_allowed(value: str, glob: str) -> None:
    assert action(only(rule("deny", args={"path": glob})), call(path=value)) == "deny"
    assert action(only(rule("allow", args={"path": glob}), default="deny"), call(path=value)) == "deny"


def test_a_branch_without_the_path_is_not_permitted() -> None:
    allowing = only(rule("allow", args={"to.host": "good"}), default="deny")
    assert action(allowing, call(to=[{"host": "good"}])) == "allow"
    assert action(allowing, call(to=[{"host": "good"}, {"port": 1}])) == "deny"
    assert action(allowing, call(to=[{"host": "good"}, "evil"])) == "deny"


# Who wins.


def test_in_a_layer_deny_wins_over_ask_over_allow_over_the_default() -> None:
    allow, ask, deny = rule("allow"), rule("ask"), rule("deny")
    assert action(only(allow, default="deny"), call()) == "allow"
    assert action(only(allow, ask), call()) == "ask"
    assert action(only(allow, ask, deny), call()) == "deny"
    for default in ("allow", "ask", "deny"):
        assert action(Policy(default=default), call()) == default


def test_without_any_rule_everything_is_allowed() -> None:
    assert judge([], call()).action == "allow"
    assert judge([Policy(), Policy()], call()).action == "allow"


def test_of_layers_the_strictest_wins_wherever_it_stands() -> None:
    allowing, asking, denying = only(rule("allow")), only(rule("ask")), only(rule("deny"))
    assert judge([denying, allowing], call()).action == "deny"
    assert judge([allowing, asking], call()).action == "ask"
    assert judge([asking, denying, allowing], call(agents=("a", "b"))).action == "deny"


def test_an_agent_cannot_widen_what_the_installation_narrows() -> None:
    assert judge([Policy(default="deny"), only(rule("allow"))], call()).action == "deny"


def test_defaults_do_not_concern_the_installations_own_steps_but_rules_do() -> None:
    step = call("year-end:days_left", group="year-end", agents=())
    assert action(Policy(default="deny"), step) == "allow"
    assert action(only(rule("deny", tools=("year-end:*",))), step) == "deny"


# What a grant lifts.


def test_a_grant_lifts_the_ask_of_its_rule_and_says_so() -> None:
    asks = rule("ask", tools=("shell_*",))
    verdict = judge([only(asks)], call(), [grant(asks.id)])
    assert (verdict.action, verdict.approval, verdict.rule) == ("allow", "g1", asks)
    assert judge([Policy(), only(asks)], call(), [grant(asks.id)]).approval == "g1"
    assert judge([Policy(default="ask")], call(), [grant(DEFAULT_RULE)]).approval == "g1"


@pytest.mark.parametrize(
    "other", [{"tool": "shell_kill"}, {"agent": "writer"}, {"principal": "eva"}, {"rule_id": "0" * 12}]
)
def test_a_grant_for_something_else_lifts_nothing(other: dict[str, Any]) -> None:
    asks = rule("ask")
    assert action(only(asks), call(), grant(**{"rule_id": asks.id, **other})) == "ask"


def test_a_grant_lifts_no_deny() -> None:
    denies = rule("deny")
    assert action(only(denies), call(), grant(denies.id)) == "deny"
    assert action(Policy(default="deny"), call(), grant(DEFAULT_RULE)) == "deny"


def test_once_is_for_one_call() -> None:
    asks = rule("ask")
    once = grant(asks.id, scope="once", args_hash=call_hash("shell_run", {"argv": ["ls"]}))
    assert action(only(asks), call(argv=["ls"]), once) == "allow"
    assert action(only(asks), call(argv=["rm"]), once) == "ask"
    assert action(only(asks), call(argv=float("nan")), once) == "ask", "not even JSON"
    with pytest.raises(ValidationError, match="fingerprint"):
        grant(asks.id, scope="once")


def test_each_rule_that_asks_must_be_lifted() -> None:
    layers = [only(rule("ask", tools=("shell_*",)), rule("ask", effects=("write",))), Policy(default="ask")]
    facts = call(argv=["ls"])
    verdict = judge(layers, facts)
    assert verdict.action == "ask"
    assert len(verdict.asking) == 3
    given = [grant(rule_id, id=f"g{n}") for n, rule_id in enumerate(verdict.asking)]
    assert judge(layers, facts, given[:2]).asking == verdict.asking[2:]
    assert judge(layers, facts, given).action == "allow"
    assert judge(layers, facts, given).approval in {one.id for one in given}


def test_where_nobody_can_be_asked() -> None:
    asked = judge([only(rule("ask"))], call())
    denied = unattended(asked, "deny")
    assert denied.action == "deny"
    assert "nobody can be asked" in denied.reason
    allowed = unattended(asked, "allow")
    assert (allowed.action, bool(allowed.approval)) == ("allow", True)
    verdict = judge([only(rule("deny"))], call())
    assert unattended(verdict, "allow") == verdict


# What is said.


def test_an_id_is_the_same_for_the_same_conditions_and_outlives_a_new_reason() -> None:
    one = rule("deny", tools=("a", "b"), args={"x": "1", "y": "2"}, reason="because")
    assert one.id == rule("deny", tools=("b", "a"), args={"y": "2", "x": "1"}).id
    others = [
        rule("ask", tools=("a", "b"), args={"x": "1", "y": "2"}),
        rule("deny", groups=("a", "b"), args={"x": "1", "y": "2"}),
        rule("deny", tools=("a", "b"), args={"x": "1", "y": "3"}),
        rule("deny"),
    ]
    assert len({one.id, *(other.id for other in others)}) == 5


def test_a_published_id_stays() -> None:
    """Standing grants name rules by it."""
    assert rule("ask", tools=("shell_*",), effects=("write",)).id == "b3db7d9e34ce"


def test_the_reason_names_rule_source_and_words() -> None:
    said = rule("deny", tools=("shell_*",), reason="No shell here.")
    verdict = judge([Policy(), only(said)], call())
    assert verdict.reason == f"rule {said.id} of agent default denies it (No shell here)"
    assert verdict.rule_id == said.id
    assert refusal("shell_run", verdict.reason).startswith(f"shell_run was not run: {verdict.reason}. ")
    plain = rule("ask", tools=("shell_*",), args={"cwd": "/*"})
    assert judge([only(plain)], call(cwd="/")).reason.endswith("asks the user first (tools shell_*; cwd = /*)")
    assert judge([Policy(default="deny")], call()).reason == "no rule of the installation allows it"


@pytest.mark.parametrize(
    "wrong",
    [
        {"action": "dney"},
        {"tools": ("x",)},
        {"action": "deny", "tools": "shell_run"},
        {"action": "deny", "tools": ("",)},
        {"action": "deny", "effects": ("destroy",)},
        {"action": "deny", "args": {"a..b": "x"}},
        {"action": "deny", "args": {"": "x"}},
        {"action": "deny", "args": {"port": 22}},
        {"action": "deny", "tool": ("x",)},
    ],
)
def test_a_rule_that_would_silently_match_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Rule.model_validate(wrong)
