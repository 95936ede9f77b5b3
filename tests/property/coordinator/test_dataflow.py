"""Random graphs with random ends: nothing hangs or runs early, and a failure reaches its dependents alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.graph.dataflow import Dataflow, find_cycle
from shared.contract import NodeState
from shared.errors import ModelError

pytestmark = pytest.mark.property

Needs = dict[str, tuple[str, ...]]
ENDS = [s for s in NodeState if s.terminal and s is not NodeState.SKIPPED]


@st.composite
def graphs(draw: st.DrawFn) -> Needs:
    """Graphs without cycles, their nodes in any order, needs perhaps named twice."""
    count = draw(st.integers(0, 12))
    needs = {
        f"n{i}": tuple(f"n{j}" for j in draw(st.lists(st.integers(0, i - 1), max_size=4))) if i else ()
        for i in range(count)
    }
    return {node: needs[node] for node in draw(st.permutations(list(needs)))}


def behind(needs: Needs, failed: set[str]) -> set[str]:
    """All that needs one of `failed`, directly or not: by definition, without cleverness."""
    found: set[str] = set()
    while True:
        more = {n for n, needed in needs.items() if n not in found and (found | failed) & set(needed)}
        if not more:
            return found
        found |= more


@given(graphs(), st.data())
def test_every_node_ends_once_and_only_dependents_of_failures_are_skipped(needs: Needs, data: st.DataObject) -> None:
    flow = Dataflow(dict(needs))
    given_ends: dict[str, NodeState] = {}
    skipped: list[str] = []
    running: list[str] = []
    while not flow.finished:
        ready = flow.ready()
        assert not set(ready) & (set(given_ends) | set(running) | set(skipped))
        for node in ready:
            assert all(given_ends.get(other) is NodeState.DONE for other in needs[node])
        picked = data.draw(st.lists(st.sampled_from(ready), unique=True)) if ready else []
        for node in picked or ready[:1]:
            flow.start(node)
            running.append(node)
        assert running, "nothing runs and nothing is ready: it would hang"
        node = running.pop(data.draw(st.integers(0, len(running) - 1)))
        given_ends[node] = data.draw(st.sampled_from(ENDS))
        skipped += flow.end(node, given_ends[node])
    failed = {n for n, state in given_ends.items() if state is not NodeState.DONE}
    assert len(skipped) == len(set(skipped))
    assert set(skipped) == behind(needs, failed)
    assert flow.ended == {**given_ends, **dict.fromkeys(skipped, NodeState.SKIPPED)}
    assert set(flow.ended) == set(needs)


@given(graphs(), st.data())
def test_a_graph_taken_over_is_where_it_was(needs: Needs, data: st.DataObject) -> None:
    flow = Dataflow(dict(needs))
    known: dict[str, NodeState] = {}
    for _ in range(data.draw(st.integers(0, len(needs)))):
        if not (ready := flow.ready()):
            break
        node = data.draw(st.sampled_from(ready))
        flow.start(node)
        known[node] = data.draw(st.sampled_from(ENDS))
        flow.end(node, known[node])
    again = Dataflow(dict(needs), ended={n: known[n] for n in data.draw(st.permutations(list(known)))})
    assert again.ended == flow.ended
    assert again.ready() == flow.ready()


@given(graphs())
def test_ready_nodes_come_in_order_of_the_chain_behind_them(needs: Needs) -> None:
    def height(node: str) -> int:
        return 1 + max((height(n) for n, needed in needs.items() if node in needed), default=0)

    heights = [height(node) for node in Dataflow(dict(needs)).ready()]
    assert heights == sorted(heights, reverse=True)


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.lists(st.sampled_from("abcdefgh"), max_size=3), max_size=8))
def test_a_cycle_is_found_exactly_if_there_is_one(raw: dict[str, list[str]]) -> None:
    needs: Needs = {node: tuple(n for n in needed if n in raw) for node, needed in raw.items()}
    path = find_cycle(needs)
    circular = any(node in behind_of(needs, node) for node in needs)
    assert (path is not None) == circular
    if path is None:
        Dataflow(needs)
        return
    assert path[0] == path[-1]
    assert all(other in needs[node] for node, other in pairwise(path))
    with pytest.raises(ModelError, match="->"):
        Dataflow(needs)


def behind_of(needs: Needs, start: str) -> set[str]:
    """All that a node needs, directly or not."""
    found: set[str] = set()
    frontier = list(needs[start])
    while frontier:
        node = frontier.pop()
        if node not in found:
            found.add(node)
            frontier += needs[node]
    return found
