"""References, turns and plans on generated arguments."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from coordinator.graph.dataflow import Dataflow
from coordinator.graph.elide import elidable
from coordinator.graph.plan_tool import parse_plan
from coordinator.graph.references import compact, parse, substitute
from coordinator.graph.turn import TurnGraph, build
from shared.contract import NodeResult, NodeState
from shared.errors import ModelError

pytestmark = pytest.mark.property

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-99, 99)
    | st.text(max_size=8)
    | st.sampled_from(["$1", "${2.x}", "$$1", "$5"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
ARGS = st.dictionaries(st.text(max_size=5), JSON, max_size=4)
SYNTAX = st.text(alphabet="$${}[]12a.'\"_- x", max_size=24)
PLAIN = st.text(alphabet=st.characters(exclude_characters="$", codec="utf-8"), max_size=8)


@given(ARGS)
def test_where_no_call_has_a_name_nothing_changes(args: dict[str, Any]) -> None:
    assert substitute(args, parse(args, {}), {}) == args


@given(SYNTAX)
@settings(max_examples=500)
def test_any_text_is_read_and_what_is_not_changed_is_the_same(text: str) -> None:
    args = {"x": text}
    parsed = parse(args, {"1": 1, "a": 2})
    if not parsed.templates:
        assert substitute(args, parsed, {}) == args
    for ref in parsed.refs:
        assert ref.text[1:] in text
        assert ref.target in (1, 2)


@given(JSON, PLAIN, PLAIN)
def test_values_are_put_in_as_they_are_and_never_read(value: Any, before: str, after: str) -> None:
    assume(before or after)
    args = {"whole": "$1", "inside": before + "${1}" + after, "deep": [{"x": ["${1}"]}]}
    out = substitute(args, parse(args, {"1": 1, "2": 2}), {1: value, 2: "never"})
    text = value if isinstance(value, str) else compact(value)
    assert out == {"whole": value, "inside": before + text + after, "deep": [{"x": [value]}]}


@given(st.lists(PLAIN | st.sampled_from([1, 2, 3]), max_size=6))
def test_text_is_put_together_from_its_pieces(pieces: list[str | int]) -> None:
    values: dict[int, JsonValue] = {1: "one", 2: ["$3", "${1}"], 3: "${2}$1"}
    text = "".join(p if isinstance(p, str) else f"${{{p}}}" for p in pieces)
    whole = len([p for p in pieces if p != ""]) == 1 and isinstance(next(p for p in pieces if p != ""), int)
    assume(not whole)
    shown = {1: "one", 2: '["$3","${1}"]', 3: "${2}$1"}
    args = {"x": text}
    wanted = "".join(p if isinstance(p, str) else shown[p] for p in pieces)
    assert substitute(args, parse(args, {"1": 1, "2": 2, "3": 3}), values)["x"] == wanted


@given(st.sampled_from(["1", "a", "1.x", "a[0]['k']"]), PLAIN, PLAIN, st.integers(0, 3))
def test_every_reference_can_be_written_as_plain_text(target: str, before: str, after: str, dollars: int) -> None:
    names = {"1": 1, "a": 2}
    text = before + "$" * dollars + "${" + target + "}" + after
    escaped = before + "$" * (2 * dollars + 2) + "{" + target + "}" + after
    args = {"x": escaped, "y": "$$" + target}
    assert substitute(args, parse(args, names), {}) == {"x": text, "y": "$" + target}


@given(st.lists(st.lists(st.integers(1, 9), max_size=3), min_size=1, max_size=9))
@settings(max_examples=300)
def test_exactly_what_needs_itself_is_refused_and_the_rest_can_run(wanted: list[list[int]]) -> None:
    count = len(wanted)
    graph = build([("t", {"x": [f"${n}" for n in needs]}) for needs in wanted])
    edges = {i: {n for n in needs if n <= count} for i, needs in enumerate(wanted, 1)}

    def reaches(start: int, goal: int) -> bool:
        seen: set[int] = set()
        stack = list(edges[start])
        while stack:
            node = stack.pop()
            if node == goal:
                return True
            # A call that refers to itself is refused for that alone: nothing leads through it.
            if node not in seen and node not in edges[node]:
                seen.add(node)
                stack.extend(edges[node])
        return False

    assert set(graph.refused) == {n for n in edges if n in edges[n] or reaches(n, n)}
    for position, needs in graph.needs.items():
        assert set(needs) == (set() if position in graph.refused else edges[position])
    Dataflow({str(p): tuple(map(str, needs)) for p, needs in graph.needs.items()})


@given(st.lists(st.lists(st.integers(1, 8), max_size=3), min_size=1, max_size=8), st.data())
def test_nothing_is_left_out_whose_content_is_not_shown_further_on(
    wanted: list[list[int]], data: st.DataObject
) -> None:
    sources = {i: tuple({n for n in needs if n < i}) for i, needs in enumerate(wanted, 1)}
    ends = st.sampled_from([NodeState.DONE] * 4 + [NodeState.FAILED])
    results = {i: NodeResult(state=data.draw(ends), text="x" * 300) for i in sources}
    left_out = set(elidable(sources, results))
    for position in left_out:
        assert results[position].state is NodeState.DONE
        users = [p for p, needs in sources.items() if position in needs]
        assert users
        assert all(results[p].state is NodeState.DONE for p in users)
        stack, shown = users, False
        while stack:
            user = stack.pop()
            shown = shown or user not in left_out
            stack.extend(p for p, needs in sources.items() if user in needs and user in left_out)
        assert shown


STEP_KEYS = st.sampled_from(["id", "tool", "name", "args", "after", "depends_on", "x"])
STEPS = st.dictionaries(STEP_KEYS, JSON | st.sampled_from(["a", "b", "t"]), max_size=5) | st.fixed_dictionaries(
    {"tool": st.just("t"), "args": ARGS},
    optional={"id": st.sampled_from(["a", "b", "c", 1, 2]), "after": st.sampled_from(["a", ["b"], [1]])},
)


@given(
    st.lists(STEPS, max_size=4),
    st.sampled_from([lambda s: s, lambda s: {"steps": s}, json.dumps, lambda s: {"plan": json.dumps(s)}]),
)
@settings(max_examples=300)
def test_a_plan_is_either_a_graph_or_one_clear_refusal(steps: list[Any], form: Callable[[Any], Any]) -> None:
    graph = parsed(form(steps))
    if isinstance(graph, ModelError):
        assert graph.code == "bad_plan"
        assert "Nothing of the plan was run" in graph.message
    else:
        assert len(graph.calls) == len(steps)
        assert graph.refused == {}
        Dataflow({str(p): tuple(map(str, needs)) for p, needs in graph.needs.items()})


def parsed(plan: Any) -> TurnGraph | ModelError:
    try:
        return parse_plan(plan, {"t"}.__contains__)
    except ModelError as error:
        return error


@given(JSON)
def test_whatever_comes_as_a_plan_does_not_break_the_reader(value: Any) -> None:
    with pytest.raises(ModelError):
        parse_plan(value, {"t"}.__contains__)
