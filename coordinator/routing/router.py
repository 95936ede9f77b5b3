"""The router: which tools a message gets.

The first layer that is certain decides:

- `explicit`: the caller named groups or tools; nothing else is asked.
- `keywords`: words that belong to groups. One word by itself, or hints that are just enough, decide only where the
  message is also like the examples of a group that they name. Small talk is settled here too, with no group, and what
  a model knows by itself. A group that keywords name alone gets another one beside it when the message is clearly more
  like that one's examples.
- `sticky`: an answer to what was said before ("yes, do it", "and tomorrow?"): the groups of the last turns.
- `centroids`: what the sentence means, by an encoder.
- `all`: nothing is certain: the whole catalogue if it is small, else its best-ranked tools.

Tools marked `always` are in every decision, the groups of the last turns in every one but `explicit`.

`route_fast` decides without the encoder, in well under a millisecond, or answers None; `route` always decides and may
block for the encoder: milliseconds, seconds at its first call for a new catalogue. Call `route` in a thread.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from coordinator.routing import smalltalk
from coordinator.routing.keywords import Finding, KeywordIndex, Words
from coordinator.routing.lexical import LexicalIndex, Scores
from coordinator.routing.offer import Mask, Offer
from coordinator.routing.rank import ToolRanker
from coordinator.routing.reading import read
from coordinator.routing.semantic import SMALL_TALK, SemanticLayer
from coordinator.routing.text import name_tokens, tokens
from shared.contract import Catalogue, GroupSpec
from shared.encoder import Encoder
from shared.errors import OperatorError

_log = logging.getLogger(__name__)

Layer = Literal["explicit", "sticky", "keywords", "centroids", "all"]

_MARGIN = 2.0  # groups whose score is this near the best one's win with it
_MOST_GROUPS = 3  # keywords of more groups at once are a heap of words, not a choice
_NEARER = 0.03  # by so much a message must be more like the examples of another group than those of the named one
_NEAREST = 2  # groups whose examples are most like a message, one of which a single word must agree with
_CLEARLY = 0.05  # so much more like the examples of its group must a message be, for less than that to decide
_ALIKE = 0.1  # and so much like them at least
_SHORT = 2  # words of a message that, none of them a keyword, can only refer to what was said before
_HEAD_CHARS, _TAIL_CHARS = 500, 150  # of a long message; what is asked stands at one of its ends
_GROUP_WEIGHT = 0.05  # of a group's score in the rank of its tools; scores span some 10 points, tool scores 1


@dataclass(frozen=True, slots=True)
class Decision:
    """What a message gets.

    `tools` are names in catalogue order. `groups` are offered whole, in catalogue order; of `partial` groups, too
    large for that, only the best tools are. `scores` are the deciding layer's by group: points of keywords, or, from
    centroids, how far above the threshold. `tokens_saved` estimates what the definitions that were left out would
    have cost in the prompt. `unknown` are explicit names that the catalogue lacks.
    """

    layer: Layer
    groups: tuple[str, ...]
    tools: tuple[str, ...]
    scores: dict[str, float]
    tokens_saved: int
    partial: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Message:
    """A message as the layers see it: its `tokens`, what `read` makes of them, and the groups of the last turns that
    still exist.
    """

    text: str
    words: Words
    said: Words
    kept: tuple[str, ...]
    resemblance: LexicalIndex

    @cached_property
    def likeness(self) -> Scores:
        """Likeness to the examples of each group, by words."""
        return self.resemblance.scores(self.words)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What a layer found: the groups it chose, and what is known for ranking tools if they are too many."""

    layer: Layer
    chosen: frozenset[str]
    scores: Mapping[str, float] = field(default_factory=dict)
    likeness: Scores | None = None


