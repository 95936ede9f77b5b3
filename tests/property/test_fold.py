"""The fold under generated sessions: whatever the order of results and the ends of runs, the conversation holds."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contract import NodeResult, NodeState
from shared.entries import Assistant, Context, LogEntry, Node, NodeEnded, Nudge, RunEnded, Steer, Stored, UserMessage
from shared.fold import SessionFold
from shared.llm.model import Finish, Message, TextBlock, ToolCall, ToolResult, Usage

pytestmark = pytest.mark.property

ENDS = [s for s in NodeState if s.terminal]
Row = tuple[str, LogEntry]


@dataclass
class Turn:
    """A step: what opens it, and what happens until the next one, in two orders."""

    opening: list[LogEntry]
    one: list[LogEntry]
    other: list[LogEntry]


@st.composite
def turns(draw: st.DrawFn, run: str, step: int, *, whole: bool) -> Turn:
    """A model's turn with calls, their results in any order, and messages that join meanwhile.

    `whole`: every call has its result, as before a next step; else some may be missing.
    """
    count = draw(st.integers(1, 4))
    ids = [f"{run}.{step}.1.{n}" for n in range(count)]
    calls = tuple(ToolCall(id=i, name="probe", arguments={}) for i in ids)
    text = (TextBlock(text=f"step {step}"),) if draw(st.booleans()) else ()
    assistant = Assistant(
        step=step,
        attempt=1,
        message=Message(role="assistant", blocks=(*text, *calls)),
        finish=Finish.TOOL_CALLS,
        usage=Usage(output=step),
        cost="0.01",
    )
    nodes = [Node(node=i, step=step, position=n, tool="probe") for n, i in enumerate(ids)]
    kept = ids if whole else draw(st.lists(st.sampled_from(ids), unique=True))
    results: list[LogEntry] = [
        NodeEnded(node=i, result=NodeResult(state=draw(st.sampled_from(ENDS)), text=draw(st.text(max_size=5))))
        for i in kept
    ]
    joined: list[LogEntry] = [
        Steer(text=f"steer {n}") if draw(st.booleans()) else Nudge(reason="x", text=f"nudge {n}")
        for n in range(draw(st.integers(0, 2)))
    ]
    orders = [_interleaved(draw, draw(st.permutations(results)), joined) for _ in range(2)]
    return Turn([assistant, *nodes], *orders)


def _interleaved(draw: st.DrawFn, results: list[LogEntry], joined: list[LogEntry]) -> list[LogEntry]:
    out = list(results)
    at = 0
    for entry in joined:  # they keep their order among themselves
        at = draw(st.integers(at, len(out)))
        out.insert(at, entry)
        at += 1
    return out


@st.composite
def sessions(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    """The log of a session of several runs, twice: the same but for the order of results within each turn."""
    logs: tuple[list[Row], list[Row]] = ([], [])
    for number in range(draw(st.integers(1, 4))):
        run = f"r{number}"
        state = draw(st.sampled_from(["ended", "failed", "cancelled", "lost", "open"]))
        opened = UserMessage(run=run, principal="owner", session="s", received_ms=1, text=f"message {number}")
        _both(logs, run, [opened, Context(text="now")])
        steps = draw(st.integers(0, 3))
        for step in range(1, steps + 1):
            last = step == steps and state not in ("ended", "failed")
            turn = draw(turns(run, step, whole=not last))
            _both(logs, run, turn.opening)
            logs[0].extend((run, e) for e in turn.one)
            logs[1].extend((run, e) for e in turn.other)
        if state == "open":
            return logs
        answer = f"answer {number}" if state == "ended" else ""
        if answer:
            said = Message(role="assistant", blocks=(TextBlock(text=answer),))
            _both(logs, run, [Assistant(step=steps + 1, attempt=1, message=said, finish=Finish.STOP, cost="0.01")])
        _both(logs, run, [RunEnded.model_validate({"state": state, "finish_reason": state, "answer": answer})])
    return logs


def _both(logs: tuple[list[Row], list[Row]], run: str, entries: list[LogEntry]) -> None:
    for log in logs:
        log.extend((run, e) for e in entries)


def stored(log: list[Row]) -> list[Stored]:
    return [
        Stored.model_construct(id=f"{number}-0", run=run, type=value.T, value=value)
        for number, (run, value) in enumerate(log, 1)
    ]


def check(messages: list[Message]) -> None:
    """What every provider demands: each call has exactly one result, directly behind, in call order."""
    asked: set[str] = set()
    for number, message in enumerate(messages):
        following = messages[number + 1] if number + 1 < len(messages) else None
        if message.calls:
            ids = [call.id for call in message.calls]
            assert following is not None
            assert following.role == "tool"
            assert [b.call_id for b in following.blocks if isinstance(b, ToolResult)] == ids
            assert len(following.blocks) == len(ids)
            assert not asked.intersection(ids)
            asked.update(ids)
        if message.role == "tool":
            assert number > 0
            assert messages[number - 1].calls
        assert message.blocks
        assert number == 0 or message.role != "assistant" or messages[number - 1].role != "assistant"
    assert not messages or messages[0].role == "user"


@given(sessions())
def test_any_order_of_results_gives_the_same_conversation(logs: tuple[list[Row], list[Row]]) -> None:
    one, other = (SessionFold.of(stored(log)) for log in logs)
    assert one.messages == other.messages
    for rid, run in one.runs.items():
        assert run.results == other.run(rid).results
        assert (run.usage, run.cost, run.steps) == (other.run(rid).usage, other.run(rid).cost, other.run(rid).steps)


@given(sessions())
def test_every_prefix_is_a_valid_conversation(logs: tuple[list[Row], list[Row]]) -> None:
    fold = SessionFold()
    for entry in stored(logs[0]):
        fold.apply(entry)
        check(fold.messages)


@given(sessions(), st.data())
def test_folding_goes_on_where_it_stopped(logs: tuple[list[Row], list[Row]], data: st.DataObject) -> None:
    entries = stored(logs[0])
    cut = data.draw(st.integers(0, len(entries)))
    fold = SessionFold.of(entries[:cut])
    _ = fold.messages  # looking changes nothing
    for entry in entries[cut:]:
        fold.apply(entry)
    whole = SessionFold.of(entries)
    assert fold.messages == whole.messages
    assert fold.runs == whole.runs
    assert fold.last_id == whole.last_id


@given(sessions())
def test_what_was_said_once_never_changes(logs: tuple[list[Row], list[Row]]) -> None:
    """The bytes of earlier turns are what prompt caches live on: a settled message stays as it is."""
    fold = SessionFold()
    settled: list[Message] = []
    for entry in stored(logs[0]):
        fold.apply(entry)
        if isinstance(entry.value, UserMessage):
            now = fold.messages[:-1]
            assert now[: len(settled)] == settled
            settled = now


@given(sessions())
def test_results_of_ended_nodes_reach_the_model(logs: tuple[list[Row], list[Row]]) -> None:
    fold = SessionFold.of(stored(logs[0]))
    seen = {b.call_id: b.text for m in fold.messages for b in m.blocks if isinstance(b, ToolResult)}
    for run in fold.runs.values():
        for node, result in run.results.items():
            assert seen[node] == (result.text or "(no output)")
