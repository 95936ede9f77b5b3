"""JSON as tests read it: what something is said to be is checked, and typed from there on."""

from __future__ import annotations

from pydantic import JsonValue

Fields = dict[str, JsonValue]
"""A JSON object."""


def fields(value: JsonValue) -> Fields:
    """The value, which is an object."""
    assert isinstance(value, dict), f"not an object: {value!r}"
    return value


def rows(value: JsonValue) -> list[Fields]:
    """The value, which is an array of objects."""
    assert isinstance(value, list), f"not an array: {value!r}"
    return [fields(one) for one in value]
