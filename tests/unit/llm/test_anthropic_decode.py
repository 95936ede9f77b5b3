"""Streams of the Messages API, as they should be and as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shared.llm.errors import BadRequest, CutStream, LlmError, Overloaded, RateLimited, ServerFault
from shared.llm.model import (
    Completion,
    Finish,
    Opaque,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    Usage,
    UsageSeen,
)
from tests.unit.llm.support import STREAMS, block, completion, decode, delta, end, events, merged, ready, start, stop

THINK_AND_CALL = events(
    start(input_tokens=10, cache_read_input_tokens=5, cache_creation_input_tokens=3, output_tokens=1),
    {"type": "ping"},
    block(0, "thinking", thinking="", signature=""),
    delta(0, "thinking_delta", thinking="Let me"),
    delta(0, "signature_delta", signature="SIG"),
    stop(0),
    block(1, "redacted_thinking", data="XXX"),
    stop(1),
    block(2, "text", text=""),
    delta(2, "text_delta", text="Hé🙂"),
    stop(2),
    block(3, "tool_use", id="t1", name="f", input={}),
    delta(3, "input_json_delta", partial_json=""),
    delta(3, "input_json_delta", partial_json='{"x"'),
    delta(3, "input_json_delta", partial_json=":1}"),
    stop(3),
    block(4, "tool_use", id="t2", name="g", input={}),
    stop(4),
    *end("tool_use", output_tokens=20),
)


def test_a_whole_turn() -> None:
    items = decode("anthropic", [THINK_AND_CALL])
    result = items[-1]
    assert isinstance(result, Completion)
    assert [one.type for one in result.message.blocks] == ["thinking", "thinking", "text", "tool_call", "tool_call"]
    assert result.message.blocks[0] == ThinkingBlock(text="Let me", opaque={"signature": "SIG"})
    assert result.message.blocks[1] == ThinkingBlock(opaque={"redacted": "XXX"})
    assert result.message.text == "Hé🙂"
    assert [(one.id, one.provider_id, one.name, one.arguments) for one in result.message.calls] == [
        ("call_0", "t1", "f", {"x": 1}),
        ("call_1", "t2", "g", {}),
    ]
    assert result.usage == Usage(input=10, cache_read=5, cache_write=3, output=20)
    assert (result.finish, result.raw_finish, result.model) == (Finish.TOOL_CALLS, "tool_use", "m")
    assert [item.usage.output for item in items if isinstance(item, UsageSeen)] == [1, 20]
    assert ready(items) == list(result.message.calls)


def test_a_call_is_announced_when_its_block_ends() -> None:
    upto = THINK_AND_CALL.index(b'{"type": "content_block_stop", "index": 3}')
    with pytest.raises(CutStream):
        decode("anthropic", [THINK_AND_CALL[:upto]])
    from shared.llm.dialects import dialect_of
    from shared.llm.names import WireNames
    from shared.llm.sse import SseParser
    from tests.unit.llm.support import provider

    decoder = dialect_of("anthropic").decoder(provider("anthropic"), WireNames(()))
    parser = SseParser()
    before = [item for event in parser.feed(THINK_AND_CALL[:upto]) for item in decoder.feed(event)]
    assert ready(before) == []
    assert decoder.patient
    after = [item for event in parser.feed(THINK_AND_CALL[upto : upto + 50]) for item in decoder.feed(event)]
    assert [one.name for one in ready(after)] == ["f"]
    assert not decoder.patient


def test_cut_at_every_byte() -> None:
    whole = decode("anthropic", [THINK_AND_CALL])
    for cut in range(len(THINK_AND_CALL)):
        assert decode("anthropic", [THINK_AND_CALL[:cut], THINK_AND_CALL[cut:]]) == whole


def test_a_stream_cut_short_anywhere_is_an_error() -> None:
    last = THINK_AND_CALL.rindex(b'data: {"type": "message_stop"}')
    for size in range(last + len(b'data: {"type": "message_stop"')):
        with pytest.raises(CutStream):
            decode("anthropic", [THINK_AND_CALL[:size]])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", Overloaded),
        ("rate_limit_error", RateLimited),
        ("api_error", ServerFault),
        ("invalid_request_error", BadRequest),
        ("timeout_error", ServerFault),
    ],
)
def test_an_error_event_after_generation_began(kind: str, expected: type[LlmError]) -> None:
    raw = events(
        start(input_tokens=1),
        block(0, "text", text=""),
        delta(0, "text_delta", text="Hel"),
        {"type": "error", "error": {"type": kind, "message": "x"}},
    )
    with pytest.raises(LlmError) as caught:
        decode("anthropic", [raw])
    assert type(caught.value) is expected


def test_the_end_mark_alone_makes_it_complete() -> None:
    body = [start(), block(0, "text", text=""), delta(0, "text_delta", text="Hel"), stop(0)]
    with pytest.raises(CutStream) as caught:
        decode("anthropic", [events(*body)])
    assert caught.value.partial_text == "Hel"
    reason, _ = end("end_turn")
    with pytest.raises(CutStream):
        decode("anthropic", [events(*body, reason)])


def test_a_signature_without_visible_thinking_is_kept() -> None:
    raw = events(
        start(),
        block(0, "thinking", thinking=""),
        delta(0, "signature_delta", signature="S"),
        stop(0),
        block(1, "tool_use", id="t", name="f", input={}),
        stop(1),
        *end("tool_use"),
    )
    assert completion("anthropic", raw).message.blocks[0] == ThinkingBlock(text="", opaque={"signature": "S"})


CALLS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, Any]]]] = {
    "input whole at the start": ([block(0, "tool_use", id="t", name="f", input={"x": 1}), stop(0)], [("f", {"x": 1})]),
    "input null": ([block(0, "tool_use", id="t", name="f", input=None), stop(0)], [("f", {})]),
    "no stop": (
        [block(0, "tool_use", id="t", name="f", input={}), delta(0, "input_json_delta", partial_json='{"x":1}')],
        [("f", {"x": 1})],
    ),
    "interleaved": (
        [
            block(0, "tool_use", id="a", name="f", input={}),
            block(1, "tool_use", id="b", name="g", input={}),
            delta(1, "input_json_delta", partial_json='{"x"'),
            delta(0, "input_json_delta", partial_json='{"x":'),
            delta(1, "input_json_delta", partial_json=":2}"),
            delta(0, "input_json_delta", partial_json="1}"),
            stop(1),
            stop(0),
        ],
        [("f", {"x": 1}), ("g", {"x": 2})],
    ),
    "the same id twice": (
        [
            block(0, "tool_use", id="a", name="f", input={"x": 1}),
            stop(0),
            block(1, "tool_use", id="a", name="f", input={"x": 2}),
            stop(1),
        ],
        [("f", {"x": 1}), ("f", {"x": 2})],
    ),
    "the same index twice": (
        [
            block(0, "tool_use", id="a", name="f", input={"x": 1}),
            stop(0),
            block(0, "tool_use", id="b", name="f", input={}),
            delta(0, "input_json_delta", partial_json='{"x":2}'),
            stop(0),
        ],
        [("f", {"x": 1}), ("f", {"x": 2})],
    ),
    "no index": (
        [
            {"type": "content_block_start", "content_block": {"type": "tool_use", "id": "a", "name": "f", "input": {}}},
            {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": '{"x":1}'}},
            {"type": "content_block_stop"},
        ],
        [("f", {"x": 1})],
    ),
    "unknown events and deltas": (
        [
            {"type": "future_event", "x": 1},
            block(0, "tool_use", id="a", name="f", input={}),
            delta(0, "future_delta", y=2),
            {"type": "content_block_delta", "index": 0, "delta": None},
            {"type": "content_block_start", "index": 1, "content_block": None},
            delta(0, "input_json_delta", partial_json='{"x":1}'),
            stop(0),
            stop(9),
        ],
        [("f", {"x": 1})],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    body, expected = CALLS[name]
    raw = events(start(), *body, *end("tool_use"))
    result = completion("anthropic", raw)
    found = [(one.name, one.arguments) for one in result.message.calls]
    assert found == expected
    whole = decode("anthropic", [raw])
    for cut in range(0, len(raw), 2):
        assert decode("anthropic", [raw[:cut], raw[cut:]]) == whole


def test_deltas_without_a_start_are_not_lost_and_not_run() -> None:
    raw = events(
        start(),
        delta(0, "text_delta", text="Hi"),
        delta(1, "input_json_delta", partial_json='{"x":1}'),
        *end("tool_use"),
    )
    result = completion("anthropic", raw)
    assert result.message.text == "Hi"
    assert result.message.calls == ()
    assert [one.reason for one in result.broken] == ["it has no name"]


@pytest.mark.parametrize("reason", ["max_tokens", "tool_use", "refusal"])
def test_a_cut_call_is_broken_and_its_whole_sibling_stays(reason: str) -> None:
    raw = events(
        start(),
        block(0, "tool_use", id="a", name="f", input={}),
        delta(0, "input_json_delta", partial_json="{}"),
        stop(0),
        block(1, "tool_use", id="b", name="write", input={}),
        delta(1, "input_json_delta", partial_json='{"path":"a","content":"line1'),
        stop(1),
        *end(reason),
    )
    result = completion("anthropic", raw)
    assert [one.name for one in result.message.calls] == ["f"]
    assert [one.name for one in result.broken] == ["write"]


def test_a_call_cut_before_its_input_is_not_a_call_without_arguments() -> None:
    raw = events(start(), block(0, "tool_use", id="a", name="delete_all", input={}), *end("max_tokens"))
    result = completion("anthropic", raw)
    assert result.message.calls == ()
    assert [one.name for one in result.broken] == ["delete_all"]
    assert result.finish is Finish.LENGTH


def test_a_kind_of_block_not_known_yet_is_kept_in_its_place() -> None:
    future: Opaque = {"type": "future_block", "a": [1]}
    raw = events(
        start(),
        {"type": "content_block_start", "index": 0, "content_block": future},
        stop(0),
        block(1, "text", text="Hi"),
        stop(1),
        *end("end_turn"),
    )
    result = completion("anthropic", raw)
    assert result.message.blocks == (ThinkingBlock(opaque={"raw": future}), TextBlock(text="Hi"))


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", Finish.STOP),
        ("stop_sequence", Finish.STOP),
        ("max_tokens", Finish.LENGTH),
        ("refusal", Finish.CONTENT_FILTER),
        ("pause_turn", Finish.UNKNOWN),
        ("tool_use", Finish.STOP),
    ],
)
def test_finish_labels(reason: str, finish: Finish) -> None:
    assert completion("anthropic", events(start(), block(0, "text", text="Hi"), *end(reason))).finish is finish


def test_text_and_thinking_as_they_stream() -> None:
    items = merged(decode("anthropic", [THINK_AND_CALL]))
    assert ThinkingDelta(text="Let me") in items
    assert TextDelta(text="Hé🙂") in items


MESSAGES = sorted(path for path in STREAMS.glob("*-messages_*.sse") if "nostream" not in path.stem)


@pytest.mark.parametrize("path", MESSAGES, ids=lambda path: path.stem)
def test_recorded_streams(path: Path) -> None:
    raw = path.read_bytes()
    whole = decode("anthropic", [raw])
    result = whole[-1]
    assert isinstance(result, Completion)
    assert result.message.blocks
    assert not result.broken
    assert result.usage is not None
    assert result.usage.output > 0
    assert decode("anthropic", (raw[i : i + 1] for i in range(len(raw)))) == whole


def test_recorded_calls() -> None:
    for stream in ("tools_any", "tools_auto", "tool_named"):
        result = completion("anthropic", (STREAMS / f"qwen05-messages_{stream}.sse").read_bytes())
        assert result.finish is Finish.TOOL_CALLS
        assert len(result.message.calls) == 1


def test_a_whole_answer_decodes_like_its_stream() -> None:
    from shared.llm.dialects import dialect_of
    from shared.llm.names import WireNames
    from tests.unit.llm.support import provider

    body = json.loads((STREAMS / "qwen05-messages_nostream.sse").read_bytes())
    decoder = dialect_of("anthropic").decoder(provider("anthropic"), WireNames(()))
    items = decoder.document(body) + decoder.close()
    result = items[-1]
    assert isinstance(result, Completion)
    assert [(one.name, one.arguments) for one in result.message.calls] == [("calculator", {"expression": "37*21"})]
    assert result.usage == Usage(input=1, cache_read=326, output=20)
