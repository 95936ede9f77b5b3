"""RUN4: how well the claims guard tells answers that claim what no tool did from those that do not.

`own` are the answers that it was developed with; `blind` and `fresh` were written by people who had not seen it, and
read afterwards, so their figures of today flatter. What was measured before anything of a set was read: `blind` 0.90
precision and 0.50 recall, of its even lines later 0.94 and 0.78; `fresh` 0.92 and 0.92, with weighed words 0.91 and
0.93. The weights are fitted to `own` and `blind` (`claims_fit.py`), not to `fresh`. A flag is right if the set expects
one; `prose` are sentences of docstrings of Python's standard library, of which none is a claim: `flagged` is the share
that is. `us` is the time for an answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from coordinator.loop.claims import Done, Kind, done_by, unsupported
from tests.bench.report import line

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
        done = [Done(frozenset(Kind(k) for k in DEEDS.get(deed, (deed,)))) for deed in self.done]
        return bool(unsupported(self.text, done, looked={done_by(group).domain for group in self.read}))


def rows(name: str) -> list[Row]:
    """The rows of a file in `tests/data`."""
    return [Row.model_validate_json(text) for text in (FOLDER / name).read_text("utf-8").splitlines()]


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
    for name, file in (("own", "claims.jsonl"), ("blind", "claims_blind.jsonl"), ("fresh", "claims_fresh.jsonl")):
        _print(name, rows(file))
    prose = rows("claims_prose.jsonl")
    line("RUN4", set="prose", flagged=sum(row.flagged for row in prose) / len(prose), n=len(prose))
