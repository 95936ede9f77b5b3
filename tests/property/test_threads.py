"""The fold of a session with subagents: whatever order their entries come in, each run has the same conversation."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contract import NodeResult, NodeState
from shared.entries import (
    Assistant,
    Context,
    Decided,
    Elided,
    FactSet,
    LogEntry,
    News,
    Node,
    NodeEnded,
    Nudge,
    Offered,
    RunEnded,
    Steer,
    Stored,
    Undone,
    UserMessage,
    Waiting,
)
from shared.fold import Conversation, SessionFold
from shared.llm.model import Block, Finish, Message, TextBlock, ToolCall, Usage

pytestmark = pytest.mark.property

Row = tuple[str, LogEntry]
ENDS = [s for s in NodeState if s.terminal]
STARTED = ("r1.1.1.0", "r1.1.1.1", "r1.1.1.2")
"""Nodes of the first root that wait for the runs of subagents."""


def opened(run: str, parent: str = "", path: tuple[str, ...] = ()) -> UserMessage:
    return UserMessage(
        run=run, principal="owner", session="s", received_ms=1, text=f"task of {run}", parent=parent, path=path
    )


def said(run: str, step: int, *nodes: str) -> Assistant:
    calls = tuple(ToolCall(id=n, name="probe", arguments={}) for n in nodes)
    blocks: tuple[Block, ...] = (TextBlock(text=f"{run} at {step}"), *calls)
    finish = Finish.TOOL_CALLS if nodes else Finish.STOP
    return Assistant(
        step=step,
        attempt=1,
        message=Message(role="assistant", blocks=blocks),
        finish=finish,
        usage=Usage(input=step, output=1),
        cost="0.25",
    )


def ended(draw: st.DrawFn, node: str, *, paid: bool = False) -> NodeEnded:
    state = draw(st.sampled_from(ENDS))
    usage = Usage(input=100, output=10) if paid else None
    cost = draw(st.sampled_from(["0.5", None])) if paid else None
    return NodeEnded(node=node, result=NodeResult(state=state, text=f"end of {node}", usage=usage, cost=cost))


@st.composite
def waits(draw: st.DrawFn, node: str) -> list[LogEntry]:
    """What may happen to a node before it ends, twice if it was asked about again."""
    entries: list[LogEntry] = []
    for _ in range(draw(st.integers(0, 2))):
        entries.append(Waiting(node=node, kind="approval", tool="probe", args_hash="h"))
        scope = draw(st.sampled_from(["once", "session"]))
        decided = {"node": node, "tool": "probe", "args_hash": "h", "allowed": draw(st.booleans()), "scope": scope}
        if draw(st.booleans()):
            entries.append(Decided.model_validate(decided))
    return entries


@st.composite
def beside(draw: st.DrawFn, run: str) -> LogEntry:
    """What may come at any time."""
    version = draw(st.integers(1, 9))
    entries: list[LogEntry] = [
        Steer(text=f"hurry, {run}"),
        Nudge(reason="x", text=f"nudge of {run}"),
        News(text=f"<context>news of {run}</context>", facts={"colour": version}),
        Offered(layer="find_tools", tools=(f"tool of {run}",)),
        Offered(layer="keywords", groups=(f"group of {run}",)),
    ]
    return draw(st.sampled_from(entries))


@st.composite
def story(draw: st.DrawFn, run: str, parent: str = "", path: tuple[str, ...] = (), nodes: int = -1) -> list[Row]:
    """All entries of one run, in their order."""
    rows: list[LogEntry] = [opened(run, parent, path)]
    if draw(st.booleans()):
        rows.append(Context(text=f"<context>now of {run}</context>", facts={"name": draw(st.integers(1, 9))}))
    steps = 1 if nodes >= 0 else draw(st.integers(0, 2))
    for step in range(1, steps + 1):
        ids = [f"{run}.{step}.1.{n}" for n in range(nodes if nodes >= 0 else draw(st.integers(1, 3)))]
        rows.append(said(run, step, *ids))
        rows += [Node(node=i, step=step, position=n, tool="probe") for n, i in enumerate(ids)]
        for node in ids:
            rows += draw(waits(node))
            rows += draw(st.lists(beside(run), max_size=1))
        for node in draw(st.permutations(ids)):
            rows.append(ended(draw, node, paid=nodes >= 0))
        if draw(st.booleans()):
            rows.append(Elided(lines={ids[0]: "(left out)"}))
    state = draw(st.sampled_from(["ended", "failed", "cancelled", "lost", "open"]))
    if state == "ended":
        rows.append(said(run, steps + 1))
    if state != "open":
        rows.append(
            RunEnded.model_validate({"state": state, "finish_reason": state, "answer": f"{run} at {steps + 1}"})
        )
    return [(run, value) for value in rows]


@st.composite
def sessions(draw: st.DrawFn) -> list[list[Row]]:
    """Threads whose entries may be mixed: the roots, one after the other; each subagent, and one of a subagent's; and
    facts, which are set by whoever likes."""
    roots = draw(story("r1", nodes=len(STARTED)))
    if draw(st.booleans()):
        roots += draw(story("r2"))
    if draw(st.booleans()):
        roots.append((draw(st.sampled_from(["r1", "r2"])), Undone(run=draw(st.sampled_from(["r1", "r2"])))))
    children = [draw(story(f"c{n}", node, ("root", "child"))) for n, node in enumerate(STARTED)]
    children.append(draw(story("g0", "c0.1.1.0", ("root", "child", "grandchild"))))
    facts: list[Row] = [("c1", FactSet(name="colour", version=n, row={"value": n, "by": "c1"})) for n in range(1, 4)]
    return [roots, *children, facts]


@st.composite
def mixed(draw: st.DrawFn, threads: list[list[Row]]) -> list[Row]:
    """The entries of all threads in any order that keeps each thread's own."""
    turns = draw(st.permutations([n for n, rows in enumerate(threads) for _ in rows]))
    iterators = [iter(rows) for rows in threads]
    return [next(iterators[n]) for n in turns]


