"""The documents of DAG6 in their shorter forms: what is left out is prose, never what the measurement needs."""

from __future__ import annotations

import re

import pytest

from ops.demo import DOCUMENTS, facts
from tests.bench.elision import ABRIDGED, REVIEWS, abridged

TEXTS = {path.name: path.read_text("utf-8") for path in DOCUMENTS.glob("*.md") if path.name != "AGENTS.md"}


@pytest.mark.parametrize("most", [0, *ABRIDGED, 100_000])
def test_figures_and_names_stay(most: int) -> None:
    short = {name: abridged(text, most) for name, text in TEXTS.items()}
    assert all(fact.stated_in("\n".join(short.values())) for fact in facts())
    for name, text in TEXTS.items():
        assert re.findall(REVIEWS, short[name], re.MULTILINE) == re.findall(REVIEWS, text, re.MULTILINE)
        assert [row for row in text.splitlines() if row.startswith("- ") and ": " in row] == [
            row for row in short[name].splitlines() if row.startswith("- ") and ": " in row
        ]


@pytest.mark.parametrize("most", ABRIDGED)
def test_they_are_as_short_as_they_should_be(most: int) -> None:
    assert all(len(abridged(text, most)) <= max(most, len(abridged(text, 0))) for text in TEXTS.values())


def test_the_shipped_ones_are_as_long_as_pages_are() -> None:
    assert all(2000 <= len(text) <= 4000 for text in TEXTS.values())
