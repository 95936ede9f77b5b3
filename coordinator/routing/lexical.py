"""Words as vectors: tf-idf over word stems and character n-grams. Pure.

Character n-grams bring inflected and misspelt words near each other, which matters for short Spanish messages.
"""

from __future__ import annotations

import math
import zlib
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain

import numpy as np
import numpy.typing as npt

from coordinator.routing.text import stem, tokens
from shared.encoder import Vectors

_GRAMS = (3, 4)
_HASHED = 512
_LOOKED_UP = 256  # words of recent messages whose features an index remembers

Scores = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
_Places = npt.NDArray[np.int32]


@lru_cache(maxsize=512)
def grams(word: str) -> tuple[str, ...]:
    """The character n-grams of a token, whose ends count as spaces."""
    padded = f" {word} "
    return tuple(padded[at : at + size] for size in _GRAMS for at in range(len(padded) - size + 1))


def features(words: Sequence[str]) -> dict[str, float]:
    """The features of a message given as `tokens`, with their damped counts: stems, marked with `=`, and n-grams."""
    found: list[str] = []
    for word in words:
        found.append("=" + stem(word))
        found += grams(word)
    return {feature: _damped(count) for feature, count in Counter(found).items()}


class WordVectors:
    """Sentences as tf-idf vectors of a fixed length: each feature is added to, or taken from, the place it hashes to.

    What the given sentences hold counts; the rest of a sentence only makes its vector shorter, so that the words of a
    language or a subject that nobody gave examples of say little.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        """Features are weighed by how few of `sentences` hold them."""
        bags = [features(tokens(sentence)) for sentence in sentences]
        self._idf = _idf(bags)
        self._unseen = 1.0 + math.log(1 + len(bags))

    def row(self, words: Sequence[str]) -> Vectors:
        """The vector of a message given as `tokens`, at most of unit length, shape (512,)."""
        places: list[int] = []
        weights: list[float] = []
        total = 0.0
        for feature, tf in features(words).items():
            idf = self._idf.get(feature)
            weight = tf * (self._unseen if idf is None else idf)
            total += weight * weight
            if idf is not None:
                mark = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
                places.append((mark >> 1) % _HASHED)
                weights.append(weight if mark & 1 else -weight)
        summed = np.bincount(np.array(places, dtype=np.intp), np.array(weights), minlength=_HASHED)
        return np.asarray(summed / math.sqrt(total or 1.0), dtype=np.float32)

    def rows(self, sentences: Sequence[str]) -> Vectors:
        """The vectors of many sentences, shape (n, 512)."""
        return np.array([self.row(tokens(sentence)) for sentence in sentences], np.float32).reshape(-1, _HASHED)


class LexicalIndex:
    """Scores texts against classes, each known by some sentences; a class is the mean of its sentences' vectors."""

    def __init__(self, sentences: Sequence[str], classes: Sequence[int], count: int, *, by_words: bool = False) -> None:
        """`classes[i]`, in 0..count-1, is the class of `sentences[i]`. A class without sentences scores 0.

        `by_words`: only words of a message that no class knows are compared by n-grams, which is several times faster
        over many classes.
        """
        self._count = count
        self._unseen = 1.0 + math.log(1 + len(sentences))
        # Numbers in place of objects: there are some ten thousand features, and each is in several classes.
        self._number: dict[str, int] = {}
        self._look_up = lru_cache(maxsize=_LOOKED_UP)(partial(_look_up, self._number, by_words=by_words))
        held, damped, sizes = array("q"), array("d"), array("q")
        for sentence in sentences:
            bag = features(tokens(sentence))
            held.extend(self._number.setdefault(feature, len(self._number)) for feature in bag)
            damped.extend(bag.values())
            sizes.append(len(bag))
        numbers = np.array(held, dtype=np.intp)
        seen = np.bincount(numbers, minlength=len(self._number))
        idf = 1.0 + np.log((1 + len(sentences)) / (1 + seen))
        self._idf: Scores = idf
        self._ends, self._sizes, self._at, self._share = self._invert(
            numbers, np.array(damped) * idf[numbers], np.repeat(np.arange(len(sentences)), sizes), np.array(classes)
        )

    def _invert(
        self, numbers: Ints, weights: Scores, sentences: Ints, classes: Ints
    ) -> tuple[_Places, _Places, _Places, npt.NDArray[np.float32]]:
        """For each feature where its part of what follows ends and how long it is; then classes, and the feature's
        weights in them.

        Given are features of sentences with their weights; `classes` has one entry a sentence.
        """
        weights = weights / _lengths(weights, sentences)
        cells, cell = np.unique(numbers * self._count + classes[sentences].astype(np.intp), return_inverse=True)
        summed: Scores = np.bincount(cell, weights, minlength=len(cells)).astype(np.float64)
        owners = cells % max(self._count, 1)
        shares = summed / _lengths(summed, owners)
        sizes = np.bincount(cells // max(self._count, 1), minlength=len(self._number))
        ends = np.cumsum(sizes)
        return ends.astype(np.int32), sizes.astype(np.int32), owners.astype(np.int32), shares.astype(np.float32)

    def scores(self, words: Sequence[str]) -> Scores:
        """Cosine in 0..1 of a message given as `tokens` with every class, shape (count,)."""
        known: list[int] = []
        strange: list[str] = []
        for word in words:
            numbered, others = self._look_up(word)
            known += numbered
            strange += others
        if not known:
            return np.zeros(self._count)
        numbers = np.array(list(dict.fromkeys(known)))
        weights = self._idf[numbers]
        if len(numbers) < len(known):
            weights *= [_damped(count) for count in Counter(known).values()]
        # What no class knows makes the message less like any of them.
        unseen = sum([1.0 if count == 1 else _damped(count) * _damped(count) for count in Counter(strange).values()])
        length = math.sqrt(float(weights @ weights) + unseen * self._unseen**2)
        sizes = self._sizes[numbers]
        cells = (self._ends[numbers] - sizes.cumsum()).repeat(sizes)
        cells += np.arange(len(cells))
        shares = weights.repeat(sizes)
        shares *= self._share[cells]
        summed = np.asarray(np.bincount(self._at[cells], shares, minlength=self._count), dtype=np.float64)
        summed /= length
        return summed


def _look_up(number: Mapping[str, int], word: str, *, by_words: bool) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The numbers of a token's features, and the features that have none; `by_words`: no n-grams of a numbered stem."""
    whole = "=" + stem(word)
    found = (whole,) if by_words and whole in number else (whole, *grams(word))
    return tuple(number[one] for one in found if one in number), tuple(one for one in found if one not in number)


def _idf(bags: Sequence[dict[str, float]]) -> dict[str, float]:
    """The weight of each feature: the fewer of the sentences hold it, the more it says."""
    seen = Counter(chain.from_iterable(bags))
    return {feature: 1.0 + math.log((1 + len(bags)) / (1 + n)) for feature, n in seen.items()}


def _damped(count: int) -> float:
    return 1.0 + math.log(count) if count > 1 else 1.0


def _lengths(weights: Scores, owners: Ints) -> Scores:
    """For each weight the length of the vector of its owner, shape of `weights`."""
    squares = np.bincount(owners, weights * weights)
    return np.asarray(np.sqrt(squares)[owners], dtype=np.float64)
