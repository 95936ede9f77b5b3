"""The catalogue of all tools that ship, whether they are configured here or not."""

from __future__ import annotations

from functools import lru_cache

from shared.contract import Catalogue
from shared.settings import Settings
from workers.catalogue import whole
from workers.declare import Registry


@lru_cache(maxsize=1)
def builtin() -> Catalogue:
    """Built once a process."""
    registry = Registry()
    registry.load_builtin()
    return whole(registry, Settings())
