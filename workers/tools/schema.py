"""From a typed function to a pydantic model of its arguments and a plain JSON Schema. Pure.

The schema is what weak models read best: no `$ref`, no titles, no null alternatives for what may be left out.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, create_model

from shared.errors import ModelError

_MOST = 2**63 - 1
_HALVES = re.compile("[\ud800-\udfff]")
_CONTAINERS: dict[str, type] = {"array": list, "object": dict}


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number is expected, not true or false")
    return value


def _annotation(hint: Any) -> Any:
    """Lax parsing takes "3" for 3, as weak models send it, but would take true for 1 as well: refuse that."""
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return Annotated[hint, BeforeValidator(_no_bool)] if bare in (int, float) else hint


def arguments_model(fn: Callable[..., Any], name: str) -> type[BaseModel]:
    """The model of all parameters of `fn` after its first (the context).

    Raises TypeError for a parameter without annotation, `*args`, `**kwargs` or a missing context parameter.
    """
    hints = get_type_hints(fn, include_extras=True)
    parameters = list(inspect.signature(fn).parameters.values())
    if not parameters or parameters[0].name not in ("ctx", "_ctx"):
        raise TypeError("its first parameter must be `ctx: ToolContext`")
    fields: dict[str, Any] = {}
    for parameter in parameters[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"parameter {parameter.name} cannot be offered to a model: give each argument a name")
        if parameter.name not in hints:
            raise TypeError(f"parameter {parameter.name} has no type annotation")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (_annotation(hints[parameter.name]), default)
    return create_model(name, __config__=ConfigDict(extra="forbid", frozen=True), **fields)


def _inline(node: Any, definitions: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_inline(item, definitions, inside) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        name = str(node["$ref"]).rsplit("/", 1)[-1]
        if name in inside:
            raise TypeError(f"{name} refers to itself; models cannot be given recursive arguments")
        merged = {**definitions[name], **{key: value for key, value in node.items() if key != "$ref"}}
        return _inline(merged, definitions, (*inside, name))
    out: dict[str, Any] = {}
    for key, value in node.items():
        if key in ("title", "$defs"):
            continue
        if key == "properties":  # its keys are argument names, one of which may well be `title`
            out[key] = {name: _inline(sub, definitions, inside) for name, sub in value.items()}
        elif key in ("default", "enum", "const", "examples"):
            out[key] = value
        else:
            out[key] = _inline(value, definitions, inside)
    return _without_null(out)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """`X | None = None` becomes X: leaving an argument out already says null."""
    if "default" not in schema or schema["default"] is not None:
        return schema
    rest = {key: value for key, value in schema.items() if key not in ("default", "anyOf")}
    choices = [choice for choice in schema.get("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1:
        return {**choices[0], **rest}
    return {"anyOf": choices, **rest} if choices else rest


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema object of a model's fields, plain and self-contained."""
    raw = model.model_json_schema()
    schema: dict[str, Any] = _inline(raw, raw.get("$defs", {}), ())
    schema.setdefault("properties", {})
    schema.pop("description", None)
    return schema


def _loosened(args: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Undoes two habits of weak models: null for "left out", and arrays or objects sent as JSON text."""
    properties, required = schema["properties"], schema.get("required", ())
    out = {}
    for name, value in args.items():
        expected = properties.get(name, {})
        if value is None and name not in required and name in properties:
            continue
        if isinstance(value, str) and (container := _CONTAINERS.get(expected.get("type", ""))):
            try:
                parsed = json.loads(value)
            except (ValueError, RecursionError):
                parsed = value
            value = parsed if isinstance(parsed, container) else value
        out[name] = value
    return out


def whole(value: Any) -> Any:
    """The value with U+FFFD for half characters, which JSON can spell and little else can take."""
    if isinstance(value, str):
        return _HALVES.sub("\ufffd", value)
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, dict):
        return {whole(name): whole(item) for name, item in value.items()}
    return value


def refuse_halves(tool: str, args: Mapping[str, Any]) -> None:
    """Raises ModelError if half a character is in the arguments: what has an effect does not guess the other half."""
    if halved := [name for name, value in args.items() if whole({name: value}) != {name: value}]:
        raise ModelError(
            f"{tool} was not run: half a character (a lone surrogate) stands in {', '.join(map(repr, halved))}.",
            hint="write the character whole, or leave it out",
            code="bad_arguments",
        )


def _too_large(value: Any) -> bool:
    """True if a whole number of more than 64 bits is in it, which no database takes."""
    if isinstance(value, list | dict):
        return any(map(_too_large, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and not -_MOST <= value <= _MOST


def _expected(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_expected(choice) for choice in schema["anyOf"])
    return str(schema.get("type", "any JSON value"))


def _complaint(error: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    name = str(error["loc"][0]) if error["loc"] else ""
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
        return f"unknown argument `{name}`; known: {', '.join(schema['properties']) or 'none'}"
    expected = _expected(schema["properties"].get(name, {}))
    if error["type"] == "missing" and len(error["loc"]) == 1:
        return f"argument `{name}` is missing; expected {expected}"
    shown = json.dumps(error.get("input"), ensure_ascii=False, default=str)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return f"argument `{where}` is wrong ({error['msg']}); expected {expected}, got {shown}"


def validate(model: type[BaseModel], schema: Mapping[str, Any], tool: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the function takes them, defaults filled in.

    Raises ModelError naming each wrong argument, what was expected, and which ones are required.
    """
    try:
        parsed = model.model_validate(_loosened(args, schema))
    except ValidationError as error:
        complaints = [_complaint(dict(item), schema) for item in error.errors(include_url=False)[:5]]
        raise _refused(tool, schema, complaints) from error
    values = {name: getattr(parsed, name) for name in model.model_fields}
    if large := [f"argument `{name}` is too large a number" for name, value in values.items() if _too_large(value)]:
        raise _refused(tool, schema, large)
    return values


def _refused(tool: str, schema: Mapping[str, Any], complaints: list[str]) -> ModelError:
    required = ", ".join(schema.get("required", ())) or "none"
    return ModelError(
        f"{tool} was not run: {'; '.join(complaints)}. Required arguments: {required}.",
        hint="call it again with corrected arguments",
        code="bad_arguments",
    )
