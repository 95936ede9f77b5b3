"""Sets of tools as bit masks over the catalogue: decisions over thousands of tools in microseconds. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from coordinator.routing.lexical import Scores
from shared.contract import ToolSpec

Mask = npt.NDArray[np.bool_]
"""True for the tools that belong, in catalogue order."""

_CHARS_PER_TOKEN = 4


class Offer:
    """The tools of a catalogue in their order, and the groups they belong to."""

    def __init__(self, tools: Sequence[ToolSpec], groups: Sequence[str]) -> None:
        """`groups` holds the group of every tool."""
        self.tools = {tool.name: at for at, tool in enumerate(tools)}
        self.groups = {name: at for at, name in enumerate(groups)}
        self.always: Mask = np.array([tool.always for tool in tools], dtype=np.bool_)
        self._names = [tool.name for tool in tools]
        self._group = np.array([self.groups[tool.group] for tool in tools], dtype=np.intp)
        self._size = np.bincount(self._group, minlength=len(groups))
        self._cost = np.array([_prompt_tokens(tool) for tool in tools], dtype=np.intp)

    def mask(self, groups: Iterable[str]) -> Mask:
        """All tools of these groups; other names are ignored."""
        chosen = np.zeros(len(self.groups), dtype=np.bool_)
        chosen[[self.groups[name] for name in groups if name in self.groups]] = True
        return chosen[self._group]

    def named(self, names: Sequence[str]) -> Mask:
        """These tools, and all of those that are names of groups."""
        found = self.mask(names)
        found[[self.tools[name] for name in names if name in self.tools]] = True
        return found

    def best(self, among: Mask, ranks: Scores, count: int) -> Mask:
        """The `count` tools of `among` that rank highest; of equals the first."""
        places = np.flatnonzero(among)
        if count >= len(places):
            return among
        values = ranks[places]
        cut = np.partition(values, -count)[-count]  # cheaper than sorting them all
        above = places[values > cut]
        equal = places[values == cut][: count - len(above)]
        chosen = np.zeros_like(among)
        chosen[above] = True
        chosen[equal] = True
        return chosen

    def spread(self, scores: Mapping[str, float]) -> Scores:
        """For each tool the score of its group, 0 where there is none."""
        by_group = np.array([scores.get(name, 0.0) for name in self.groups])
        return np.asarray(by_group[self._group], dtype=np.float64)

    def split(self, offered: Mask, asked: Mask) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The groups of `asked` tools that are offered whole, and those that are offered in part."""
        count = np.bincount(self._group[offered], minlength=len(self.groups))
        wanted = np.bincount(self._group[asked], minlength=len(self.groups)) > 0
        whole = wanted & (count == self._size)
        part = wanted & (count > 0) & ~whole
        return (
            tuple(name for name, yes in zip(self.groups, whole.tolist(), strict=True) if yes),
            tuple(name for name, yes in zip(self.groups, part.tolist(), strict=True) if yes),
        )

    def names(self, offered: Mask) -> tuple[str, ...]:
        """The names of the tools, in catalogue order."""
        return tuple(self._names[at] for at in np.flatnonzero(offered).tolist())

    @property
    def whole(self) -> Mask:
        """All tools."""
        return np.ones(len(self._names), dtype=np.bool_)

    def cost(self, tools: Mask) -> int:
        """An estimate of the tokens that the definitions of these tools take in a prompt."""
        return int(self._cost[tools].sum())


def _prompt_tokens(tool: ToolSpec) -> int:
    """A quarter of the characters of the definition's JSON."""
    definition = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return len(json.dumps(definition, ensure_ascii=False, separators=(",", ":"))) // _CHARS_PER_TOKEN
