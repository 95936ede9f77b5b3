"""The score above which a centroid decision is certain enough, found by cross-validation over the examples. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np

from coordinator.routing.centroids import Examples, Fit
from coordinator.routing.lexical import Scores
from shared.encoder import Vectors

_FOLDS = 4
_OUT_OF_SCOPE_SHARE = 0.2
"""The share of messages that mean none of the classes, which the threshold is best for."""
_MOST_LOST = 0.03


def threshold(fit: Fit, examples: Examples, vectors: Vectors, strangers: Sequence[str], unrelated: Vectors) -> float:
    """The score that best tells held-out examples from what is out of scope.

    `vectors` belong to the sentences of `examples`, `unrelated` to `strangers`, the background. Every sentence is
    scored by a model that never saw it: examples by models of the other folds; background sentences likewise; and,
    as the nearer misses, examples by models to which their whole class is unknown.
    """
    spread = _rank_in_class(examples) % _FOLDS
    far = np.arange(len(strangers)) % _FOLDS
    inside, outside = [], []
    for fold in range(_FOLDS):
        held, away = spread == fold, far == fold
        if held.any() and not held.all():
            score = fit(examples.where(~held), vectors[~held], unrelated[~away])
            inside.append(score([*compress(examples.sentences, held)], vectors[held]).max(axis=1))
            outside.append(score([*compress(strangers, away)], unrelated[away]).max(axis=1))
        gone = examples.classes % _FOLDS == fold
        if gone.any() and not gone.all():
            score = fit(examples.where(~gone), vectors[~gone], unrelated)
            outside.append(score([*compress(examples.sentences, gone)], vectors[gone]).max(axis=1))
    return cut(np.concatenate(inside), np.concatenate(outside)) if inside else 0.0


def cut(inside: Scores, outside: Scores, share: float = _OUT_OF_SCOPE_SHARE, most_lost: float = _MOST_LOST) -> float:
    """The threshold with the best F1 of abstaining, were `share` of all messages out of scope.

    `inside` and `outside` are the best scores of sentences that should and should not be accepted. At most the
    fraction `most_lost` of `inside` is given up, since classes that lie close together would ask for too much, unless
    even that accepts more than half of `outside`: then the examples are too few to be sure of anything.
    """
    candidates = np.unique(np.concatenate([inside, outside]))
    lost = np.searchsorted(np.sort(inside), candidates) / max(len(inside), 1)
    caught = np.searchsorted(np.sort(outside), candidates) / max(len(outside), 1)
    right = share * caught
    f1 = 2 * right / np.maximum(right + (1 - share) * lost + share, 1e-9)
    best, yielding = candidates[int(f1.argmax())], np.quantile(inside, most_lost)
    return float(max(min(best, yielding), np.median(outside)))


def _rank_in_class(examples: Examples) -> Scores:
    """The position of each sentence among those of its class."""
    rank = np.zeros(len(examples.sentences))
    for which in range(len(examples.labels)):
        own = examples.classes == which
        rank[own] = np.arange(own.sum())
    return rank
