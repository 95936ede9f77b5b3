from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import StateConflict
from shared.playbook import (
    Add,
    Bullet,
    BulletState,
    Change,
    Importance,
    Merge,
    Operation,
    Pin,
    Retire,
    Reword,
    Scope,
    Vote,
    display_order,
    merge,
    revert,
)

SCOPE = Scope.user("ana")


def add(id: str, text: str = "", importance: Importance = Importance.MEDIUM) -> Add:
    return Add(id=id, scope=SCOPE, text=text or f"rule {id}", importance=importance)


def apply(
    operations: Sequence[Operation],
    bullets: Sequence[Bullet] = (),
    *,
    now: int = 1,
    limit: int = 50,
    by_user: bool = False,
) -> tuple[dict[str, Bullet], tuple[Change, ...]]:
    after, changes = merge(bullets, operations, now, limit, by_user=by_user)
    return {bullet.id: bullet for bullet in after}, changes


def active(book: dict[str, Bullet]) -> list[str]:
    return [bullet.id for bullet in book.values() if bullet.state is BulletState.ACTIVE]


def refusal(operation: Operation, book: dict[str, Bullet], *, limit: int = 50, by_user: bool = False) -> str:
    after, [change] = apply([operation], list(book.values()), now=9, limit=limit, by_user=by_user)
    assert after == book
    assert change.before == change.after == ()
    return change.refused


def test_operations_build_on_each_other() -> None:
    book, changes = apply(
        [add("b1"), Reword(id="b1", text="use  the\nAPI", importance=Importance.HIGH), Vote(id="b1", helpful=True)],
        now=5,
    )
    assert book["b1"] == Bullet(
        id="b1",
        scope=SCOPE,
        text="use the API",
        importance=Importance.HIGH,
        helpful=1,
        created_ms=5,
        updated_ms=5,
        last_used_ms=5,
        version=2,
    )
    assert [len(change.before) for change in changes] == [0, 1, 1]


def test_a_merge_keeps_votes_and_the_highest_importance_and_retires_the_rest() -> None:
    book, _ = apply(
        [
            add("b1", importance=Importance.LOW),
            add("b2", importance=Importance.HIGH),
            Vote(id="b1", helpful=True),
            Vote(id="b2", helpful=True),
            Vote(id="b2", helpful=False),
            Merge(ids=("b1", "b2"), text="both"),
        ]
    )
    assert active(book) == ["b1"]
    assert (book["b1"].text, book["b1"].helpful, book["b1"].harmful) == ("both", 2, 1)
    assert book["b1"].importance is Importance.HIGH
    assert book["b2"].text == "rule b2"


def test_what_cannot_be_done_is_refused_with_its_reason() -> None:
    book, _ = apply([add("b1"), add("b2"), add("gone"), Retire(id="gone", reason="wrong")])
    assert "exists already" in refusal(add("b1", "new"), book)
    assert "exists already" in refusal(add("gone", "new"), book)
    assert "b1 says the same" in refusal(add("b3", " RULE   b1 "), book)
    assert "b1 says the same" in refusal(Reword(id="b2", text="Rule b1"), book)
    assert "empty" in refusal(add("b3", " \n"), book)
    assert "500" in refusal(add("b3", "x" * 501), book)
    assert "no active bullet" in refusal(Vote(id="gone", helpful=True), book)
    assert "no active bullet" in refusal(Retire(id="unknown"), book)
    assert "nothing to change" in refusal(Reword(id="b1"), book)
    assert "two or more" in refusal(Merge(ids=("b1",), text="x"), book)
    assert "two or more" in refusal(Merge(ids=("b1", "b1"), text="x"), book)
    assert "only the user" in refusal(Pin(id="b1"), book)


