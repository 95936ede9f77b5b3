"""Streams whose pieces are shuffled, split, repeated and bent: never a wrong call, never a foreign exception."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.llm.errors import LlmError
from shared.llm.model import Completion, TextDelta
from shared.llm.sse import SseParser
from shared.llm.text import ThinkSplitter
from tests.unit.llm.support import calls, chunk, completion, decode, events, merged, sse

pytestmark = pytest.mark.property

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.sampled_from('a"\\{}é🙂\n'), max_size=6),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text("xy", min_size=1, max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(st.text("xyz", min_size=1, max_size=2), VALUES, max_size=3)


@st.composite
def interleaved(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Some calls, each cut into pieces, the pieces of all mixed, in the way of a server that gives index and id."""
    wanted = draw(st.lists(ARGUMENTS, min_size=1, max_size=4))
    queues = []
    for index, arguments in enumerate(wanted):
        text = json.dumps(arguments)
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        head = {
            "index": index,
            "id": f"id{index}",
            "type": "function",
            "function": {"name": f"f{index}", "arguments": pieces[0]},
        }
        queues.append([head, *({"index": index, "function": {"arguments": piece}} for piece in pieces[1:])])
    mixed = [queue.pop(0) for queue in queues]  # heads come in order, the rest does not
    while any(queues):
        mixed.append(draw(st.sampled_from([queue for queue in queues if queue])).pop(0))
    return wanted, mixed


@given(interleaved(), st.data())
@settings(max_examples=200, deadline=None)
def test_interleaved_pieces(case: tuple[list[dict[str, Any]], list[dict[str, Any]]], data: st.DataObject) -> None:
    wanted, fragments = case
    groups: list[dict[str, Any]] = []
    rest = list(fragments)
    while rest:
        size = data.draw(st.integers(1, 3))
        groups.append(calls(*rest[:size]))
        rest = rest[size:]
    raw = sse(*groups, chunk("tool_calls"))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=5)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    result = completion("openai", *pieces)
    assert [one.arguments for one in result.message.calls] == wanted
    assert [one.provider_id for one in result.message.calls] == [f"id{n}" for n in range(len(wanted))]
    assert not result.broken


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
STRANGE = st.one_of(
    JSON,
    st.sampled_from(["\ud83d", "\ude42", {"a": ["\udc00"]}]),
    st.sampled_from(["", "a", "f", "{}", '{"x":1}', '{"x"', ":1}", 0, 1, -1, None]),
)
OPENAI = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "index": STRANGE,
                    "finish_reason": STRANGE,
                    "delta": st.fixed_dictionaries(
                        {},
                        optional={
                            "content": STRANGE,
                            "reasoning": STRANGE,
                            "reasoning_details": STRANGE,
                            "refusal": STRANGE,
                            "odd": STRANGE,
                            "tool_calls": st.lists(
                                st.fixed_dictionaries(
                                    {},
                                    optional={
                                        "index": STRANGE,
                                        "id": STRANGE,
                                        "odd": STRANGE,
                                        "function": st.fixed_dictionaries(
                                            {}, optional={"name": STRANGE, "arguments": STRANGE, "odd": STRANGE}
                                        ),
                                    },
                                ),
                                max_size=3,
                            ),
                        },
                    ),
                },
            ),
            max_size=2,
        ),
        "usage": STRANGE,
        "model": STRANGE,
        "x_groq": STRANGE,
    },
)
ANTHROPIC = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"]
        )
    },
    optional={
        "index": STRANGE,
        "message": STRANGE,
        "usage": STRANGE,
        "content_block": st.fixed_dictionaries(
            {"type": st.sampled_from(["text", "tool_use", "thinking", "redacted_thinking", "odd"])},
            optional={
                "text": STRANGE,
                "id": STRANGE,
                "name": STRANGE,
                "input": STRANGE,
                "thinking": STRANGE,
                "signature": STRANGE,
            },
        ),
        "delta": st.fixed_dictionaries(
            {"type": st.sampled_from(["text_delta", "input_json_delta", "thinking_delta", "signature_delta", "odd"])},
            optional={
                "text": STRANGE,
                "partial_json": STRANGE,
                "thinking": STRANGE,
                "signature": STRANGE,
                "stop_reason": STRANGE,
            },
        ),
    },
)


def check(dialect: str, raw: bytes, cut: int) -> None:
    """Either an error of ours, or a message that can be stored, read back and shown; the same however it is cut."""
    cut = min(cut, len(raw))
    try:
        whole = decode(dialect, [raw])
    except LlmError as error:
        with pytest.raises(type(error)):
            decode(dialect, [raw[:cut], raw[cut:]])
        return
    assert decode(dialect, [raw[:cut], raw[cut:]]) == whole
    last = whole[-1]
    assert isinstance(last, Completion)
    assert Completion.model_validate_json(last.model_dump_json()) == last
    assert len({one.id for one in last.message.calls}) == len(last.message.calls)
    shown = "".join(item.text for item in merged(whole) if isinstance(item, TextDelta))
    assert shown == last.message.text


@given(st.lists(OPENAI, max_size=5), st.integers(0, 3000))
@settings(max_examples=300, deadline=None)
def test_absurd_chunks(chunks: list[dict[str, Any]], cut: int) -> None:
    check("openai", sse(*chunks, chunk("stop")), cut)


@given(st.lists(ANTHROPIC, max_size=6), st.integers(0, 3000))
@settings(max_examples=300, deadline=None)
def test_absurd_events(values: list[dict[str, Any]], cut: int) -> None:
    check("anthropic", events(*values, {"type": "message_stop"}), cut)


PARTS = [b"data: a", b"data:", b": c", b"event: e", b"\n", b"\r", b"\r\n", b"{", b"x", b"\xc3", b"\xa9"]


@given(st.lists(st.sampled_from(PARTS), max_size=20), st.data())
@settings(max_examples=400, deadline=None)
def test_bytes_split_anywhere(parts: list[bytes], data: st.DataObject) -> None:
    raw = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))

    def parse(pieces: list[bytes]) -> list[Any]:
        parser = SseParser()
        return [event for piece in pieces for event in parser.feed(piece)] + parser.close()

    assert parse([raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]) == parse([raw])


TAGS = ["<think>", "</think>", "<th", "ink>", "a", " ", "\n", "<", "İ", "</", "THINK>"]


@given(st.lists(st.sampled_from(TAGS), max_size=10).map("".join), st.data())
@settings(max_examples=400, deadline=None)
def test_tags_split_anywhere(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))

    def split(pieces: list[str]) -> dict[str, str]:
        splitter, out = ThinkSplitter(), {"text": "", "thinking": ""}
        for piece in [one for part in pieces for one in splitter.feed(part)] + splitter.close():
            out[piece.kind] += piece.text
        return out

    assert split([text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]) == split([text])
