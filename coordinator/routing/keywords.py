"""Layer 1: words and phrases that name a group, matched token by token. Pure, microseconds a message.

An owner is whatever the caller indexes: a group, a tool, small talk. The longest phrase that starts at a token wins
and uses its tokens up, so that "sticky note" may belong to one group and "note" to another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from coordinator.routing.text import stems


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

    def match(self, words: Sequence[str]) -> dict[str, float]:
        """Points by owner for a message given as `stems`.

        A phrase is worth as many points as it has tokens, shared among the owners that claim it. Repeating a phrase
        adds nothing.
        """
        points: dict[str, float] = defaultdict(float)
        seen: set[tuple[str, ...]] = set()
        at = 0
        while at < len(words):
            found = next(self._phrases_at(words, at), None)
            if found is None:
                at += 1
                continue
            key, owners = found
            if key not in seen:
                seen.add(key)
                for owner in owners:
                    points[owner] += len(key) / len(owners)
            at += len(key)
        return dict(points)

    def cover(self, words: Sequence[str]) -> frozenset[str] | None:
        """The owners of phrases that make up the whole message, given as `stems`; None if no sequence of them does."""
        reached: list[frozenset[str] | None] = [frozenset(), *[None] * len(words)]
        for at in range(len(words)):
            so_far = reached[at]
            if so_far is None:
                continue
            for key, owners in self._phrases_at(words, at):
                end = at + len(key)
                if reached[end] is None:  # the first way found is the one with the longest phrases
                    reached[end] = so_far.union(owners)
        return reached[-1]

    def _phrases_at(self, words: Sequence[str], at: int) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """The phrases that start at `at` with their owners, the longest first."""
        for key, owners in self._by_first.get(words[at], ()):
            if tuple(words[at : at + len(key)]) == key:
                yield key, owners
