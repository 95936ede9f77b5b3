"""Filling a model step's prompt with the outputs of the steps before it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from coordinator.loop.workflow_steps import fill

INPUTS: dict[str, JsonValue] = {"notes": "milk", "count": 3, "rows": [{"a": "ñ"}], "none": None, "yes": True}


@pytest.mark.parametrize(
    ("prompt", "filled"),
    [
        ("", ""),
        ("plain", "plain"),
        ("{notes}", "milk"),
        ("a {notes} b {count} c", "a milk b 3 c"),
        ("{notes}{notes}", "milkmilk"),
        ("{rows} {none} {yes}", '[{"a": "ñ"}] null true'),
        ("{unknown} {notes}", "{unknown} milk"),
        ("{ {notes} }", "{ milk }"),
        ('{"a": {notes}}', '{"a": milk}'),
        ("{notes", "{notes"),
        ("notes}", "notes}"),
        ("}{notes}{", "}milk{"),
        ("{}", "{}"),
    ],
)
def test_filling(prompt: str, filled: str) -> None:
    assert fill(prompt, INPUTS) == filled


def test_what_is_put_in_is_never_filled_again() -> None:
    assert fill("{a} {b}", {"a": "{b}", "b": "{a}"}) == "{b} {a}"
    assert fill("{a}b}", {"a": "{", "b": "x"}) == "{b}"


@pytest.mark.property
@given(st.text(alphabet="ab{} ", max_size=30), st.text(alphabet="ab{} ", max_size=5))
def test_text_without_names_stays_as_it_is(prompt: str, value: str) -> None:
    assert fill(prompt, {"name": value}) == prompt
    assert fill(prompt.replace("{a}", ""), {"a": value}).count(value) >= prompt.replace("{a}", "").count(value)


@pytest.mark.property
@given(st.lists(st.sampled_from(["{a}", "{b}", "x", " "]), max_size=12), st.text(max_size=8), st.text(max_size=8))
def test_every_placeholder_becomes_its_value(parts: list[str], one: str, other: str) -> None:
    expected = "".join({"{a}": one, "{b}": other}.get(part, part) for part in parts)
    assert fill("".join(parts), {"a": one, "b": other}) == expected
