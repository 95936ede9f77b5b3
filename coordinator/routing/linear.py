"""Small fits over sentence vectors, in closed form or by plain gradient steps. Pure numpy; rows are sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shared.encoder import Vectors, normalise

Classes = npt.NDArray[np.intp]

_SHRINKAGE = 0.1
_MAX_AXES = 32
_SENTENCES_PER_AXIS = 8

_SCALE = 8.0
_RIDGE = 3e-3
_STEPS = 50


def means(vectors: Vectors, classes: Classes, count: int) -> Vectors:
    """The unit-length mean of each class, shape (count, dim); zero for a class without rows."""
    return normalise(_indicator(classes, count).T @ vectors)


def _indicator(classes: Classes, count: int) -> Vectors:
    """A row for each entry of `classes` with a 1 in its column, shape (n, count)."""
    marks = np.zeros((len(classes), count), dtype=np.float32)
    marks[np.arange(len(classes)), classes] = 1
    return marks


@dataclass(frozen=True)
class Whitening:
    """Damps the directions in which sentences of one class differ among themselves.

    With within-class covariance W, shrunk towards a multiple of the identity, this is W^(-1/4) up to a constant (half
    way to the whitening of linear discriminant analysis) kept to its leading axes, so that it takes kilobytes where
    the full matrix takes a megabyte. `axes` (r, dim) are orthonormal, `gains` (r,) in 0..1, `centre` (dim,).
    """

    centre: Vectors
    axes: Vectors
    gains: Vectors

    @classmethod
    def fit(cls, vectors: Vectors, classes: Classes, count: int) -> Whitening:
        """Learns it from labelled rows; more of them justify more axes."""
        centre = vectors.mean(axis=0)
        marks = _indicator(classes, count)
        sizes = np.maximum(marks.sum(axis=0), 1)
        spread = vectors - (marks.T @ vectors / sizes[:, None])[classes]
        dim = vectors.shape[1]
        within = spread.T @ spread / len(vectors)
        level = float(np.trace(within)) / dim
        within = (1 - _SHRINKAGE) * within + (_SHRINKAGE * level + 1e-9) * np.eye(dim, dtype=np.float32)
        values, directions = np.linalg.eigh(within)
        rank = min(_MAX_AXES, len(vectors) // _SENTENCES_PER_AXIS, dim - 1)
        values, directions = values[::-1], directions[:, ::-1]
        gains = np.sqrt(np.sqrt(values[rank:].mean() / values[:rank]))
        return cls(centre.astype(np.float32), directions[:, :rank].T.astype(np.float32), gains.astype(np.float32))

    def apply(self, vectors: Vectors) -> Vectors:
        """Unit-length rows in the whitened space, same shape as `vectors`."""
        moved = vectors - self.centre
        return normalise(moved - ((moved @ self.axes.T) * (1 - self.gains)) @ self.axes)


def logistic(vectors: Vectors, classes: Classes, count: int, shares: Vectors | None = None) -> Vectors:
    """Weights (count, dim) of a ridge-regularised multinomial logistic regression without intercept.

    Small classes weigh more than their share (inverse square root of their size); `shares` (n,) are how much each row
    counts, 1 where not given. Solved by Nesterov's accelerated gradient in the metric of a bound on all Hessians
    (Boehning's), so it needs no line search and always takes the same time.
    """
    rows = vectors * np.float32(_SCALE)
    target = _indicator(classes, count)
    each = np.ones(len(rows), dtype=np.float32) if shares is None else shares
    sizes = np.maximum(np.bincount(classes, weights=each, minlength=count), 1e-6)
    weights = each / np.sqrt(sizes[classes])
    weights = (weights / weights.sum()).astype(np.float32)[:, None]
    bound = 0.5 * (rows * weights).T @ rows + _RIDGE * np.eye(rows.shape[1], dtype=np.float32)
    metric = np.linalg.inv(bound).astype(np.float32)
    found: Vectors = np.zeros((rows.shape[1], count), dtype=np.float32)
    ahead = found
    pace = 1.0
    for _ in range(_STEPS):
        slope = rows.T @ ((softmax(rows @ ahead) - target) * weights) + np.float32(_RIDGE) * ahead
        stepped: Vectors = ahead - metric @ slope
        faster = (1 + (1 + 4 * pace * pace) ** 0.5) / 2
        ahead = stepped + np.float32((pace - 1) / faster) * (stepped - found)
        found, pace = stepped, faster
    return np.asarray(found.T * np.float32(_SCALE), dtype=np.float32)


def softmax(logits: npt.NDArray[np.floating[Any]]) -> Vectors:
    """Rows that sum to 1."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), dtype=np.float32)


def clusters(vectors: Vectors, count: int) -> Vectors:
    """At most `count` unit-length centres of spherical k-means, from evenly spaced rows; the same for the same rows."""
    if len(vectors) <= count:
        return vectors
    centres = vectors[np.linspace(0, len(vectors) - 1, count).astype(np.intp)]
    for _ in range(10):
        nearest = (vectors @ centres.T).argmax(axis=1)
        moved = means(vectors, nearest, count)
        centres = np.where(moved.any(axis=1, keepdims=True), moved, centres)
    return centres
