from __future__ import annotations

import json
from typing import Any

import pytest

from shared.llm.dialects import prepare
from shared.llm.model import ImageBlock, Message, TextBlock, ThinkingBlock, ToolCall, ToolDefinition, ToolResult
from tests.unit.llm.support import ask, call, chunk, completion, provider, results, sse, tool_call, user

PIXEL = ImageBlock(media_type="image/png", data="AAAA")
TOOL = ToolDefinition(name="f", description="does f", parameters={"type": "object", "properties": {}})


def body(*messages: Message, fields: dict[str, Any] | None = None, **switches: Any) -> dict[str, Any]:
    return prepare(provider(**switches), ask(*messages, **(fields or {}))).body


def wire(*messages: Message, **switches: Any) -> list[dict[str, Any]]:
    return list(body(*messages, **switches)["messages"])


def answer(*blocks: Any, origin: str = "prov", **opaque: Any) -> Message:
    return Message(role="assistant", blocks=blocks, origin=origin, opaque=opaque)


def test_the_simplest_request() -> None:
    assert body(fields={"system": "be brief"}) == {
        "model": "m",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_parameters_and_switches() -> None:
    fields = {"tools": (TOOL,), "tool_choice": "required", "max_tokens": 9, "temperature": 0.0, "top_p": 0.5}
    sent = body(
        fields=fields,
        stream_usage=False,
        parallel_tool_calls=False,
        required_word="any",
        max_tokens_field="max_completion_tokens",
        system_role="developer",
        extra={"seed": 1},
    )
    assert "stream_options" not in sent
    assert sent["tool_choice"] == "any"
    assert sent["parallel_tool_calls"] is False
    assert (sent["max_completion_tokens"], sent["temperature"], sent["top_p"], sent["seed"]) == (9, 0.0, 0.5, 1)
    assert sent["tools"][0] == {
        "type": "function",
        "function": {"name": "f", "description": "does f", "parameters": TOOL.parameters},
    }
    assert "stream" not in body(stream=False)


def test_a_choice_without_tools_is_not_sent() -> None:
    assert "tool_choice" not in body(fields={"tool_choice": "none"})


def test_a_turn_with_results_and_images() -> None:
    sent = wire(
        Message(role="user", blocks=(TextBlock(text="look"), PIXEL)),
        answer(TextBlock(text="ok"), tool_call("n1", "f", "p1", x=1), tool_call("n2", "f", "p2")),
        Message(
            role="tool",
            blocks=(
                ToolResult(call_id="n1", text="bad", is_error=True),
                ToolResult(call_id="n2", text="", images=(PIXEL,)),
            ),
        ),
    )
    assert sent[0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    assert sent[1] == {
        "role": "assistant",
        "content": "ok",
        "tool_calls": [
            {"id": "p1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
            {"id": "p2", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        ],
    }
    assert sent[2] == {"role": "tool", "tool_call_id": "p1", "content": "Error: bad"}
    assert sent[3] == {"role": "tool", "tool_call_id": "p2", "content": "(no output)"}
    assert sent[4]["role"] == "user"
    assert sent[4]["content"][1]["type"] == "image_url"


def test_a_model_that_cannot_see_gets_a_note() -> None:
    sent = wire(Message(role="user", blocks=(TextBlock(text="look"), PIXEL)), images=False)
    assert "cannot see" in sent[0]["content"]
    assert "AAAA" not in json.dumps(sent)


def test_calls_without_text_have_null_content() -> None:
    assert wire(user("a"), answer(tool_call("n1")), results(("n1", "r")))[1]["content"] is None


def test_ids_are_unique_on_the_wire_and_pair_up() -> None:
    sent = wire(
        user("a"),
        answer(tool_call("n1", provider_id="s:0")),
        results(("n1", "r1")),
        answer(tool_call("n2", provider_id="s:0"), tool_call("n3", provider_id="s:0"), tool_call("n4")),
        results(("n2", "r2"), ("n3", "r3"), ("n4", "r4")),
    )
    given = [one["id"] for message in sent for one in message.get("tool_calls", ())]
    assert given[0] == "s:0"
    assert len(set(given)) == 4
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == given
    assert given == [one["id"] for message in wire(*_same()) for one in message.get("tool_calls", ())]


def _same() -> tuple[Message, ...]:
    return (
        user("a"),
        answer(tool_call("n1", provider_id="s:0")),
        results(("n1", "r1")),
        answer(tool_call("n2", provider_id="s:0"), tool_call("n3", provider_id="s:0"), tool_call("n4")),
        results(("n2", "r2"), ("n3", "r3"), ("n4", "r4")),
    )


def test_ids_of_another_provider_are_not_sent_and_nine_letters_where_demanded() -> None:
    sent = wire(
        user("a"), answer(tool_call("n1", provider_id="x!"), origin="other"), results(("n1", "r")), id_style="nine"
    )
    wire_id = sent[1]["tool_calls"][0]["id"]
    assert len(wire_id) == 9
    assert wire_id.isalnum()
    assert sent[2]["tool_call_id"] == wire_id


def thinking(field: str, text: str = "why") -> ThinkingBlock:
    return ThinkingBlock(text=text, opaque={"field": field})


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_thinking_goes_back_under_its_name_while_the_loop_is_open(field: str) -> None:
    loop = (user("a"), answer(thinking(field), tool_call("n1")), results(("n1", "r")))
    assert wire(*loop)[1][field] == "why"
    assert field not in wire(*loop, user("next"))[1]
    assert field not in wire(*loop, replay_reasoning="never")[1]
    assert wire(*loop, user("next"), replay_reasoning="always")[1][field] == "why"


def test_always_means_also_when_there_was_none_or_it_was_anothers() -> None:
    sent = wire(
        user("a"),
        answer(tool_call("n1")),
        results(("n1", "r")),
        answer(thinking("reasoning", "secret of another"), TextBlock(text="b"), origin="other"),
        user("c"),
        replay_reasoning="always",
    )
    assert sent[1]["reasoning_content"] == ""
    assert sent[3]["reasoning_content"] == ""
    assert "secret" not in json.dumps(sent)


def test_structured_thinking_and_unknown_keys_go_back_to_their_provider_only() -> None:
    google = {"google": {"thought_signature": "S"}}
    raw = sse(
        chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "AAA"}], note="keep"),
        chunk(tool_calls=[call(0, "p1", "f", "{}", extra_content=google)]),
        chunk("tool_calls"),
    )
    got = completion("openai", raw).message
    got = Message.model_validate_json(got.model_dump_json())  # as the log keeps it
    sent = wire(user("a"), got, results(("call_0", "r")), user("b"))[1]
    assert sent["reasoning_details"] == [{"type": "reasoning.encrypted", "data": "AAA"}]
    assert sent["note"] == "keep"
    assert sent["tool_calls"][0]["extra_content"] == google
    other = prepare(provider(name="other"), ask(user("a"), got, results(("call_0", "r")))).body
    assert "AAA" not in json.dumps(other)
    assert "thought_signature" not in json.dumps(other)
    assert "keep" not in json.dumps(other)


def test_a_mark_for_calls_of_others_where_a_model_demands_one() -> None:
    mark = {"extra_content": {"sig": "none"}}
    foreign = answer(tool_call("n1"), tool_call("n2"), origin="other")
    history = (user("a"), foreign, results(("n1", "r"), ("n2", "r")))
    sent = wire(*history, unsigned_calls={"^m$": mark})[1]["tool_calls"]
    assert [one.get("extra_content") for one in sent] == [mark["extra_content"], None]
    assert "extra_content" not in wire(*history, unsigned_calls={"^other$": mark})[1]["tool_calls"][0]
    own = (user("a"), answer(tool_call("n1")), results(("n1", "r")))
    assert "extra_content" not in wire(*own, unsigned_calls={"^m$": mark})[1]["tool_calls"][0]


def test_thinking_that_came_as_a_part_goes_back_as_one() -> None:
    sent = wire(user("a"), answer(thinking("content"), TextBlock(text="t"), tool_call("n1")), results(("n1", "r")))
    assert sent[1]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "why"}]},
        {"type": "text", "text": "t"},
    ]


