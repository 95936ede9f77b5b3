"""What a subagent is told of the talk, and what a run is told of facts that others set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.context.prompt import FACT_CHARS, TALK_CHARS, fact_lines, news, talk
from shared.llm.model import Message, TextBlock, ToolCall, ToolResult


def user(*texts: str) -> Message:
    return Message(role="user", blocks=tuple(TextBlock(text=t) for t in texts))


def assistant(text: str, *calls: str) -> Message:
    blocks = [ToolCall(id=c, name="probe", arguments={"secret": "argument"}) for c in calls]
    return Message(role="assistant", blocks=((TextBlock(text=text),) if text else ()) + tuple(blocks))


def results(*texts: str) -> Message:
    return Message(role="tool", blocks=tuple(ToolResult(call_id="c", text=t) for t in texts))


def test_what_was_said_in_its_order_without_calls_results_and_context() -> None:
    said = talk(
        [
            user(" my dog is Rufo ", "<context>\nNow: Monday\n</context>"),
            assistant("let me look", "c1"),
            results("secret result"),
            assistant("", "c2"),
            results("another"),
            assistant("Hello, Rufo."),
            user("<context>\nAbout your references\n</context>"),
            user("feed him", "[attachment a.txt]"),
        ]
    )
    assert said.splitlines() == [
        "<context>",
        "The talk so far, for you to know:",
        "User: my dog is Rufo",
        "Assistant: let me look",
        "Assistant: Hello, Rufo.",
        "User: feed him",
        "[attachment a.txt]",
        "</context>",
    ]


@pytest.mark.parametrize(
    "messages", [[], [results("x")], [assistant("", "c")], [user("<context>x</context>"), user(" ")]]
)
def test_where_nothing_was_said_there_is_no_talk(messages: list[Message]) -> None:
    assert talk(messages) == ""


def test_the_newest_part_is_kept() -> None:
    long = "a" * TALK_CHARS + "end"
    lines = talk([user("first"), user(long), assistant("last")]).splitlines()
    assert lines[2] == "User: …" + long[len(long) - (TALK_CHARS - 4) :]
    assert lines[3] == "Assistant: last"
    assert "first" not in lines[2]
    exact = talk([user("first"), user("b" * TALK_CHARS)])
    assert "first" not in exact
    assert "…" not in exact


@pytest.mark.property
@given(st.lists(st.tuples(st.booleans(), st.text(max_size=TALK_CHARS // 2)), max_size=8))
def test_the_talk_is_bounded_and_ends_with_what_was_said_last(rows: list[tuple[bool, str]]) -> None:
    said = talk([user(text) if theirs else assistant(text) for theirs, text in rows])
    spoken = [text.strip() for theirs, text in rows if text.strip() and not text.startswith("<context>")]
    assert bool(said) == bool(spoken)
    assert len(said) <= TALK_CHARS + 100 + 14 * len(spoken)
    if spoken:
        assert said.endswith(spoken[-1][-TALK_CHARS:] + "\n</context>")


def test_facts_are_sorted_and_cut() -> None:
    assert fact_lines({}) == []
    lines = fact_lines({"b": {"ñ": None}, "a": "x" * FACT_CHARS})
    assert lines == ['- a: "' + "x" * (FACT_CHARS - 1) + "…", '- b: {"ñ": null}']
    assert fact_lines({"a": "x" * (FACT_CHARS - 2)}) == ['- a: "' + "x" * (FACT_CHARS - 2) + '"']


def test_news_is_context() -> None:
    text = news({"colour": "green"})
    assert text.startswith("<context>\n")
    assert text.endswith("\n</context>")
    assert '- colour: "green"' in text
    assert talk([user(text)]) == ""
