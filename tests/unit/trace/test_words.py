from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.trace.words import cells, clip, compact, one_line, plain, took

_ANY = st.text(st.characters(), max_size=80)


@pytest.mark.property
@given(_ANY)
def test_plain_text_neither_steers_a_terminal_nor_breaks_xml(text: str) -> None:
    shown = plain(text)
    assert len(shown) == len(text)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Cn") and c not in "\n\t"]
    assert not set(shown) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068")


@pytest.mark.property
@given(_ANY.map(one_line), st.integers(0, 40))
def test_clip_keeps_the_width(text: str, most: int) -> None:
    cut = clip(text, most)
    assert cells(cut) <= most
    assert cut == text if cells(text) <= most else cut.endswith("…") or most == 0


def test_wide_characters_count_twice_and_accents_not_at_all() -> None:
    assert cells("日本") == 4
    assert cells("e\u0301") == 1
    assert clip("日本語", 5) == "日本…"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (2345, "2.35 s"),
        (41_000, "41.0 s"),
        (185_000, "3 min 05 s"),
        (7_620_000, "2 h 07 min"),
    ],
)
def test_lengths_of_time(ms: int, text: str) -> None:
    assert took(ms) == text


def test_values_as_one_line() -> None:
    assert compact({"a": [1, "ñ"]}) == '{"a": [1, "ñ"]}'
    assert compact("two\n  lines") == "two lines"
