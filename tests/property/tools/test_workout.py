"""The notation of training: what is written is read as it was, and nothing but its own error comes out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.tools.exercises import KNOWN
from workers.tools.workout import GRAMS, MAX_SETS, Entry, NotationError, Set, Unit, format_entry, parse_log

pytestmark = pytest.mark.property

REPS = st.integers(1, 200)
UNITS: st.SearchStrategy[Unit] = st.sampled_from(["kg", "lb"])
RPES = st.none() | st.integers(2, 20).map(lambda half: half / 2)


@st.composite
def weights(draw: st.DrawFn) -> Set:
    """A set with repetitions, as it can be written."""
    rpe, failure = draw(RPES), draw(st.booleans())
    reps = draw(REPS if not failure else st.none() | REPS)
    kind = draw(st.sampled_from(["none", "bar", "body", "added"]))
    if kind == "none":
        return Set(reps=reps, rpe=rpe, failure=failure)
    if kind == "body":
        return Set(reps=reps, body=True, rpe=rpe, failure=failure)
    unit = draw(UNITS)
    quarters = draw(st.integers(0, 2000)) if kind == "bar" else draw(st.integers(-400, 400).filter(bool))
    grams = round(quarters / 4 * GRAMS[unit])
    return Set(reps=reps, grams=grams, unit=unit, body=kind == "added", rpe=rpe, failure=failure)


TIMED = st.builds(Set, seconds=st.integers(1, 86_399), meters=st.none() | st.integers(1, 99_999)) | st.builds(
    Set, meters=st.integers(1, 99_999)
)


def _writable(sets: list[Set]) -> bool:
    """A group without a weight takes that of a later one, so it stands last."""
    weighted = [one.grams is not None or one.body for one in sets]
    return weighted == sorted(weighted, reverse=True)


NAMES = st.sampled_from(KNOWN) | st.text("abcdefghijklmnopqrstuvwyz", min_size=4, max_size=12).map(lambda s: f"q{s}q")
ENTRIES = st.builds(
    Entry,
    NAMES,
    (
        st.lists(weights(), min_size=1, max_size=MAX_SETS).filter(_writable) | st.lists(TIMED, min_size=1, max_size=5)
    ).map(tuple),
    st.text("abc xyz,.+@ 8", max_size=20).map(str.strip).map(lambda note: " ".join(note.split())),
)


@given(st.lists(ENTRIES, min_size=1, max_size=4))
def test_what_is_written_is_read(entries: list[Entry]) -> None:
    assert list(parse_log("; ".join(map(format_entry, entries)))) == entries


PIECES = ("press banca", "run", "3x8", "80kg", "@", "100", ",", ";", "(", ")", "+", "-", "rpe 8", "bw", "5 km", "25:30",
          "x", "3x", "60s", "lb", "80x8,8,6", "\n", "kg", "12 reps", "ñ", "İ", "×")  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join) | st.text(max_size=60))
def test_anything_else_is_an_error_of_its_own_with_its_place(text: str) -> None:
    problem = ""
    entries: tuple[Entry, ...] = ()
    try:
        entries = parse_log(text)
    except NotationError as error:
        problem = str(error)
    if problem:
        assert ">>>" in problem or "nothing to log" in problem
    else:
        assert entries
        assert all(entry.exercise and entry.sets for entry in entries)
