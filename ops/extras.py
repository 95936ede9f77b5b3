"""Which optional packages are not installed here, by the extra that brings them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import metadata
from typing import Final

DISTRIBUTION: Final = "capataz"
_LEFT_OUT: Final = ("all", "dev")
"""Extras that only name others, or are for building this."""
_NEEDED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*).*;.*\bextra\s*==\s*[\"'](?P<extra>[\w-]+)[\"']")


def needs(requirements: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Extra -> distributions, from the requirements that package metadata list (`Requires-Dist`)."""
    found: dict[str, list[str]] = {}
    for line in requirements:
        if (match := _NEEDED.match(line)) and match["extra"] not in _LEFT_OUT:
            found.setdefault(match["extra"], []).append(match["name"])
    return {extra: tuple(names) for extra, names in sorted(found.items())}


def missing_extras() -> dict[str, tuple[str, ...]]:
    """Extra -> distributions of it that are not installed; empty if all are, or if nobody knows."""
    try:
        wanted = needs(metadata.requires(DISTRIBUTION) or ())
    except metadata.PackageNotFoundError:
        return {}
    lacking = {extra: tuple(name for name in names if not _installed(name)) for extra, names in wanted.items()}
    return {extra: names for extra, names in lacking.items() if names}


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
