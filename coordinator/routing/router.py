"""The router: which tools a message gets.

The first layer that is certain decides:

- `explicit`: the caller named groups or tools; nothing else is asked.
- `keywords`: words that belong to groups. Small talk is settled here too, with no group.
- `sticky`: an answer to what was said before ("yes, do it"): the groups of the last turns.
- `centroids`: what the sentence means, by an encoder.
- `all`: nothing is certain: the whole catalogue if it is small, else its best-ranked tools.

Tools marked `always` are in every decision, the groups of the last turns in every one but `explicit`.

`route_fast` decides without the encoder, in well under a millisecond, or answers None; `route` always decides and may
block for the encoder: milliseconds, seconds at its first call for a new catalogue. Call `route` in a thread.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from coordinator.routing import smalltalk
from coordinator.routing.keywords import KeywordIndex
from coordinator.routing.lexical import Scores
from coordinator.routing.offer import Mask, Offer
from coordinator.routing.rank import ToolRanker
from coordinator.routing.semantic import SMALL_TALK, SemanticLayer
from coordinator.routing.text import name_tokens, stem, tokens
from shared.contract import Catalogue, GroupSpec
from shared.encoder import Encoder
from shared.errors import OperatorError

_log = logging.getLogger(__name__)

Layer = Literal["explicit", "sticky", "keywords", "centroids", "all"]

_MARGIN = 2.0  # groups whose score is this near the best one's win with it
_MOST_GROUPS = 3  # keywords of more groups at once are a heap of words, not a choice
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


@dataclass(frozen=True, slots=True)
class _Message:
    """A message as the layers see it. `kept` are the groups of the last turns that still exist."""

    text: str
    words: tuple[str, ...]
    kept: tuple[str, ...]


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
        verdict = self._spoken(message)
        if verdict is None and (self._semantic is None or not message.words):
            verdict = _Verdict("all", frozenset())
        return None if verdict is None else self._decide(message, verdict)

    def route(self, text: str, *, sticky: tuple[str, ...] = (), explicit: tuple[str, ...] = ()) -> Decision:
        """The decision, with the encoder where it is needed. Blocks.

        An encoder that is out of order (OperatorError) is logged and makes the message an uncertain one.
        """
        if (fast := self.route_fast(text, sticky=sticky, explicit=explicit)) is not None:
            return fast
        message = self._read(text, sticky)
        verdict = _Verdict("all", frozenset())
        if self._semantic is not None:
            try:
                verdict = self._meant(self._semantic, message)
            except OperatorError as error:
                _log.warning("routing without the encoder: %s", error)
        return self._decide(message, verdict)

    def prepare(self) -> None:
        """Builds the centroids, or reads them from disk, ahead of the first message. Blocks; call it in a thread.

        Raises what the encoder raises.
        """
        if self._semantic is not None:
            self._semantic.prepare()

    def _read(self, text: str, sticky: tuple[str, ...]) -> _Message:
        if len(text) > _HEAD_CHARS + _TAIL_CHARS:
            text = f"{text[:_HEAD_CHARS]} {text[-_TAIL_CHARS:]}"
        kept = tuple(group.name for group in self._groups if group.name in sticky)
        return _Message(text, tuple(tokens(text)), kept)

    def _spoken(self, message: _Message) -> _Verdict | None:
        """Layer 1: what the words alone settle."""
        stems = [stem(word) for word in message.words]
        points = self._keywords.match(stems)
        if points:
            scores = {name: round(weight, 3) for name, weight in points.items()}
            return _Verdict("keywords", frozenset(points), scores) if len(points) <= _MOST_GROUPS else None
        kind = smalltalk.kind(stems)
        wordless = not stems and message.text.strip() != ""  # a thumb up
        if message.kept and (kind or wordless or 0 < len(stems) <= _SHORT):
            return _Verdict("sticky", frozenset())
        return _Verdict("keywords", frozenset()) if kind or wordless else None

    def _meant(self, semantic: SemanticLayer, message: _Message) -> _Verdict:
        """Layer 2, and layer 3 when its best score is below the threshold."""
        meaning = semantic.judge(message.text, message.words)
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
        offer = self._offer
        wanted = offer.mask(offer.groups if verdict.layer == "all" else verdict.chosen)
        base = offer.always | offer.mask(message.kept)
        new = wanted & ~base
        room = self._max_tools - int(base.sum())
        if int(new.sum()) > room:
            # Groups of earlier turns may fill the bound; something new is offered all the same.
            new = offer.best(new, self._ranks(message, verdict), max(room, self._max_tools // 4, 1))
        return self._decision(verdict.layer, base | new, wanted | offer.mask(message.kept), verdict.scores)

    def _ranks(self, message: _Message, verdict: _Verdict) -> Scores:
        ranks = self._ranker.scores(message.words)
        if verdict.likeness is not None:
            ranks = ranks + verdict.likeness
        return ranks + _GROUP_WEIGHT * self._offer.spread(verdict.scores)

    def _decision(
        self, layer: Layer, offered: Mask, asked: Mask, scores: Mapping[str, float], unknown: tuple[str, ...] = ()
    ) -> Decision:
        whole, partial = self._offer.split(offered, asked)
        return Decision(
            layer=layer,
            groups=whole,
            tools=self._offer.names(offered),
            scores=dict(sorted(scores.items(), key=lambda item: (-item[1], item[0]))),
            tokens_saved=self._offer.cost(~offered),
            partial=partial,
            unknown=unknown,
        )


def _groups(catalogue: Catalogue) -> tuple[GroupSpec, ...]:
    """The groups that have tools, in the order of the tools; a group that nobody described gets its bare name."""
    described = {group.name: group for group in catalogue.groups}
    names = dict.fromkeys(tool.group for tool in catalogue.tools)
    return tuple(described.get(name) or GroupSpec(name=name, title=name) for name in names)


def _phrases(group: GroupSpec) -> list[str]:
    """A group's keywords; its name where it has none ("github")."""
    spoken = [phrase for phrases in group.keywords.values() for phrase in phrases]
    return spoken or [" ".join(name_tokens(group.name))]
