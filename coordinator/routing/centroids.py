"""Layer 2: which classes a sentence means, from example sentences of each. Pure numpy.

A class's score is the sum of a logistic head, over whitened sentence vectors and the vectors of the words beside them,
and the cosine with the class's centroid, less the likeness to sentences that no class is about. One head over both
learns how far words can be trusted where the meaning is known too. Scores above `threshold`, which cross-validation
over the examples sets, are certain enough to act on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from coordinator.routing.lexical import Scores, WordVectors
from coordinator.routing.linear import Classes, Whitening, clusters, logistic, means
from coordinator.routing.text import name_tokens
from shared.encoder import Vectors

Bools = npt.NDArray[np.bool_]

CENTROID_WEIGHT = 2.0
BACKGROUND_WEIGHT = 4.0

_WORDS = np.float32(0.6)  # length of the words' vectors beside those of meaning, which have length 1
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

    @property
    def names(self) -> tuple[str, ...]:
        """The labels as words: `card_arrival` and `CardArrival` say what their classes are about."""
        return tuple(" ".join(name_tokens(label)) for label in self.labels)


@dataclass(frozen=True)
class Rows:
    """Sentences as vectors: `meant` (n, dim) are the encoder's, `spoken` (n, 512) those of their words."""

    meant: Vectors
    spoken: Vectors

    def where(self, chosen: Bools | Classes) -> Rows:
        """Only the chosen ones."""
        return Rows(self.meant[chosen], self.spoken[chosen])


@dataclass(frozen=True)
class Training:
    """All that a model is learnt from: examples, the names of their classes, and `strangers`, the background."""

    examples: Examples
    words: WordVectors
    own: Rows
    names: Rows
    strangers: tuple[str, ...]
    unrelated: Rows

    @classmethod
    def of(cls, examples: Examples, encoded: Mapping[str, Vectors], words: WordVectors | None = None) -> Training:
        """With the background of the package; `encoded` has a vector for each of `texts(examples)`, by which `words`
        are weighed."""
        weighed = words or WordVectors(cls.texts(examples))

        def rows(texts: Sequence[str]) -> Rows:
            return Rows(np.stack([encoded[text] for text in texts]), weighed.rows(texts))

        strangers = background()
        return cls(examples, weighed, rows(examples.sentences), rows(examples.names), strangers, rows(strangers))

    @staticmethod
    def texts(examples: Examples) -> list[str]:
        """What has to be encoded to learn from `examples`, each text once."""
        return list(dict.fromkeys([*examples.sentences, *examples.names, *background()]))

    def where(self, chosen: Bools, strangers: Bools) -> Training:
        """Only the chosen sentences and strangers; a class that loses all of its own is gone."""
        before, kept = self.examples, np.flatnonzero(chosen)
        examples = Examples.of([(before.labels[before.classes[i]], before.sentences[i]) for i in kept])
        at = {label: index for index, label in enumerate(before.labels)}
        return replace(
            self,
            examples=examples,
            own=self.own.where(kept),
            names=self.names.where(np.array([at[label] for label in examples.labels], dtype=np.intp)),
            strangers=tuple(self.strangers[i] for i in np.flatnonzero(strangers)),
            unrelated=self.unrelated.where(strangers),
        )


@dataclass(frozen=True)
class Centroids:
    """A fitted model over K classes: `centroids` and `head` have shape (K, dim), `words`, the part of the head that is
    over the vectors of words, (K, 512), `elsewhere` (c, dim)."""

    whitening: Whitening
    centroids: Vectors
    head: Vectors
    words: Vectors
    elsewhere: Vectors
    threshold: float = 0.0

    @classmethod
    def fit(cls, training: Training) -> Centroids:
        """Fits all but the threshold."""
        classes, count = training.examples.classes, len(training.examples.labels)
        parts = training.own, training.names, training.unrelated
        whitening = Whitening.fit(training.own.meant, classes, count)
        rows, names, others = (whitening.apply(part.meant) for part in parts)
        trust = np.float32(_aptness(names, means(rows, classes, count)))
        shares = np.repeat(np.array([1, trust, 1], np.float32), [len(rows), count, len(others)])
        # The background is one more class while the head learns, so that no class claims that region by default.
        known = np.concatenate([classes, np.arange(count, dtype=np.intp)])
        answers = np.concatenate([known, np.full(len(others), count, dtype=np.intp)])
        spoken = _WORDS * np.concatenate([part.spoken for part in parts])
        joined = np.concatenate([np.concatenate([rows, names, others]), spoken], axis=1)
        head = logistic(joined, answers, count + 1, shares)[:count]
        dim = rows.shape[1]
        return cls(
            whitening,
            means(np.concatenate([rows, trust * names]), known, count),
            head[:, :dim],
            head[:, dim:] * _WORDS,
            clusters(others, _BACKGROUND_CLUSTERS),
        )

    def with_threshold(self, threshold: float) -> Centroids:
        """The same model, certain above another score."""
        return replace(self, threshold=threshold)

    def scores(self, vectors: Vectors, words: Vectors) -> Scores:
        """Scores (n, K) for sentence vectors (n, dim) and the vectors of their words (n, 512)."""
        rows = self.whitening.apply(vectors)
        meant = rows @ self.head.T + words @ self.words.T + np.float32(CENTROID_WEIGHT) * (rows @ self.centroids.T)
        unrelated = (rows @ self.elsewhere.T).max(axis=1, initial=-1.0, keepdims=True)
        return np.asarray(meant - BACKGROUND_WEIGHT * unrelated, dtype=np.float64)


def _aptness(names: Vectors, centroids: Vectors) -> float:
    """The share of names that are nearest to their own class: how far names can be trusted to say what is meant."""
    return float(((names @ centroids.T).argmax(axis=1) == np.arange(len(names))).mean())


Scorer = Callable[[Sequence[str], Vectors], Scores]
"""Scores (n, K) of n sentences, given with their vectors."""

Fit = Callable[[Training], Scorer]
"""Learns a scorer."""


def combined(training: Training) -> Scorer:
    """The `Fit` of what the router uses."""
    model, words = Centroids.fit(training), training.words
    return lambda sentences, asked: model.scores(asked, words.rows(sentences))