def test_a_pinned_bullet_is_the_users() -> None:
    book, _ = apply([add("b1"), add("b2"), Pin(id="b1")], by_user=True)
    for operation in (Reword(id="b1", text="x"), Retire(id="b1"), Merge(ids=("b2", "b1"), text="x")):
        assert "pinned" in refusal(operation, book)
    changed, _ = apply([Reword(id="b1", text="mine"), Retire(id="b1")], list(book.values()), by_user=True)
    assert changed["b1"].state is BulletState.FORGOTTEN


def test_pins_never_take_all_of_more_places_than_there_are() -> None:
    book, _ = apply([add("b1"), Pin(id="b1")], limit=1, by_user=True)
    after, changes = apply([add("b2"), Pin(id="b2")], list(book.values()), limit=1, by_user=True)
    assert "places" in changes[1].refused
    assert active(after) == ["b1"]


def test_invisible_and_breaking_characters_do_not_reach_a_prompt() -> None:
    book, _ = apply([add("b1", "one\u2028# System\u202e\x00two\ud800")])
    assert book["b1"].text == "one # Systemtwo"


def test_harmful_then_unimportant_then_unvoted_then_long_unused_make_room_first() -> None:
    start, _ = apply(
        [add("harmful", importance=Importance.HIGH), add("low", importance=Importance.LOW), add("old")], now=1
    )
    start, _ = apply([add("used"), add("voted"), Vote(id="harmful", helpful=False)], list(start.values()), now=2)
    start, _ = apply([Vote(id="voted", helpful=True)], list(start.values()), now=3)
    gone = []
    for limit in (4, 3, 2, 1, 0):
        _, changes = apply([], list(start.values()), now=9, limit=limit)
        assert all(isinstance(c.operation, Retire) and c.operation.reason == "limit" for c in changes)
        gone = [change.after[0].id for change in changes]
    assert gone == ["harmful", "low", "old", "used", "voted"]


def test_display_order_is_pinned_then_importance_then_age() -> None:
    first, _ = apply(
        [add("old"), add("low", importance=Importance.LOW), add("pin"), Pin(id="pin")], now=1, by_user=True
    )
    book, _ = apply([add("new"), add("high", importance=Importance.HIGH)], list(first.values()), now=2)
    assert list(book) == ["pin", "high", "old", "new", "low"]
    voted, _ = apply([Vote(id="new", helpful=True), Vote(id="old", helpful=False)], list(book.values()), now=3)
    assert list(voted) == list(book)


def test_a_rollback_takes_its_own_votes_away_and_leaves_later_ones() -> None:
    book, changes = apply([add("b1"), add("b2"), Vote(id="b2", helpful=True), Merge(ids=("b1", "b2"), text="both")])
    later, _ = apply([Vote(id="b1", helpful=True)], list(book.values()), now=5)
    back, _ = revert(later.values(), 7, changes[-1], 6, 50)
    restored = {bullet.id: bullet for bullet in back}
    assert {id: (b.text, b.helpful, b.state) for id, b in restored.items()} == {
        "b1": ("rule b1", 1, BulletState.ACTIVE),
        "b2": ("rule b2", 1, BulletState.ACTIVE),
    }


def test_a_rollback_under_later_changes_is_a_conflict() -> None:
    book, changes = apply([add("b1"), Reword(id="b1", text="second"), Reword(id="b1", text="third")])
    with pytest.raises(StateConflict, match="later change"):
        revert(book.values(), 2, changes[1], 6, 50)


IDS = st.sampled_from([f"b{n}" for n in range(8)])
IMPORTANCE = st.sampled_from(Importance)
TEXT = st.text("ab \n", max_size=4)
OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Add, id=IDS, scope=st.just(SCOPE), text=TEXT, importance=IMPORTANCE),
    st.builds(Add, id=IDS, scope=st.just(SCOPE), text=st.uuids().map(str), importance=IMPORTANCE),
    st.builds(Reword, id=IDS, text=st.none() | TEXT, importance=st.none() | IMPORTANCE),
    st.builds(Merge, ids=st.lists(IDS, max_size=3).map(tuple), text=st.uuids().map(str)),
    st.builds(Retire, id=IDS),
    st.builds(Vote, id=IDS, helpful=st.booleans()),
    st.builds(Pin, id=IDS, pinned=st.booleans()),
)
BATCHES = st.lists(st.tuples(st.lists(OPERATIONS, max_size=6), st.booleans()), max_size=8)


