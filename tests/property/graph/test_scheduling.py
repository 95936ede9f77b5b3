"""Random graphs whose nodes fail, are denied, time out, or take their time: the promises hold for all of them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.graph.dataflow import Dataflow
from coordinator.graph.order import topological
from shared.contract import NodeResult, NodeState
from shared.entries import Assistant, Node, NodeEnded, Stored
from shared.fold import SessionFold
from shared.llm.model import Finish, Message, ToolCall, ToolResult

pytestmark = pytest.mark.property

BAD = tuple(s for s in NodeState if s.terminal and s not in (NodeState.DONE, NodeState.SKIPPED))


@dataclass(frozen=True)
class Fate:
    """How a node ends once it has started, and after how long."""

    state: NodeState
    takes_ms: int


@dataclass(frozen=True)
class Case:
    needs: dict[str, tuple[str, ...]]
    fates: dict[str, Fate]
    tools: dict[str, str]
    width: int
    per_tool: dict[str, int]


FATES = st.builds(Fate, st.sampled_from([NodeState.DONE] * 6 + [*BAD]), st.integers(0, 100))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    count = draw(st.integers(1, 14))
    names = draw(st.permutations([f"n{i}" for i in range(count)]))
    needs = {}
    for i, name in enumerate(names):
        before = draw(st.lists(st.sampled_from(names[:i]), max_size=4)) if i else []
        needs[name] = tuple(before)
    given_order = draw(st.permutations(names))
    return Case(
        needs={n: needs[n] for n in given_order},
        fates={n: draw(FATES) for n in names},
        tools={n: draw(st.sampled_from("abc")) for n in names},
        width=draw(st.integers(1, 6)),
        per_tool=draw(st.dictionaries(st.sampled_from("abc"), st.integers(1, 3))),
    )


@dataclass
class Outcome:
    ended: list[tuple[str, NodeState]] = field(default_factory=list)
    started_at: dict[str, int] = field(default_factory=dict)
    ended_at: dict[str, int] = field(default_factory=dict)


def carry_out(case: Case) -> Outcome:
    """Runs a graph on a clock of its own. Fails if it comes to a halt before its end."""
    flow = Dataflow(case.needs, tools=case.tools)
    out = Outcome()
    answers: list[tuple[int, str]] = []
    now = 0

    def closed(nodes: list[str]) -> None:
        for node in nodes:
            out.ended.append((node, flow.ended[node]))
            out.ended_at[node] = now

    while not flow.finished:
        assert not flow.stalled
        for node in flow.ready(case.width, case.per_tool):
            assert all(flow.ended.get(n) is NodeState.DONE for n in case.needs[node])
            out.started_at[node] = now
            flow.start(node)
            heapq.heappush(answers, (now + case.fates[node].takes_ms, node))
        running = [n for n in flow.started if n not in flow.ended]
        assert len(running) == flow.running <= case.width
        for tool, most in case.per_tool.items():
            assert sum(case.tools[n] == tool for n in running) <= most
        assert answers, "nothing runs, yet not all has ended"
        now = answers[0][0]
        while answers and answers[0][0] <= now:
            _, node = heapq.heappop(answers)
            known = node in flow.ended
            skipped = flow.end(node, case.fates[node].state)
            closed([] if known else [node, *skipped])
    return out


def expected(case: Case) -> dict[str, NodeState]:
    """How each node must end: its own fate if all that it needs is done, else skipped."""
    states: dict[str, NodeState] = {}
    while len(states) < len(case.needs):
        for node, needs in case.needs.items():
            if node in states or not all(n in states for n in needs):
                continue
            well = all(states[n] is NodeState.DONE for n in needs)
            states[node] = case.fates[node].state if well else NodeState.SKIPPED
    return states


@given(cases())
@settings(max_examples=300, deadline=None)
def test_every_node_ends_once_and_exactly_the_dependents_of_bad_ends_are_skipped(case: Case) -> None:
    out = carry_out(case)
    assert sorted(n for n, _ in out.ended) == sorted(case.needs), "a node ended twice or never"
    assert dict(out.ended) == expected(case)
    for node, at in out.started_at.items():
        assert all(out.ended_at[n] <= at for n in case.needs[node])
    skipped = {n for n, s in out.ended if s is NodeState.SKIPPED}
    assert skipped.isdisjoint(out.started_at)


@given(cases(), st.integers(0, 20))
@settings(max_examples=150, deadline=None)
def test_a_graph_taken_over_in_the_middle_ends_like_one_that_was_not(case: Case, steps: int) -> None:
    first = Dataflow(case.needs)
    want = expected(case)
    for _ in range(steps):
        for node in first.ready(case.width)[:1]:
            first.start(node)
            first.end(node, want[node])
    for node in first.ready(case.width)[:1]:
        first.start(node)
    second = Dataflow(case.needs, ended=dict(first.ended), started=set(first.started))
    for node in first.started - set(first.ended):
        second.end(node, want[node])
    while not second.finished:
        node = second.ready(1)[0]
        second.start(node)
        second.end(node, want[node])
    assert second.ended == want


@given(cases(), st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_what_is_ready_is_the_best_that_the_bounds_allow(case: Case, started: int) -> None:
    """Against the plain definition: all that may start, best first, taken one by one while bounds allow."""
    flow = Dataflow(case.needs, tools=case.tools)
    for _ in range(started):
        for node in flow.ready(1 + flow.running)[:1]:
            flow.start(node)
            if case.fates[node].takes_ms % 2:
                flow.end(node, NodeState.DONE)
    running = [n for n in flow.started if n not in flow.ended]
    left = {t: most - sum(case.tools[n] == t for n in running) for t, most in case.per_tool.items()}
    wanted: list[str] = []
    for node in flow.ready():
        if len(wanted) < case.width - len(running) and left.get(case.tools[node], 1) > 0:
            wanted.append(node)
            if case.tools[node] in left:
                left[case.tools[node]] -= 1
    assert flow.ready(case.width, case.per_tool) == wanted


@given(cases())
@settings(max_examples=100, deadline=None)
def test_a_width_that_is_no_bound_reaches_the_critical_path(case: Case) -> None:
    quick = {n: Fate(NodeState.DONE, f.takes_ms) for n, f in case.fates.items()}
    wide = Case(case.needs, quick, case.tools, len(case.needs), {})
    out = carry_out(wide)
    until: dict[str, int] = {}  # the time of the longest chain that ends with each node
    for node in topological(case.needs):
        until[node] = quick[node].takes_ms + max((until[n] for n in case.needs[node]), default=0)
    assert out.ended_at == until


@given(st.permutations(range(8)), st.sets(st.integers(0, 7)))
@settings(max_examples=100, deadline=None)
def test_results_go_back_in_call_order_whatever_order_they_came_in(order: list[int], failed: set[int]) -> None:
    ids = [f"r.1.1.{i}" for i in range(8)]
    message = Message(role="assistant", blocks=tuple(ToolCall(id=n, name="t", arguments={}) for n in ids))
    values: list[Assistant | Node | NodeEnded] = [
        Assistant(step=1, attempt=1, message=message, finish=Finish.TOOL_CALLS),
        *(Node(node=n, step=1, position=i, tool="t") for i, n in enumerate(ids)),
    ]
    for i in order:
        state = NodeState.FAILED if i in failed else NodeState.DONE
        values.append(NodeEnded(node=ids[i], result=NodeResult(state=state, text=f"text {i}")))
    fold = SessionFold.of(Stored(id=f"{i}-0", run="r", type=v.T, value=v) for i, v in enumerate(values, 1))
    results = [b for b in fold.messages[-1].blocks if isinstance(b, ToolResult)]
    assert [r.call_id for r in results] == ids
    assert [r.text for r in results] == [f"text {i}" for i in range(8)]
    assert {i for i, r in enumerate(results) if r.is_error} == failed