def test_names_that_do_not_fit_are_mapped_and_mapped_back() -> None:
    long = "server_with_a_long_name__" + "x" * 60
    names = ["plain", "a.b/c d", "a_b_c_d", long, "ünïcode"]
    tools = tuple(ToolDefinition(name=name, description="", parameters={"type": "object"}) for name in names)
    encoded = prepare(provider(), ask(tools=tools))
    wired = [tool["function"]["name"] for tool in encoded.body["tools"]]
    assert wired[0] == "plain"
    assert len(set(wired)) == len(names)
    assert all(len(name) <= 64 and name.replace("_", "").replace("-", "").isascii() for name in wired)
    assert [encoded.names.ours(name) for name in wired] == names
    again = prepare(provider(), ask(tools=tools[1:2])).body["tools"][0]["function"]["name"]
    assert again == wired[1]  # the same whatever else is offered


def test_a_name_that_cannot_be_made_to_fit_is_left_out_alone() -> None:
    tools = (TOOL, ToolDefinition(name="bad name", description="", parameters={}))
    encoded = prepare(provider(name_pattern="[a-z]{1,3}"), ask(tools=tools))
    assert [tool["function"]["name"] for tool in encoded.body["tools"]] == ["f"]
    assert any("bad name" in notice for notice in encoded.notices)


