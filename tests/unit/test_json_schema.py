"""Values against schemas, above all those that pydantic writes."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.json_schema import check_schema, complaint, same


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    id: int
    tags: list[Annotated[str, Field(max_length=3)]] = Field(default=[], max_length=2)


class Outer(BaseModel):
    model_config = ConfigDict(strict=True)
    kind: Literal["a", "b"]
    part: Inner | None = None
    amount: Annotated[float, Field(ge=0, lt=100)]
    pairs: dict[str, bool] = {}


SCHEMA = Outer.model_json_schema()


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ({"kind": "a", "amount": 1}, ""),
        ({"kind": "a", "amount": 1, "part": {"id": 1, "tags": ["x"]}, "pairs": {"p": True}}, ""),
        ({"kind": "a", "amount": 1, "part": None}, ""),
        ([], "the answer should be object, not []"),
        ({"kind": "a"}, "the answer lacks 'amount'"),
        ({"kind": "c", "amount": 1}, 'kind should be one of "a", "b", not "c"'),
        ({"kind": "a", "amount": "1"}, 'amount should be number, not "1"'),
        ({"kind": "a", "amount": True}, "amount should be number, not true"),
        ({"kind": "a", "amount": -1}, "amount should be at least 0, not -1"),
        ({"kind": "a", "amount": 100}, "amount should be less than 100, not 100"),
        ({"kind": "a", "amount": 1, "pairs": {"p": 1}}, "pairs.p should be boolean, not 1"),
        ({"kind": "a", "amount": 1, "part": {"id": 1.5}}, "part fits none of the choices: part.id should be integer"),
        ({"kind": "a", "amount": 1, "part": {"id": 1, "more": 1}}, "part.more should not be there"),
        ({"kind": "a", "amount": 1, "part": {"id": 1, "tags": ["long!"]}}, "part.tags[0] should have 3 characters"),
        ({"kind": "a", "amount": 1, "part": {"id": 1, "tags": ["x"] * 3}}, "part.tags should have 2 items at most"),
    ],
)
def test_complaints(value: Any, wrong: str) -> None:
    check_schema(SCHEMA)
    found = complaint(value, SCHEMA)
    assert wrong in found
    assert bool(found) is bool(wrong)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"const": 1}, 1, True),
        ({"enum": [1, "a"]}, "a", "b"),
        ({"oneOf": [{"minimum": 1}, {"maximum": 5}]}, 7, 3),
        ({"allOf": [{"minimum": 1}, {"maximum": 5}]}, 3, 7),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a"], ["a", 1]),
        ({"type": ["integer", "null"]}, None, "x"),
        ({"type": "string", "pattern": "^a+$"}, "aa", "ab"),
        ({"type": "integer"}, 2.0, 2.5),
        (
            {
                "$defs": {"N": {"properties": {"next": {"$ref": "#/$defs/N"}, "v": {"type": "integer"}}}},
                "$ref": "#/$defs/N",
            },
            {"v": 1, "next": {"v": 2}},
            {"v": 1, "next": {"v": "2"}},
        ),
    ],
)
def test_keywords(schema: dict[str, Any], good: Any, bad: Any) -> None:
    check_schema(schema)
    assert complaint(good, schema) == ""
    assert complaint(bad, schema) != ""


@pytest.mark.parametrize("schema", [{"not": {}}, {"properties": {"a": {"if": {}}}}, {"items": 3}, {"type": "text"}])
def test_what_is_not_checked_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="its schema"):
        check_schema(schema)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 200) | st.floats(allow_nan=False, width=16) | st.sampled_from("abcd"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "part", "amount", "pairs", "id", "tags"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.property
@given(_json | st.builds(lambda k, a, p: {"kind": k, "amount": a, "part": p}, st.sampled_from("abc"), _json, _json))
def test_it_says_what_pydantic_says(value: Any) -> None:
    try:
        Outer.model_validate_json(json.dumps(value))
        valid = True
    except ValidationError:
        valid = False
    assert (complaint(value, SCHEMA) == "") is valid


@pytest.mark.property
@given(_json)
def test_a_value_is_the_same_as_itself(value: Any) -> None:
    assert same(value, json.loads(json.dumps(value)))
    assert not same(value, [value])
