"""A turn that was taken back has never been, as far as the conversation goes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.contract import NodeResult, NodeState
from shared.entries import Assistant, Context, LogEntry, Node, NodeEnded, Nudge, RunEnded, Steer, Stored, Undone
from shared.entries import UserMessage as User
from shared.fold import SessionFold
from shared.llm.model import Finish, Message, TextBlock, ToolCall

pytestmark = pytest.mark.property

KINDS = ("text", "calls", "nudge", "steer", "cancelled", "workflow")


def turn(run: str, kinds: list[str]) -> list[LogEntry]:
    """The entries of one run whose steps are of these kinds; a workflow says nothing before its end."""
    common: dict[str, Any] = {"run": run, "principal": "owner", "session": "s", "received_ms": 1}
    answer = RunEnded(state="ended", finish_reason="stop", answer=f"answer {run}")
    if "workflow" in kinds:
        return [User(**common, kind="workflow", workflow="w"), answer]
    out: list[LogEntry] = [User(**common, text=f"ask {run}"), Context(text="now")]
    for step, kind in enumerate(kinds, 1):
        node = f"{run}.{step}.1.0"
        match kind:
            case "calls":
                call = ToolCall(id=node, name="t", arguments={})
                out.append(said(step, call))
                out.append(Node(node=node, step=step, position=0, tool="t"))
                if step % 2:
                    out.append(NodeEnded(node=node, result=NodeResult(state=NodeState.DONE, text=f"out {node}")))
            case "text":
                out.append(said(step, TextBlock(text=f"say {node}")))
            case "nudge":
                out.append(Nudge(reason="continue", text="go on"))
            case "steer":
                out.append(Steer(text=f"join {node}"))
    if "cancelled" in kinds:
        return [*out, RunEnded(state="cancelled", finish_reason="cancelled")]
    return [*out, said(len(kinds) + 1, TextBlock(text=f"answer {run}")), answer]


def said(step: int, block: Any) -> Assistant:
    return Assistant(step=step, attempt=1, message=Message(role="assistant", blocks=(block,)), finish=Finish.STOP)


def fold(turns: list[tuple[str, list[LogEntry]]]) -> SessionFold:
    rows = [(run, value) for run, entries in turns for value in entries]
    return SessionFold.of(
        Stored.model_construct(id=f"{n}-0", run=run, type=value.T, value=value) for n, (run, value) in enumerate(rows)
    )


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.sampled_from(KINDS), max_size=4), min_size=1, max_size=5), st.data())
def test_an_undone_turn_leaves_no_trace_in_the_conversation(turns: list[list[str]], data: st.DataObject) -> None:
    runs = [(f"r{n}", turn(f"r{n}", kinds)) for n, kinds in enumerate(turns)]
    log: list[tuple[str, list[LogEntry]]] = []
    kept: list[tuple[str, list[LogEntry]]] = []
    for run in runs:
        log.append(run)
        kept.append(run)
        while len(kept) > 0 and data.draw(st.booleans(), label="undo"):
            last, _ = kept.pop()
            log.append((last, [Undone(run=last)]))
    assert fold(log).messages == fold(kept).messages


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.sampled_from(KINDS), max_size=3), min_size=2, max_size=5), st.data())
def test_a_turn_in_the_middle_can_be_taken_out_too(turns: list[list[str]], data: st.DataObject) -> None:
    runs = [(f"r{n}", turn(f"r{n}", kinds)) for n, kinds in enumerate(turns)]
    gone, _ = data.draw(st.sampled_from(runs))
    undone: list[LogEntry] = [Undone(run=gone), Undone(run=gone), Undone(run="unheard-of")]
    assert fold([*runs, (gone, undone)]).messages == fold([r for r in runs if r[0] != gone]).messages
