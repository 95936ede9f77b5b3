"""The score above which a centroid decision is certain enough, found by cross-validation over the examples. Pure."""

from __future__ import annotations

from itertools import compress

import numpy as np

from coordinator.routing.centroids import Fit, Training
from coordinator.routing.lexical import Scores
from coordinator.routing.linear import Classes

_FOLDS = 4
_OUT_OF_SCOPE_SHARE = 0.2
"""The share of messages that mean none of the classes, which the threshold is best for."""
_MOST_LOST = 0.02
_BLIND_REFUSED = 0.9
"""How much of what is out of scope must score below the threshold where nothing in scope can be held out."""


def threshold(fit: Fit, training: Training) -> float:
    """The score that best tells held-out examples from what is out of scope.

    Every sentence is scored by a model that never saw it: examples by models of the other folds, if these know the
    class; background sentences likewise; and, as the nearer misses, examples by models to which their whole class is
    unknown. 0 where there is too little to hold anything out.
    """
    classes = training.examples.classes
    spread = _rank_in_class(classes) % _FOLDS
    turn = np.arange(len(training.strangers)) % _FOLDS
    inside, near, far = [], [], []
    for fold in range(_FOLDS):
        held, away = spread == fold, turn == fold
        if held.any() and not held.all():
            score = fit(training.where(~held, ~away))
            known = held & np.isin(classes, classes[~held])
            inside.append(score([*compress(training.examples.sentences, known)], training.own.meant[known]).max(axis=1))
            far.append(score([*compress(training.strangers, away)], training.unrelated.meant[away]).max(axis=1))
        gone = classes % _FOLDS == fold
        if gone.any() and not gone.all():
            score = fit(training.where(~gone, np.ones_like(away)))
            near.append(score([*compress(training.examples.sentences, gone)], training.own.meant[gone]).max(axis=1))
    accepted, missed, strange = (np.concatenate(found) if found else np.zeros(0) for found in (inside, near, far))
    if len(accepted):
        return cut(accepted, missed, strange)
    return float(np.quantile(missed, _BLIND_REFUSED)) if len(missed) else 0.0


def cut(
    inside: Scores, near: Scores, far: Scores, share: float = _OUT_OF_SCOPE_SHARE, most_lost: float = _MOST_LOST
) -> float:
    """The threshold with the best F1 of abstaining, were `share` of all messages out of scope.

    `inside` are the best scores of sentences that should be accepted, one at least, `near` and `far` of near misses
    and of strangers, of which either kind, unless it is empty, counts the same however many there are. At most the
    fraction `most_lost` of `inside` is given up, since classes that lie close together would ask for too much, unless
    even that accepts more than half of what is outside: then the examples are too few to be sure of anything.
    """
    kinds = [kind for kind in (near, far) if len(kind)]
    candidates = np.unique(np.concatenate([inside, *kinds]))
    lost = _below(inside, candidates)
    caught = np.mean([_below(kind, candidates) for kind in kinds], axis=0) if kinds else np.zeros(len(candidates))
    right = share * caught
    f1 = 2 * right / np.maximum(right + (1 - share) * lost + share, 1e-9)
    best, yielding = candidates[int(f1.argmax())], np.quantile(inside, most_lost)
    enough = candidates[int((caught >= 0.5).argmax())]
    return float(max(min(best, yielding), enough))


def _below(scores: Scores, candidates: Scores) -> Scores:
    """The share of `scores` below each candidate."""
    return np.searchsorted(np.sort(scores), candidates) / len(scores)


def _rank_in_class(classes: Classes) -> Classes:
    """The position of each sentence among those of its class."""
    order = np.argsort(classes, kind="stable")
    ordered = classes[order]
    rank = np.empty_like(classes)
    rank[order] = np.arange(len(classes)) - np.searchsorted(ordered, ordered)
    return rank
