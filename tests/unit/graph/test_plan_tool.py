"""Plans as models send them, and what they are told when a plan is wrong."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from coordinator.graph.plan_tool import DESCRIPTION, PLAN, SCHEMA, parse_plan
from coordinator.graph.turn import TurnGraph
from shared.errors import ModelError

TOOLS = {"search", "fetch", "report"}
GOOD = [
    {"id": "s", "tool": "search", "args": {"q": "x"}},
    {"id": "f", "tool": "fetch", "args": {"url": "$s.results[0].url"}},
    {"id": "r", "tool": "report", "args": {"text": "About ${f.title}"}, "after": ["s"]},
]


def plan(arguments: Any, **options: Any) -> TurnGraph:
    return parse_plan(arguments, TOOLS.__contains__, **options)


def complaint(arguments: Any, **options: Any) -> str:
    with pytest.raises(ModelError) as caught:
        plan(arguments, **options)
    assert caught.value.code == "bad_plan"
    assert "Nothing of the plan was run" in str(caught.value)
    return str(caught.value)


def other_words(step: dict[str, Any]) -> dict[str, Any]:
    words = {"tool": "name", "args": "arguments", "after": "depends_on"}
    return {words.get(k, k): v for k, v in step.items()}


@pytest.mark.parametrize(
    "form",
    [
        {"steps": GOOD},
        GOOD,
        json.dumps(GOOD),
        json.dumps({"steps": GOOD}),
        {"steps": json.dumps(GOOD)},
        {"steps": {"steps": GOOD}},
        {"plan": GOOD},
        {"steps": [{**s, "args": json.dumps(s["args"])} for s in GOOD]},
        {"steps": [other_words(s) for s in GOOD]},
        {"steps": [{**s, "description": "why not"} for s in GOOD], "goal": "x"},
        {"steps": [{**s, "after": ["$" + a for a in s.get("after", ())]} for s in GOOD]},
    ],
)
def test_a_plan_is_understood_in_every_form(form: Any) -> None:
    graph = plan(form)
    assert graph.needs == {1: (), 2: (1,), 3: (1, 2)}
    assert [c.name for c in graph.calls] == ["search", "fetch", "report"]
    assert [c.label for c in graph.calls] == ["s", "f", "r"]
    assert graph.arguments(3, {2: {"title": "T"}}) == {"text": "About T"}


def test_a_single_step_needs_no_list() -> None:
    assert plan({"tool": "search", "args": {"q": 1}}).calls[0].arguments == {"q": 1}


def test_steps_without_an_id_are_named_by_their_number() -> None:
    graph = plan([{"tool": "search", "args": {}}, {"tool": "fetch", "args": {"url": "$1.u"}}])
    assert graph.needs == {1: (), 2: (1,)}


def test_numbers_are_ids_where_steps_have_numbers_for_ids() -> None:
    graph = plan(
        [
            {"id": 0, "tool": "search", "args": {}},
            {"id": 1, "tool": "fetch", "args": {"url": "$0.u"}},
            {"id": 2, "tool": "report", "args": {"x": "$1"}, "after": [0]},
        ]
    )
    assert graph.needs == {1: (), 2: (1,), 3: (1, 2)}


def test_numbers_are_places_where_all_ids_are_words() -> None:
    assert plan(
        [{"id": "a", "tool": "search", "args": {}}, {"id": "b", "tool": "fetch", "args": {"u": "$1"}}]
    ).needs == {
        1: (),
        2: (1,),
    }


def test_args_may_be_missing_where_a_tool_needs_none() -> None:
    assert plan([{"id": "a", "tool": "search", "reason": "to see"}]).calls[0].arguments == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "must look like"),
        ({"steps": []}, "has no steps"),
        ("[{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ([{"id": "a", "tool": "search", "args": "[" * 100_000}], '"args" must be an object'),
        ({"steps": "soon"}, "not valid JSON"),
        ({"steps": 5}, "must look like"),
        (None, "must look like"),
        (["a"], "step 1 is not an object"),
        ([{"id": "a", "args": {}}], "step a names no tool"),
        ([{"id": "a", "tool": "fly", "args": {}}], "step a: there is no tool 'fly'"),
        ([{"id": "a", "tool": PLAN, "args": {}}], "cannot hold a plan"),
        ([{"id": "Big Id", "tool": "search", "args": {}}], "the id 'Big Id' must be small letters"),
        ([{"id": "a", "tool": "search", "query": "x"}], 'put the arguments (query) into "args"'),
        ([{"id": "a", "tool": "search", "args": "cats"}], '"args" must be an object'),
        ([{"id": "a", "tool": "search", "args": [1]}], '"args" must be an object'),
        ([GOOD[0], GOOD[0]], "two steps have the id 's'"),
        ([{**GOOD[0], "after": ["zz"]}], "must run after 'zz', which is no step"),
        ([{**GOOD[0], "args": {"q": "$s"}}], "$s refers to the step itself"),
        (
            [{"id": "a", "tool": "search", "args": {"q": "$b"}}, {"id": "b", "tool": "fetch", "args": {"u": "$a"}}],
            "need each other in a circle: a -> b -> a",
        ),
    ],
)
def test_a_wrong_plan_is_refused_with_words_that_help(arguments: Any, words: str) -> None:
    assert words in complaint(arguments)


def test_all_mistakes_are_named_at_once() -> None:
    text = complaint([{"id": "a", "tool": "fly", "args": {}}, {"id": "b", "args": 5}, {**GOOD[0], "id": "Ü"}])
    assert all(words in text for words in ("no tool 'fly'", "b names no tool", '"args" must be', "'Ü'"))


def test_very_many_mistakes_are_cut_short() -> None:
    text = complaint([{"id": f"s{n}", "tool": "fly", "args": {}} for n in range(40)])
    assert "and 30 more" in text


def test_a_circle_is_told_once() -> None:
    steps = [{"id": f"s{n}", "tool": "search", "args": {"q": f"$s{(n + 1) % 9}"}} for n in range(9)]
    assert complaint(steps).count("circle") == 1


def test_limits_hold_for_plans() -> None:
    steps = [{"id": f"s{n}", "tool": "search", "args": {"q": f"$s{n - 1}" if n else ""}} for n in range(6)]
    assert "6 steps, and 5 are allowed" in complaint(steps, most=5)
    assert "3 are allowed" in complaint(steps, deepest=3)


def test_an_unknown_reference_stays_text_with_a_notice() -> None:
    graph = plan([{"id": "a", "tool": "search", "args": {"price": "$99"}}])
    assert graph.notices[1]


def test_the_example_in_the_description_is_a_plan_and_fits_the_schema() -> None:
    match = re.search(r"Example: (\{.*\})$", DESCRIPTION)
    assert match is not None
    example = json.loads(match[1])
    graph = parse_plan(example, {"web_search", "web_fetch"}.__contains__)
    assert graph.needs == {1: (), 2: (1,)}
    allowed = SCHEMA["properties"]["steps"]["items"]["properties"]
    assert all(set(step) <= set(allowed) for step in example["steps"])
