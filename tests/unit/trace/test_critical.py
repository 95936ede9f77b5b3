from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.trace.critical import critical_path
from ops.trace.values import Attempt, NodeBar, Step
from shared.contract import NodeState


def bar(name: str, start: int, end: int, *, step: int = 0, planned: int = 0, needs: tuple[str, ...] = ()) -> NodeBar:
    return NodeBar(
        id=name,
        step=step,
        position=0,
        tool="t",
        needs=needs,
        state=NodeState.DONE,
        planned_ms=planned,
        ready_ms=planned,
        started_ms=start,
        ended_ms=end,
    )


def step(number: int, start: int, end: int) -> Step:
    return Step(number=number, attempts=(Attempt(number=1, started_ms=start, ended_ms=end),))


def test_the_diamond_takes_its_longer_arm_whatever_waited() -> None:
    nodes = [
        bar("a", 10, 20),
        bar("slow", 25, 125, needs=("a",)),
        bar("late", 400, 450, needs=("a",)),  # waited long, but ran shortly
        bar("end", 460, 470, needs=("slow", "late")),
    ]
    assert critical_path((), nodes, 470) == (10 + 100 + 10, ("a", "slow", "end"))


def test_steps_and_nodes_alternate() -> None:
    steps = [step(1, 0, 100), step(2, 300, 350)]
    nodes = [bar("x", 110, 210, step=1, planned=100), bar("y", 120, 290, step=1, planned=100)]
    assert critical_path(steps, nodes, 350) == (100 + 170 + 50, ("step:1", "y", "step:2"))


def test_a_node_that_started_early_runs_beside_its_stream() -> None:
    steps = [step(1, 0, 100), step(2, 150, 200)]
    early = bar("x", 35, 95, step=1, planned=30)
    assert critical_path(steps, [early], 200) == (100 + 50, ("step:1", "step:2"))
    longer = bar("x", 35, 140, step=1, planned=30)
    assert critical_path(steps, [longer], 200) == (30 + 105 + 50, ("step:1", "x", "step:2"))


def test_nothing_at_all() -> None:
    assert critical_path((), (), 5) == (0, ())


def test_a_log_with_a_cycle_ends() -> None:
    nodes = [bar("a", 0, 5, needs=("b",)), bar("b", 0, 5, needs=("a",)), bar("c", 0, 5, needs=("c",))]
    length, path = critical_path((), nodes, 5)
    assert length >= 5
    assert len(path) == len(set(path))


@pytest.mark.property
@given(st.lists(st.tuples(st.integers(0, 50), st.sets(st.integers(0, 11), max_size=3)), min_size=1, max_size=12))
def test_it_is_the_longest_chain(raw: list[tuple[int, set[int]]]) -> None:
    ends: dict[str, int] = {}
    nodes: list[NodeBar] = []
    longest: dict[str, int] = {}
    for i, (length, wanted) in enumerate(raw):
        needs = tuple(f"n{j}" for j in sorted(wanted) if j < i)
        start = max((ends[n] for n in needs), default=0) + 1
        ends[f"n{i}"] = start + length
        longest[f"n{i}"] = length + max((longest[n] for n in needs), default=0)
        nodes.append(bar(f"n{i}", start, start + length, needs=needs))
    length, path = critical_path((), nodes, max(ends.values()))
    by_id = {n.id: n for n in nodes}
    assert length == max(longest.values())
    assert sum(by_id[n].run_ms(0) for n in path) == length
    assert all(a in by_id[b].needs for a, b in pairwise(path))
