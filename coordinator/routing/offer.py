"""Sets of tools as the bits of an integer: decisions over thousands of tools in microseconds. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from coordinator.routing.lexical import Scores
from shared.contract import ToolSpec

Mask = int
"""A bit for each tool, set for those that belong; the lowest is that of the first tool of the catalogue."""

_CHARS_PER_TOKEN = 4


class Offer:
    """The tools of a catalogue in their order, and the groups they belong to."""

    def __init__(self, tools: Sequence[ToolSpec], groups: Sequence[str]) -> None:
        """`groups` holds the group of every tool."""
        self.tools = {tool.name: at for at, tool in enumerate(tools)}
        self.groups: dict[str, Mask] = dict.fromkeys(groups, 0)
        for at, tool in enumerate(tools):
            self.groups[tool.group] |= 1 << at
        self.whole: Mask = (1 << len(tools)) - 1
        self.always = _mask(at for at, tool in enumerate(tools) if tool.always)
        self._names = [tool.name for tool in tools]
        self._cost = [_prompt_tokens(tool) for tool in tools]
        self.tokens = sum(self._cost)
        """An estimate of what the definitions of all tools take in a prompt."""
        self._number = {name: number for number, name in enumerate(groups)}
        self._group = np.array([self._number[tool.group] for tool in tools], dtype=np.intp)

    def mask(self, groups: Iterable[str]) -> Mask:
        """All tools of these groups; other names are ignored."""
        chosen = 0
        for name in groups:
            chosen |= self.groups.get(name, 0)
        return chosen

    def named(self, names: Sequence[str]) -> Mask:
        """These tools, and all of those that are names of groups."""
        return self.mask(names) | _mask(self.tools[name] for name in names if name in self.tools)

    def best(self, among: Mask, ranks: Scores, count: int) -> Mask:
        """The `count` tools of `among` that rank highest; of equals the first."""
        if count >= among.bit_count():
            return among
        bits = self._bits(among)
        values = ranks[bits]
        values.partition(-count)  # cheaper than sorting them all
        cut = values[-count]
        chosen = bits & (ranks >= cut)
        if (surplus := int(np.count_nonzero(chosen)) - count) > 0:
            chosen[(bits & (ranks == cut)).nonzero()[0][-surplus:]] = False
        return int.from_bytes(np.packbits(chosen, bitorder="little").tobytes(), "little")

    def spread(self, scores: Mapping[str, float], weight: float) -> Scores:
        """For each tool the score of its group, one of the catalogue's, times `weight`; 0 where there is none."""
        by_group: Scores = np.zeros(len(self.groups))
        for name, score in scores.items():
            by_group[self._number[name]] = score * weight
        return by_group[self._group]

    def split(self, offered: Mask, asked: Mask) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The groups of `asked` tools that are offered whole, and those that are offered in part."""
        whole: list[str] = []
        partial: list[str] = []
        for name, members in self.groups.items():
            if members & asked and (taken := members & offered):
                (whole if taken == members else partial).append(name)
        return tuple(whole), tuple(partial)

    def listed(self, offered: Mask) -> tuple[tuple[str, ...], int]:
        """The names of the tools, in catalogue order, and an estimate of the tokens of all other definitions."""
        places = self._bits(offered).nonzero()[0].tolist()
        return tuple([self._names[at] for at in places]), self.tokens - sum([self._cost[at] for at in places])

    def _bits(self, tools: Mask) -> npt.NDArray[np.bool_]:
        """For each tool whether it is among these."""
        packed = np.frombuffer(tools.to_bytes(len(self._names) // 8 + 1, "little"), np.uint8)
        return np.unpackbits(packed, count=len(self._names), bitorder="little").view(np.bool_)


def _mask(places: Iterable[int]) -> Mask:
    mask = 0
    for at in places:
        mask |= 1 << at
    return mask


def _prompt_tokens(tool: ToolSpec) -> int:
    """A quarter of the characters of the definition's JSON."""
    definition = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return len(json.dumps(definition, ensure_ascii=False, separators=(",", ":"))) // _CHARS_PER_TOKEN