def folded(log: list[Row]) -> SessionFold:
    fold = SessionFold()
    for number, (run, value) in enumerate(log, 1):
        # The same id for the same entry in any order: an entry's id is part of what it opens.
        stamp = f"{1000 + len(repr(value))}-0" if isinstance(value, UserMessage) else f"{number}-0"
        fold.apply(Stored.model_construct(id=stamp, run=run, type=value.T, value=value))
    return fold


def offered(thread: Conversation) -> tuple[list[str], list[str]]:
    return list(thread.offered_groups), list(thread.offered_tools)


@given(st.data(), sessions())
def test_any_mixture_gives_each_run_what_it_had_alone(data: st.DataObject, threads: list[list[Row]]) -> None:
    fold = folded(data.draw(mixed(threads)))
    for rows in threads[:-1]:
        alone = folded(rows)
        for run in {run for run, value in rows if isinstance(value, UserMessage)}:
            assert fold.conversation(run).messages == alone.conversation(run).messages
            assert offered(fold.conversation(run)) == offered(alone.conversation(run))
            assert fold.run(run) == alone.run(run)
    assert fold.facts["colour"].version == 3
    assert {id(fold.conversation(run)) for run in ("r1", "r2", "unheard-of")} == {id(fold.conversation(""))}


@given(st.data(), sessions())
def test_what_belongs_to_the_session_is_the_same_in_any_mixture(data: st.DataObject, threads: list[list[Row]]) -> None:
    one, other = folded(data.draw(mixed(threads))), folded([row for rows in threads for row in rows])
    assert sorted(map(repr, one.granted)) == sorted(map(repr, other.granted))
    assert all(d.allowed and d.scope != "once" for d in one.granted)
    assert one.messages == other.messages
    assert one.facts == other.facts


@given(st.data(), sessions())
def test_nothing_of_a_subagent_is_part_of_another_conversation(data: st.DataObject, threads: list[list[Row]]) -> None:
    fold = folded(data.draw(mixed(threads)))
    names = ["r1", "r2", *(rows[0][0] for rows in threads[1:-1])]
    for run in names:
        others = [n for n in names if fold.conversation(n) is not fold.conversation(run)]
        text = repr(fold.conversation(run).messages)
        assert not [n for n in others if f"{n} at " in text or f"task of {n}" in text or f"of {n}<" in text]


@given(sessions())
def test_a_run_is_charged_for_its_own_steps_and_for_those_it_had_done(threads: list[list[Row]]) -> None:
    for rows in threads[:-1]:
        fold = folded(rows)
        for run in {run for run, value in rows if isinstance(value, UserMessage)}:
            values = [value for other, value in rows if other == run]
            steps = [v.all_usage for v in values if isinstance(v, Assistant)]
            paid = [v.result for v in values if isinstance(v, NodeEnded) and v.result.usage is not None]
            total = sum((r.usage for r in paid if r.usage is not None), sum(steps, Usage()))
            assert fold.run(run).usage == total
            unknown = any(r.cost is None for r in paid)
            spent = Decimal("0.25") * len(steps) + sum(Decimal(r.cost) for r in paid if r.cost is not None)
            assert fold.run(run).cost == (None if unknown else spent)


@given(sessions())
def test_what_a_run_was_told_of_facts_is_the_newest(threads: list[list[Row]]) -> None:
    for rows in threads[:-1]:
        fold = folded(rows)
        for run in {run for run, _ in rows}:
            told: dict[str, int] = {}
            for other, value in rows:
                if other == run and isinstance(value, Context | News):
                    told |= value.facts
            assert fold.run(run).facts_seen == told


@given(sessions())
def test_what_is_asked_about_again_waits_again(threads: list[list[Row]]) -> None:
    for run, rows in ((rows[0][0], rows) for rows in threads[:-1]):
        fold = SessionFold()
        for number, (other, value) in enumerate(rows, 1):
            fold.apply(Stored.model_construct(id=f"{number}-0", run=other, type=value.T, value=value))
            if other == run and isinstance(value, Waiting):
                assert value.node in fold.run(run).open_waits
            if other == run and isinstance(value, Decided | NodeEnded):
                assert value.node not in fold.run(run).open_waits
