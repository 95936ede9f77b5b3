"""Streams of OpenAI-compatible servers, as they should be and as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shared.llm.errors import (
    ContextTooLong,
    CutStream,
    LlmError,
    Overloaded,
    RateLimited,
    ServerFault,
)
from shared.llm.model import Completion, Finish, TextDelta, ThinkingBlock, ThinkingDelta, Usage, UsageSeen
from tests.unit.llm.support import STREAMS, call, calls, chunk, completion, decode, merged, ready, sse

WHOLE = [("f", {"x": 1}), ("f", {"x": 2})]


def parsed(result: Completion) -> list[tuple[str, dict[str, Any]]]:
    return [(one.name, one.arguments) for one in result.message.calls]


CALL_STREAMS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, dict[str, Any]]]]] = {
    "ordinary, in pieces": (
        [calls(call(0, "a", "f", "")), calls(call(0, args='{"x"')), calls(call(0, args=":1}")), chunk("tool_calls")],
        [("f", {"x": 1})],
    ),
    "no index, one call": ([calls(call(None, "a", "f", '{"x":1}')), chunk("tool_calls")], [("f", {"x": 1})]),
    "no index, two ids": ([calls(call(None, "a", "f", '{"x":1}')), calls(call(None, "b", "f", '{"x":2}'))], WHOLE),
    "no index, pieces without id": (
        [
            calls(call(None, "a", "f", '{"x"')),
            calls(call(args=":1}")),
            calls(call(None, "b", "f", '{"x"')),
            calls(call(args=":2}")),
        ],
        WHOLE,
    ),
    "null index": ([calls({**call(None, "a", "f", '{"x":1}'), "index": None})], [("f", {"x": 1})]),
    "text index": (
        [calls({**call(None, "a", "f", '{"x"'), "index": "0"}), calls(call(0, args=":1}"))],
        [("f", {"x": 1})],
    ),
    "index only later": ([calls(call(None, "a", "f", '{"x"')), calls(call(0, args=":1}"))], [("f", {"x": 1})]),
    "index missing later": ([calls(call(0, "a", "f", '{"x"')), calls(call(args=":1}"))], [("f", {"x": 1})]),
    "one index for all": ([calls(call(0, "a", "f", '{"x":1}')), calls(call(0, "b", "f", '{"x":2}'))], WHOLE),
    "one index for all, in pieces": (
        [
            calls(call(0, "a", "f", '{"x"')),
            calls(call(0, args=":1}")),
            calls(call(0, "b", "f", '{"x":')),
            calls(call(0, args="2}")),
        ],
        WHOLE,
    ),
    "one index for all, in one event": ([calls(call(0, "a", "f", '{"x":1}'), call(0, "b", "f", '{"x":2}'))], WHOLE),
    "one index, interleaved by id": (
        [
            calls(call(0, "a", "f", '{"x"')),
            calls(call(0, "b", "f", '{"x"')),
            calls(call(0, "a", args=":1}")),
            calls(call(0, "b", args=":2}")),
        ],
        WHOLE,
    ),
    "interleaved by index": (
        [
            calls(call(0, "a", "f"), call(1, "b", "f")),
            calls(call(0, args='{"x"'), call(1, args='{"x":')),
            calls(call(1, args="2}"), call(0, args=":1}")),
        ],
        WHOLE,
    ),
    "ids never": ([calls(call(0, None, "f", '{"x":1}'), call(1, None, "f", '{"x":2}'))], WHOLE),
    "ids never, one index": ([calls(call(0, None, "f", '{"x":1}')), calls(call(0, None, "f", '{"x":2}'))], WHOLE),
    "neither id nor index": ([calls(call(None, None, "f", '{"x":1}')), calls(call(None, None, "f", '{"x":2}'))], WHOLE),
    "neither id nor index, in one event": (
        [calls(call(None, None, "f", '{"x":1}'), call(None, None, "f", '{"x":2}'))],
        WHOLE,
    ),
    "empty id": ([calls(call(0, "", "f", '{"x":1}'), call(1, "", "f", '{"x":2}'))], WHOLE),
    "the same id for both": ([calls(call(0, "s:0", "f", '{"x":1}')), calls(call(1, "s:0", "f", '{"x":2}'))], WHOLE),
    "the same id and index for both": (
        [calls(call(0, "s:0", "f", '{"x":1}')), calls(call(0, "s:0", "f", '{"x":2}'))],
        WHOLE,
    ),
    "a whole call sent twice": (
        [calls(call(0, "a", "f", '{"x":1}')), calls(call(0, "a", "f", '{"x":1}'))],
        [("f", {"x": 1})],
    ),
    "name and id on every piece": (
        [calls(call(0, "a", "f", '{"x"')), calls(call(0, "a", "f", ":1")), calls(call(0, "a", "f", "}"))],
        [("f", {"x": 1})],
    ),
    "name in pieces": ([calls(call(0, "a", "get_")), calls(call(0, None, "time", "{}"))], [("get_time", {})]),
    "id late": ([calls(call(0, None, "f", "")), calls(call(0, "a", args='{"x":1}'))], [("f", {"x": 1})]),
    "arguments as an object": ([calls(call(0, "a", "f", {"x": 1}))], [("f", {"x": 1})]),
    "no arguments at all": ([calls(call(0, "a", "f")), chunk("tool_calls")], [("f", {})]),
    "empty arguments": ([calls(call(0, "a", "f", "")), chunk("stop")], [("f", {})]),
    "blank arguments": ([calls(call(0, "a", "f", " \n")), chunk("tool_calls")], [("f", {})]),
    "null arguments": ([calls(call(0, "a", "f", "null")), chunk("tool_calls")], [("f", {})]),
    "no arguments, twice": ([calls(call(0, "a", "f"), call(1, "b", "g"))], [("f", {}), ("g", {})]),
    "no arguments, twice, no index": (
        [calls(call(None, None, "f")), calls(call(None, None, "g"))],
        [("f", {}), ("g", {})],
    ),
    "index far away": ([calls(call(10**12, "a", "f", '{"x":1}')), calls(call(-3, "b", "f", '{"x":2}'))], WHOLE),
    "not a list": ([chunk(tool_calls=call(0, "a", "f", '{"x":1}'))], [("f", {"x": 1})]),
    "rubbish in the list": (
        [chunk(tool_calls=[None, 7, call(0, "a", "f", '{"x":1}'), {"function": None}])],
        [("f", {"x": 1})],
    ),
}


@pytest.mark.parametrize("name", CALL_STREAMS)
def test_calls(name: str) -> None:
    chunks, expected = CALL_STREAMS[name]
    result = completion("openai", sse(*chunks))
    assert parsed(result) == expected
    assert not result.broken
    assert result.finish is Finish.TOOL_CALLS
    assert len({one.id for one in result.message.calls}) == len(expected)


@pytest.mark.parametrize("name", CALL_STREAMS)
def test_handmade_streams_cut_at_every_byte(name: str) -> None:
    raw = sse(*CALL_STREAMS[name][0])
    whole = decode("openai", [raw])
    for cut in range(len(raw)):
        assert decode("openai", [raw[:cut], raw[cut:]]) == whole


@pytest.mark.parametrize("name", CALL_STREAMS)
def test_what_was_announced_early_is_confirmed_at_the_end(name: str) -> None:
    items = decode("openai", [sse(*CALL_STREAMS[name][0])])
    last = items[-1]
    assert isinstance(last, Completion)
    assert sorted(ready(items), key=lambda one: one.id) == sorted(last.message.calls, key=lambda one: one.id)


@pytest.mark.parametrize("finish", ["length", "tool_calls", "stop", "whatever"])
def test_a_cut_call_is_broken_and_its_whole_sibling_stays(finish: str) -> None:
    raw = sse(calls(call(0, "a", "f", '{"x":1}'), call(1, "b", "write", '{"path":"a","content":"line1')), chunk(finish))
    items = decode("openai", [raw])
    result = items[-1]
    assert isinstance(result, Completion)
    assert parsed(result) == [("f", {"x": 1})]
    assert [one.arguments for one in ready(items)] == [{"x": 1}]
    assert [(one.name, one.provider_id) for one in result.broken] == [("write", "b")]
    assert result.broken[0].raw.endswith("line1")
    assert result.finish is (Finish.LENGTH if finish == "length" else Finish.TOOL_CALLS)


def test_empty_arguments_of_a_cut_answer_are_not_the_empty_object() -> None:
    result = completion("openai", sse(calls(call(0, "a", "f"), call(1, "b", "delete_all")), chunk("length")))
    assert parsed(result) == [("f", {})]
    assert [one.name for one in result.broken] == ["delete_all"]


@pytest.mark.parametrize(
    "args",
    [
        '{"x":1',
        '{"x":1}}',
        '{"x":1}{"x":2}',
        "[1]",
        '"text"',
        "7",
        '{"x":NaN}',
        '{"x":Infinity}',
        "{'x':1}",
        '{"x":"\\ud83d"}',
        "[" * 50_000,
        "x",
    ],
)
def test_what_is_not_a_strict_object_is_never_a_call(args: str) -> None:
    result = completion("openai", sse(calls(call(0, "a", "f", args)), chunk("tool_calls")))
    assert result.message.calls == ()
    assert [one.name for one in result.broken] == ["f"]
    result.model_dump_json()  # can be stored


def test_a_call_without_a_name_is_broken() -> None:
    result = completion("openai", sse(calls(call(0, "a", None, "{}")), chunk("tool_calls")))
    assert [one.reason for one in result.broken] == ["it has no name"]


def test_a_call_is_announced_when_the_next_one_begins_but_not_before_its_arguments() -> None:
    raw = sse(calls(call(0, "a", "f", '{"x":1}')), calls(call(1, "b", "g")), calls(call(2, "c", "h", "{}")), done=False)
    decoder_items = decode_open(raw)
    assert [one.name for one in ready(decoder_items)] == ["f"]


def decode_open(raw: bytes) -> list[Any]:
    from shared.llm.dialects import dialect_of
    from shared.llm.names import WireNames
    from shared.llm.sse import SseParser
    from tests.unit.llm.support import provider

    decoder = dialect_of("openai").decoder(provider(), WireNames(()))
    return [item for event in SseParser().feed(raw) for item in decoder.feed(event)]


def test_an_announced_call_that_changes_afterwards_is_not_confirmed() -> None:
    raw = sse(
        calls(call(0, "a", "f", '{"x":1}')), calls(call(1, "b", "g", "{}")), calls(call(0, args="!")), chunk("stop")
    )
    items = decode("openai", [raw])
    result = items[-1]
    assert isinstance(result, Completion)
    assert [one.name for one in ready(items)] == ["f", "g"]
    assert [one.name for one in result.message.calls] == ["g"]
    assert [one.name for one in result.broken] == ["f"]


TEXT_STREAMS: dict[str, bytes] = {
    "ordinary": sse(chunk(role="assistant", content=""), chunk(content="Hel"), chunk(content="lo"), chunk("stop")),
    "end mark without a reason": sse(chunk(content="Hello")),
    "reason without an end mark": sse(chunk(content="Hello"), chunk("stop"), done=False),
    "no blank line at the end": sse(chunk(content="Hello"), chunk("stop"), done=False) + b"data: [DONE]",
    "no blank lines at all": sse(chunk(content="Hello"), chunk("stop")).replace(b"\n\n", b"\n"),
    "CRLF": sse(chunk(content="Hello"), chunk("stop")).replace(b"\n", b"\r\n"),
    "CR": sse(chunk(content="Hello"), chunk("stop")).replace(b"\n", b"\r"),
    "comments and empty events": b": keep-alive\n\n:\n\nretry: 3000\n\ndata: \n\ndata: : PROCESSING\n\n"
    + sse(chunk(content="Hello"), chunk("stop")),
    "empty choices first and last": sse(
        {"choices": [], "prompt_filter_results": [{}]}, chunk(content="Hello"), chunk("stop"), {"choices": []}
    ),
    "choices of strange kinds": sse(
        {"choices": None},
        {"choices": [None]},
        {"choices": [{"index": 0, "finish_reason": None, "content_filter_results": {}}]},
        {"choices": [{"index": 0, "delta": None}]},
        chunk(content="Hello"),
        chunk("stop"),
        {},
    ),
    "null everywhere": sse(
        chunk(content=None, tool_calls=None, reasoning=None, refusal=None, role=None),
        chunk(content="Hello"),
        chunk("stop"),
    ),
    "an empty reason is none": sse(chunk("", content="Hel"), chunk("", content="lo"), chunk("stop")),
    "text in the last chunk": sse(chunk("stop", content="Hello")),
    "text after the reason": sse(chunk("stop", content="Hel"), chunk(content="lo")),
    "events that are no objects": b"data: null\n\ndata: 5\n\ndata: []\n\n" + sse(chunk(content="Hello"), chunk("stop")),
    "other choices": sse(
        chunk(content="Hello"),
        {"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "length"}]},
        chunk("stop"),
    ),
    "content as parts": sse(chunk(content=[{"type": "text", "text": "Hello"}]), chunk("stop")),
    "one whole answer as an event": sse(
        {"choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}]}
    ),
    "more after the end mark": sse(chunk(content="Hello"), chunk("stop")) + sse(chunk(content=" again")),
    "upper case": sse(chunk(content="Hello"), chunk("STOP")),
    "byte order mark": b"\xef\xbb\xbf" + sse(chunk(content="Hello"), chunk("stop")),
}


@pytest.mark.parametrize("name", TEXT_STREAMS)
def test_text(name: str) -> None:
    raw = TEXT_STREAMS[name]
    whole = decode("openai", [raw])
    result = whole[-1]
    assert isinstance(result, Completion)
    assert result.message.text == "Hello"
    assert result.finish is Finish.STOP
    for cut in range(len(raw)):
        assert decode("openai", [raw[:cut], raw[cut:]]) == whole


@pytest.mark.parametrize(
    "raw",
    [
        sse(chunk(content="Hel"), done=False),
        sse(chunk(content="Hel"), done=False) + b'data: {"choices":[{"delta":{"cont',
        sse(calls(call(0, "a", "f", '{"x":1}')), done=False),
        b"",
        b": comment\n\n",
    ],
)
def test_an_end_without_end_mark_or_reason_is_a_cut(raw: bytes) -> None:
    with pytest.raises(CutStream) as caught:
        decode("openai", [raw])
    assert caught.value.retryable
    assert caught.value.partial_text == ("Hel" if b"Hel" in raw else "")


def test_a_stream_cut_anywhere_is_a_cut_or_complete_but_never_half_an_answer() -> None:
    raw = sse(
        chunk(content="Hi"), calls(call(0, "a", "f", '{"x":1}'), call(1, "b", "g", '{"y":2}')), chunk("tool_calls")
    )
    whole = completion("openai", raw)
    for size in range(len(raw)):
        try:
            result = completion("openai", raw[:size])
        except CutStream:
            continue
        assert result == whole


ERRORS: dict[str, tuple[bytes, type[LlmError]]] = {
    "object with empty choices": (
        sse({"choices": [], "error": {"code": 502, "message": "upstream full"}}),
        ServerFault,
    ),
    "object alone": (sse({"error": {"message": "slow down", "type": "rate_limit_error"}}), RateLimited),
    "text": (sse({"error": "model overloaded"}), Overloaded),
    "raw line": (b'{"error":{"message":"no capacity: overloaded"}}\n\n', Overloaded),
    "event": (b'event: error\ndata: {"message":"too many requests"}\n\n', RateLimited),
    "in a choice": (sse({"choices": [{"index": 0, "error": {"code": 429, "message": "x"}, "delta": {}}]}), RateLimited),
    "reason": (sse(chunk("error")), ServerFault),
    "old form": (
        sse({"object": "error", "message": "maximum context length is 4096 tokens", "code": 40303}),
        ContextTooLong,
    ),
    "after the text was finished": (sse(chunk("stop"), {"error": {"code": 500, "message": "x"}}), ServerFault),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_inside_a_200_stream(name: str) -> None:
    raw, kind = ERRORS[name]
    with pytest.raises(LlmError) as caught:
        decode("openai", [sse(chunk(content="Hel"), done=False) + raw])
    assert type(caught.value) is kind


def test_malformed_json_is_reported() -> None:
    with pytest.raises(ServerFault, match="not JSON") as caught:
        decode("openai", [sse(chunk(content="a"), done=False), b"data: {oops}\n\n", sse(chunk("stop"))])
    assert caught.value.code == "malformed_event"


def test_an_answer_without_a_choice_is_no_empty_success() -> None:
    with pytest.raises(ServerFault):
        decode("openai", [b"data: [DONE]\n\n"])


THINKING: dict[str, list[dict[str, Any]]] = {
    "reasoning_content": [chunk(reasoning_content="Let "), chunk(reasoning_content="me"), chunk(content="Hi")],
    "reasoning": [chunk(reasoning="Let "), chunk(reasoning="me"), chunk(content="Hi")],
    "thinking": [chunk(thinking="Let me"), chunk(content="Hi")],
    "two names at once": [chunk(reasoning="Let me", reasoning_content="Let me"), chunk(content="Hi")],
    "details": [
        chunk(reasoning_details=[{"type": "reasoning.text", "text": "Let me", "index": 0}]),
        chunk(content="Hi"),
    ],
    "summary": [chunk(reasoning_details=[{"type": "reasoning.summary", "summary": "Let me"}]), chunk(content="Hi")],
    "parts": [
        chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Let me"}]}]),
        chunk(content="Hi"),
    ],
    "think": [chunk(content="<think>Let me</think>\n\nHi")],
    "think in pieces": [chunk(content=one) for one in ("\n<th", "ink>", "Let ", "me</", "thi", "nk>", "\n", "\nHi")],
    "thought": [chunk(content="<thought>Let me"), chunk(content="</thought>Hi")],
    "thinking tag": [chunk(content="<Thinking>Let me</Thinking>Hi")],
}


@pytest.mark.parametrize("name", THINKING)
def test_thinking_under_every_name(name: str) -> None:
    raw = sse(*THINKING[name], chunk("stop"))
    items = decode("openai", [raw])
    result = items[-1]
    assert isinstance(result, Completion)
    assert result.message.text == "Hi"
    assert "".join(item.text for item in items if isinstance(item, ThinkingDelta)) == "Let me"
    assert [one.text for one in result.message.blocks if isinstance(one, ThinkingBlock)] == ["Let me"]
    for cut in range(0, len(raw), 3):
        assert decode("openai", [raw[:cut], raw[cut:]]) == items


@pytest.mark.parametrize("text", ["<thin", "<", "a <think>b</think>", "  <b>bold</b>", "   "])
def test_what_only_looks_like_a_tag_is_text(text: str) -> None:
    items = decode("openai", [sse(*(chunk(content=char) for char in text), chunk("stop"))])
    assert "".join(item.text for item in items if isinstance(item, TextDelta)) == text
    assert not any(isinstance(item, ThinkingDelta) for item in items)


def test_thinking_that_never_ends_is_no_answer() -> None:
    result = completion("openai", sse(chunk(content="<think>on and on"), chunk("length")))
    assert result.message.text == ""
    assert result.finish is Finish.LENGTH


def test_details_are_kept_whole_and_in_order() -> None:
    raw = sse(
        chunk(reasoning_details=[{"type": "reasoning.text", "text": "Let ", "index": 0, "format": "v1"}]),
        chunk(reasoning_details=[{"type": "reasoning.text", "text": "me", "index": 0, "signature": "S"}]),
        chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "AAA", "index": 1, "id": "r1"}]),
        chunk("stop", content="Hi"),
    )
    block = completion("openai", raw).message.blocks[0]
    assert isinstance(block, ThinkingBlock)
    assert block.text == "Let me"
    assert block.opaque["reasoning_details"] == [
        {"type": "reasoning.text", "text": "Let me", "index": 0, "format": "v1", "signature": "S"},
        {"type": "reasoning.encrypted", "data": "AAA", "index": 1, "id": "r1"},
    ]


def test_characters_escaped_in_halves() -> None:
    raw = sse(chunk(content="a\ud83d"), chunk(content="\ude42b"))
    assert b"\\ud83d" in raw
    items = decode("openai", [raw])
    assert merged(items)[0] == TextDelta(text="a🙂b")
    lone = raw.replace(b"\\ude42", b"")
    assert completion("openai", lone).message.text == "a\ufffdb"


def test_characters_of_arguments_escaped_in_halves() -> None:
    raw = sse(calls(call(0, "a", "f", '{"x":"\ud83d')), calls(call(0, args='\ude42"}')), chunk("tool_calls"))
    assert parsed(completion("openai", raw)) == [("f", {"x": "🙂"})]
    lone = sse(calls(call(0, "a", "f", '{"x":"\ud83d"}')), chunk("tool_calls"))
    assert completion("openai", lone).message.calls == ()


def test_unknown_keys_are_kept_where_they_came() -> None:
    google = {"google": {"thought_signature": "S"}}
    entry = call(0, "a", "f", "{}", extra_content=google)
    entry["function"]["hint"] = 1
    result = completion(
        "openai", sse(chunk(tool_calls=[entry], provider_note={"a": 1}), chunk(provider_note={"b": 2}), chunk("stop"))
    )
    assert result.message.calls[0].opaque == {"extra_content": google, "function": {"hint": 1}}
    assert result.message.opaque == {"provider_note": {"a": 1, "b": 2}}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5}, Usage(input=10, output=5)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(input=6, cache_read=4, output=2, reasoning=3),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 22}, Usage(input=10, output=5, reasoning=7)),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 8, "total_tokens": 15},
            Usage(input=2, cache_read=8, output=5),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": None, "total_tokens": None},
            Usage(input=10, output=5),
        ),
        (
            {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 99}},
            Usage(cache_read=3, output=1),
        ),
        ({"prompt_tokens": -4, "completion_tokens": "x", "total_tokens": True}, None),
    ],
)
def test_usage(raw: dict[str, Any], expected: Usage | None) -> None:
    for body in (
        sse(chunk(content="a"), chunk("stop"), {"choices": [], "usage": raw}),
        sse(chunk(content="a"), {**chunk("stop"), "usage": raw}),
        sse(chunk(content="a"), {**chunk("stop"), "x_groq": {"usage": raw}}),
    ):
        assert completion("openai", body).usage == expected


def test_usage_on_every_chunk_is_not_added_up() -> None:
    body = sse(
        *({**chunk(content="a"), "usage": {"prompt_tokens": 5, "completion_tokens": n}} for n in (1, 2, 3)),
        chunk("stop"),
    )
    items = decode("openai", [body])
    assert [item.usage.output for item in items if isinstance(item, UsageSeen)] == [1, 2, 3]
    assert completion("openai", body).usage == Usage(input=5, output=3)


@pytest.mark.parametrize(
    ("label", "finish"),
    [
        ("stop", Finish.STOP),
        ("length", Finish.LENGTH),
        ("MAX_TOKENS", Finish.LENGTH),
        ("content_filter", Finish.CONTENT_FILTER),
        ("SAFETY", Finish.CONTENT_FILTER),
        ("tool_calls", Finish.STOP),
        ("malformed_function_call", Finish.UNKNOWN),
    ],
)
def test_finish_labels_of_a_text(label: str, finish: Finish) -> None:
    result = completion("openai", sse(chunk(content="a"), chunk(label)))
    assert (result.finish, result.raw_finish) == (finish, label)


def test_calls_announced_by_the_label_that_never_came() -> None:
    assert completion("openai", sse(chunk("tool_calls"))).finish is Finish.UNKNOWN


@pytest.mark.parametrize(
    ("stream", "text", "names", "broken", "finish"),
    [
        ("chat_text", "¡Hola!", [], [], Finish.STOP),
        ("chat_tools_auto", "", ["get_time"], [], Finish.TOOL_CALLS),
        ("chat_tools_required", "", ["calculator"], [], Finish.TOOL_CALLS),
        ("chat_tool_truncated", "", [], ["save_note"], Finish.LENGTH),
        ("chat_parallel_required", "```json\n", ["get_time"] * 7, [], Finish.LENGTH),
    ],
)
def test_recorded_streams(stream: str, text: str, names: list[str], broken: list[str], finish: Finish) -> None:
    result = completion("openai", (STREAMS / f"qwen05-{stream}.sse").read_bytes())
    assert result.message.text == text
    assert [one.name for one in result.message.calls] == names
    assert [one.name for one in result.broken] == broken
    assert result.finish is finish
    assert result.usage is not None
    assert result.usage.total > 0
    assert result.model == "qwen2.5-coder-0.5b"


CHATS = sorted(path for path in STREAMS.glob("*-chat_*.sse") if "nostream" not in path.stem)


@pytest.mark.parametrize("path", CHATS, ids=lambda path: path.stem)
def test_recorded_streams_byte_by_byte_and_cut_short(path: Path) -> None:
    raw = path.read_bytes()
    whole = decode("openai", [raw])
    assert decode("openai", (raw[i : i + 1] for i in range(len(raw)))) == whole
    last = whole[-1]
    assert isinstance(last, Completion)
    for size in range(0, len(raw), max(1, len(raw) // 60)):
        try:
            short = completion("openai", raw[:size])
        except CutStream:
            continue
        assert short.message == last.message


@pytest.mark.parametrize("stream", ["responses_text", "responses_tools"])
def test_streams_of_another_api_are_refused(stream: str) -> None:
    with pytest.raises(LlmError):
        decode("openai", [(STREAMS / f"qwen05-{stream}.sse").read_bytes()])


def test_a_completion_survives_the_log() -> None:
    result = completion(
        "openai", sse(calls(call(0, "a", "f", '{"x":[1,null,"é"]}', extra_content={"k": [1]})), chunk("stop"))
    )
    assert Completion.model_validate_json(result.model_dump_json()) == result
    newer = json.loads(result.model_dump_json()) | {"field_of_a_later_version": 1}
    assert Completion.model_validate(newer) == result
