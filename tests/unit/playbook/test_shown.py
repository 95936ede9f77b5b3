"""Which bullets a run is shown, and where: a system prompt whose bytes stay, and a tail that fits the message."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.context.playbook import (
    STANDING_CHARS,
    TAIL_BULLETS,
    TAIL_CHARS,
    line,
    meanings_of,
    split,
    that_matter,
)
from coordinator.context.prompt import system_prompt
from coordinator.context.tools import ToolChooser
from shared.contract import Catalogue
from shared.encoder import PackagedEncoder
from shared.playbook import Bullet, Importance, Scope, Vote, display_order, merge
from shared.resemblance import unit

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def bullet(id: str, text: str, when: str = "", importance: Importance = MEDIUM, **values: Any) -> Bullet:
    some = {"scope": Scope.user("ana"), "created_ms": 1, "updated_ms": 1, **values}
    return Bullet(id=id, text=text, when_to_use=when, importance=importance, **some)


def test_what_always_holds_stands_in_the_system_prompt() -> None:
    book = [
        bullet("b1", "Answer in Spanish.", importance=LOW),
        bullet("b2", "Prices with VAT.", "on prices", HIGH),
        bullet("b3", "Titles carry the prefix.", "on notes"),
        bullet("b4", "Weights in kilograms.", "on weights", LOW, pinned=True),
    ]
    standing, situational = split(book)
    assert [one.id for one in standing] == ["b4", "b2", "b1"]
    assert [one.id for one in situational] == ["b3"]


def test_what_has_no_room_in_the_system_prompt_is_situational() -> None:
    book = [bullet(f"b{n:02}", "x" * 490, importance=HIGH) for n in range(30)]
    standing, situational = split(book)
    assert sum(len(line(one)) + 1 for one in standing) <= STANDING_CHARS
    assert len(standing) + len(situational) == 30
    assert situational


def test_a_message_brings_the_bullets_that_are_about_it() -> None:
    notes = bullet("b1", "Titles carry the prefix.", "when saving notes")
    prices = bullet("b2", "With VAT.", "on prices")
    long = [bullet(f"c{n}", "y" * 490 + str(n), "x" * 400) for n in range(3)]
    assert that_matter([notes, prices, *long], "save a note about milk", (), {}) == [notes]
    assert that_matter([notes, prices, *long], "guarda esto", ("notes",), {}) == [notes]


def test_what_cannot_be_judged_is_rather_shown_while_it_is_little() -> None:
    few = [bullet("b1", "Titles carry the prefix.", "when saving notes")]
    assert that_matter(few, "guarda lo de la leche", (), None) == few
    when = meanings_of(few[0])[0]
    vectors = {"guarda lo de la leche": unit((1.0, 0.0)), when: unit((0.0, 1.0))}
    assert that_matter(few, "guarda lo de la leche", (), vectors) == []
    vectors[when] = unit((0.8, 0.5))
    assert that_matter(few, "guarda lo de la leche", (), vectors) == few


BULLETS = st.builds(
    bullet,
    st.integers(0, 10**6).map("b{}".format),
    st.text(st.sampled_from("abcd efgh"), min_size=1, max_size=500),
    st.sampled_from(["", "on notes", "on prices " * 20]),
    st.sampled_from(list(Importance)),
    created_ms=st.integers(0, 5),
    pinned=st.booleans(),
)


@pytest.mark.property
@given(st.lists(BULLETS, max_size=60, unique_by=lambda b: b.id), st.sampled_from(["notes", "prices", "x"]), st.data())
def test_both_places_are_bounded_and_the_prompt_depends_on_the_playbook_alone(
    book: list[Bullet], message: str, data: Any
) -> None:
    standing, situational = split(book)
    assert sorted(standing + situational, key=display_order) == sorted(book, key=display_order)
    shown = that_matter(situational, message, (), None)
    assert len(shown) <= TAIL_BULLETS
    assert sum(len(line(one)) + 1 for one in shown) <= TAIL_CHARS
    assert set(map(id, shown)) <= set(map(id, situational))
    again, _ = split(data.draw(st.permutations(book)))
    assert system_prompt("B", {}, again) == system_prompt("B", {}, standing)


def test_votes_change_no_byte_of_the_prompt() -> None:
    book = [bullet(f"b{n}", f"Rule number {n}.", importance=HIGH, created_ms=n) for n in range(5)]
    voted, _ = merge(book, [Vote(id="b4", helpful=True), Vote(id="b0", helpful=False)], 99, 50)
    assert system_prompt("B", {}, split(voted)[0]) == system_prompt("B", {}, split(book)[0])


class _Fixed(PackagedEncoder):
    """An encoder that says whether it is in memory, and counts what it is asked."""

    def __init__(self, loaded: bool) -> None:
        super().__init__()
        self._model = loaded or None
        self.asked: list[str] = []

    def encode(self, texts: list[str]) -> Any:
        self.asked += texts
        return np.eye(max(1, len(texts)), self.dim, dtype=np.float32)[: len(texts)]


@pytest.mark.parametrize("loaded", [True, False])
def test_the_encoder_is_asked_if_it_is_there_and_is_not_loaded_for_bullets(loaded: bool, tmp_path: Path) -> None:
    encoder = _Fixed(loaded)
    directory: Any = SimpleNamespace(digest=("d",), catalogue=Catalogue())

    async def ask() -> list[Any]:
        chooser = ToolChooser(directory, encoder, tmp_path, 24)
        try:
            return [await chooser.meanings(["a", "b"]), await chooser.meanings(["b", "c"])]
        finally:
            chooser.close()

    first, second = asyncio.run(ask())
    assert encoder.asked == (["a", "b", "c"] if loaded else [])
    assert (first is None, second is None) == (not loaded, not loaded)
    if loaded:
        assert first["b"] == second["b"]
