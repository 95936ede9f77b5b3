"""From a turn's calls to nodes."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.loop.planning import QUEUE_WAIT_MS, Plan, broken_text, plan_calls
from shared.contract import Effect, NodeState, ToolSpec
from shared.llm.model import BrokenCall, Message, TextBlock, ThinkingBlock, ToolCall
from shared.signing import call_hash

TOOLS = {
    "save": ToolSpec(
        name="save", group="notes", description="", parameters={}, effect=Effect.WRITE, timeout_s=5.0, queue="tools"
    ),
    "look": ToolSpec(
        name="look", group="vision", description="", parameters={}, effect=Effect.READ, timeout_s=60.0, queue="vision"
    ),
}
NOW_MS = 1_000_000


def call(name: str, number: int, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call_{number}", provider_id=f"toolu_{number}", name=name, arguments=arguments)


def planned(*blocks: ToolCall | TextBlock | ThinkingBlock, most: int = 100) -> Plan:
    message = Message(role="assistant", blocks=blocks, origin="openai")
    return plan_calls(message, run="r", step=2, attempt=3, find=TOOLS.get, now_ms=NOW_MS, most=most)


def test_ids_are_ours_and_the_providers_are_kept_beside_them() -> None:
    plan = planned(ThinkingBlock(text="hm"), call("save", 0), TextBlock(text="and"), call("look", 1))
    assert [(c.id, c.provider_id) for c in plan.message.calls] == [("r.2.3.0", "toolu_0"), ("r.2.3.1", "toolu_1")]
    assert [n.node for n in plan.nodes] == ["r.2.3.0", "r.2.3.1"]
    assert [type(b) for b in plan.message.blocks] == [ThinkingBlock, ToolCall, TextBlock, ToolCall]
    assert plan.message.origin == "openai"
    assert plan.refused == []


def test_a_node_is_what_its_tool_says() -> None:
    save, look = planned(call("save", 0, title="x"), call("look", 1)).nodes
    assert (save.tool, save.args, save.effect, save.queue) == ("save", {"title": "x"}, Effect.WRITE, "tools")
    assert (save.step, save.position, look.position, look.queue) == (2, 0, 1, "vision")
    assert save.args_hash == call_hash("save", {"title": "x"})
    assert save.not_after_ms == NOW_MS + QUEUE_WAIT_MS + 5000
    assert look.not_after_ms == NOW_MS + QUEUE_WAIT_MS + 60_000
    assert save.call


def test_the_same_turn_is_planned_the_same_again() -> None:
    calls = (call("save", 0, title="x"), call("look", 1))
    assert planned(*calls).nodes == planned(*calls).nodes


def test_an_unknown_tool_is_refused_and_the_others_are_not() -> None:
    plan = planned(call("fly", 0), call("save", 1))
    [(node, tool, result)] = plan.refused
    assert (node, tool, result.state) == ("r.2.3.0", "fly", NodeState.REFUSED)
    assert "no tool 'fly'" in result.text
    assert result.error is not None
    assert result.error.code == "unknown_tool"
    assert len(plan.nodes) == 2


def test_calls_beyond_the_limit_are_refused() -> None:
    plan = planned(*(call("save", n, title=str(n)) for n in range(5)), most=3)
    assert [node for node, _, _ in plan.refused] == ["r.2.3.3", "r.2.3.4"]
    assert {result.error.code for _, _, result in plan.refused if result.error} == {"too_many_calls"}
    assert all("3" in result.text for _, _, result in plan.refused)
    assert len(plan.message.calls) == 5  # each call gets its result


def test_a_message_without_calls_plans_nothing() -> None:
    plan = planned(TextBlock(text="hi"))
    assert plan.nodes == []
    assert plan.message.text == "hi"


@pytest.mark.parametrize("name", ["save", ""])
def test_the_model_is_told_what_did_not_arrive(name: str) -> None:
    text = broken_text([BrokenCall(name=name, provider_id="", raw="{", reason="arguments are cut")])
    assert f"- {name or 'a call'}: arguments are cut" in text
    assert "NOT run" in text
