"""From calls to the graph of a turn: what waits for what, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import JsonValue

from coordinator.graph.turn import (
    DEEPEST,
    REFERENCES_PROMPT,
    TurnGraph,
    build,
    refusal,
    reserved_properties,
    skipped,
)
from shared.contract import NodeState
from shared.errors import ModelError


def turn(*args: dict[str, Any], **options: Any) -> TurnGraph:
    return build([(f"tool{i}", a) for i, a in enumerate(args, 1)], **options)


def codes(graph: TurnGraph) -> dict[int, str]:
    return {position: error.code for position, error in graph.refused.items()}


def test_data_and_order_become_needs_and_reserved_properties_disappear() -> None:
    graph = turn({"q": "x", "_label": "a"}, {"url": "$a.u"}, {"t": "now", "_after": ["1", "2"]}, {"x": "${1} ${2}"})
    assert graph.needs == {1: (), 2: (1,), 3: (1, 2), 4: (1, 2)}
    assert graph.sources == {1: (), 2: (1,), 3: (), 4: (1, 2)}
    assert [c.arguments for c in graph.calls] == [{"q": "x"}, {"url": "$a.u"}, {"t": "now"}, {"x": "${1} ${2}"}]
    assert graph.refused == {}
    assert graph.notices == {}
    assert graph.arguments(2, {1: {"u": "http://a"}}) == {"url": "http://a"}
    assert graph.arguments(1, {}) == {"q": "x"}


@pytest.mark.parametrize("after", [["1"], [1], 1, "1", "$1", ["$first"], "first", [" first "], ["1", "first", 1]])
def test_after_is_read_in_every_form_that_models_use(after: Any) -> None:
    assert turn({"_label": "first"}, {"_after": after}).needs[2] == (1,)


@pytest.mark.parametrize("after", [None, [], ""])
def test_an_empty_after_is_none(after: Any) -> None:
    assert turn({}, {"_after": after}).needs[2] == ()


def test_references_may_point_forward() -> None:
    assert turn({"x": "$2"}, {}).needs == {1: (2,), 2: ()}


def test_a_call_that_refers_to_itself_is_refused_and_the_others_go_on() -> None:
    graph = turn({"x": "$1"}, {"y": 1}, {"_label": "me", "z": "about ${me.x}"}, {"_after": [4]})
    assert codes(graph) == {1: "self_reference", 3: "self_reference", 4: "self_reference"}
    assert "$$1" in str(graph.refused[1])
    assert graph.needs == {1: (), 2: (), 3: (), 4: ()}


def test_two_calls_that_need_each_other_are_refused_with_the_path_named() -> None:
    graph = turn({"x": "free"}, {"x": "$4"}, {"x": "free"}, {"x": "$2"}, {"x": "$4"})
    assert codes(graph) == {2: "cycle", 4: "cycle"}
    assert "2 -> 4 -> 2" in str(graph.refused[2])
    assert graph.needs == {1: (), 2: (), 3: (), 4: (), 5: (4,)}


def test_two_circles_and_what_lies_between_them() -> None:
    graph = turn(
        {"x": "$2"},
        {"x": "$1"},
        {"x": "$2"},
        {"_label": "a", "x": ["$3", "$b"]},
        {"_label": "b", "x": "$a"},
        {"x": "$6"},
    )
    assert codes(graph) == {1: "cycle", 2: "cycle", 4: "cycle", 5: "cycle", 6: "self_reference"}
    assert "a -> b -> a" in str(graph.refused[4])
    assert graph.needs[3] == (2,)


def test_an_unknown_id_in_after_is_refused_and_says_what_there_is() -> None:
    graph = turn({"_label": "a"}, {"_after": ["b"]}, {"_after": ["9"]}, {"_after": [True]}, {"_after": [{"x": 1}]})
    assert codes(graph) == dict.fromkeys((2, 3, 4, 5), "unknown_node")
    assert "there are: 1, a, 2" in str(graph.refused[2])


def test_an_unknown_reference_stays_text_with_a_notice_on_its_call() -> None:
    graph = turn({"price": "$9"}, {})
    assert graph.refused == {}
    assert list(graph.notices) == [1]
    assert graph.arguments(1, {}) == {"price": "$9"}


def test_a_label_that_several_calls_have_is_refused_only_where_it_is_used() -> None:
    graph = turn({"_label": "s"}, {"_label": "s"}, {"x": "$s"}, {"_after": "s"}, {"x": "$2"})
    assert codes(graph) == {3: "ambiguous_label", 4: "ambiguous_label"}
    assert graph.needs[5] == (2,)


@pytest.mark.parametrize("label", ["Two Words", "2", "ÁRBOL", 7, ["a"]])
def test_a_label_that_cannot_be_referred_to_is_told(label: Any) -> None:
    graph = turn({"_label": label})
    assert graph.calls[0].label == ""
    assert "cannot be referred to" in graph.notices[1][0]
    assert graph.refused == {}


def test_a_label_with_its_dollar_is_meant_without() -> None:
    assert turn({"_label": "$a"}, {"x": "$a"}).needs[2] == (1,)


def test_calls_over_the_limit_are_refused_and_the_others_run() -> None:
    graph = turn(*({} for _ in range(5)), {"x": "$1"}, most=4)
    assert codes(graph) == {5: "too_many_calls", 6: "too_many_calls"}
    assert graph.needs[6] == ()


def test_a_chain_deeper_than_the_limit_is_refused_where_it_goes_too_far() -> None:
    graph = turn({}, *({"x": f"${n}"} for n in range(1, DEEPEST + 2)), {"free": True})
    assert codes(graph) == {DEEPEST + 1: "too_deep", DEEPEST + 2: "too_deep"}
    assert f"{DEEPEST} are allowed" in str(graph.refused[DEEPEST + 1])
    assert f"{DEEPEST + 1} <- {DEEPEST} <- {DEEPEST - 1}" in str(graph.refused[DEEPEST + 1])


def test_without_references_arguments_are_left_alone() -> None:
    graph = turn({"x": "$1", "_after": [2]}, {"x": "$1"}, references=False, most=1)
    assert graph.needs == {1: (), 2: ()}
    assert graph.arguments(1, {}) == {"x": "$1", "_after": [2]}
    assert codes(graph) == {2: "too_many_calls"}


def test_a_missing_part_of_an_output_is_an_error_of_the_call_that_wants_it() -> None:
    graph = turn({}, {"x": "$1.nope"})
    with pytest.raises(ModelError) as caught:
        graph.arguments(2, {1: {"yes": 1}})
    result = refusal(caught.value)
    assert result.state is NodeState.REFUSED
    assert result.error is not None
    assert result.error.code == "bad_reference"
    assert "yes" in result.text


def test_a_skipped_call_says_what_it_waited_for() -> None:
    result = skipped(2, "web_fetch", NodeState.TIMED_OUT)
    assert result.state is NodeState.SKIPPED
    assert "call 2 (web_fetch)" in result.text
    assert "timed out" in result.text
    assert "was denied" in skipped(2, "x", NodeState.DENIED).text


def test_reserved_properties_are_optional_and_leave_the_schema_as_it_was() -> None:
    schema = {
        "type": "object",
        "properties": {"q": {"type": "string"}},
        "required": ["q"],
        "additionalProperties": False,
    }
    before = json.dumps(schema)
    wider = reserved_properties(schema)
    assert json.dumps(schema) == before
    assert list(wider["properties"]) == ["q", "_label", "_after"]
    assert wider["required"] == ["q"]
    assert list(reserved_properties({})["properties"]) == ["_label", "_after"]


def test_the_prompt_describes_what_the_parser_does() -> None:
    forms = ["$2", "$2.results[0].url", "Read ${2.title} first", "$trends.items", "$$2", "$$${2.price}"]
    assert all(f'"{form}"' in REFERENCES_PROMPT for form in forms)
    graph = turn({"_label": "trends"}, {"q": 1}, {"x": forms}, {"_after": [1]})
    assert graph.needs == {1: (), 2: (), 3: (1, 2), 4: (1,)}
    output: JsonValue = {"results": [{"url": "u"}], "title": "Cats", "price": 5}
    values = graph.arguments(3, {1: {"items": [1]}, 2: output})
    assert values == {"x": [output, "u", "Read Cats first", [1], "$2", "$5"]}


def test_a_thousand_calls_that_all_need_all_before_them_are_read() -> None:
    graph = turn(*({"x": [f"${n}" for n in range(max(1, i - 30), i)]} for i in range(1, 1001)), deepest=2000)
    assert graph.refused == {}
    assert len(graph.needs[1000]) == 30


def test_a_ring_of_a_thousand_calls_is_one_circle() -> None:
    graph = turn(*({"x": f"${i % 1000 + 1}"} for i in range(1, 1001)))
    assert set(codes(graph).values()) == {"cycle"}
    assert len(graph.refused) == 1000
    assert len(str(graph.refused[500])) < 200
