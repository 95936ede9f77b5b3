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

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from sys import intern
from typing import NamedTuple

from coordinator.routing.reading import read

_GAP = "…"
_GAP_WORDS = 6
_HINT = "~"
_HINT_POINTS = 0.5
_CERTAIN = 1.0
_NOBODY: frozenset[str] = frozenset()
_NOTHING: Mapping[str, str] = {}

Words = tuple[str, ...]
Segments = tuple[Words, ...]


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A compiled phrase: runs of tokens with gaps between them, and who claims it, as a keyword or as a hint.

    Owners come with the phrase as it was written, which may have stood for several. `length` is in tokens.
    """

    segments: Segments
    owners: Mapping[str, str]
    hinted: Mapping[str, str]
    leaders: frozenset[str]
    length: int

    @property
    def is_telling(self) -> bool:
        """Whether it says something by itself, however short it is."""
        return bool(self.leaders) or any(word.startswith("<") for segment in self.segments for word in segment)

    def __str__(self) -> str:
        spoken = f" {_GAP} ".join(" ".join(segment) for segment in self.segments)
        return f"{spoken} {_GAP}" if self.leaders else spoken

    def find(self, words: Words, at: int) -> list[int] | None:
        """The places of its tokens when it starts at `at`."""
        if self.segments[-1][-1] not in words:  # most phrases with a gap end here
            return None
        places: list[int] = []
        start, stop = at, at + 1
        for segment in self.segments:
            for here in range(start, min(stop, len(words) - len(segment) + 1)):
                if words[here : here + len(segment)] == segment:
                    start = here + len(segment)
                    stop = start + _GAP_WORDS + 1
                    places += range(here, start)
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


class _Said(NamedTuple):
    """Who claims a phrase, as a keyword and as a hint, with how they wrote it, and whose it is to lead."""

    owners: Mapping[str, str]
    hinted: Mapping[str, str]
    leaders: frozenset[str]

    @classmethod
    def of(cls, claims: Sequence[tuple[str, str]]) -> _Said:
        """From pairs of owner and phrase."""
        owners = {owner: phrase for owner, phrase in claims if not phrase.startswith(_HINT)}
        hints = {owner: phrase for owner, phrase in claims if phrase.startswith(_HINT) and owner not in owners}
        leaders = frozenset(owner for owner, phrase in claims if phrase.endswith(_GAP) and not phrase.startswith(_HINT))
        return cls(owners or _NOTHING, hints or _NOTHING, leaders or _NOBODY)  # the empty ones take memory too


class _Beginnings:
    """Phrases by the two tokens they begin with, or by the only one before a gap: many begin with "what"."""

    def __init__(self, phrases: Iterable[_Phrase]) -> None:
        found: dict[Words, list[_Phrase]] = defaultdict(list)
        for phrase in phrases:
            found[phrase.segments[0][:2]].append(phrase)
        self._first = {words[0] for words in found}
        self._phrases: dict[Words, tuple[_Phrase, ...]] = {}
        for words, own in found.items():
            alone = found.get(words[:1], []) if len(words) > 1 else []
            self._phrases[words] = tuple(sorted([*alone, *own], key=lambda phrase: (-phrase.length, phrase.segments)))

    def places(self, words: Words) -> list[int]:
        """Where in `words` a phrase may start; at most words none does."""
        return [at for at, word in enumerate(words) if word in self._first]

    def at(self, words: Words, at: int) -> tuple[_Phrase, ...]:
        """The phrases that may start at `at`, the longest first."""
        return self._phrases.get(words[at : at + 2]) or self._phrases.get(words[at : at + 1], ())

    def longest(self, words: Words, at: int, used: set[int]) -> tuple[list[int], _Phrase] | None:
        """The longest phrase that starts at `at` beside the places in `used`, of equally long ones that which ends
        first, with its places."""
        best: tuple[list[int], _Phrase] | None = None
        for phrase in self.at(words, at):
            if best is not None and phrase.length < len(best[0]):
                break
            places = phrase.find(words, at)
            if places is not None and used.isdisjoint(places) and (best is None or places[-1] < best[0][-1]):
                best = places, phrase
        return best


@dataclass(slots=True)
class _Cues:
    """Points of owners by keyword and by hint."""

    keywords: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    hints: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    counted: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def of(cls, phrases: Iterable[_Phrase]) -> _Cues:
        cues = cls()
        for phrase in phrases:
            cues._add(cues.keywords, phrase.length / max(len(phrase.owners), 1), phrase.owners)
            cues._add(cues.hints, phrase.length * _HINT_POINTS, phrase.hinted)
        return cues

    def _add(self, points: dict[str, float], worth: float, owners: Mapping[str, str]) -> None:
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
        most = max(found.values(), default=0.0)
        return {owner: points for owner, points in found.items() if points == most}

    def chosen(self) -> dict[str, float]:
        """The owners with a keyword; beside one at most, one that hints speak for more than for any other."""
        named = self.named()
        if len(named) > 1 or not self.hints:
            return named
        hinted = self.hinted()
        return named if named and len(hinted) > 1 else named | hinted


class KeywordIndex:
    """Phrases compiled by how they begin."""

    def __init__(self, entries: Iterable[tuple[str, str]]) -> None:
        """`entries` are pairs (owner, word or phrase). A phrase without any letter or digit is left out."""
        given = list(entries)
        claims: dict[Segments, tuple[int, ...]] = {}  # places in `given`: most phrases have one, and share what it says
        for number, (_, phrase) in enumerate(given):
            alone = (number,)
            for segments in _compiled(phrase.removeprefix(_HINT)):
                claims[segments] = (*claims[segments], number) if segments in claims else alone
        said = {numbers: _Said.of([given[n] for n in numbers]) for numbers in set(claims.values())}
        compiled = [_Phrase(segments, *said[numbers], sum(map(len, segments))) for segments, numbers in claims.items()]
        self._keywords = _Beginnings(phrase for phrase in compiled if phrase.owners)
        self._hints = _Beginnings(phrase for phrase in compiled if not phrase.owners)

    def match(self, words: Sequence[str]) -> dict[str, float]:
        """Points by owner for a message given as `read`: of the owners that it is for.

        A keyword is worth as many points as it has tokens, shared among the owners that claim it; a hint half of that.
        Repeating a phrase, or giving another of its alternatives, adds nothing. When a phrase leads, only the strongest
        other owner stays, and of what stands behind it only keywords speak.
        """
        return self.judge(words).points

    def judge(self, words: Sequence[str]) -> Finding:
        """The points of `match`, and how much they are to be believed."""
        if not (found := self._phrases(tuple(words))):
            return Finding({}, named=False, certain=False, hinted=_NOBODY)
        points = self._points(found)
        named = [phrase for phrase in found if phrase.owners]
        certain = max(points.values(), default=0.0) > _CERTAIN or any(phrase.is_telling for phrase in named)
        hinted = _NOBODY.union(*[phrase.owners for phrase in found], *[phrase.hinted for phrase in found])
        return Finding(points, bool(named), certain, hinted)

    @staticmethod
    def _points(found: Sequence[_Phrase]) -> dict[str, float]:
        lead = next((at for at, phrase in enumerate(found) if phrase.leaders), len(found))
        before = _Cues.of(found[:lead])
        if lead == len(found):
            return before.chosen()
        named, leaders = _Cues.of(found[lead:]).named(), found[lead].leaders
        topics = [(owner, points) for owner, points in named.items() if owner not in leaders]
        topic = sorted(topics, key=lambda item: (-item[1], item[0]))[:1]
        return (before.named() or before.hinted() or dict(topic)) | {owner: named[owner] for owner in leaders}

    def explain(self, words: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
        """The phrases that `match` goes by, as they are compared, hints marked as such, with their owners."""
        return [
            (f"{'' if phrase.owners else _HINT}{phrase}", tuple(phrase.owners or phrase.hinted))
            for phrase in self._phrases(tuple(words))
        ]

    def owners(self, words: Sequence[str]) -> set[str]:
        """The owners of the keywords that `match` goes by, whatever they are worth."""
        return {owner for phrase in self._phrases(tuple(words)) for owner in phrase.owners}

    def _phrases(self, words: Words) -> list[_Phrase]:
        """Each phrase of a message once, in the order of their places.

        At each token the longest is taken, and uses its tokens up; hints have what keywords leave.
        """
        used: set[int] = set()
        found: dict[Segments, tuple[int, _Phrase]] = {}
        for starts in (self._keywords, self._hints):
            for at in starts.places(words):
                if at in used or (best := starts.longest(words, at, used)) is None:
                    continue
                places, phrase = best
                used.update(places)
                found.setdefault(phrase.segments, (at, phrase))
        return [phrase for _, phrase in sorted(found.values(), key=lambda item: item[0])]

    def cover(self, words: Sequence[str]) -> frozenset[str] | None:
        """The owners of phrases that make up the whole message, given as `read`; None if no sequence of them does."""
        return self.covers(words)[-1]

    def covers(self, words: Sequence[str]) -> list[frozenset[str] | None]:
        """The same for each beginning of the message, from none of its words to all."""
        said = tuple(words)
        reached: list[frozenset[str] | None] = [frozenset(), *[None] * len(said)]
        for at in self._keywords.places(said):
            so_far = reached[at]
            if so_far is None:
                continue
            for phrase in self._keywords.at(said, at):
                end = at + phrase.length
                # The first way found is the one with the longest phrases.
                if phrase.segments == (said[at:end],) and reached[end] is None:
                    reached[end] = so_far.union(phrase.owners)
        return reached

    def starts(self, words: Sequence[str], at: int = 0) -> bool:
        """Whether one of the phrases begins at `at` in a message given as `read`."""
        said = tuple(words)
        return at < len(said) and any(phrase.find(said, at) for phrase in self._keywords.at(said, at))

    def speaks(self, words: Sequence[str]) -> bool:
        """Whether any of the phrases is in a message given as `read`, hints aside."""
        said = tuple(words)
        return any(self.starts(said, at) for at in self._keywords.places(said))


def _compiled(phrase: str) -> Iterator[Segments]:
    """The phrases that one with alternatives stands for; none when there is nothing to match."""
    for words in product(*(word.split("|") for word in phrase.split())):
        segments = tuple(tuple(map(intern, read(part))) for part in " ".join(words).split(_GAP))
        if kept := tuple(segment for segment in segments if segment):
            yield kept
