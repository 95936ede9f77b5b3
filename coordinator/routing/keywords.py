"""Layer 1: words and phrases that name a group, matched token by token. Pure, less than a millisecond a message.

An owner is whatever the caller indexes: a group, a tool, small talk. The longest phrase that starts at a token wins
and uses its tokens up, so that "sticky note" may belong to one group and "note" to another. Phrases are written so:

- `shopping list`: these words, one after the other, in any of the forms that `read` brings together;
- `send|write … mail`: any of the words with `|` between them; at `…` up to six words may stand;
- `remind me …`: what follows is what the user talks about, so that keywords in it count only beside this one;
- `~dentist`: a hint, worth half a point a word. Where no keyword decides, hints do from one point on: two words of
  them, such as `~dentist` and `~<day>`, or a hint of two.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from sys import intern
from typing import Any

from coordinator.routing.reading import read

_GAP = "…"
_GAP_WORDS = 6
_HINT = "~"
_HINT_POINTS = 0.5
_CERTAIN = 1.0
_NOBODY: frozenset[str] = frozenset()

Segments = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A compiled phrase: runs of tokens with gaps between them, and who claims it, as a keyword or as a hint.

    Owners come with the phrase as it was written, which may have stood for several.
    """

    segments: Segments
    owners: Mapping[str, str]
    hinted: Mapping[str, str]
    leaders: frozenset[str]

    @property
    def length(self) -> int:
        return sum(map(len, self.segments))

    @property
    def is_telling(self) -> bool:
        """Whether it says something by itself, however short it is."""
        return bool(self.leaders) or any(word.startswith("<") for segment in self.segments for word in segment)

    def __str__(self) -> str:
        spoken = f" {_GAP} ".join(" ".join(segment) for segment in self.segments)
        return f"{spoken} {_GAP}" if self.leaders else spoken

    def find(self, words: Sequence[str], at: int) -> list[int] | None:
        """The places of its tokens when it starts at `at`."""
        places: list[int] = []
        for number, segment in enumerate(self.segments):
            start = at if number == 0 else places[-1] + 1
            room = 1 if number == 0 else _GAP_WORDS + 1
            for here in range(start, min(start + room, len(words) - len(segment) + 1)):
                if tuple(words[here : here + len(segment)]) == segment:
                    places += range(here, here + len(segment))
                    break
            else:
                return None
        return places


@dataclass(frozen=True, slots=True)
class Finding:
    """What the words of a message say: points by owner, and how much they are to be believed.

    `named`: a keyword is among them, not hints alone. `certain`: more than one word speaks, or one that leads or is of
    a kind (`<url>`); any other by itself may mean something else. `hinted` are the owners of all that was found, also
    of what was too little for points.
    """

    points: dict[str, float]
    named: bool
    certain: bool
    hinted: frozenset[str]


@dataclass(slots=True)
class _Claims:
    """Who claims a phrase, with how they wrote it."""

    keywords: dict[str, str] = field(default_factory=dict)
    hints: dict[str, str] = field(default_factory=dict)
    leaders: set[str] = field(default_factory=set)

    def phrase(self, segments: Segments, known: dict[frozenset[Any], Any]) -> _Phrase:
        """The phrase, which shares what it says of its owners with all those in `known` that say the same."""
        hinted = {owner: written for owner, written in self.hints.items() if owner not in self.keywords}
        owners, hints = (known.setdefault(frozenset(said.items()), said) for said in (self.keywords, hinted))
        leaders = frozenset(self.leaders)
        return _Phrase(segments, owners, hints, known.setdefault(leaders, leaders) if leaders else _NOBODY)


_Starts = dict[tuple[str, ...], list[_Phrase]]


@dataclass(slots=True)
class _Cues:
    """Points of owners by keyword and by hint."""

    keywords: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    hints: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    counted: set[tuple[str, str]] = field(default_factory=set)

    def add(self, phrase: _Phrase) -> None:
        for points, worth, owners in (
            (self.keywords, phrase.length / max(len(phrase.owners), 1), phrase.owners),
            (self.hints, phrase.length * _HINT_POINTS, phrase.hinted),
        ):
            for owner, written in owners.items():
                if (owner, written) not in self.counted:
                    self.counted.add((owner, written))
                    points[owner] += worth

    def named(self) -> dict[str, float]:
        """Owners with a keyword, and what their hints add."""
        return {owner: points + self.hints.get(owner, 0.0) for owner, points in self.keywords.items()}

    def hinted(self) -> dict[str, float]:
        """The owners without keyword that hints speak for most, if they are enough."""
        found = {o: points for o, points in self.hints.items() if points >= _CERTAIN and o not in self.keywords}
        return {owner: points for owner, points in found.items() if points == max(found.values())}

    def chosen(self) -> dict[str, float]:
        """The owners with a keyword; beside one at most, one that hints speak for more than for any other."""
        named, hinted = self.named(), self.hinted()
        if named and (len(named) > 1 or len(hinted) > 1):
            return named
        return named | hinted


