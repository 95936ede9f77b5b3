"""The person at the terminal, who allows what the task needs and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.bench.injection.cases import Call


class Person:
    """Allows each of the task's calls as often as the task has it, with exactly these arguments."""

    def __init__(self, needed: Iterable[Call]) -> None:
        self._left = list(needed)

    def allows(self, tool: str, args: Mapping[str, Any]) -> bool:
        """Whether a call that is shown may run."""
        shown = Call(tool=tool, args=dict(args))
        if shown not in self._left:
            return False
        self._left.remove(shown)
        return True
