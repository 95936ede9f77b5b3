"""What workers offer: merging their catalogues, and the name under which one is published. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from shared.contract import Catalogue


def digest_of(catalogue: Catalogue) -> str:
    """The name under which a catalogue is published: equal catalogues, equal names."""
    return hashlib.sha256(catalogue.model_dump_json().encode()).hexdigest()[:24]


def merge_catalogues(found: Iterable[Catalogue]) -> Catalogue:
    """One catalogue of all: the first wins for equal names; sorted by group and name, so the order is stable."""
    found = list(found)
    tools = {t.name: t for c in reversed(found) for t in c.tools}
    groups = {g.name: g for c in reversed(found) for g in c.groups}
    workflows = {w.name: w for c in reversed(found) for w in c.workflows}
    missing = {n: why for c in found for n, why in c.missing.items() if n not in tools}
    return Catalogue(
        tools=tuple(sorted(tools.values(), key=lambda t: (t.group, t.name))),
        groups=tuple(sorted(groups.values(), key=lambda g: g.name)),
        workflows=tuple(sorted(workflows.values(), key=lambda w: w.name)),
        missing=missing,
    )