def test_more_tools_than_the_provider_takes() -> None:
    tools = tuple(ToolDefinition(name=f"t{n}", description="", parameters={}) for n in range(5))
    encoded = prepare(provider(max_tools=3), ask(tools=tools))
    assert len(encoded.body["tools"]) == 3
    assert "5 given" in encoded.notices[0]


CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        ({**CLOSED, "required": []}, False),
        ({"type": "object", "properties": {}}, False),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": {"type": "object"}}}}, False),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": CLOSED}}}, True),
        ({**CLOSED, "$defs": {"x": {"type": "object"}}}, False),
        ({**CLOSED, "properties": {"a": {"anyOf": [{"type": "null"}, {"type": "object"}]}}}, False),
    ],
)
def test_strict_only_where_a_schema_qualifies(schema: dict[str, Any], strict: bool) -> None:
    tool = ToolDefinition(name="f", description="", parameters=schema)
    sent = body(fields={"tools": (tool,)}, strict_schemas=True)["tools"][0]["function"]
    assert sent.get("strict", False) is strict
    assert "strict" not in body(fields={"tools": (tool,)})["tools"][0]["function"]


def test_structured_answers() -> None:
    fields = {"json_schema": CLOSED, "system": "s"}
    assert body(fields=fields)["response_format"]["json_schema"]["strict"] is True
    weak = body(fields=fields, structured="json_object")
    assert weak["response_format"] == {"type": "json_object"}
    assert "additionalProperties" in weak["messages"][0]["content"]
    none = body(fields=fields, structured="none")
    assert "response_format" not in none
    assert "additionalProperties" in none["messages"][0]["content"]


@pytest.mark.parametrize(
    ("style", "effort", "budget", "expected"),
    [
        ("effort", "high", None, {"reasoning_effort": "high"}),
        ("effort", None, 1000, {"reasoning_effort": "low"}),
        ("effort", None, 0, {}),
        ("none", "high", 1000, {}),
        ("openrouter", "high", None, {"reasoning": {"effort": "high"}}),
        ("openrouter", None, 5000, {"reasoning": {"max_tokens": 5000}}),
        ("openrouter", None, 0, {"reasoning": {"enabled": False}}),
        ("deepseek", "max", None, {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}),
        ("deepseek", None, 0, {"thinking": {"type": "disabled"}}),
        ("gemini", "low", None, {"reasoning_effort": "low"}),
        (
            "gemini",
            None,
            0,
            {"extra_body": {"google": {"thinking_config": {"thinking_budget": 0, "include_thoughts": True}}}},
        ),
    ],
)
def test_asking_for_thinking(style: str, effort: str | None, budget: int | None, expected: dict[str, Any]) -> None:
    base = body(reasoning_style=style)
    sent = body(fields={"effort": effort, "thinking_budget": budget}, reasoning_style=style)
    assert {key: value for key, value in sent.items() if base.get(key) != value} == expected


def test_user_messages_are_merged_only_where_demanded() -> None:
    assert len(wire(user("a"), user("b"))) == 2
    assert wire(user("a"), user("b"), merge_user=True) == [{"role": "user", "content": "a\n\nb"}]
    shown = Message(role="tool", blocks=(ToolResult(call_id="n1", text="r", images=(PIXEL,)),))
    sent = wire(user("a"), answer(tool_call("n1")), shown, user("b"), merge_user=True)
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "user"]


def test_text_that_no_json_could_carry_is_made_writable() -> None:
    sent = wire(user("a\ud83d"), answer(TextBlock(text="b\udc00")), user("c"))
    assert json.loads(json.dumps(sent, ensure_ascii=False).encode()) == sent
    assert sent[0]["content"] == "a\ufffd"


def test_a_call_of_an_unknown_tool_in_the_history_has_a_valid_name() -> None:
    bad = ToolCall(id="n1", name="no such tool!", arguments={})
    sent = wire(user("a"), answer(bad), results(("n1", "unknown tool")))
    assert " " not in sent[1]["tool_calls"][0]["function"]["name"]
