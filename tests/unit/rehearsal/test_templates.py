from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from ops.rehearsal.request import Request, ToolResult, Turn
from ops.rehearsal.templates import NOT_FOUND, Data, check, fill, render
from shared.errors import ConfigError

MAPS = {"zones": {"tokio": "Asia/Tokyo", "ciudad de mexico": "America/Mexico_City"}}
TEMPLATES = (
    "{{user}}",
    "{{user[1]}}",
    "{{user[word]}}",
    "{{user[7]}}",
    "{{system}}",
    "{{system[1]}}",
    "{{model}}",
    "{{count}}",
    "{{results}}",
    "{{result.1}}",
    "{{result.99}}",
    "{{result.tool}}",
    "{{result.1|json:}}",
    "{{results|json:a.b[0].c}}",
    "{{result.1|json:a[999999999]}}",
    "{{results|find:(\\d+)|x(y)?}}",
    "{{results|all:(\\w)}}",
    "{{results|lowest:(\\S+)}}",
    "{{results|highest:(\\w*) (\\S+)}}",
    "{{user|map:zones}}",
)


def data(user: str, *results: str, pattern: str = "(?P<word>\\w+)") -> Data:
    turn = Turn(user=user, results=tuple(ToolResult("tool", text) for text in results))
    request = Request(model="m", system="the system", turn=turn)
    return Data(request, re.search(pattern, user), None, MAPS)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{user[word]}}, {{ user[1] }}!", "hello, hello!"),
        ("{{user[2]}} {{system[1]}}", f"{NOT_FOUND} {NOT_FOUND}"),
        ("{{count}} of {{model}}", "3 of m"),
        ("{{result.2}}", "price: 9.80 EUR, code {42}"),
        ("{{result.0}} {{result.4}} {{result.other}}", f"{NOT_FOUND} {NOT_FOUND} {NOT_FOUND}"),
        ("{{result.tool}}", "price: 1,200.50 EUR, code {7}"),
        ("{{result.1|json:a.b[1].c}}", "yes"),
        ("{{result.1|json:a.b[9].c}}", NOT_FOUND),
        ("{{result.1|json:a.b.c}}", NOT_FOUND),
        ("{{result.1|json:a.b[1]}}", '{"c": "yes"}'),
        ("{{result.2|json:a}}", NOT_FOUND),
        ("{{result.2|find:price: ([0-9.]+)}}", "9.80"),
        ("{{result.2|find:code \\{\\d{2}\\}}}", "code {42}"),
        ("{{results|find:nowhere}}", NOT_FOUND),
        ("{{results|all:price: (\\S+)}}", "9.80, 1,200.50"),
        ("{{results|lowest:price: (\\S+)}}", "9.80"),
        ("{{results|highest:price: (\\S+)}}", "1,200.50"),
        ("{{results|lowest:(code)[\\s\\S]*?(nothing)}}", NOT_FOUND),
        ("{{results|highest:price: (\\S+) EUR, code .(\\d+)}}", "9.80"),
        ("no template, {single} {{}", "no template, {single} {{}"),
    ],
)
def test_rendering(template: str, expected: str) -> None:
    found = data(
        "hello world",
        '{"a": {"b": [0, {"c": "yes"}]}}',
        "price: 9.80 EUR, code {42}",
        "price: 1,200.50 EUR, code {7}",
    )
    assert render(template, found) == expected


def test_json_is_found_inside_a_label() -> None:
    wrapped = data("u", 'Output of tool [1]:\n<output>\n{"a": 5}\n</output>')
    assert render("{{result.1|json:a}}", wrapped) == NOT_FOUND  # `[1]` is JSON too, and comes first
    assert render("{{result.1|json:a}}", data("u", 'Output of tool:\n{"a": 5} end')) == "5"
    assert render("{{result.1|json:}}", data("u", "7 apples")) == NOT_FOUND


def test_a_whole_template_keeps_its_type() -> None:
    found = data("u", '{"n": 3, "list": [1, null], "t": true, "nothing": null}')
    filled = fill(
        {
            "n": "{{result.1|json:n}}",
            "list": ["{{result.1|json:list}}"],
            "t": "{{result.1|json:t}}",
            "null": "{{result.1|json:nothing}}",
            "text": "n={{result.1|json:n}}",
            "count": "{{count}}",
            "gone": "{{result.1|json:absent}}",
            "plain": 1.5,
        },
        found,
    )
    assert filled == {
        "n": 3,
        "list": [[1, None]],
        "t": True,
        "null": None,
        "text": "n=3",
        "count": 1,
        "gone": NOT_FOUND,
        "plain": 1.5,
    }


def test_maps_ignore_case_and_accents_and_leave_the_unknown_as_it_is() -> None:
    assert render("{{user|map:zones}}", data("Ciudad de  México")) == "America/Mexico_City"
    assert render("{{user|map:zones}}", data("Gondor")) == "Gondor"


def test_filled_in_text_is_not_scanned_again() -> None:
    assert render("{{result.1}}", data("secret", "{{user}}")) == "{{user}}"


@pytest.mark.parametrize(
    "template",
    [
        "{{}}",
        "{{nothing}}",
        "{{user.x}}",
        "{{result}}",
        "{{results.1}}",
        "{{results[1]}}",
        "{{user|find}}",
        "{{user|find:[}}",
        "{{user|upper:x}}",
        "{{user|map:absent}}",
    ],
)
def test_malformed_templates_are_refused_at_any_depth(template: str) -> None:
    with pytest.raises(ConfigError):
        check({"a": [{"b": f"text {template}"}]}, MAPS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=10,
)
ODD = (
    st.text()
    | st.text(alphabet='{}[]"\\0123456789.,-eE|:<> \n')
    | JSON.map(json.dumps)
    | st.sampled_from(
        ["NaN", "1e999", "-Infinity", "[" * 5000, "[" * 300 + "]" * 300, "9" * 5000, '"\\ud800"', "{{user}}"]
    )
)


@pytest.mark.property
@given(user=ODD, results=st.lists(ODD, max_size=4), template=st.sampled_from(TEMPLATES))
def test_no_data_makes_a_template_fail(user: str, results: list[str], template: str) -> None:
    check(template, MAPS)
    found = data(user, *results)
    assert isinstance(render(f"a {template} b", found), str)
    json.dumps(fill({"x": [template]}, found), allow_nan=False)  # what is filled in is JSON


@pytest.mark.property
@given(value=JSON)
def test_values_without_templates_come_back_unchanged(value: JsonValue) -> None:
    text = json.dumps(value)
    if "{{" not in text:
        assert json.dumps(fill(value, data("u"))) == text
