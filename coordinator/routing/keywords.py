"""Layer 1: words and phrases that name a group, matched token by token. Pure, microseconds a message.

An owner is whatever the caller indexes: a group, a tool, small talk. The longest phrase that starts at a token wins
and uses its tokens up, so that "sticky note" may belong to one group and "note" to another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coordinator.routing.text import stems


@dataclass(frozen=True, slots=True)
class Match:
    """What a message had in common with the phrases. `covered` counts the tokens that belonged to some phrase."""

    weights: dict[str, float]
    covered: int


class KeywordIndex:
    """Phrases compiled by their first token."""

    def __init__(self, entries: Iterable[tuple[str, str]]) -> None:
        """`entries` are pairs (owner, word or phrase). A phrase without any letter or digit is left out."""
        owners: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for owner, phrase in entries:
            if key := tuple(stems(phrase)):
                owners[key].add(owner)
        self._by_first: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = defaultdict(list)
        for key in sorted(owners, key=lambda k: (-len(k), k)):
            self._by_first[key[0]].append((key, tuple(sorted(owners[key]))))

    def match(self, words: Sequence[str]) -> Match:
        """Weights per owner for a message given as `stems`.

        A phrase counts as many points as it has tokens, shared among the owners that claim it. Repeating a phrase
        adds nothing.
        """
        weights: dict[str, float] = defaultdict(float)
        seen: set[tuple[str, ...]] = set()
        at = covered = 0
        while at < len(words):
            for key, owners in self._by_first.get(words[at], ()):
                if tuple(words[at : at + len(key)]) == key:
                    break
            else:
                at += 1
                continue
            if key not in seen:
                seen.add(key)
                for owner in owners:
                    weights[owner] += len(key) / len(owners)
            covered += len(key)
            at += len(key)
        return Match(dict(weights), covered)
