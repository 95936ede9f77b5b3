"""Both forms of a sentence: with the packaged encoder, and with one that shows what it was asked."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator.routing.forms import BothForms, in_forms
from shared.encoder import Encoder, PackagedEncoder, Vectors, normalise


class Recorder:
    """Vectors by the length of a text."""

    name = "recorder"
    dim = 2

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def encode(self, texts: list[str]) -> Vectors:
        """Unit vectors, and a note of the texts."""
        self.asked.append(texts)
        return normalise([[1.0, float(len(text))] for text in texts] or np.zeros((0, 2)))


def test_both_forms_are_asked_for_in_one_call() -> None:
    recorder = Recorder()
    vectors = BothForms(recorder).encode(["ab", "is it?", "stop!.", ""])
    assert recorder.asked == [["ab", "is it?", "stop!.", "", "ab?", "is it?", "stop?", "?"]]
    alone = normalise([[1, 2], [1, 6], [1, 6], [1, 0]]) + normalise([[1, 3], [1, 6], [1, 5], [1, 1]])
    assert np.allclose(vectors, normalise(alone))
    assert BothForms(recorder).encode([]).shape == (0, 2)


def test_only_the_packaged_encoder_is_asked_twice() -> None:
    recorder = Recorder()
    assert in_forms(recorder) is recorder
    packaged = PackagedEncoder()
    both = in_forms(packaged)
    assert (both.dim, both.name) == (packaged.dim, f"{packaged.name}+?")
    assert both.name != packaged.name  # what was stored for the other is not used for this one


@pytest.mark.parametrize("text", ["the weather in Madrid tomorrow", "¿qué tengo hoy en la agenda", "turn on the lamp"])
def test_a_question_mark_matters_less(text: str) -> None:
    def likeness(encoder: Encoder) -> float:
        one, other = encoder.encode([text, f"{text}?"])
        return float(one @ other)

    packaged = PackagedEncoder()
    assert likeness(packaged) < likeness(in_forms(packaged)) <= 1.0001
