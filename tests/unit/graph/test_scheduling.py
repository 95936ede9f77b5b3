"""Who starts when: bounds per run and per tool, what goes first, and the price of large graphs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from coordinator.graph.dataflow import Dataflow, find_cycle
from coordinator.graph.order import cycles, topological
from shared.contract import NodeState
from shared.errors import ModelError

DONE = NodeState.DONE


def independent(count: int, tools: Mapping[str, str] | None = None) -> Dataflow:
    return Dataflow({f"n{i}": () for i in range(count)}, tools=tools or {})


def test_no_more_nodes_are_ready_than_may_run_at_once() -> None:
    flow = independent(10)
    assert flow.ready(3) == ["n0", "n1", "n2"]
    for node in flow.ready(3):
        flow.start(node)
    assert flow.ready(3) == []
    assert flow.ready(4) == ["n3"]
    flow.end("n1", DONE)
    assert flow.ready(3) == ["n3"]
    assert flow.ready() == [f"n{i}" for i in range(3, 10)]
    assert flow.ready(0) == []


def test_a_bound_of_a_tool_holds_back_that_tool_only() -> None:
    flow = Dataflow(
        dict.fromkeys(("s1", "s2", "s3", "f1", "f2"), ()), tools={n: n[0] for n in ("s1", "s2", "s3", "f1")}
    )
    assert flow.ready(None, {"s": 2}) == ["s1", "s2", "f1", "f2"]
    assert flow.ready(3, {"s": 1}) == ["s1", "f1", "f2"]
    flow.start("s1")
    flow.start("s2")
    assert flow.ready(None, {"s": 2}) == ["f1", "f2"]
    flow.end("s2", NodeState.FAILED)
    assert flow.ready(None, {"s": 2, "f": 0}) == ["s3", "f2"]


def test_asking_changes_nothing() -> None:
    flow = independent(5)
    assert flow.ready(2) == flow.ready(2)
    assert flow.ready() == flow.ready()


def test_the_longest_chain_goes_first() -> None:
    flow = Dataflow({"a": (), "b": (), "c": ("b",), "d": ("c",), "e": (), "f": ("e",)})
    assert flow.ready(2) == ["b", "e"]


def test_the_first_end_of_a_node_counts() -> None:
    flow = Dataflow({"a": (), "b": ("a",)})
    flow.start("a")
    assert flow.end("a", NodeState.TIMED_OUT) == ["b"]
    assert flow.end("a", DONE) == []
    assert flow.ended == {"a": NodeState.TIMED_OUT, "b": NodeState.SKIPPED}


def test_an_open_group_takes_nobodys_place() -> None:
    flow = Dataflow({"plan": (), "step": (), "next": ("plan",)}, groups={"plan"})
    flow.start("plan")
    assert flow.running == 0
    assert flow.ready(1) == ["step"]
    flow.start("step")
    assert flow.ready(1) == []
    flow.end("step", DONE)
    flow.end("plan", DONE)
    assert flow.running == 0
    assert flow.ready(1) == ["next"]


def test_a_graph_that_is_taken_over_knows_what_runs_and_what_ended() -> None:
    needs = {"a": (), "b": (), "c": ("a",), "d": ("c",), "e": ("b",)}
    flow = Dataflow(needs, ended={"a": DONE, "b": NodeState.DENIED}, started={"a", "c"})
    assert flow.running == 1
    assert flow.ended["e"] is NodeState.SKIPPED
    assert flow.ready() == []
    assert not flow.stalled
    flow.end("c", DONE)
    assert flow.ready(1) == ["d"]


@pytest.mark.parametrize("state", [s for s in NodeState if s.terminal and s is not DONE])
def test_every_bad_end_reaches_dependents_and_nobody_else(state: NodeState) -> None:
    flow = Dataflow({"a": (), "b": ("a",), "c": (), "d": ("b", "c")})
    assert flow.end("a", state) == ["b", "d"]
    assert flow.ended == {"a": state, "b": NodeState.SKIPPED, "d": NodeState.SKIPPED}
    assert flow.ready() == ["c"]
    flow.end("c", DONE)
    assert flow.finished


@pytest.mark.parametrize(
    "needs", [{"a": ("a",)}, {"a": ("b",), "b": ("a",)}, {"x": (), "a": ("b",), "b": ("c",), "c": ("a",)}]
)
def test_what_needs_itself_is_refused_before_anything_starts(needs: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(ModelError, match=r"a -> .*a") as caught:
        Dataflow(needs)
    assert caught.value.code == "cycle"


def test_nothing_ready_and_nothing_running_is_told_apart_from_waiting() -> None:
    flow = Dataflow({"a": (), "b": ("a",)})
    assert not flow.stalled
    flow.start("a")
    assert not flow.stalled
    flow.end("a", DONE)
    flow.start("b")
    flow.end("b", DONE)
    assert not flow.stalled


class CountingDict(dict[str, NodeState]):
    """Counts how often it is asked what has ended."""

    looks = 0

    def __contains__(self, key: object) -> bool:
        self.looks += 1
        return super().__contains__(key)


@pytest.mark.parametrize("count", [792, 3168])
def test_many_independent_nodes_cost_the_same_each(count: int) -> None:
    flow = independent(count, tools={f"n{i}": f"t{i % 3}" for i in range(count)})
    flow.ended = looked = CountingDict()
    order: list[str] = []
    most = 0
    while not flow.finished:
        for node in flow.ready(32):
            flow.start(node)
            order.append(node)
        most = max(most, flow.running)
        flow.end(order[len(flow.ended)], DONE)
    assert most == 32
    assert order == [f"n{i}" for i in range(count)]
    assert looked.looks < 20 * count, "asking what is ready looks at the whole graph again"


def test_orders_and_cycles_of_a_graph() -> None:
    needs = {1: [2], 2: [1], 3: [2], 4: [3, 5], 5: [4], 6: [], 7: [7], 8: [6, 99]}
    assert [members for members, _ in cycles(needs)] == [[1, 2], [4, 5], [7]]
    assert topological(needs) == [6, 8]
    assert find_cycle({8: [6, 99], 6: []}) is None


def test_a_chain_of_thousands_needs_no_recursion() -> None:
    needs = {n: [n - 1] for n in range(1, 20_000)}
    assert cycles(needs) == []
    assert len(topological(needs)) == 19_999
    needs[1] = [19_999]
    ((members, path),) = cycles(needs)
    assert len(members) == 19_999
    assert path[0] == path[-1]
