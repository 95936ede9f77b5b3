"""Fits the weights of `coordinator/loop/claims/evidence.py` to the labelled answers in `tests/data`.

`python -m tests.bench.claims_fit` writes them; with `--held-out` it fits all but a fourth of the answers that others
wrote, each fourth in turn, and prints precision and recall on what was left out, by the weight from which a sentence
counts. An answer claims what its heaviest sentence claims, so that is the one that an example is fitted by. Logistic
regression with AdaGrad and an L2 penalty, in an order that a seed gives: the same data give the same weights. Among
the data are docstrings of the standard library, which claim nothing, so another Python gives slightly other weights.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from coordinator.loop.claims import VOICES, candidates, evidence
from coordinator.loop.claims.evidence import Weights
from tests.bench.claims import FITTED_TO, Row, explanations, rows, scored

OWN = ("claims.jsonl",)
OTHERS = ("claims_blind.jsonl", "claims_fresh.jsonl", "claims_more.jsonl")
"""What others wrote. `claims_test.jsonl` is never fitted to."""
TARGET = Path(evidence.__file__).with_name("weights.json")
PASSES = 12
RATE = 0.075
PENALTY = 0.024
OF_OTHERS = 2.5
"""What an answer of others counts: the grammar knows our own too well."""
RARE = 3
"""Sentences in which a feature must stand to be weighed."""
LEAST = 60
"""Thousandths; lighter weights are left out."""
STEPS = (-0.6, -0.4, -0.2, 0.0, 0.2, 0.4)

Example = tuple[list[tuple[tuple[str, ...], str]], bool, float]
"""The features and the voice of each sentence that may claim a deed, whether one does, and what it counts."""


def fit(examples: Sequence[Row], others: Sequence[Row] = ()) -> Weights:
    """The weights for answers that are labelled by whether they claim a deed."""
    known = _examples(examples, 1.0) + _examples(others, OF_OTHERS)
    counts = Counter(name for sentences, _, _ in known for names, _ in sentences for name in names)
    frequent = {name for name, n in counts.items() if n >= RARE}
    known = [([(tuple(n for n in names if n in frequent), v) for names, v in s], c, w) for s, c, w in known]
    words = dict.fromkeys(sorted(frequent), 0.0)
    squares = dict.fromkeys(words, 1e-3)
    bases = {voice: 0.0 if voice == "none" else 1.0 for voice in VOICES}
    weights, order = Weights(bases, words), random.Random(7)
    for step in range(PASSES):
        order.shuffle(known)
        for sentences, claiming, counted in known:
            odds, names, voice = max((weights.weigh(v, n), n, v) for n, v in sentences)
            share = evidence.share(len(names))
            off = counted * (1 / (1 + math.exp(-odds)) - claiming)
            bases[voice] -= 0.05 * off / (1 + step)
            for name in names:
                slope = off * share + PENALTY * words[name]
                squares[name] += slope * slope
                words[name] -= RATE / math.sqrt(squares[name]) * slope
    return weights


def _examples(chosen: Iterable[Row], counted: float) -> list[Example]:
    found = []
    for row in chosen:
        sentences = [(tuple(sorted(one.features)), one.voice) for one in candidates(row.text)]
        if sentences:
            found.append((sentences, row.claiming, counted))
    return found


def held_out() -> None:
    """Prints precision and recall on the answers of others, each weighed by what was fitted without it."""
    own, others = _read()
    random.Random(3).shuffle(others)
    found: list[tuple[Row, Weights]] = []
    for part in range(4):
        weights = fit(own, [row for i, row in enumerate(others) if i % 4 != part])
        found += [(row, weights) for row in others[part::4]]
    for least in STEPS:
        moved = [(row, row.flagged_by(_from(weights, least))) for row, weights in found]
        print(least, *(f"{figure:.3f}" for figure in scored(moved)))


def _from(weights: Weights, least: float) -> Weights:
    """The same weights for a sentence that counts from there."""
    return Weights({voice: base - least for voice, base in weights.bases.items()}, weights.words)


def _read() -> tuple[list[Row], list[Row]]:
    own, others = ([row for name in names for row in rows(name)] for names in (OWN, OTHERS))
    return own + explanations(0, FITTED_TO), others


def main() -> None:
    """Writes the weights, in thousandths and in the order of their names."""
    if "--held-out" in sys.argv:
        held_out()
        return
    weights = fit(*_read())
    words = {name: round(1000 * w) for name, w in sorted(weights.words.items()) if abs(1000 * w) >= LEAST}
    bases = {voice: round(1000 * w) for voice, w in weights.bases.items()}
    TARGET.write_text(json.dumps({"bases": bases, "weights": words}, indent=0, ensure_ascii=False) + "\n")
    print(len(words), "weights")


if __name__ == "__main__":
    main()