class KeywordIndex:
    """Phrases compiled by how they begin."""

    def __init__(self, entries: Iterable[tuple[str, str]]) -> None:
        """`entries` are pairs (owner, word or phrase). A phrase without any letter or digit is left out."""
        claims: dict[Segments, _Claims] = defaultdict(_Claims)
        for owner, phrase in entries:
            hint = phrase.startswith(_HINT)
            for segments in _compiled(phrase.removeprefix(_HINT)):
                (claims[segments].hints if hint else claims[segments].keywords)[owner] = phrase
                if not hint and phrase.endswith(_GAP):
                    claims[segments].leaders.add(owner)
        known: dict[frozenset[Any], Any] = {}
        compiled = [claim.phrase(segments, known) for segments, claim in claims.items()]
        # By the two tokens they begin with, or by the only one before a gap: many begin with "what".
        self._keywords: _Starts = defaultdict(list)
        self._hints: _Starts = defaultdict(list)
        for phrase_ in sorted(compiled, key=lambda p: (-p.length, p.segments)):
            (self._keywords if phrase_.owners else self._hints)[phrase_.segments[0][:2]].append(phrase_)

    def match(self, words: Sequence[str]) -> dict[str, float]:
        """Points by owner for a message given as `read`: of the owners that it is for.

        A keyword is worth as many points as it has tokens, shared among the owners that claim it; a hint half of that.
        Repeating a phrase, or giving another of its alternatives, adds nothing. When a phrase leads, only the strongest
        other owner stays, and of what stands behind it only keywords speak.
        """
        return self.judge(words).points

    def judge(self, words: Sequence[str]) -> Finding:
        """The points of `match`, and how much they are to be believed."""
        found = self._phrases(words)
        points = self._points(found)
        named = [phrase for _, phrase in found if phrase.owners]
        certain = any(phrase.is_telling for phrase in named) or max(points.values(), default=0.0) > _CERTAIN
        hinted = frozenset(owner for _, phrase in found for owner in (*phrase.owners, *phrase.hinted))
        return Finding(points, bool(named), certain, hinted)

    @staticmethod
    def _points(found: Sequence[tuple[int, _Phrase]]) -> dict[str, float]:
        lead = next((at for at, (_, phrase) in enumerate(found) if phrase.leaders), len(found))
        before, behind = _Cues(), _Cues()
        for at, (_, phrase) in enumerate(found):
            (before if at < lead else behind).add(phrase)
        if lead == len(found):
            return before.chosen()
        named, leaders = behind.named(), found[lead][1].leaders
        topics = [(owner, points) for owner, points in named.items() if owner not in leaders]
        topic = sorted(topics, key=lambda item: (-item[1], item[0]))[:1]
        return (before.named() or before.hinted() or dict(topic)) | {owner: named[owner] for owner in leaders}

    def explain(self, words: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
        """The phrases that `match` goes by, as they are compared, hints marked as such, with their owners."""
        return [
            (f"{'' if phrase.owners else _HINT}{phrase}", tuple(phrase.owners or phrase.hinted))
            for _, phrase in self._phrases(words)
        ]

    def _phrases(self, words: Sequence[str]) -> list[tuple[int, _Phrase]]:
        """Each phrase of a message once with its place, in order.

        At each token the longest is taken, and uses its tokens up; hints have what keywords leave.
        """
        used: set[int] = set()
        found: dict[Segments, tuple[int, _Phrase]] = {}
        for starts in (self._keywords, self._hints):
            for at in range(len(words)):
                if at in used or (best := self._longest(words, at, used, starts)) is None:
                    continue
                places, phrase = best
                used.update(places)
                found.setdefault(phrase.segments, (at, phrase))
        return sorted(found.values(), key=lambda item: item[0])

    def _longest(
        self, words: Sequence[str], at: int, used: set[int], starts: _Starts
    ) -> tuple[list[int], _Phrase] | None:
        """The longest phrase that starts at `at`, of equally long ones that which ends first, with its places."""
        best: tuple[list[int], _Phrase] | None = None
        for phrase in self._starting(words, at, starts):
            if best is not None and phrase.length < len(best[0]):
                break
            places = phrase.find(words, at)
            if places is not None and used.isdisjoint(places) and (best is None or places[-1] < best[0][-1]):
                best = places, phrase
        return best

    def cover(self, words: Sequence[str]) -> frozenset[str] | None:
        """The owners of phrases that make up the whole message, given as `read`; None if no sequence of them does."""
        return self.covers(words)[-1]

    def covers(self, words: Sequence[str]) -> list[frozenset[str] | None]:
        """The same for each beginning of the message, from none of its words to all."""
        reached: list[frozenset[str] | None] = [frozenset(), *[None] * len(words)]
        for at in range(len(words)):
            so_far = reached[at]
            if so_far is None:
                continue
            for key, owners in self._runs_at(words, at):
                end = at + len(key)
                if reached[end] is None:  # the first way found is the one with the longest phrases
                    reached[end] = so_far.union(owners)
        return reached

    @staticmethod
    def _starting(words: Sequence[str], at: int, starts: _Starts) -> Iterable[_Phrase]:
        """The phrases that may start at `at`, the longest first."""
        one = starts.get((words[at],), ())
        two = starts.get((words[at], words[at + 1]), ()) if at + 1 < len(words) else ()
        if not one or not two:
            return one or two
        return heapq.merge(one, two, key=lambda phrase: -phrase.length)

    def starts(self, words: Sequence[str]) -> bool:
        """Whether a message given as `read` begins with one of the phrases."""
        return bool(words) and any(phrase.find(words, 0) for phrase in self._starting(words, 0, self._keywords))

    def _runs_at(self, words: Sequence[str], at: int) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """The phrases without gaps that start at `at` with their owners, the longest first."""
        for phrase in self._starting(words, at, self._keywords):
            key = phrase.segments[0]
            if len(phrase.segments) == 1 and tuple(words[at : at + len(key)]) == key:
                yield key, tuple(phrase.owners)


def _compiled(phrase: str) -> Iterator[Segments]:
    """The phrases that one with alternatives stands for; none when there is nothing to match."""
    for words in product(*(word.split("|") for word in phrase.split())):
        segments = tuple(tuple(map(intern, read(part))) for part in " ".join(words).split(_GAP))
        if kept := tuple(segment for segment in segments if segment):
            yield kept
