"""The grammar of references, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.graph.references import MOST_INSERTED, parse, substitute
from shared.errors import ModelError

NAMES = {**{str(n): n for n in range(1, 11)}, "trends": 2, "my-list_1": 3}
VALUES: dict[int, Any] = {
    1: "plain",
    2: {"results": [{"url": "http://a", "n": 1}, {"url": "http://b", "n": 2}], "title": "Cats", "a b": {"'": 7}},
    3: [10, 20, 30],
    4: 42,
    5: None,
    6: True,
    7: {"size": 1.5, "ñandú": "bird", "0": "zero"},
    8: "costs $1 and ${2.title} and $$3",
    9: {},
    10: "ten",
}


def filled(value: Any) -> Any:
    args = {"x": value}
    return substitute(args, parse(args, NAMES), VALUES)["x"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$1", "plain"),
        ("$10", "ten"),
        ("$4", 42),
        ("$5", None),
        ("$6", True),
        ("$2", VALUES[2]),
        ("$3", [10, 20, 30]),
        ("$2.results[0].url", "http://a"),
        ("$2.results[-1].n", 2),
        ("$2.results.1.n", 2),
        ("$2['a b']", {"'": 7}),
        ('$2["a b"]["\'"]', 7),
        ("$trends", VALUES[2]),
        ("$trends.title", "Cats"),
        ("$my-list_1[2]", 30),
        ("$7.ñandú", "bird"),
        ("$7[0]", "zero"),
        ("${4}", 42),
        ("${2.results}", VALUES[2]["results"]),
    ],
)
def test_a_whole_value_keeps_its_type(text: str, value: Any) -> None:
    assert filled(text) == value
    assert type(filled(text)) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${1}+${4}", "plain+42"),
        ("Read ${2.title}!", "Read Cats!"),
        ("${trends.title} and ${my-list_1}", "Cats and [10,20,30]"),
        ("n=${4} b=${6} z=${5}", "n=42 b=true z=null"),
        ("${7} ", '{"size":1.5,"ñandú":"bird","0":"zero"} '),
        ("${1}${10}", "plainten"),
        ("${10}${1}", "tenplain"),
        ("line\n${1}\nline", "line\nplain\nline"),
    ],
)
def test_inside_text_a_value_is_formatted(text: str, value: str) -> None:
    assert filled(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "the price is $5",
        "$5 each",
        "$1,000",
        "$1.50",
        "costs $2.50, or $3",
        "$ 1",
        "$",
        "$$",
        "$HOME/bin and ${HOME}",
        "kill $$ && echo $1",
        "see $2.title in the text",
        "{2.title}",
        "$(date) `x` $# $? $@",
        "^foo$",
        "R$ 1",
        "$1 $2",
        "$1\n",
        "${}",
        "${2",
        "€5",
        "$1234567890123",
    ],
)
def test_other_dollars_stay_untouched_and_need_no_notice(text: str) -> None:
    assert filled(text) == text
    assert parse({"x": text}, NAMES).notices == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$$2", "$2"),
        ("$$2.title", "$2.title"),
        ("$$trends", "$trends"),
        ("$${2.title}", "${2.title}"),
        ("$$${2.title}", "$Cats"),
        ("$$$${2.title}", "$${2.title}"),
        ("only $$${4} today", "only $42 today"),
        ("$$$2", "$$2"),
        ("$$99", "$$99"),
        ("$${99}", "$${99}"),
    ],
)
def test_a_doubled_dollar_is_a_plain_one_only_before_a_reference(text: str, value: str) -> None:
    assert filled(text) == value
    assert parse({"x": text}, NAMES).notices == ()


@pytest.mark.parametrize(
    "text", ["$99", "$0", "$nobody", "${nobody.x} said", "${ 2.title }", "$2.results[*].url", "${2:-none}", "$2."]
)
def test_what_is_no_reference_stays_text_with_a_notice(text: str) -> None:
    assert filled(text) == text
    (notice,) = parse({"x": text}, NAMES).notices
    assert "plain text" in notice


def test_many_notices_are_summed_up() -> None:
    notices = parse({"x": " ".join(f"${{name{n}}}" for n in range(50))}, NAMES).notices
    assert len(notices) == 6
    assert notices[-1].startswith("45 more")


def test_references_are_found_at_any_depth_and_in_lists() -> None:
    args = {"a": [{"b": ["$4", {"c": "x${1}"}]}], "d": 5, "e": None}
    parsed = parse(args, NAMES)
    assert parsed.targets == (1, 4)
    assert [r.place for r in parsed.refs] == [("a", 0, "b", 0), ("a", 0, "b", 1, "c")]
    assert substitute(args, parsed, VALUES) == {"a": [{"b": [42, {"c": "xplain"}]}], "d": 5, "e": None}
    assert args == {"a": [{"b": ["$4", {"c": "x${1}"}]}], "d": 5, "e": None}


def test_arguments_nested_thousands_deep_are_no_problem() -> None:
    deep: Any = "$1"
    for _ in range(5000):
        deep = [deep]
    args = {"x": deep}
    value = substitute(args, parse(args, NAMES), VALUES)["x"]
    for _ in range(5000):
        value = value[0]
    assert value == "plain"


def test_keys_are_never_read() -> None:
    assert parse({"$1": {"${2}": 0}}, NAMES).templates == ()


def test_a_value_that_was_put_in_is_never_scanned() -> None:
    assert filled("$8") == VALUES[8]
    assert filled("<${8}> ${1}") == f"<{VALUES[8]}> plain"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("$2.reslts", "its keys are: results, title, a b"),
        ("$3[3]", "a list of 3 items, without 3; use [0] to [2]"),
        ("$3.first", 'a list of 3 items, without "first"'),
        ("$1.title", "is a text and has no parts"),
        ("${4.x}!", "is a number"),
        ("$5.x", "is null"),
        ("$9.x", "an empty object"),
        ("$2.results[0].link", 'call 2["results"][0] has no "link"; its keys are: url, n'),
    ],
)
def test_a_path_that_leads_nowhere_says_what_there_is(text: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        filled(text)
    assert caught.value.code == "bad_reference"
    assert message in caught.value.message


def test_an_object_with_very_many_keys_names_some() -> None:
    args = {"x": "$1.y"}
    with pytest.raises(ModelError, match=r"k0, .*k19 and 480 more"):
        substitute(args, parse(args, {"1": 1}), {1: {f"k{n}": n for n in range(500)}})


def test_outputs_that_would_swell_beyond_all_measure_are_refused() -> None:
    args = {"x": ["$1"] * 3}
    with pytest.raises(ModelError) as caught:
        substitute(args, parse(args, {"1": 1}), {1: "y" * (MOST_INSERTED // 2)})
    assert caught.value.code == "bad_reference"
    long = {"x": "z" * (2 * MOST_INSERTED), "y": "$1"}
    assert substitute(long, parse(long, {"1": 1}), {1: 5})["y"] == 5


@pytest.mark.parametrize(
    "text", ["$" * 200_000, "${" * 100_000, "${a" * 60_000, "${a['" * 40_000, "${1" + "[0]" * 60_000]
)
def test_long_texts_of_dollars_are_read_in_linear_time(text: str) -> None:
    assert parse({"x": text}, {"1": 1, "a": 1}).templates == ()
