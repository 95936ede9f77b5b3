"""The repair pass on histories that nobody would write."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.llm.check import repair
from shared.llm.dialects import DIALECTS, prepare
from shared.llm.model import ImageBlock, Message, Request, TextBlock, ThinkingBlock, ToolCall, ToolResult
from shared.llm.provider import Provider
from shared.llm.switches import Switches

pytestmark = pytest.mark.property

IDS = st.sampled_from(["a", "b", "c"])
BLOCKS = st.one_of(
    st.builds(TextBlock, text=st.sampled_from(["", " ", "words"])),
    st.just(ImageBlock(media_type="image/png", data="AA")),
    st.builds(ThinkingBlock, text=st.sampled_from(["", "hm"]), opaque=st.sampled_from([{}, {"signature": "S"}])),
    st.builds(
        ToolCall,
        id=IDS,
        provider_id=st.sampled_from(["", "p"]),
        name=st.sampled_from(["f", "a b"]),
        arguments=st.just({}),
    ),
    st.builds(ToolResult, call_id=IDS, text=st.sampled_from(["", "r"])),
)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant", "tool"]),
    blocks=st.lists(BLOCKS, max_size=4).map(tuple),
    origin=st.sampled_from(["", "p"]),
)
HISTORIES = st.lists(MESSAGES, max_size=10).map(tuple)


@given(HISTORIES, st.booleans())
@settings(max_examples=300, deadline=None)
def test_it_is_idempotent_and_its_result_is_sound(history: tuple[Message, ...], merge: bool) -> None:
    fixed, notices = repair(history, merge_user=merge)
    assert repair(fixed, merge_user=merge) == (fixed, ())
    if fixed == history:
        assert notices == ()
    for at, message in enumerate(fixed):
        assert message.blocks
        after = fixed[at + 1] if at + 1 < len(fixed) else None
        if message.calls:
            assert after is not None
            assert after.role == "tool"
            assert [one.call_id for one in after.blocks if isinstance(one, ToolResult)] == [
                one.id for one in message.calls
            ]
        elif after is not None:
            assert after.role != "tool"
        if merge and after is not None:
            assert not (message.role == after.role == "user")
    if fixed:
        assert fixed[0].role == "user"
        assert fixed[-1].role != "assistant"


@given(HISTORIES, st.sampled_from(sorted(DIALECTS)), st.booleans())
@settings(max_examples=300, deadline=None)
def test_every_call_on_the_wire_has_its_result_and_an_id_of_its_own(
    history: tuple[Message, ...], dialect: str, merge: bool
) -> None:
    provider = Provider(name="p", dialect=dialect, base_url="http://x/v1", switches=Switches(merge_user=merge))
    body = prepare(provider, Request(model="m", messages=history)).body
    asked, answered = [], []
    for message in body["messages"]:
        content = message["content"] if isinstance(message["content"], list) else []
        asked += [one["id"] for one in message.get("tool_calls", ())]
        asked += [one["id"] for one in content if one["type"] == "tool_use"]
        answered += [message["tool_call_id"]] if message["role"] == "tool" else []
        answered += [one["tool_use_id"] for one in content if one["type"] == "tool_result"]
    assert asked == answered
    assert len(set(asked)) == len(asked)
