from __future__ import annotations

import json
from typing import Any

import pytest

from shared.llm.dialects import prepare
from shared.llm.dialects.anthropic.models import generation
from shared.llm.model import ImageBlock, Message, TextBlock, ThinkingBlock, ToolDefinition, ToolResult
from tests.unit.llm.support import (
    ask,
    block,
    completion,
    delta,
    end,
    events,
    provider,
    results,
    start,
    stop,
    tool_call,
    user,
)

PIXEL = ImageBlock(media_type="image/png", data="AAAA")
TOOL = ToolDefinition(name="f", description="does f", parameters={"properties": {}})


def body(*messages: Message, fields: dict[str, Any] | None = None, **switches: Any) -> dict[str, Any]:
    switches = {"prompt_cache": False, "reasoning_style": "budget", **switches}
    return prepare(provider("anthropic", **switches), ask(*messages, **(fields or {}))).body


def wire(*messages: Message, **switches: Any) -> list[dict[str, Any]]:
    return list(body(*messages, **switches)["messages"])


def answer(*blocks: Any, origin: str = "prov") -> Message:
    return Message(role="assistant", blocks=blocks, origin=origin)


SIGNED = ThinkingBlock(text="", opaque={"signature": "S"})


def test_the_simplest_request() -> None:
    encoded = prepare(provider("anthropic", prompt_cache=False), ask(system="be brief", max_tokens=5))
    assert encoded.body == {
        "model": "m",
        "system": [{"type": "text", "text": "be brief"}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "stream": True,
        "max_tokens": 5,
    }
    assert encoded.headers == {"anthropic-version": "2023-06-01"}
    assert encoded.path == "/messages"
    assert prepare(provider("anthropic", url="https://api.anthropic.com"), ask()).path == "/v1/messages"


def test_results_come_first_in_one_user_message_in_call_order() -> None:
    sent = wire(
        user("a"),
        answer(tool_call("n1", "f", "t1"), tool_call("n2", "f", "t2")),
        user("and also"),
        Message(role="tool", blocks=(ToolResult(call_id="n2", text="r2", images=(PIXEL,)),)),
        Message(role="tool", blocks=(ToolResult(call_id="n1", text="", is_error=True),)),
    )
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert sent[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "t1", "content": "failed without a message", "is_error": True},
        {
            "type": "tool_result",
            "tool_use_id": "t2",
            "content": [
                {"type": "text", "text": "r2"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            ],
        },
        {"type": "text", "text": "and also"},
    ]


def test_thinking_goes_back_as_it_came_and_to_nobody_else() -> None:
    raw = events(
        start(),
        block(0, "thinking", thinking=""),
        delta(0, "signature_delta", signature="S"),
        stop(0),
        block(1, "redacted_thinking", data="XXX"),
        stop(1),
        block(2, "tool_use", id="t1", name="f", input={}, caller={"type": "direct"}),
        stop(2),
        *end("tool_use"),
    )
    got = Message.model_validate_json(completion("anthropic", raw).message.model_dump_json())
    history = (user("a"), got, results(("call_0", "r")))
    assert wire(*history)[1]["content"] == [
        {"type": "thinking", "thinking": "", "signature": "S"},
        {"type": "redacted_thinking", "data": "XXX"},
        {"caller": {"type": "direct"}, "type": "tool_use", "id": "t1", "name": "f", "input": {}},
    ]
    other = prepare(provider("anthropic", name="other"), ask(*history)).body
    assert [one["type"] for one in other["messages"][1]["content"]] == ["tool_use"]
    assert "thinking" not in json.dumps(wire(*history, replay_reasoning="never"))
    assert "XXX" not in json.dumps(prepare(provider("openai", name="other"), ask(*history)).body)


def test_unsigned_thinking_is_not_sent() -> None:
    sent = wire(user("a"), answer(ThinkingBlock(text="visible"), TextBlock(text="b")), user("c"))
    assert sent[1]["content"] == [{"type": "text", "text": "b"}]


def test_blank_text_is_not_sent() -> None:
    sent = wire(user("a"), answer(TextBlock(text=" \n"), tool_call("n1")), results(("n1", "  ")))
    assert [one["type"] for one in sent[1]["content"]] == ["tool_use"]
    assert sent[2]["content"] == [{"type": "tool_result", "tool_use_id": sent[1]["content"][0]["id"]}]


@pytest.mark.parametrize(
    ("fields", "switches", "expected"),
    [
        ({"thinking_budget": 4000}, {}, {"thinking": {"type": "enabled", "budget_tokens": 4000}}),
        ({"thinking_budget": 10}, {}, {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        ({"thinking_budget": 0}, {}, {}),
        ({"effort": "low"}, {}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        (
            {"effort": "high"},
            {"reasoning_style": "adaptive"},
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        ),
        ({"effort": "high"}, {"reasoning_style": "none"}, {}),
    ],
)
def test_asking_for_thinking(fields: dict[str, Any], switches: dict[str, Any], expected: dict[str, Any]) -> None:
    sent = body(fields=fields, **switches)
    assert {key: sent[key] for key in ("thinking", "output_config") if key in sent} == expected


def test_with_thinking_come_its_rules() -> None:
    sent = body(
        fields={
            "thinking_budget": 2000,
            "max_tokens": 100,
            "temperature": 0.1,
            "tools": (TOOL,),
            "tool_choice": "required",
        }
    )
    assert sent["max_tokens"] == 2100
    assert "temperature" not in sent
    assert sent["tool_choice"] == {"type": "auto"}


@pytest.mark.parametrize(
    ("model", "born"),
    [
        ("claude-opus-4-5-20251101", (4, 5)),
        ("claude-sonnet-4-20250514", (4, 0)),
        ("claude-3-7-sonnet-20250219", (3, 7)),
        ("claude-opus-5", (5, 0)),
        ("claude-fable-5-1", (5, 1)),
        ("anthropic/claude-sonnet-4.6", (4, 6)),
        ("claude-haiku-5-5-20261007", (5, 5)),
        ("qwen2.5-coder", None),
        ("gpt-4-claude", None),
    ],
)
def test_generations(model: str, born: tuple[int, int] | None) -> None:
    assert generation(model) == born


def at(model: str, fields: dict[str, Any]) -> dict[str, Any]:
    where = provider("anthropic", prompt_cache=False)
    return prepare(where, ask(tools=(TOOL,), **fields).model_copy(update={"model": model})).body


def test_each_generation_is_asked_in_its_own_way() -> None:
    fields = {"thinking_budget": 5000, "temperature": 0.2, "tool_choice": "required"}
    old = at("claude-haiku-4-5", fields)
    assert old["thinking"] == {"type": "enabled", "budget_tokens": 5000}
    assert "output_config" not in old
    middle = at("claude-sonnet-4-6", fields)
    assert middle["thinking"] == {"type": "adaptive"}
    assert middle["output_config"] == {"effort": "medium"}
    new = at("claude-opus-5-5", fields)
    assert new["thinking"]["display"] == "summarized"
    assert new["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    for sent in (old, middle, new):
        assert "temperature" not in sent
        assert sent["tool_choice"] == {"type": "auto"}


def test_without_thinking_each_generation_keeps_what_it_takes() -> None:
    fields = {"temperature": 0.2, "tool_choice": "required"}
    old, middle, new = (at(model, fields) for model in ("claude-haiku-4-5", "claude-opus-4-8", "claude-sonnet-5-5"))
    assert (old["temperature"], old["tool_choice"]) == (0.2, {"type": "any"})
    assert ("temperature" in middle, middle["tool_choice"]) == (False, {"type": "any"})
    assert ("temperature" in new, new["tool_choice"]) == (False, {"type": "auto"})
    assert "thinking" not in old
    assert "thinking" not in middle
    assert new["thinking"]["type"] == "adaptive"


def test_bound_thinking_comes_with_its_beta_header() -> None:
    where = provider("anthropic")
    assert "anthropic-beta" not in prepare(where, ask()).headers
    bound = prepare(where, ask().model_copy(update={"model": "claude-opus-5-5"}))
    assert bound.headers["anthropic-beta"].startswith("thinking-binding-controls-")


def test_thinking_stays_off_in_a_loop_that_began_without() -> None:
    fields = {"thinking_budget": 2000}
    begun = (user("a"), answer(tool_call("n1"), origin="other"), results(("n1", "r")))
    assert "thinking" not in body(*begun, fields=fields)
    assert "thinking" in body(*begun, user("b"), fields=fields)
    assert "thinking" in body(user("a"), answer(SIGNED, tool_call("n1")), results(("n1", "r")), fields=fields)


def test_tools_and_choices() -> None:
    sent = body(fields={"tools": (TOOL,), "tool_choice": "required"}, parallel_tool_calls=False)
    assert sent["tools"] == [
        {"name": "f", "description": "does f", "input_schema": {"properties": {}, "type": "object"}}
    ]
    assert sent["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert body(fields={"tools": (TOOL,), "tool_choice": "none"})["tool_choice"] == {"type": "none"}


def test_a_history_with_calls_always_comes_with_tools() -> None:
    sent = body(user("a"), answer(tool_call("n1", "old")), results(("n1", "r")))
    assert [tool["name"] for tool in sent["tools"]] == ["old"]
    assert sent["tool_choice"] == {"type": "none"}


def test_structured_answers() -> None:
    schema = {"type": "object"}
    assert body(fields={"json_schema": schema})["output_config"] == {
        "format": {"type": "json_schema", "schema": schema}
    }
    weak = body(fields={"json_schema": schema}, structured="none")
    assert "output_config" not in weak
    assert "JSON Schema" in weak["system"][0]["text"]


def marks(value: Any) -> int:
    return json.dumps(value).count("cache_control")


def test_cache_marks_are_four_at_most_and_stand_before_what_changes() -> None:
    loop: list[Message] = [user("a")]
    for n in range(6):
        loop += [answer(tool_call(f"n{n}")), results((f"n{n}", "r"))]
    fields = {"system": "s", "tools": (TOOL, TOOL.model_copy(update={"name": "g"}))}
    sent = body(*loop, user("it is now noon"), fields=fields, prompt_cache=True)
    assert marks(sent) == 4
    assert "cache_control" in sent["tools"][-1]
    assert "cache_control" not in sent["tools"][0]
    assert "cache_control" in sent["system"][-1]
    last = sent["messages"][-1]["content"]
    assert [("cache_control" in one) for one in last] == [True, False]
    assert "cache_control" in sent["messages"][-3]["content"][-1]
    first = body(prompt_cache=True)
    assert marks(first) == 1


def test_marking_does_not_change_the_request_it_was_made_from() -> None:
    request = ask(tools=(TOOL,), system="s")
    once = prepare(provider("anthropic"), request).body
    assert prepare(provider("anthropic"), request).body == once
    assert "cache_control" not in TOOL.parameters
