"""Layer 2 over a catalogue: what its groups' sentences are, when their centroids are built, and what a message means.

The encoder is asked once for all sentences of all groups; the result is kept on disk under a hash of encoder and
sentences, so that it is never built twice for the same ones.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coordinator.routing import calibrate, smalltalk, store
from coordinator.routing.centroids import Centroids, Examples, Training, combined
from coordinator.routing.forms import in_forms
from coordinator.routing.lexical import Scores, WordVectors
from coordinator.routing.rank import summary
from shared.contract import GroupSpec, ToolSpec
from shared.encoder import Encoder, one_thread

SMALL_TALK = ":smalltalk"
"""The class of messages that need no tools, beside the groups, whose names hold no colon."""

_GROUP_SENTENCES = 64  # of a group without examples, which is known by its tools' summaries


@dataclass(frozen=True)
class Meaning:
    """`scores` by group name or `SMALL_TALK`, above the threshold when positive; `tools` cosines in tool order."""

    scores: dict[str, float]
    tools: Scores | None


class SemanticLayer:
    """Compares messages with the groups of one catalogue. Safe to use from several threads."""

    def __init__(
        self,
        groups: Sequence[GroupSpec],
        tools: Sequence[ToolSpec],
        encoder: Encoder,
        cache_dir: Path | None,
        *,
        rank_tools: bool,
    ) -> None:
        """`rank_tools`: single tools get vectors too. Nothing is encoded yet."""
        pairs = [(group.name, sentence) for group in groups for sentence in _sentences(group, tools)]
        self._examples = Examples.of([*pairs, *((SMALL_TALK, sentence) for sentence in smalltalk.SENTENCES)])
        self._texts = Training.texts(self._examples)
        self._words = WordVectors(self._texts)
        self._summaries = [summary(tool) for tool in tools] if rank_tools else []
        self._encoder = in_forms(encoder)
        self._cache_dir = cache_dir
        self._stored: store.Stored | None = None
        self._building = threading.Lock()

    def prepare(self) -> store.Stored:
        """The fitted model: the one in memory, or from disk, or built now. Raises what the encoder raises."""
        with self._building:
            if self._stored is None:
                with one_thread():
                    self._stored = self._load_or_build()
            return self._stored

    def judge(self, text: str, words: Sequence[str]) -> Meaning:
        """What `text`, whose `tokens` are `words`, means. Blocks for the encoder."""
        stored = self.prepare()
        vector = self._encoder.encode([text])
        scores = stored.model.scores(vector, self._words.row(words)[None, :])[0] - stored.model.threshold
        tools = None
        if len(stored.tools):
            tools = (stored.model.whitening.apply(vector) @ stored.tools.T)[0].astype(np.float64)
        named = zip(self._examples.labels, scores.tolist(), strict=True)
        return Meaning({label: round(score, 3) for label, score in named}, tools)

    def _load_or_build(self) -> store.Stored:
        examples = self._examples
        of_each = [examples.labels[which] for which in examples.classes]
        key = store.digest(self._encoder, [of_each, examples.sentences, self._texts, self._summaries])
        if self._cache_dir is not None and (found := store.load(self._cache_dir, key)) is not None:
            return found
        stored = self._build().rounded()
        if self._cache_dir is not None:
            store.save(self._cache_dir, key, stored)
        return stored

    def _build(self) -> store.Stored:
        unique = list(dict.fromkeys([*self._texts, *self._summaries]))
        vectors = self._encoder.encode(unique)
        encoded = dict(zip(unique, vectors, strict=True))
        training = Training.of(self._examples, encoded, self._words)
        model = Centroids.fit(training)
        tools = np.array([encoded[sentence] for sentence in self._summaries], np.float32).reshape(-1, vectors.shape[1])
        return store.Stored(
            model.with_threshold(calibrate.threshold(combined, training)),
            model.whitening.apply(tools) if len(tools) else tools,
        )


def _sentences(group: GroupSpec, tools: Sequence[ToolSpec]) -> list[str]:
    """A group's examples and its tools'; without any, its tools' summaries, evenly thinned."""
    members = [tool for tool in tools if tool.group == group.name]
    spoken = [*_flat(group.examples), *(sentence for tool in members for sentence in _flat(tool.examples))]
    if spoken:
        return list(dict.fromkeys(spoken))
    step = max(1, -(-len(members) // _GROUP_SENTENCES))
    return [summary(tool) for tool in members[::step]]


def _flat(by_language: Mapping[str, Sequence[str]]) -> list[str]:
    return [sentence for sentences in by_language.values() for sentence in sentences]
