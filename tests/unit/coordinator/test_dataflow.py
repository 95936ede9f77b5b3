"""A graph that is being carried out, on small graphs."""

from __future__ import annotations

import pytest

from coordinator.graph.dataflow import Dataflow, find_cycle
from shared.contract import NodeState
from shared.errors import ModelError

DIAMOND = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}


def test_nodes_become_ready_when_all_that_they_need_is_done() -> None:
    flow = Dataflow(dict(DIAMOND))
    assert flow.ready() == ["a"]
    flow.start("a")
    assert flow.ready() == []
    flow.end("a", NodeState.DONE)
    assert flow.ready() == ["b", "c"]
    flow.end("b", NodeState.DONE)
    assert flow.ready() == ["c"]
    flow.end("c", NodeState.DONE)
    assert flow.ready() == ["d"]
    flow.end("d", NodeState.DONE)
    assert flow.finished
    assert flow.ready() == []


@pytest.mark.parametrize("state", [s for s in NodeState if s.terminal and s is not NodeState.DONE])
def test_whatever_is_not_done_skips_its_dependents_only(state: NodeState) -> None:
    flow = Dataflow({**DIAMOND, "e": (), "f": ("e",)})
    flow.end("a", NodeState.DONE)
    assert flow.end("b", state) == ["d"]
    assert flow.ended["b"] is state
    assert flow.ended["d"] is NodeState.SKIPPED
    assert set(flow.ready()) == {"c", "e"}


def test_skipping_goes_all_the_way_down_once() -> None:
    flow = Dataflow(dict(DIAMOND))
    assert sorted(flow.end("a", NodeState.FAILED)) == ["b", "c", "d"]
    assert flow.finished


def test_the_first_end_wins() -> None:
    flow = Dataflow(dict(DIAMOND))
    flow.end("a", NodeState.TIMED_OUT)
    assert flow.end("a", NodeState.DONE) == []
    assert flow.end("b", NodeState.DONE) == []
    assert flow.ended["a"] is NodeState.TIMED_OUT
    assert flow.ended["b"] is NodeState.SKIPPED
    assert flow.ready() == []


def test_the_longest_chain_goes_first_and_given_order_breaks_ties() -> None:
    flow = Dataflow({"short": (), "one": (), "two": ("one",), "three": ("two",), "other": (), "last": ("other",)})
    assert flow.ready() == ["one", "other", "short"]


def test_needing_a_node_twice_is_needing_it_once() -> None:
    flow = Dataflow({"a": (), "b": ("a", "a")})
    flow.end("a", NodeState.DONE)
    assert flow.ready() == ["b"]


def test_a_graph_is_taken_over_with_what_has_ended() -> None:
    flow = Dataflow(dict(DIAMOND), ended={"a": NodeState.DONE, "b": NodeState.FAILED})
    assert flow.ended["d"] is NodeState.SKIPPED
    assert flow.ready() == ["c"]
    flow.end("c", NodeState.DONE)
    assert flow.finished


def test_an_empty_graph_is_finished() -> None:
    assert Dataflow({}).finished


@pytest.mark.parametrize(
    ("needs", "path"),
    [
        ({"a": ("a",)}, ["a", "a"]),
        ({"a": ("b",), "b": ("a",)}, ["a", "b", "a"]),
        ({"x": (), "a": ("x", "b"), "b": ("c",), "c": ("b",)}, ["b", "c", "b"]),
    ],
)
def test_a_cycle_is_named(needs: dict[str, tuple[str, ...]], path: list[str]) -> None:
    assert find_cycle(needs) == path
    with pytest.raises(ModelError, match=" -> ".join(path)) as error:
        Dataflow(needs)
    assert error.value.code == "cycle"


def test_a_need_that_does_not_exist_is_named() -> None:
    with pytest.raises(ModelError, match="b needs z") as error:
        Dataflow({"a": (), "b": ("z",)})
    assert error.value.code == "unknown_node"


def test_a_deep_chain_needs_no_deep_stack() -> None:
    needs: dict[str, tuple[str, ...]] = {"0": ()} | {str(n): (str(n - 1),) for n in range(1, 5000)}
    flow = Dataflow(needs)
    assert len(flow.end("0", NodeState.FAILED)) == 4999
    assert find_cycle({**needs, "0": ("4999",)}) is not None
