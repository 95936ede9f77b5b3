"""When a step is tried again, and what conditions say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from coordinator.graph.steps import rest_ms, unmet
from shared.contract import Condition, Effect, NodeError, NodeResult, NodeState, Retries, StepSpec
from shared.errors import ModelError

INPUTS: dict[str, JsonValue] = {
    "fetch": {"count": 2, "items": [{"id": 7}, {"id": 8}], "title": "two", "none": None, "yes": True},
    "flag": False,
    "params": {"city": "Lugo"},
    "gone": None,
}


def failure(code: str = "tool_error", state: NodeState = NodeState.FAILED) -> NodeResult:
    return NodeResult(state=state, error=NodeError(code=code, message="no"))


def tried(*results: NodeResult, attempts: int = 3, effect: Effect = Effect.READ) -> int | None:
    step = StepSpec(id="s", kind="code", retry=Retries(attempts=attempts, backoff_s=2.0))
    return rest_ms(step, effect, results)


def test_it_rests_twice_as_long_each_time() -> None:
    assert tried(failure()) == 2000
    assert tried(failure(), failure()) == 4000
    assert tried(failure(), failure(), failure()) is None
    assert tried(*[failure()] * 15, attempts=20) == 300_000, "but no longer than five minutes"


@pytest.mark.parametrize("state", [s for s in NodeState if s.terminal])
def test_only_failures_are_tried_again(state: NodeState) -> None:
    assert (tried(failure(state=state)) is not None) == (state in (NodeState.FAILED, NodeState.TIMED_OUT))


def test_a_write_is_not() -> None:
    assert tried(failure(), effect=Effect.WRITE) is None
    assert tried(failure(), effect=Effect.IDEMPOTENT) is not None


@pytest.mark.parametrize("code", ["bad_arguments", "bad_reference", "bad_condition", "budget_spent"])
def test_nor_what_would_fail_again(code: str) -> None:
    assert tried(failure(code)) is None


def test_what_came_to_the_wrong_worker_did_nothing() -> None:
    lost = [failure("unknown_tool")] * 5
    assert [tried(*lost[:n], attempts=1, effect=Effect.WRITE) for n in range(1, 6)] == [1000, 2000, 4000, 8000, None]
    assert tried(*lost[:2], failure(), attempts=2) == 2000, "and it does not count as an attempt"
    assert tried(failure("no_worker"), failure("no_worker"), attempts=1) is None


def test_an_answer_of_another_shape_is_asked_for_once_more() -> None:
    assert tried(failure("invalid_output"), attempts=1) == 0
    assert tried(failure("invalid_output"), failure("invalid_output"), attempts=1) is None
    assert tried(failure("invalid_output"), failure("invalid_output"), attempts=2) == 2000


@pytest.mark.parametrize(
    ("step", "path", "op", "value", "holds"),
    [
        ("fetch", ("count",), "gt", 1, True),
        ("fetch", ("count",), "gt", 2, False),
        ("fetch", ("count",), "ge", 2.0, True),
        ("fetch", ("count",), "lt", 2, False),
        ("fetch", ("count",), "le", 2, True),
        ("fetch", ("count",), "eq", True, False),
        ("fetch", ("yes",), "eq", 1, False),
        ("fetch", ("title",), "eq", "two", True),
        ("fetch", ("title",), "ne", "two", False),
        ("fetch", ("title",), "gt", "three", True),
        ("fetch", ("title",), "contains", "w", True),
        ("fetch", ("title",), "within", ["one", "two"], True),
        ("fetch", ("items", 1, "id"), "eq", 8, True),
        ("fetch", ("items", -1, "id"), "eq", 8, True),
        ("fetch", ("items",), "contains", {"id": 7}, True),
        ("fetch", ("items", 2), "exists", True, False),
        ("fetch", ("items", 2), "exists", False, True),
        ("fetch", ("none",), "exists", True, False),
        ("fetch", ("missing",), "ne", 3, False),
        ("fetch", ("count", "deeper"), "eq", 2, False),
        ("gone", (), "exists", False, True),
        ("gone", (), "holds", True, False),
        ("flag", (), "holds", False, True),
        ("flag", (), "holds", True, False),
        ("params", ("city",), "eq", "Lugo", True),
    ],
)
def test_conditions(step: str, path: tuple[str | int, ...], op: Any, value: Any, holds: bool) -> None:
    assert (unmet([Condition(step=step, path=path, op=op, value=value)], INPUTS) == "") is holds


@pytest.mark.parametrize(
    ("path", "op", "value", "why"),
    [
        (("count",), "gt", "1", "only numbers compare with numbers"),
        (("title",), "lt", 3, "only numbers compare with numbers"),
        (("yes",), "gt", 0, "only numbers compare with numbers"),
        (("count",), "holds", True, "neither true nor false"),
        (("count",), "contains", 2, "it is no list"),
    ],
)
def test_what_cannot_be_compared_is_an_error(path: tuple[str, ...], op: Any, value: Any, why: str) -> None:
    with pytest.raises(ModelError, match=why) as caught:
        unmet([Condition(step="fetch", path=path, op=op, value=value)], INPUTS)
    assert caught.value.code == "bad_condition"


def test_the_first_that_does_not_hold_is_named() -> None:
    rows = [Condition(step="fetch", path=("count",), op="gt", value=n) for n in (0, 5)]
    assert unmet(rows, INPUTS) == "its condition fetch.count > 5 does not hold: there is 2"


@pytest.mark.property
@given(st.integers() | st.floats(allow_nan=False), st.integers() | st.floats(allow_nan=False))
def test_comparisons_are_those_of_numbers(one: float, other: float) -> None:
    def holds(op: Any) -> bool:
        return not unmet([Condition(step="x", op=op, value=other)], {"x": one})

    assert [holds(op) for op in ("lt", "le", "gt", "ge", "eq", "ne")] == [
        one < other,
        one <= other,
        one > other,
        one >= other,
        one == other,
        one != other,
    ]
