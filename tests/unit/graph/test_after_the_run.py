"""What is made of a graph that has ended: outputs left out. And how deadlines nest."""

from __future__ import annotations

import pytest

from coordinator.graph.deadlines import LEAST_MS, MARGIN_MS, nested
from coordinator.graph.elide import SHORTEST, elidable, elide
from shared.contract import NodeResult, NodeState

LONG = "x" * (SHORTEST + 34)


def results(*states: NodeState, text: str = LONG) -> dict[int, NodeResult]:
    return {n: NodeResult(state=s, text=text) for n, s in enumerate(states, 1)}


DONE, FAILED, SKIPPED = NodeState.DONE, NodeState.FAILED, NodeState.SKIPPED
CHAIN: dict[int, tuple[int, ...]] = {1: (), 2: (1,), 3: (2,)}


def test_outputs_that_only_fed_others_are_left_out_and_the_last_is_shown() -> None:
    assert elidable(CHAIN, results(DONE, DONE, DONE)) == [1, 2]


def test_an_output_that_nobody_took_is_shown() -> None:
    assert elidable({1: (), 2: (), 3: (1,)}, results(DONE, DONE, DONE)) == [1]


@pytest.mark.parametrize("bad", [s for s in NodeState if s.terminal and s is not DONE])
def test_what_fed_a_call_that_did_not_succeed_is_shown(bad: NodeState) -> None:
    assert elidable(CHAIN, results(DONE, bad, SKIPPED)) == []
    assert elidable(CHAIN, results(DONE, DONE, bad)) == [1]
    assert elidable({1: (), 2: (1,), 3: (1,)}, results(DONE, DONE, bad)) == []


def test_errors_are_always_shown() -> None:
    assert elidable({1: (), 2: (1,)}, results(FAILED, DONE)) == []


def test_short_outputs_and_those_to_keep_are_shown() -> None:
    assert elidable(CHAIN, results(DONE, DONE, DONE, text="short")) == []
    assert elidable(CHAIN, results(DONE, DONE, DONE), keep={1}) == [2]


def test_the_line_names_users_size_and_handle() -> None:
    lines = elide({1: (), 2: (1,), 3: (1,)}, results(DONE, DONE, DONE), {1: "a:77"})
    assert list(lines) == [1]
    assert "calls 2, 3" in lines[1]
    assert f"{len(LONG)} characters" in lines[1]
    assert 'read_artifact("a:77")' in lines[1]
    assert len(lines[1]) < SHORTEST


def test_nothing_is_left_out_that_could_not_be_read_again() -> None:
    assert elide(CHAIN, results(DONE, DONE, DONE), {2: "a:2"}).keys() == {2}


def test_the_research_scenario_shows_the_report_alone() -> None:
    """Trends, five competitors, their reviews, and a report that takes all of them."""
    sources: dict[int, tuple[int, ...]] = dict.fromkeys(range(1, 7), ())
    sources |= {n + 5: (n,) for n in range(2, 7)}
    sources[12] = tuple(range(1, 12))
    assert elidable(sources, results(*[DONE] * 12)) == list(range(1, 12))


def test_deadlines_nest() -> None:
    deadline = nested(1_000_000, 30.0, 60_000, 2_000_000)
    assert deadline is not None
    assert deadline.timeout_s == 30.0
    assert 1_000_000 + 30_000 < deadline.not_after_ms < 2_000_000


def test_the_end_of_the_run_cuts_the_deadlines_of_its_nodes() -> None:
    deadline = nested(1_000_000, 30.0, 60_000, 1_010_000)
    assert deadline is not None
    assert deadline.not_after_ms == 1_010_000 - MARGIN_MS
    assert 1_000_000 + deadline.timeout_s * 1000 == deadline.not_after_ms - MARGIN_MS


def test_a_node_that_could_not_end_in_time_is_not_started() -> None:
    assert nested(1_000_000, 30.0, 60_000, 1_000_000 + 2 * MARGIN_MS + LEAST_MS - 1) is None
    assert nested(1_000_000, 30.0, 60_000, 1_000_000 + 2 * MARGIN_MS + LEAST_MS) is not None
    assert nested(1_000_000, 30.0, 60_000, 0) is None
