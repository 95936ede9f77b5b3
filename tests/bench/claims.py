"""RUN4: how well the claims guard tells answers that claim what no tool did from those that do not.

`own` are the answers that it was developed with; `blind`, `fresh` and `more` were written by people who had not seen
it, and read afterwards: the weights are fitted to all of them (`claims_fit.py`), so their figures of today flatter.
`test` was written like them, but nobody has read it and nothing is fitted to it: it tells what is to be expected. It
was 0.93 precision and 0.93 recall before `more` was there, and was measured twice since. A flag is right if the set
expects one; `prose` are paragraphs of docstrings of the standard library of this Python, of which none is a claim, and
none of which the weights are fitted to: `flagged` is the share that is. `us` is the time for an answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from coordinator.loop.claims import Done, Kind, done_by, unsupported
from coordinator.loop.claims.evidence import FITTED, Weights
from tests.bench.report import line
from tests.support.docstrings import paragraphs

FITTED_TO = 1300
UNSEEN = (FITTED_TO, 2 * FITTED_TO)
FOLDER = Path(__file__).parents[1] / "data"
DEEDS = {
    "saved": ("save", "create"),
    "sent": ("send",),
    "deleted": ("delete", "cancel"),
    "scheduled": ("schedule", "create"),
    "changed": ("change", "switch"),
    "created": ("create", "save", "upload"),
}
"""The effects of the blind set as kinds of deeds, as the tools that have them do them."""


class Row(BaseModel):
    """One answer: the deeds that succeeded, the groups of tools that were read, and whether it is to be flagged."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    text: str
    lang: str
    done: tuple[str, ...]
    read: tuple[str, ...] = ()
    expect: str
    claims: tuple[str, ...] | None = None

    @property
    def claiming(self) -> bool:
        """Whether it claims a deed, supported or not."""
        return self.expect == "flag" if self.claims is None else bool(self.claims)

    @property
    def flagged(self) -> bool:
        """What the guard says."""
        return self.flagged_by(FITTED)

    def flagged_by(self, weights: Weights) -> bool:
        """What it says with these weights."""
        done = [Done(frozenset(Kind(k) for k in DEEDS.get(deed, (deed,)))) for deed in self.done]
        looked = {done_by(group).domain for group in self.read}
        return bool(unsupported(self.text, done, looked=looked, weights=weights))


def rows(name: str) -> list[Row]:
    """The rows of a file in `tests/data`. Nothing is ever fitted to `claims_test.jsonl`, nor changed because of one of
    its rows: it is there to be measured."""
    return [Row.model_validate_json(text) for text in (FOLDER / name).read_text("utf-8").splitlines()]


def explanations(first: int, last: int) -> list[Row]:
    """Paragraphs that claim nothing. Up to `FITTED_TO` of them the weights are fitted to."""
    texts = paragraphs(last)[first:]
    return [Row(text=text, lang="en", done=(), expect="ok") for text in texts]


def scored(found: Iterable[tuple[Row, bool]]) -> tuple[float, float]:
    """Precision and recall of flags."""
    pairs = [(row.expect == "flag", flagged) for row, flagged in found]
    right = sum(expected and flagged for expected, flagged in pairs)
    return right / max(1, sum(flagged for _, flagged in pairs)), right / max(1, sum(expected for expected, _ in pairs))


def _print(name: str, chosen: Sequence[Row]) -> None:
    for row in chosen[:50]:
        _ = row.flagged  # warms the caches of words
    start = time.perf_counter()
    found = [(row, row.flagged) for row in chosen]
    took = (time.perf_counter() - start) / len(chosen)
    for lang in (*sorted({row.lang for row in chosen}), "all"):
        mine = [(row, flagged) for row, flagged in found if lang in (row.lang, "all")]
        precision, recall = scored(mine)
        line("RUN4", set=name, lang=lang, precision=precision, recall=recall, n=len(mine), us=took * 1e6)


def measure() -> None:
    """Prints a line for each set and language."""
    _print("own", rows("claims.jsonl"))
    for name in ("blind", "fresh", "more", "test"):
        _print(name, rows(f"claims_{name}.jsonl"))
    prose = explanations(*UNSEEN)
    line("RUN4", set="prose", flagged=sum(row.flagged for row in prose) / len(prose), n=len(prose))
