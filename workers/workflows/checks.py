"""Whether steps make a workflow: names, needs, placeholders, references, fallbacks, order. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shared.contract import StepSpec

_ID = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_REFERRED = re.compile(r"(?<!\$)\$(?:\$\$)*(\{?)([a-z][a-z0-9_]*)(?![\w-])")


def check_workflow(name: str, steps: Sequence[tuple[StepSpec, str]], result: str) -> None:
    """Looks at steps, each with the place where it is declared. Raises ValueError naming what is wrong."""
    if not _NAME.fullmatch(name):
        raise ValueError("its name must be lower case letters, digits and -")
    ids = [spec.id for spec, _ in steps]
    for odd in (one for one in ids if not _ID.fullmatch(one) or one == "params"):
        raise ValueError(f"{odd!r} is no name for a step")
    if len(set(ids)) < len(ids):
        raise ValueError(f"two steps have one name: {', '.join(ids)}")
    if result not in ids:
        raise ValueError(f"its result names no step: {result!r}")
    for spec, where in steps:
        try:
            _check_step(spec, ids)
        except ValueError as error:
            raise ValueError(f"{error} ({where})") from error
    order = {spec.id: set(spec.needs) for spec, _ in steps}
    for owner, stand_in in _stand_ins([spec for spec, _ in steps], result).items():
        order[stand_in].add(owner)
        for needing in (needs for step_id, needs in order.items() if owner in needs and step_id != stand_in):
            needing.add(stand_in)
    _check_order(order)


def _check_step(spec: StepSpec, ids: Sequence[str]) -> None:
    needs = spec.needs
    if missing := [needed for needed in needs if needed not in ids]:
        raise ValueError(f"step {spec.id} needs {missing[0]!r}, which is no step of it")
    known = {*needs, "params"}
    if unknown := sorted(set(_PLACEHOLDER.findall(spec.prompt)) - known):
        raise ValueError(f"the prompt of {spec.id} speaks of {{{unknown[0]}}}, which it does not need")
    referred = [found for text in _texts(spec.args) for found in _REFERRED.findall(text)]
    if unknown := sorted({name for brace, name in referred if brace or name in ids} - known):
        raise ValueError(f"the arguments of {spec.id} refer to {unknown[0]!r}, which it does not need")


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _stand_ins(specs: Sequence[StepSpec], result: str) -> dict[str, str]:
    """Steps that have another one as fallback, with that one. Raises ValueError where that cannot be."""
    found: dict[str, str] = {}
    for spec in specs:
        other = spec.on_error.step
        if spec.on_error.do != "step":
            continue
        if other not in {one.id for one in specs} or other == spec.id:
            raise ValueError(f"step {spec.id} falls back to {other!r}, which is no other step of it")
        if other in found.values():
            raise ValueError(f"step {other} is the fallback of two steps")
        if other == result or any(other in one.needs for one in specs):
            raise ValueError(f"step {other} is the fallback of {spec.id}: need {spec.id}, whose place it takes")
        found[spec.id] = other
    return found


def _check_order(needs: Mapping[str, Iterable[str]]) -> None:
    done: set[str] = set()
    while len(done) < len(needs):
        ready = [name for name in needs if name not in done and done.issuperset(needs[name])]
        if not ready:
            raise ValueError(f"its steps need each other in a circle: {', '.join(sorted(set(needs) - done))}")
        done.update(ready)
