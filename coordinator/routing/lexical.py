"""Lexical scores: tf-idf over word stems and character n-grams, compared by cosine. Pure.

Character n-grams bring inflected and misspelt words near each other, which matters for short Spanish messages.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from coordinator.routing.text import stem, tokens

_GRAMS = (3, 4)

Scores = npt.NDArray[np.float64]


def grams(word: str) -> list[str]:
    """The character n-grams of a token, whose ends count as spaces."""
    padded = f" {word} "
    return [padded[at : at + size] for size in _GRAMS for at in range(len(padded) - size + 1)]


def features(words: Sequence[str]) -> dict[str, float]:
    """The features of a message given as `tokens`, with their damped counts: stems, marked with `=`, and n-grams."""
    counts: Counter[str] = Counter()
    for word in words:
        counts["=" + stem(word)] += 1
        counts.update(grams(word))
    return _damped(counts)


class LexicalIndex:
    """Scores texts against classes, each known by some sentences; a class is the mean of its sentences' vectors."""

    def __init__(self, sentences: Sequence[str], classes: Sequence[int], count: int, *, by_words: bool = False) -> None:
        """`classes[i]`, in 0..count-1, is the class of `sentences[i]`. A class without sentences scores 0.

        `by_words`: only words of a message that no class knows are compared by n-grams, which is several times faster
        over many classes.
        """
        bags = [features(tokens(sentence)) for sentence in sentences]
        seen = Counter(chain.from_iterable(bags))
        self._count = count
        self._by_words = by_words
        self._unseen = 1.0 + math.log(1 + len(bags))
        self._idf = {feature: 1.0 + math.log((1 + len(bags)) / (1 + n)) for feature, n in seen.items()}
        self._postings = self._invert(bags, classes)

    def _invert(
        self, bags: Sequence[dict[str, float]], classes: Sequence[int]
    ) -> dict[str, tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]]:
        sums: list[dict[str, float]] = [defaultdict(float) for _ in range(self._count)]
        for bag, which in zip(bags, classes, strict=True):
            weighted = {feature: tf * self._idf[feature] for feature, tf in bag.items()}
            length = _length(weighted.values())
            for feature, weight in weighted.items():
                sums[which][feature] += weight / length
        columns: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for which, row in enumerate(sums):
            length = _length(row.values())
            for feature, weight in row.items():
                columns[feature].append((which, weight / length))
        return {
            feature: (np.array([at for at, _ in cells], dtype=np.intp), np.array([weight for _, weight in cells]))
            for feature, cells in columns.items()
        }

    def scores(self, words: Sequence[str]) -> Scores:
        """Cosine in 0..1 of a message given as `tokens` with every class, shape (count,)."""
        bag = self._words_first(words) if self._by_words else features(words)
        total = 0.0
        hits: list[npt.NDArray[np.intp]] = []
        weights: list[npt.NDArray[np.float64]] = []
        for feature, tf in bag.items():
            idf = self._idf.get(feature)
            if idf is None:  # what no class knows makes the message less like any of them
                total += (tf * self._unseen) ** 2
                continue
            total += (tf * idf) ** 2
            at, weight = self._postings[feature]
            hits.append(at)
            weights.append(weight * (tf * idf))
        if not hits:
            return np.zeros(self._count)
        summed = np.bincount(np.concatenate(hits), np.concatenate(weights), minlength=self._count)
        return np.asarray(summed / math.sqrt(total), dtype=np.float64)

    def _words_first(self, words: Sequence[str]) -> dict[str, float]:
        counts: Counter[str] = Counter()
        for word in words:
            whole = "=" + stem(word)
            counts[whole] += 1
            if whole not in self._idf:
                counts.update(grams(word))
        return _damped(counts)


def _damped(counts: Counter[str]) -> dict[str, float]:
    return {feature: 1.0 + math.log(count) for feature, count in counts.items()}


def _length(values: Iterable[float]) -> float:
    return math.sqrt(sum(value * value for value in values)) or 1.0
