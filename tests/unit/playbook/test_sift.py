"""New rules against those that there are: duplicates, replacements, tombstones, and learners side by side."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.playbook import Add, Bullet, BulletState, Merge, Operation, Retire, Reword, Scope, Vote, merge
from shared.resemblance import Vector, unit
from workers.learner.sift import sift, texts_of

ANA = Scope.user("ana")
KILOS, KILOS_ES, POUNDS = "Give weights in kilograms.", "Da los pesos en kilogramos.", "Give weights in pounds."
TAGS, SOURCE = "Save notes with a tag.", "Name the source of figures."
VECTORS: dict[str, Vector] = {
    KILOS: unit((1.0, 0.1, 0.0)),
    KILOS_ES: unit((1.0, 0.3, 0.0)),
    POUNDS: unit((0.9, 0.4, 0.0)),
    TAGS: unit((0.0, 1.0, 0.2)),
    SOURCE: unit((0.0, 0.0, 1.0)),
}


def bullet(id: str, text: str, **values: Any) -> Bullet:
    return Bullet(id=id, scope=ANA, text=text, created_ms=1, updated_ms=1, **values)


def add(id: str, text: str) -> Add:
    return Add(id=id, scope=ANA, text=text, when_to_use="sometimes")


def test_what_says_the_same_in_another_language_is_a_vote() -> None:
    done = sift([add("b9", KILOS_ES)], [bullet("b1", KILOS), bullet("b2", TAGS)], [], VECTORS)
    assert done.operations == [Vote(id="b1", helpful=True)]


def test_another_value_of_the_same_thing_takes_its_place() -> None:
    done = sift([add("b9", POUNDS)], [bullet("b1", KILOS)], [], VECTORS)
    [reword] = done.operations
    assert isinstance(reword, Reword)
    assert (reword.id, reword.text, reword.when_to_use) == ("b1", POUNDS, "sometimes")


def test_something_else_is_added() -> None:
    new = add("b9", SOURCE)
    assert sift([new], [bullet("b1", KILOS)], [], VECTORS).operations == [new]


def test_two_of_one_answer_are_one() -> None:
    new = add("b8", KILOS)
    assert sift([new, add("b9", KILOS_ES)], [], [], VECTORS).operations == [new, Vote(id="b8", helpful=True)]


def test_new_words_that_another_rule_has_bring_the_two_together() -> None:
    book = [bullet("b1", KILOS, when_to_use="parcels"), bullet("b2", TAGS)]
    [step] = sift([Reword(id="b2", text=KILOS_ES)], book, [], VECTORS).operations
    assert step == Merge(ids=("b1", "b2"), text=KILOS, when_to_use="parcels")


def test_what_the_user_took_away_is_not_learned_in_other_words() -> None:
    gone = bullet("b1", KILOS, state=BulletState.FORGOTTEN)
    done = sift([add("b9", KILOS_ES), add("b8", POUNDS)], [], [gone], VECTORS)
    assert [type(one) for one in done.operations] == [Add]
    assert "took a rule away" in done.refused[0]


def test_a_merge_that_would_lose_a_rule_is_refused() -> None:
    book = [bullet("b1", KILOS), bullet("b2", KILOS_ES), bullet("b3", TAGS)]
    fine, bad = Merge(ids=("b1", "b2"), text=KILOS), Merge(ids=("b1", "b3"), text=KILOS)
    done = sift([fine, bad], book, [], VECTORS)
    assert done.operations == [fine]
    assert "b3 says would be lost" in done.refused[0]


def test_one_vote_for_a_rule() -> None:
    votes: list[Operation] = [Vote(id="b1", helpful=True), Vote(id="b1", helpful=True), Retire(id="b1")]
    assert sift(votes, [bullet("b1", KILOS)], [], VECTORS).operations == [votes[0], votes[2]]


def test_without_meanings_the_words_decide() -> None:
    book = [bullet("b1", KILOS)]
    assert sift([add("b9", "Always give weights in kilograms")], book, [], None).operations == [
        Vote(id="b1", helpful=True)
    ]
    assert isinstance(sift([add("b9", KILOS_ES)], book, [], None).operations[0], Add)
    assert texts_of([Vote(id="b1", helpful=True)], book) == []


_TEXTS = [KILOS, KILOS_ES, POUNDS, TAGS, SOURCE]


@pytest.mark.property
@given(st.lists(st.lists(st.sampled_from(_TEXTS), min_size=1, max_size=4), min_size=2, max_size=5), st.data())
def test_learners_in_any_order_lose_nothing_and_leave_no_duplicates(learned: list[list[str]], data: Any) -> None:
    """Whatever each brings is there at the end, or what says the same or took its place."""
    ids = (f"b{n}" for n in itertools.count())
    batches: list[list[Operation]] = [[add(next(ids), text) for text in texts] for texts in learned]
    book: tuple[Bullet, ...] = ()
    for batch in data.draw(st.permutations(batches)):
        active = [one for one in book if one.state is BulletState.ACTIVE]
        book, changes = merge(book, sift(batch, active, [], VECTORS).operations, 1, 50)
        assert not any(change.refused for change in changes)
    texts = [one.text for one in book if one.state is BulletState.ACTIVE]
    about_weights = [text for text in texts if text in (KILOS, KILOS_ES, POUNDS)]
    said = {text for texts_ in learned for text in texts_}
    assert len(about_weights) == bool(said & {KILOS, KILOS_ES, POUNDS})
    assert {TAGS, SOURCE} & said == {TAGS, SOURCE} & set(texts)
