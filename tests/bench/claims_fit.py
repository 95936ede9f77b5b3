"""Fits the weights of `coordinator/loop/claims/evidence.py` to the labelled answers in `tests/data`.

`python -m tests.bench.claims_fit` writes them; with `--held-out` it fits all but a fourth of the blind set, each fourth
in turn, and prints how well the guard does on what was left out. Logistic regression with AdaGrad and an L2 penalty, in
an order that a seed gives: the same data give the same weights.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from coordinator.loop.claims import evidence
from coordinator.loop.claims.text import said
from tests.bench.claims import Row, rows, scored

FITTED = ("claims.jsonl", "claims_blind.jsonl", "claims_prose.jsonl")
TARGET = Path(evidence.__file__).with_name("weights.json")
PASSES = 25
RATE = 0.25
PENALTY = 0.0006
RARE = 3
"""Answers in which a feature must stand to be weighed."""
LEAST = 60
"""Thousandths; lighter weights are left out."""


def fit(examples: Sequence[Row]) -> tuple[float, dict[str, float]]:
    """The base and the weights for answers that are labelled by whether they claim a deed."""
    found = [(evidence.features(said(row.text)), row.claiming) for row in examples]
    counts = Counter(name for names, _ in found for name in names)
    known = [(tuple(sorted(n for n in names if counts[n] >= RARE)), claiming) for names, claiming in found]
    weights = {name: 0.0 for names, _ in known for name in names}
    squares = dict.fromkeys(weights, 1e-3)
    base, order = 0.0, random.Random(7)
    for step in range(PASSES):
        order.shuffle(known)
        for names, claiming in known:
            share = evidence.share(len(names))
            odds = base + share * sum(weights[n] for n in names)
            off = 1 / (1 + math.exp(-odds)) - claiming
            base -= 0.02 * off / (1 + step)
            for name in names:
                slope = off * share + PENALTY * weights[name] * 40
                squares[name] += slope * slope
                weights[name] -= RATE / math.sqrt(squares[name]) * slope * 0.3
    return base, weights


def use(fitted: tuple[float, dict[str, float]]) -> None:
    """Lets the guard of this process weigh with these."""
    evidence._BASE, evidence._WEIGHTS = fitted


def held_out() -> None:
    """Prints precision and recall on each fourth of the blind set, weighed by what was fitted to the rest."""
    own, blind, prose = (rows(name) for name in FITTED)
    for part in range(4):
        use(fit([*own, *prose, *(row for i, row in enumerate(blind) if i % 4 != part)]))
        left = [(row, row.flagged) for i, row in enumerate(blind) if i % 4 == part]
        print(part, *(f"{figure:.3f}" for figure in scored(left)))


def main() -> None:
    """Writes the weights, in thousandths and in the order of their names."""
    if "--held-out" in sys.argv:
        held_out()
        return
    base, weights = fit([row for name in FITTED for row in rows(name)])
    kept = {name: round(1000 * w) for name, w in sorted(weights.items()) if abs(1000 * w) >= LEAST}
    TARGET.write_text(json.dumps({"base": round(1000 * base), "weights": kept}, indent=0, ensure_ascii=False) + "\n")
    print(len(kept), "weights")


if __name__ == "__main__":
    main()
