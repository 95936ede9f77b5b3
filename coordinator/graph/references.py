r"""References between the calls of one turn: where an argument takes its value from another call's output. Pure.

The grammar, on the strings of a call's arguments at any depth (keys of objects are never read):

    reference = "$" target          the whole string, nothing around it
              | "${" target "}"     the whole string, or anywhere inside one
    target    = name step*
    name      = position            1-based place of a call in the turn: 1, 2, 3 …
              | label               [a-z_][a-z0-9_-]*, given to a call in `_label`
    step      = "." key             key: a letter or _, then letters, digits, _ or -
              | "." number          an index, or a key of digits; never directly behind a position
              | "[" number "]"      an index from 0; negative ones count from the end
              | "[" quoted "]"      any key: a JSON string, or text without ' between single quotes

- A string that is exactly one reference becomes the value itself, with its type.
- Inside other text a reference needs braces. A string is put in as it is, any other value as compact JSON.
- A doubled dollar directly before what would be a reference is one plain dollar: `$$2` means the text `$2`,
  `$${2}` the text `${2}`, `$$${2}` a dollar sign followed by the value. All other dollars stay as they are, so
  `$5 each`, `$1,000`, `$1.50`, `$HOME` and `$$` need no care.
- A name that no call of the turn has leaves the text untouched, with a notice.
- Values that were put in are never scanned.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

from shared.errors import ModelError

LABEL: Final = re.compile(r"[a-z_][a-z0-9_-]*")
"""What a label must match entirely."""
AMBIGUOUS: Final = 0
"""The position to give in `names` for a name that several calls have."""
MOST_INSERTED: Final = 1_000_000
"""Characters that references may put into the arguments of one call, counted as JSON."""

_MOST_NOTICES: Final = 5
_MOST_KEYS: Final = 20

Path = tuple[str | int, ...]

_NAME = r"[0-9]{1,9}+(?!\.[0-9])|[a-z_][a-z0-9_-]*+"
_STEP = r"""\.(?:[^\W\d][\w-]*+|[0-9]{1,9}+)|\[(?:-?[0-9]{1,9}|"(?:[^"\\]|\\.){0,200}"|'[^']{0,200}')\]"""
_TARGET = rf"(?P<name>{_NAME})(?P<steps>(?:{_STEP})*)"
_WHOLE = re.compile(rf"(?P<dollars>\$++){_TARGET}")
_BRACED = re.compile(rf"(?<!\$)(?P<dollars>\$++)\{{{_TARGET}\}}")
_STEPS = re.compile(_STEP)
# Written like a reference to a call that exists, yet not one: worth a notice, since the text goes out as it is.
_NEARLY = re.compile(rf"(?<!\$)\$(?:\{{\s*(?P<braced>{_NAME})(?![\w-])[^{{}}]*\}}|(?P<plain>{_NAME})[.\[]\S*\Z)")


@dataclass(frozen=True, slots=True)
class Ref:
    """One reference: the call it reads from (1-based position), the path in that call's output, and where it stands.

    `place` is the path of the string in the arguments. `whole` references keep the type of the value.
    """

    target: int
    path: Path
    place: Path
    text: str
    whole: bool


@dataclass(frozen=True, slots=True)
class Template:
    """A string of the arguments that does not stay as it is: the pieces that it is put together from."""

    place: Path
    pieces: tuple[str | Ref, ...]