class Router:
    """Routes over one catalogue; build another when it changes. Safe to use from several threads."""

    def __init__(
        self, catalogue: Catalogue, encoder: Encoder | None = None, cache_dir: Path | None = None, max_tools: int = 24
    ) -> None:
        """Compiles keywords and lexical scores; the encoder is first used by `prepare` or `route`.

        Without `cache_dir` nothing is kept on disk. `max_tools` bounds what an uncertain decision offers, and up to
        where groups are offered whole.
        """
        self._max_tools = max_tools
        self._groups = _groups(catalogue)
        self._offer = Offer(catalogue.tools, [group.name for group in self._groups])
        self._keywords = KeywordIndex([(g.name, phrase) for g in self._groups for phrase in _phrases(g)])
        self._ranker = ToolRanker(catalogue.tools)
        self._resemblance = _resemblance(self._groups)
        self._mute = {group.name for group in self._groups if not any(group.examples.values())}
        self._semantic: SemanticLayer | None = None
        if encoder is not None and self._groups:
            ranked = len(catalogue.tools) > max_tools
            self._semantic = SemanticLayer(self._groups, catalogue.tools, encoder, cache_dir, rank_tools=ranked)

    def route_fast(self, text: str, *, sticky: tuple[str, ...] = (), explicit: tuple[str, ...] = ()) -> Decision | None:
        """The decision where no encoder is needed for it, else None: then ask `route`, in a thread.

        `sticky` are the groups of the last turns; `explicit` names of groups or tools. Names of groups that are gone
        are ignored.
        """
        if explicit:
            return self._explicit(explicit)
        message = self._read(text, sticky)
        return self._quick(message, self._spoken(message))

    def route(self, text: str, *, sticky: tuple[str, ...] = (), explicit: tuple[str, ...] = ()) -> Decision:
        """The decision, with the encoder where it is needed. Blocks.

        An encoder that is out of order (OperatorError) is logged and makes the message an uncertain one.
        """
        if explicit:
            return self._explicit(explicit)
        message = self._read(text, sticky)
        verdict = spoken = self._spoken(message)
        if (quick := self._quick(message, spoken)) is not None:
            return quick
        if self._semantic is not None:
            try:
                verdict = self._meant(self._semantic, message, spoken)
            except OperatorError as error:
                _log.warning("routing without the encoder: %s", error)
        return self._decide(message, verdict or _Verdict("all", frozenset()))

    def prepare(self) -> None:
        """Builds the centroids, or reads them from disk, ahead of the first message. Blocks; call it in a thread.

        Raises what the encoder raises.
        """
        if self._semantic is not None:
            self._semantic.prepare()

    @property
    def tokens(self) -> int:
        """An estimate of what the definitions of all tools take in a prompt."""
        return self._offer.tokens

    def spoken(self, text: str) -> list[tuple[str, tuple[str, ...]]]:
        """The keywords and hints that layer 1 found in a message, with the groups they speak for, in order."""
        return self._keywords.explain(read(text))

    def _read(self, text: str, sticky: tuple[str, ...]) -> _Message:
        if len(text) > _HEAD_CHARS + _TAIL_CHARS:
            text = f"{text[:_HEAD_CHARS]} {text[-_TAIL_CHARS:]}"
        kept = tuple(group.name for group in self._groups if group.name in sticky) if sticky else ()
        words = tuple(tokens(text))
        return _Message(text, words, read(text, words), kept, self._resemblance)

    def _quick(self, message: _Message, verdict: _Verdict | None) -> Decision | None:
        """The decision where words alone settled it, or nothing else can and no tools have to be ranked by meaning."""
        if verdict is None and (self._semantic is None or not message.words):
            verdict = _Verdict("all", frozenset())
        if verdict is None or (self._semantic is not None and self._too_many(message, verdict)):
            return None
        return self._decide(message, verdict)

    def _spoken(self, message: _Message) -> _Verdict | None:
        """Layer 1: what the words alone settle."""
        words = message.said
        found = self._keywords.judge(() if smalltalk.is_all_talk(words) else words)
        if not found.named and smalltalk.is_plain(words):
            return _Verdict("keywords", frozenset())
        if found.points:
            certain = found.certain or self._resembles(message, found)
            return self._named(message, found.points) if certain else self._alike(message, found.hinted)
        kind = smalltalk.kind(words)
        wordless = not words and message.text.strip() != ""  # a thumb up
        if message.kept and (kind or wordless or 0 < len(words) <= _SHORT):
            return _Verdict("sticky", frozenset())
        if kind in ("talk", "answer") or wordless:
            return _Verdict("keywords", frozenset())
        return self._alike(message, found.hinted)

    def _named(self, message: _Message, points: Mapping[str, float]) -> _Verdict | None:
        """The verdict for the points of keywords; None when they speak for too many groups at once."""
        if len(points) > _MOST_GROUPS:
            return None
        scores = {name: round(weight, 3) for name, weight in points.items()}
        return _Verdict("keywords", frozenset(points) | self._second(message, points), scores)

    def _resembles(self, message: _Message, found: Finding) -> bool:
        """Whether one of the groups found is among those whose examples are most like the message.

        One that has no examples is believed, and so is a keyword in a message that is like none.
        """
        if not self._mute.isdisjoint(found.points):
            return True
        likeness = message.likeness
        if found.named and likeness.max() < _ALIKE:
            return True
        near = {self._groups[at].name for at in likeness.argsort()[-_NEAREST:] if likeness[at] > 0}
        return not near.isdisjoint(found.points)

    def _alike(self, message: _Message, hinted: frozenset[str]) -> _Verdict | None:
        """The group that a word, too little by itself, hints at, if its examples are clearly most like the message.

        Scores are likeness.
        """
        if not hinted or len(self._groups) < _NEAREST:
            return None
        likeness = message.likeness
        best, next_ = likeness.argsort()[: -_NEAREST - 1 : -1]
        name = self._groups[best].name
        if name not in hinted or likeness[best] - likeness[next_] < _CLEARLY:
            return None
        return _Verdict("keywords", frozenset({name}), {name: round(float(likeness[best]), 3)})

    def _second(self, message: _Message, points: Mapping[str, float]) -> frozenset[str]:
        """The group whose examples the message is clearly more like than those of the only one that its keywords name:
        "is the dentist still at nine" may have said one word too many."""
        if len(points) != 1 or not self._mute.isdisjoint(points):
            return frozenset()
        [named] = (at for at, group in enumerate(self._groups) if group.name in points)
        likeness = message.likeness
        best = int(likeness.argmax())
        nearer = likeness[best] > max(likeness[named] + _NEARER, _ALIKE)
        return frozenset({self._groups[best].name}) if nearer else frozenset()

    def _meant(self, semantic: SemanticLayer, message: _Message, spoken: _Verdict | None) -> _Verdict:
        """Layer 2, and layer 3 when its best score is below the threshold; of what layer 1 chose, the tools' ranks."""
        meaning = semantic.judge(message.text, message.words)
        if spoken is not None:
            return replace(spoken, likeness=meaning.tools)
        best = max(meaning.scores.values())
        groups = {name: score for name, score in meaning.scores.items() if name != SMALL_TALK}
        if best < 0:
            return _Verdict("all", frozenset(), groups, meaning.tools)
        won = frozenset(name for name, score in groups.items() if score >= max(0.0, best - _MARGIN))
        return _Verdict("centroids", won, groups, meaning.tools)

    def _explicit(self, names: tuple[str, ...]) -> Decision:
        offer = self._offer
        known = [name for name in names if name in offer.groups or name in offer.tools]
        asked = offer.named(known)
        unknown = tuple(name for name in names if name not in known)
        return self._decision("explicit", offer.always | asked, asked, {}, unknown)

    def _decide(self, message: _Message, verdict: _Verdict) -> Decision:
        """From a verdict to tools: groups whole while they fit, then the best-ranked tools of those that do not."""
        asked, base, room = self._asked(message, verdict)
        new = asked & ~base
        if new.bit_count() > room:
            # Groups of earlier turns may fill the bound; something new is offered all the same.
            new = self._offer.best(new, self._ranks(message, verdict), max(room, self._max_tools // 4, 1))
        return self._decision(verdict.layer, base | new, asked, verdict.scores)

    def _asked(self, message: _Message, verdict: _Verdict) -> tuple[Mask, Mask, int]:
        """The tools of the verdict's groups and of the last turns', what is offered in any case, and room for more."""
        offer = self._offer
        kept = offer.mask(message.kept)
        base = offer.always | kept
        chosen = offer.whole if verdict.layer == "all" else offer.mask(verdict.chosen)
        return chosen | kept, base, self._max_tools - base.bit_count()

    def _too_many(self, message: _Message, verdict: _Verdict) -> bool:
        """Whether tools have to be ranked for this verdict."""
        asked, base, room = self._asked(message, verdict)
        return (asked & ~base).bit_count() > room

    def _ranks(self, message: _Message, verdict: _Verdict) -> Scores:
        ranks = self._ranker.scores(message.words)
        if verdict.likeness is not None:
            ranks = ranks + verdict.likeness
        if verdict.scores:
            ranks = ranks + self._offer.spread(verdict.scores, _GROUP_WEIGHT)
        return ranks

    def _decision(
        self, layer: Layer, offered: Mask, asked: Mask, scores: Mapping[str, float], unknown: tuple[str, ...] = ()
    ) -> Decision:
        whole, partial = self._offer.split(offered, asked)
        tools, saved = self._offer.listed(offered)
        return Decision(
            layer=layer,
            groups=whole,
            tools=tools,
            scores=dict(sorted(scores.items(), key=lambda item: (-item[1], item[0]))),
            tokens_saved=saved,
            partial=partial,
            unknown=unknown,
        )


def _groups(catalogue: Catalogue) -> tuple[GroupSpec, ...]:
    """The groups that have tools, in the order of the tools; a group that nobody described gets its bare name."""
    described = {group.name: group for group in catalogue.groups}
    names = dict.fromkeys(tool.group for tool in catalogue.tools)
    return tuple(described.get(name) or GroupSpec(name=name, title=name) for name in names)


def _resemblance(groups: Sequence[GroupSpec]) -> LexicalIndex:
    """Likeness to the groups' own examples, by their words."""
    pairs = [(text, at) for at, group in enumerate(groups) for texts in group.examples.values() for text in texts]
    return LexicalIndex([text for text, _ in pairs], [at for _, at in pairs], len(groups))


def _phrases(group: GroupSpec) -> list[str]:
    """A group's keywords; its name where it has none ("github")."""
    spoken = [phrase for phrases in group.keywords.values() for phrase in phrases]
    return spoken or [" ".join(name_tokens(group.name))]
