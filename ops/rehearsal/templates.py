"""The templates of scenarios, `{{source}}` or `{{source|filter:argument}}`. Pure.

Every template is checked when its scenario is loaded. Filling one in never fails: what the data does not hold
becomes `NOT_FOUND`, so that a rehearsal invents nothing. Substituted text is never scanned for templates again.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from pydantic import JsonValue

from ops.rehearsal.request import Request, ToolResult
from shared.errors import ConfigError

NOT_FOUND = "(not found)"

# The last two of several closing braces end a template, so that a regex may end with one: {{results|find:\d{2}}}
_TEMPLATE = re.compile(r"\{\{(.*?)\}\}(?!\})", re.DOTALL)
_SOURCE = re.compile(r"(?P<name>user|system|results|result|model|count)(?:\[(?P<group>\w+)\]|\.(?P<key>\w+))?")
_PATH_PART = re.compile(r"(?:^|\.)(?P<key>[^.\[\]]+)|\[(?P<index>\d{1,9})\]")
_NUMBER = re.compile(r"[-+]?[0-9][0-9,]*(?:\.[0-9]+)?")
_REGEX_FILTERS = ("find", "all", "lowest", "highest")
_JSON_TRIES = 50
_JSON_DEPTH = 100
_FILTERS = (*_REGEX_FILTERS, "json", "map")


class _Missing:
    """The type of `_MISSING`; None is a JSON value and cannot stand for absence."""


_MISSING = _Missing()


@dataclass(frozen=True, slots=True)
class Data:
    """What templates draw from: the request, the matches of the rule's patterns, the scenario's maps."""

    request: Request
    user: re.Match[str] | None = None
    system: re.Match[str] | None = None
    maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Expression:
    name: str
    group: str = ""
    key: str = ""
    filter: str = ""
    argument: str = ""
    regex: re.Pattern[str] | None = None


def fold(text: str) -> str:
    """`text` in lower case, without accents and surplus blank space: how keys of maps are compared."""
    plain = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return " ".join(plain.casefold().split())


def check(value: JsonValue, maps: Mapping[str, Mapping[str, str]]) -> None:
    """Raises ConfigError if a template anywhere in `value` is malformed or names an unknown map."""
    for text in _strings(value):
        for match in _TEMPLATE.finditer(text):
            expression = _parse(match[1])
            if expression.filter == "map" and expression.argument not in maps:
                raise ConfigError(f"template {match[0]!r}: the scenario has no map {expression.argument!r}")


def render(text: str, data: Data) -> str:
    """`text` with its templates filled in. Raises ConfigError for a template that `check` refuses, else nothing."""
    return _TEMPLATE.sub(lambda match: _as_text(_value(_parse(match[1]), data)), text)


def fill(value: JsonValue, data: Data) -> JsonValue:
    """`value` with the templates in its strings filled in, at any depth.

    A string that is one whole template keeps the type of what `json:` found, or of `count`.
    """
    if isinstance(value, str):
        whole = _TEMPLATE.fullmatch(value)
        if whole is None:
            return render(value, data)
        found = _value(_parse(whole[1]), data)
        return NOT_FOUND if isinstance(found, _Missing) else found
    if isinstance(value, list):
        return [fill(item, data) for item in value]
    if isinstance(value, dict):
        return {key: fill(item, data) for key, item in value.items()}
    return value


def _strings(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)


@lru_cache(maxsize=1024)
def _parse(text: str) -> _Expression:
    source, _, rest = text.strip().partition("|")
    match = _SOURCE.fullmatch(source.strip())
    shown = "{{" + text + "}}"
    if match is None:
        raise ConfigError(f"template {shown}: unknown source {source.strip()!r}", hint="see the scenario format")
    name, group, key = match["name"], match["group"] or "", match["key"] or ""
    if (group and name not in ("user", "system")) or bool(key) != (name == "result"):
        raise ConfigError(f"template {shown}: {source.strip()!r} is not a source", hint="see the scenario format")
    if not rest:
        return _Expression(name, group, key)
    kind, colon, argument = rest.partition(":")
    kind = kind.strip()
    if kind not in _FILTERS or not colon:
        raise ConfigError(f"template {shown}: unknown filter {kind!r}", hint=f"use one of {', '.join(_FILTERS)}")
    regex = None
    if kind in _REGEX_FILTERS:
        try:
            regex = re.compile(argument)
        except re.error as error:
            raise ConfigError(f"template {shown}: not a regular expression: {error}") from error
    return _Expression(name, group, key, kind, argument.strip(), regex)


def _value(expression: _Expression, data: Data) -> JsonValue | _Missing:
    source = _source(expression, data)
    if isinstance(source, _Missing) or not expression.filter:
        return source
    text = str(source)
    if expression.filter == "json":
        return _json_at(text, expression.argument)
    if expression.filter == "map":
        return data.maps.get(expression.argument, {}).get(fold(text), text)
    if expression.regex is None:
        return _MISSING
    matches = expression.regex.finditer(text)
    if expression.filter == "find":
        first = next(matches, None)
        return _MISSING if first is None else _group(first, 1)
    if expression.filter == "all":
        return ", ".join(str(part) for part in (_group(match, 1) for match in matches) if part != "") or _MISSING
    return _extreme(matches, min if expression.filter == "lowest" else max)


def _source(expression: _Expression, data: Data) -> JsonValue | _Missing:
    turn = data.request.turn
    match expression.name:
        case "user":
            return _matched(data.user, expression.group) if expression.group else turn.user
        case "system":
            return _matched(data.system, expression.group) if expression.group else data.request.system
        case "results":
            return "\n\n".join(result.text for result in turn.results) if turn.results else _MISSING
        case "result":
            return _result(turn.results, expression.key)
        case "count":
            return len(turn.results)
        case _:
            return data.request.model


def _matched(match: re.Match[str] | None, group: str) -> str | _Missing:
    if match is None:
        return _MISSING
    names = match.groupdict()
    if group in names:
        found = names[group]
    elif group.isdecimal() and len(group) < 4 and int(group) <= len(match.groups()):
        found = match[int(group)]
    else:
        return _MISSING
    return _MISSING if found is None else found.strip()


def _result(results: tuple[ToolResult, ...], key: str) -> str | _Missing:
    """The result at a position (from 1), or the last one of a tool."""
    if key.isdecimal():
        return results[int(key) - 1].text if len(key) < 6 and 1 <= int(key) <= len(results) else _MISSING
    return next((result.text for result in reversed(results) if result.name == key), _MISSING)


def _group(match: re.Match[str], number: int) -> str | _Missing:
    if match.re.groups == 0:
        return match[0]
    found = match[number]
    return _MISSING if found is None else found


def _extreme(matches: Iterator[re.Match[str]], choose: Callable[..., tuple[float, str]]) -> str | _Missing:
    """The first group of the match whose last group is the lowest or highest number."""
    found: list[tuple[float, str]] = []
    for match in matches:
        label, value = _group(match, 1), _group(match, match.re.groups)
        number = None if isinstance(value, _Missing) else _NUMBER.search(value)
        if number is not None and not isinstance(label, _Missing):
            found.append((float(number[0].replace(",", "")), label))
    return choose(found, key=lambda pair: pair[0])[1] if found else _MISSING


def _json_at(text: str, path: str) -> JsonValue | _Missing:
    value = _json_in(text)
    position = 0
    while position < len(path):
        part = _PATH_PART.match(path, position)
        if part is None:
            return _MISSING
        position = part.end()
        if part["index"] is not None:
            index = int(part["index"])
            value = value[index] if isinstance(value, list) and index < len(value) else _MISSING
        else:
            value = value.get(part["key"], _MISSING) if isinstance(value, dict) else _MISSING
    return value


def _json_in(text: str) -> JsonValue | _Missing:
    """The JSON value that `text` is, else the first object or array in it: results may come wrapped in a label."""
    starts = [0, *(match.start() for match in islice(re.finditer(r"[{\[]", text), _JSON_TRIES))]
    for start in starts:
        try:
            value: JsonValue
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if start == 0 and text[end:].strip() and not isinstance(value, dict | list):
            continue  # a text that happens to begin with a number
        return value if _shallow(value) else _MISSING
    return _MISSING


def _shallow(value: JsonValue) -> bool:
    """False for nesting so deep that writing it again could fail."""
    level: list[JsonValue] = [value]
    for _ in range(_JSON_DEPTH):
        inner: list[JsonValue] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        if not inner:
            return True
        level = inner
    return False


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is out of range")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def _as_text(value: JsonValue | _Missing) -> str:
    if isinstance(value, _Missing):
        return NOT_FOUND
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
