from __future__ import annotations

from shared.llm.check import BEGINNING, CONTINUE, INTERRUPTED, repair
from shared.llm.model import Block, Message, TextBlock, ThinkingBlock, ToolResult
from tests.unit.llm.support import results, tool_call, user


def said(*blocks: Block) -> Message:
    return Message(role="assistant", blocks=blocks)


def text(words: str) -> TextBlock:
    return TextBlock(text=words)


def roles(messages: tuple[Message, ...]) -> list[str]:
    return [message.role for message in messages]


def test_a_sound_history_is_left_alone() -> None:
    history = (
        user("a"),
        said(tool_call("1"), tool_call("2")),
        results(("1", "x"), ("2", "y")),
        said(text("b")),
        user("c"),
    )
    assert repair(history) == (history, ())


def test_missing_results_are_answered_with_an_error() -> None:
    fixed, notices = repair((user("a"), said(tool_call("1"), tool_call("2")), results(("1", "x")), user("go on")))
    assert fixed[2].blocks == (
        ToolResult(call_id="1", text="x"),
        ToolResult(call_id="2", text=INTERRUPTED, is_error=True),
    )
    assert roles(fixed) == ["user", "assistant", "tool", "user"]
    assert len(notices) == 1
    fixed, _ = repair((user("a"), said(tool_call("1"))))
    assert roles(fixed) == ["user", "assistant", "tool"]


def test_results_are_put_right_after_their_call_and_in_call_order() -> None:
    fixed, _ = repair(
        (user("a"), said(tool_call("1"), tool_call("2")), user("also"), results(("2", "y")), results(("1", "x")))
    )
    assert roles(fixed) == ["user", "assistant", "tool", "user"]
    assert fixed[2] == results(("1", "x"), ("2", "y"))


def test_orphans_are_left_out() -> None:
    fixed, notices = repair((results(("1", "x")), user("a"), said(text("b")), results(("2", "y")), user("c")))
    assert roles(fixed) == ["user", "assistant", "user"]
    assert len(notices) == 2


def test_pairing_never_reaches_past_the_next_assistant_message() -> None:
    history = (user("a"), said(tool_call("1")), said(tool_call("1")), results(("1", "second")))
    fixed, _ = repair(history)
    assert [
        one.text for message in fixed if message.role == "tool" for one in message.blocks if isinstance(one, ToolResult)
    ] == [
        INTERRUPTED,
        "second",
    ]


def test_the_first_of_two_results_counts() -> None:
    fixed, notices = repair((user("a"), said(tool_call("1")), results(("1", "x"), ("1", "y"))))
    assert fixed[2] == results(("1", "x"))
    assert notices


def test_it_never_ends_with_the_assistant() -> None:
    fixed, _ = repair((user("a"), said(text("partial"))))
    assert fixed[-1] == user(CONTINUE)


def test_it_begins_with_the_user() -> None:
    fixed, _ = repair((said(tool_call("1")), results(("1", "x")), user("a")))
    assert fixed[0] == user(BEGINNING)


def test_nothing_empty_is_left() -> None:
    fixed, _ = repair(
        (user("  "), user("a"), said(text(""), ThinkingBlock(text="hm")), said(text(" "), text("b")), user("c"))
    )
    assert fixed == (user("a"), said(text("b")), user("c"))
    assert repair(()) == ((), ())


def test_merging_users() -> None:
    fixed, _ = repair((user("a"), user("b")), merge_user=True)
    assert fixed[0].blocks == (text("a"), text("b"))
    assert len(fixed) == 1
    assert len(repair((user("a"), user("b")))[0]) == 2
