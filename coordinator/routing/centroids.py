"""Layer 2: which classes a sentence means, from example sentences of each. Pure numpy.

A class's score is the sum of a logistic head over whitened sentence vectors, the cosine with the class's centroid in
the same space, and the lexical cosine, less the likeness to sentences that no class is about. Scores above
`threshold`, which cross-validation over the examples sets, are certain enough to act on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coordinator.routing.lexical import LexicalIndex, Scores
from coordinator.routing.linear import Classes, Whitening, clusters, logistic, means
from coordinator.routing.text import tokens
from shared.encoder import Vectors

CENTROID_WEIGHT = 2.0
LEXICAL_WEIGHT = 3.0
BACKGROUND_WEIGHT = 4.0

_BACKGROUND_CLUSTERS = 16


@lru_cache(maxsize=1)
def background() -> tuple[str, ...]:
    """Sentences in Spanish and English about matters that hardly any tool is for."""
    text = Path(__file__).with_name("background.txt").read_text("utf-8")
    return tuple(line for line in text.splitlines() if line)


@dataclass(frozen=True)
class Examples:
    """Labelled sentences: `classes[i]`, an index into `labels`, belongs to `sentences[i]`."""

    labels: tuple[str, ...]
    sentences: tuple[str, ...]
    classes: Classes

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]]) -> Examples:
        """From pairs (label, sentence); labels in order of their first sentence."""
        labels = tuple(dict.fromkeys(label for label, _ in pairs))
        at = {label: index for index, label in enumerate(labels)}
        return cls(labels, tuple(s for _, s in pairs), np.array([at[label] for label, _ in pairs], dtype=np.intp))

    def where(self, chosen: npt.NDArray[np.bool_]) -> Examples:
        """Only the chosen sentences; a class that loses all of its own is gone."""
        return Examples.of([(self.labels[self.classes[i]], self.sentences[i]) for i in np.flatnonzero(chosen)])

    def index(self) -> LexicalIndex:
        """The lexical index over the classes."""
        return LexicalIndex(self.sentences, self.classes.tolist(), len(self.labels))


@dataclass(frozen=True)
class Centroids:
    """A fitted model over K classes: `centroids` and `head` have shape (K, dim), `elsewhere` (c, dim)."""

    whitening: Whitening
    centroids: Vectors
    head: Vectors
    elsewhere: Vectors
    threshold: float = 0.0

    @classmethod
    def fit(cls, vectors: Vectors, classes: Classes, count: int, unrelated: Vectors) -> Centroids:
        """Fits all but the threshold. `unrelated` (m, dim) are vectors of the background."""
        whitening = Whitening.fit(vectors, classes, count)
        rows, others = whitening.apply(vectors), whitening.apply(unrelated)
        # The background is one more class while the head learns, so that no class claims that region by default.
        joined = np.concatenate([rows, others])
        answers = np.concatenate([classes, np.full(len(others), count, dtype=np.intp)])
        head = logistic(joined, answers, count + 1)[:count]
        return cls(whitening, means(rows, classes, count), head, clusters(others, _BACKGROUND_CLUSTERS))

    def with_threshold(self, threshold: float) -> Centroids:
        """The same model, certain above another score."""
        return replace(self, threshold=threshold)

    def scores(self, vectors: Vectors, lexical: Scores) -> Scores:
        """Scores (n, K) for sentence vectors (n, dim) and their lexical scores (n, K)."""
        rows = self.whitening.apply(vectors)
        meant = rows @ self.head.T + np.float32(CENTROID_WEIGHT) * (rows @ self.centroids.T)
        unrelated = (rows @ self.elsewhere.T).max(axis=1, initial=-1.0, keepdims=True)
        return np.asarray(meant - BACKGROUND_WEIGHT * unrelated + LEXICAL_WEIGHT * lexical, dtype=np.float64)


Scorer = Callable[[Sequence[str], Vectors], Scores]
"""Scores (n, K) of n sentences, given with their vectors."""

Fit = Callable[[Examples, Vectors, Vectors], Scorer]
"""Learns a scorer from examples, their vectors, and those of the background."""


def combined(examples: Examples, vectors: Vectors, unrelated: Vectors) -> Scorer:
    """The `Fit` of what the router uses."""
    model = Centroids.fit(vectors, examples.classes, len(examples.labels), unrelated)
    index = examples.index()
    return lambda sentences, asked: model.scores(asked, lexical_rows(index, sentences))


def lexical_rows(index: LexicalIndex, sentences: Sequence[str]) -> Scores:
    """The lexical scores of many sentences, shape (n, K)."""
    return np.stack([index.scores(tokens(sentence)) for sentence in sentences])