def replay(batches: list[tuple[list[Operation], bool]], limit: int) -> tuple[list[Bullet], list[Change]]:
    bullets: list[Bullet] = []
    ledger: list[Change] = []
    for now, (batch, by_user) in enumerate(batches, start=1):
        known = {bullet.id for bullet in bullets}
        pinned = [bullet for bullet in bullets if bullet.pinned]
        after, changes = merge(bullets, batch, now, limit, by_user=by_user)
        assert known <= {bullet.id for bullet in after}  # nothing is destroyed
        if not by_user:
            content = {(b.id, b.text, b.importance, b.state) for b in after}
            assert {(b.id, b.text, b.importance, b.state) for b in pinned} <= content
        bullets = list(after)
        ledger += [change for change in changes if not change.refused]
    return bullets, ledger


@pytest.mark.property
@given(BATCHES, st.integers(0, 5))
def test_the_playbook_stays_bounded_ordered_and_without_duplicates(
    batches: list[tuple[list[Operation], bool]], limit: int
) -> None:
    bullets, _ = replay(batches, limit)
    live = [bullet for bullet in bullets if bullet.state is BulletState.ACTIVE]
    assert len(live) <= limit
    assert len({bullet.text.casefold() for bullet in live}) == len(live)
    assert bullets == sorted(bullets, key=display_order)
    assert not any(bullet.pinned for bullet in bullets if bullet.state is BulletState.RETIRED)


@pytest.mark.property
@given(BATCHES, st.integers(0, 5))
def test_the_ledger_tells_the_whole_story(batches: list[tuple[list[Operation], bool]], limit: int) -> None:
    bullets, ledger = replay(batches, limit)
    told: dict[str, Bullet] = {}
    for change in ledger:
        assert all(told[bullet.id] == bullet for bullet in change.before)
        added = {bullet.id for bullet in change.after} - {bullet.id for bullet in change.before}
        assert not added & set(told)
        told.update((bullet.id, bullet) for bullet in change.after)
    assert told == {bullet.id: bullet for bullet in bullets}
    assert all(Change.model_validate_json(change.model_dump_json()) == change for change in ledger)


@pytest.mark.property
@given(BATCHES, st.integers(3, 5))
def test_rolling_back_everything_leaves_only_what_was_there(
    batches: list[tuple[list[Operation], bool]], limit: int
) -> None:
    bullets, ledger = replay(batches, limit)
    for number, change in reversed(list(enumerate(ledger))):
        after, _ = revert(bullets, number, change, 99, 1000)
        restored = {bullet.id: bullet for bullet in after}
        for old in change.before:
            new = restored[old.id]
            same = ("text", "when_to_use", "importance", "state", "pinned", "helpful", "harmful")
            assert [getattr(new, name) for name in same] == [getattr(old, name) for name in same]
        bullets = list(after)
    assert not any(bullet.state is BulletState.ACTIVE for bullet in bullets)


@pytest.mark.property
@given(BATCHES, st.lists(OPERATIONS, max_size=6), st.integers(0, 5), st.integers(0, 2**32).map(Random))
def test_the_order_in_which_bullets_are_read_does_not_matter(
    batches: list[tuple[list[Operation], bool]], batch: list[Operation], limit: int, random: Random
) -> None:
    bullets, _ = replay(batches, limit)
    shuffled = list(bullets)
    random.shuffle(shuffled)
    assert merge(bullets, batch, 50, limit)[0] == merge(shuffled, batch, 50, limit)[0]
