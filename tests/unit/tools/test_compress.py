from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.compress import cap, clean_text, snippet


def test_what_fits_is_left_alone() -> None:
    assert cap("x" * 8000) == ("x" * 8000, False)


def test_text_keeps_head_tail_and_the_handle() -> None:
    text = "HEAD" + "x" * 20_000 + "TAIL"
    capped, cut = cap(text, 1_000, "a:123")
    assert cut
    assert len(capped) <= 1_000
    assert capped.startswith("HEAD")
    assert capped.endswith("TAIL")
    assert f"{len(text)} characters" in capped
    assert "read_artifact(handle=a:123)" in capped


def test_json_stays_json_and_says_what_was_left_out() -> None:
    value = {"hits": [{"title": f"hit {n}", "body": "word " * 300} for n in range(200)], "total": 200}
    capped, cut = cap(json.dumps(value), 4_000, "a:123")
    found = json.loads(capped)
    assert cut
    assert len(capped) <= 4_000
    assert found["total"] == 200
    assert found["hits"][0]["title"] == "hit 0"
    assert "more" in found["hits"][-1]
    assert "a:123" in found["_cut"]


def test_a_long_array_is_cut_at_its_end() -> None:
    found = json.loads(cap(json.dumps(list(range(10_000))), 1_000)[0])
    assert found[:3] == [0, 1, 2]
    assert "more" in found[-2]


def test_json_that_nothing_shortens_is_still_json() -> None:
    wide = {f"{n}" * 3: {f"k{m}": 1 for m in range(50)} for n in range(300)}
    found = json.loads(cap(json.dumps(wide), 200)[0])
    assert "_cut" in found


def test_what_only_looks_like_json_is_text() -> None:
    capped, _ = cap("{" + "x" * 10_000, 500)
    assert capped.startswith("{xxx")
    capped, _ = cap('{"a": NaN, "b": "' + "x" * 10_000 + '"}', 500)
    assert "the middle is left out" in capped
    assert len(cap("[" * 100_000, 500)[0]) <= 500


def test_a_limit_without_room_for_the_note_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="200"):
        cap("x" * 300, 100)


def test_clean_text() -> None:
    assert clean_text("  a \t b\r\n\r\n\r\nb\nb\n\n\n c\u00a0d \n") == "a b\n\nb\n\nc d"


def test_snippet_cuts_at_a_word() -> None:
    assert snippet("one  two\nthree", 50) == "one two three"
    assert snippet("alpha beta gamma delta", 16) == "alpha beta…"
    assert len(snippet("x" * 500)) == 120


def test_what_nobody_sees_is_left_out() -> None:
    preview = "Your order\u034f \u200c \u00a0 \u034f \u200c \u00a0\u2007\u00ad has\ufeff left"
    assert clean_text(preview) == "Your order has left"
    assert clean_text("می\u200cخواهم 👩\u200d💻") == "می\u200cخواهم 👩\u200d💻", "between letters it is spelling"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(max_size=80), inner, max_size=20),
    max_leaves=60,
)


@pytest.mark.property
@given(value=JSON, limit=st.integers(200, 3_000), size=st.integers(1, 200))
def test_json_is_json_however_it_is_cut(value: object, limit: int, size: int) -> None:
    text = json.dumps([value] * size, ensure_ascii=False)
    capped, cut = cap(text, limit, "a:" + "0" * 32)
    assert len(capped) <= max(limit, 200) or not cut
    assert isinstance(json.loads(capped), list | dict)
    assert cut is (len(text) > limit)
