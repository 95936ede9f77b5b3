"""The rules as a worker judges by them, and what becomes of the row of a call that they refuse."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import JsonValue

from shared.contract import Effect, NodeOrder, NodeState
from shared.permissions import Policy, Rule
from shared.settings import Settings
from shared.signing import call_hash, sign
from shared.state.nodes import NodeLedger
from tests.support.redis import redis_server
from tests.support.state import Rig, with_rig
from workers.context import Services, ToolContext
from workers.declare import Registry, tool
from workers.envelope.execute import Envelope
from workers.envelope.gate import refused

KEY = b"k" * 32

ran: list[str] = []


@tool(group="probing", effect=Effect.READ)
async def probe(ctx: ToolContext, n: str) -> JsonValue:
    """Says that it ran."""
    ran.append(n)
    return n


def order(**fields: Any) -> NodeOrder:
    args = {"n": "r.1.1.0"}
    base: dict[str, Any] = {
        "run": "r",
        "session": "s",
        "principal": "owner",
        "node": "r.1.1.0",
        "tool": "probe",
        "args": args,
        "args_hash": call_hash("probe", args),
        "effect": Effect.READ,
        "not_after_ms": 10**14,
        "timeout_s": 5.0,
        "agent_path": ("default", "writer"),
    }
    return NodeOrder.model_validate({**base, **fields})


def policy(action: str, **conditions: Any) -> Policy:
    return Policy(rules=(Rule.model_validate({"action": action, **conditions}),))


@pytest.mark.parametrize(
    "conditions",
    [
        {},
        {"tools": ("pro*",)},
        {"groups": ("probing",)},
        {"effects": ("read",)},
        {"args": {"n": "r.*"}},
        {"agents": ("default",)},
        {"principals": ("owner",)},
    ],
)
def test_a_deny_holds_whatever_was_approved(conditions: dict[str, Any]) -> None:
    for approval in ("", "a1"):
        result = refused(policy("deny", **conditions), probe.spec, order(approval=approval))
        assert result is not None
        assert result.state is NodeState.DENIED
        assert result.error is not None
        assert result.error.code == "denied"
        assert not result.error.may_have_had_effect
        assert policy("deny", **conditions).rules[0].id in result.text


def test_an_ask_needs_an_approval() -> None:
    asks = policy("ask", tools=("probe",))
    result = refused(asks, probe.spec, order())
    assert result is not None
    assert result.state is NodeState.DENIED
    assert refused(asks, probe.spec, order(approval="a1")) is None


def test_a_default_denies_what_no_rule_allows() -> None:
    assert refused(Policy(default="deny"), probe.spec, order()) is not None
    assert (
        refused(policy("allow", tools=("probe",)).model_copy(update={"default": "deny"}), probe.spec, order()) is None
    )


def test_effect_and_group_are_those_of_the_tool_that_would_run() -> None:
    claims_to_write = order(effect=Effect.WRITE)
    assert refused(policy("deny", effects=("read",)), probe.spec, claims_to_write) is not None
    assert refused(policy("deny", effects=("write",)), probe.spec, claims_to_write) is None


def envelope(ledger: NodeLedger, rules: Policy) -> Envelope:
    registry = Registry()
    registry.add(probe)
    nothing: Any = None
    services = Services(db=nothing, artifacts=nothing, state=nothing, model=nothing)
    settings = Settings.model_validate({"permissions": rules.model_dump(mode="json")})
    return Envelope(registry, ledger, services, settings, KEY)


@pytest.mark.integration
def test_the_row_of_a_refused_call_ends_as_denied_and_the_tool_does_not_run() -> None:
    async def test(rig: Rig) -> None:
        ran.clear()
        lease = await rig.started()
        await rig.beat("c1", "w1")
        rules = policy("ask", args={"n": "*.[01]"})
        orders = await rig.planned(lease, "r.1.1.0", "r.1.1.1", "r.1.1.2")
        orders[1] = orders[1].model_copy(update={"approval": "a1"})
        claimed = await envelope(rig.w1, rules).run_batch([sign(one, KEY) for one in orders])
        assert claimed == 3
        assert sorted(ran) == ["r.1.1.1", "r.1.1.2"]
        results = await rig.c1.results(lease.run, [one.node for one in orders])
        assert [results[one.node].state for one in orders] == [NodeState.DENIED, NodeState.DONE, NodeState.DONE]

    with redis_server() as server:
        asyncio.run(with_rig(server.url, test))