@dataclass(frozen=True, slots=True)
class Parsed:
    """What was found in the arguments of one call. `notices` are sentences for the model."""

    templates: tuple[Template, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def refs(self) -> tuple[Ref, ...]:
        """All references, in reading order."""
        return tuple(piece for t in self.templates for piece in t.pieces if isinstance(piece, Ref))

    @property
    def targets(self) -> tuple[int, ...]:
        """Positions of the calls that are read from, each once, in ascending order."""
        return tuple(sorted({ref.target for ref in self.refs}))


def parse(args: Mapping[str, Any], names: Mapping[str, int]) -> Parsed:
    """Finds the references in `args`. `names` maps every name of the turn, numbers included ("2"), to its position."""
    templates: list[Template] = []
    unknown: dict[str, None] = {}
    for place, text in _strings(args):
        if (pieces := _pieces(text, place, names, unknown)) is not None:
            templates.append(Template(place, pieces))
    return Parsed(tuple(templates), _as_notices(list(unknown)))


def substitute(args: Mapping[str, Any], parsed: Parsed, values: Mapping[int, JsonValue]) -> dict[str, Any]:
    """A copy of `args` with every reference of `parsed`, which came from the same `args`, replaced by its value.

    `values` maps positions to outputs. Raises ModelError with code `bad_reference` if a path leads nowhere (naming
    what there is instead) or if more than `MOST_INSERTED` characters would be put in.
    """
    filled = _copied(args)
    left = MOST_INSERTED
    for template in parsed.templates:
        pieces = [resolve(p, values) if isinstance(p, Ref) else p for p in template.pieces]
        texts = [p if isinstance(p, str) else compact(p) for p in pieces]
        left -= sum(len(t) for t, p in zip(texts, template.pieces, strict=True) if isinstance(p, Ref))
        if left < 0:
            text = f"references would put more than {MOST_INSERTED:,} characters into the arguments"
            raise ModelError(text, hint="refer to a part of the output, such as $2.items[0]", code="bad_reference")
        first = template.pieces[0]
        _put(filled, template.place, pieces[0] if isinstance(first, Ref) and first.whole else "".join(texts))
    return filled


def resolve(ref: Ref, values: Mapping[int, JsonValue]) -> JsonValue:
    """The value that a reference stands for. Raises ModelError with code `bad_reference` if its path leads nowhere."""
    if ref.target not in values:
        raise ModelError(f"{ref.text}: call {ref.target} has no output", code="bad_reference")
    value = values[ref.target]
    for depth, step in enumerate(ref.path):
        if isinstance(value, dict) and str(step) in value:
            value = value[str(step)]
        elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            raise _no_such_part(ref, depth, value)
    return value


def compact(value: JsonValue) -> str:
    """How a value that is not a string looks inside text: JSON without spaces, characters as they are."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _strings(args: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Every string that holds a dollar sign, with its path, in reading order; without recursion."""
    stack: list[tuple[Path, Any]] = [((), args)]
    while stack:
        place, value = stack.pop()
        if isinstance(value, str):
            if "$" in value:
                yield place, value
        elif isinstance(value, Mapping):
            stack.extend(((*place, key), child) for key, child in reversed(list(value.items())))
        elif isinstance(value, list):
            stack.extend(((*place, i), value[i]) for i in range(len(value) - 1, -1, -1))


def _pieces(text: str, place: Path, names: Mapping[str, int], odd: dict[str, None]) -> tuple[str | Ref, ...] | None:
    """The parts of a string, or None if it stays as it is. What looks like a reference but is none goes into `odd`."""
    if whole := _WHOLE.fullmatch(text):
        dollars = len(whole["dollars"])
        if whole["name"] not in names:
            odd.update({text: None} if dollars == 1 else {})
            return None
        if dollars == 1:
            return (_ref(whole, place, names, whole=True),)
        return ("$" * (dollars - dollars // 2) + text[dollars:],)
    pieces: list[str | Ref] = []
    end, changed = 0, False
    for match in _BRACED.finditer(text):
        dollars = len(match["dollars"])
        if match["name"] not in names:
            odd.update({match[0][dollars - 1 :]: None} if dollars % 2 else {})
            continue
        changed = True
        literal = text[end : match.start()] + "$" * (dollars // 2)
        if dollars % 2 == 0:
            pieces.append(literal + text[match.start() + dollars : match.end()])
        else:
            if literal:
                pieces.append(literal)
            pieces.append(_ref(match, place, names, whole=match[0] == text and dollars == 1))
        end = match.end()
    _note_near_misses(text, names, odd)
    if not changed:
        return None
    return (*pieces, text[end:]) if end < len(text) else tuple(pieces)


def _note_near_misses(text: str, names: Mapping[str, int], odd: dict[str, None]) -> None:
    for match in _NEARLY.finditer(text):
        starts_whole = match["plain"] is None or match.start() == 0
        if starts_whole and (match["braced"] or match["plain"]) in names and not _BRACED.fullmatch(match[0]):
            odd[match[0]] = None


def _ref(match: re.Match[str], place: Path, names: Mapping[str, int], *, whole: bool) -> Ref:
    path = tuple(_step(step) for step in _STEPS.findall(match["steps"]))
    return Ref(names[match["name"]], path, place, f"${match['name']}{match['steps']}", whole)


def _step(text: str) -> str | int:
    inner = text[1:] if text[0] == "." else text[1:-1]
    if inner[0] == "'":
        return inner[1:-1]
    if inner[0] == '"':
        try:
            return str(json.loads(inner))
        except ValueError:  # not a JSON string after all, such as a stray backslash: the key as it is written
            return inner[1:-1]
    return int(inner) if inner.lstrip("-").isdigit() else inner


def _as_notices(odd: list[str]) -> tuple[str, ...]:
    notices = [
        f"{_short(text)} is not a reference to a call of this turn: it was sent as plain text."
        for text in odd[:_MOST_NOTICES]
    ]
    if (more := len(odd) - _MOST_NOTICES) > 0:
        notices.append(f"{more} more texts with a dollar sign were sent as they are.")
    return tuple(notices)


def _copied(args: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with containers of its own at every level; without recursion."""
    root = dict(args)
    stack: list[Any] = [root]
    while stack:
        container = stack.pop()
        for key, value in list(container.items() if isinstance(container, dict) else enumerate(container)):
            if isinstance(value, dict | list):
                container[key] = copy.copy(value)
                stack.append(container[key])
    return root


def _put(root: Any, place: Path, value: JsonValue) -> None:
    *way, last = place
    for step in way:
        root = root[step]
    root[last] = value


def _no_such_part(ref: Ref, depth: int, value: JsonValue) -> ModelError:
    """The error for a path that ends at `value`, before step number `depth`."""
    so_far = f"the output of call {ref.target}" + "".join(f"[{json.dumps(s)}]" for s in ref.path[:depth])
    step = json.dumps(ref.path[depth], ensure_ascii=False)
    if isinstance(value, dict):
        keys = ", ".join(_short(key) for key in list(value)[:_MOST_KEYS])
        more = f" and {len(value) - _MOST_KEYS} more" if len(value) > _MOST_KEYS else ""
        what = f"has no {step}; its keys are: {keys}{more}" if value else f"has no {step}; it is an empty object"
    elif isinstance(value, list):
        range_ = f"; use [0] to [{len(value) - 1}]" if value else ""
        what = f"is a list of {len(value)} items, without {step}{range_}"
    else:
        kind = {str: "a text", bool: "true or false", type(None): "null"}.get(type(value), "a number")
        what = f"is {kind} and has no parts, so no {step}"
    return ModelError(f"{_short(ref.text, 200)}: {so_far} {what}", code="bad_reference")


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
