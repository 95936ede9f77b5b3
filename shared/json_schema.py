"""Whether a JSON value has the shape that a JSON Schema asks for. Pure.

The part of JSON Schema that pydantic writes and people use for answers. A schema with a keyword that is not known here
is refused as a whole, so that nothing is let through that its writer believes to be checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pydantic import JsonValue

Schema = Mapping[str, Any]

_TYPES: Final[dict[str, Callable[[JsonValue], bool]]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "integer": lambda v: not isinstance(v, bool) and (isinstance(v, int) or (isinstance(v, float) and v.is_integer())),
}
_SILENT: Final = frozenset(
    {"title", "description", "default", "examples", "format", "$defs", "$schema", "deprecated", "discriminator"}
)
"""Say nothing about what is valid; `format` is a remark here, as in the standard."""
_CHECKED: Final = frozenset(
    {
        *("$ref", "type", "enum", "const", "anyOf", "oneOf", "allOf", "properties", "required"),
        *("additionalProperties", "items", "prefixItems", "minItems", "maxItems", "minLength", "maxLength", "pattern"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    }
)
_DEEPEST: Final = 64
_REF: Final = re.compile(r"#/\$defs/([^/]+)")


def check_schema(schema: Schema) -> None:
    """Raises ValueError for a schema that could not be checked against as a whole: it says which part of it."""
    for part in _parts(schema, 0):
        if unknown := sorted(part.keys() - _SILENT - _CHECKED):
            raise ValueError(f"its schema uses {unknown[0]!r}, which is not checked here")
        names = _names(part.get("type", []))
        if wrong := [name for name in names if name not in _TYPES]:
            raise ValueError(f"its schema has the unknown type {wrong[0]!r}")
        if (ref := part.get("$ref")) is not None:
            _resolved(str(ref), schema)
        if "pattern" in part:
            re.compile(part["pattern"])


def complaint(value: JsonValue, schema: Schema) -> str:
    """What is wrong with a value, with its place in it; empty if it has the shape. `schema` was checked before."""
    return next(_wrong(value, schema, schema, "", 0), "")


def _parts(schema: Any, depth: int) -> Iterator[Schema]:
    """A schema and all schemas in it. Raises ValueError for what is none."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        raise ValueError("its schema is no JSON Schema, or too deep")
    yield schema
    for key in ("properties", "$defs"):
        for inner in schema.get(key, {}).values():
            yield from _parts(inner, depth + 1)
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for inner in schema.get(key, []):
            yield from _parts(inner, depth + 1)
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from _parts(schema[key], depth + 1)


def _names(types: Any) -> list[str]:
    return [types] if isinstance(types, str) else list(types)


def _resolved(ref: str, root: Schema) -> Schema:
    match = _REF.fullmatch(ref)
    found = root.get("$defs", {}).get(match[1]) if match else None
    if not isinstance(found, Mapping):
        raise ValueError(f"its schema refers to {ref!r}, which it does not define")
    return found


def _wrong(value: JsonValue, schema: Any, root: Schema, at: str, depth: int) -> Iterator[str]:
    where = at or "the answer"
    if schema is False:
        yield f"{where} should not be there"
    if isinstance(schema, bool):
        return
    if depth > _DEEPEST:
        yield f"{where} is nested too deeply"
        return
    if "$ref" in schema:
        yield from _wrong(value, _resolved(schema["$ref"], root), root, at, depth + 1)
    types = _names(schema.get("type", []))
    if types and not any(_TYPES[name](value) for name in types):
        yield f"{where} should be {' or '.join(types)}, not {_shown(value)}"
        return
    if "enum" in schema and not any(same(value, one) for one in schema["enum"]):
        yield f"{where} should be one of {', '.join(map(_shown, schema['enum']))}, not {_shown(value)}"
    if "const" in schema and not same(value, schema["const"]):
        yield f"{where} should be {_shown(schema['const'])}, not {_shown(value)}"
    yield from _choices(value, schema, root, at, depth)
    if isinstance(value, dict):
        yield from _object(value, schema, root, at, depth)
    elif isinstance(value, list):
        yield from _array(value, schema, root, at, depth)
    elif isinstance(value, str):
        yield from _text(value, schema, where)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number(value, schema, where)


def _choices(value: JsonValue, schema: Schema, root: Schema, at: str, depth: int) -> Iterator[str]:
    for one in schema.get("allOf", []):
        yield from _wrong(value, one, root, at, depth + 1)
    for key, least_most in (("anyOf", (1, None)), ("oneOf", (1, 1))):
        if key not in schema:
            continue
        why = [next(_wrong(value, one, root, at, depth + 1), "") for one in schema[key]]
        fits = why.count("")
        if fits < least_most[0]:
            yield f"{at or 'the answer'} fits none of the choices: {'; '.join(why)}"
        elif least_most[1] is not None and fits > least_most[1]:
            yield f"{at or 'the answer'} fits more than one of the choices"


def _object(value: dict[str, JsonValue], schema: Schema, root: Schema, at: str, depth: int) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            yield f"{at or 'the answer'} lacks {name!r}"
    rest = schema.get("additionalProperties", True)
    for name, inner in value.items():
        yield from _wrong(inner, known.get(name, rest), root, f"{at}.{name}" if at else name, depth + 1)


def _array(value: list[JsonValue], schema: Schema, root: Schema, at: str, depth: int) -> Iterator[str]:
    yield from _length(len(value), schema, "Items", at or "the answer", "items")
    first = schema.get("prefixItems", [])
    for i, inner in enumerate(value):
        part = first[i] if i < len(first) else schema.get("items", True)
        yield from _wrong(inner, part, root, f"{at}[{i}]", depth + 1)


def _text(value: str, schema: Schema, where: str) -> Iterator[str]:
    yield from _length(len(value), schema, "Length", where, "characters")
    if "pattern" in schema and re.search(schema["pattern"], value) is None:
        yield f"{where} does not match {schema['pattern']}"


def _length(length: int, schema: Schema, key: str, where: str, what: str) -> Iterator[str]:
    if length < schema.get(f"min{key}", 0):
        yield f"{where} should have {schema[f'min{key}']} {what} at least, not {length}"
    if f"max{key}" in schema and length > schema[f"max{key}"]:
        yield f"{where} should have {schema[f'max{key}']} {what} at most, not {length}"


def _number(value: float, schema: Schema, where: str) -> Iterator[str]:
    bounds: tuple[tuple[str, str, Callable[[float, float], bool]], ...] = (
        ("minimum", "at least", lambda v, b: v >= b),
        ("maximum", "at most", lambda v, b: v <= b),
        ("exclusiveMinimum", "more than", lambda v, b: v > b),
        ("exclusiveMaximum", "less than", lambda v, b: v < b),
    )
    for key, words, holds in bounds:
        if key in schema and not holds(value, schema[key]):
            yield f"{where} should be {words} {schema[key]}, not {value}"


def same(one: JsonValue, other: JsonValue) -> bool:
    """Equality of JSON values, in which true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other


def _shown(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:59] + "…"
