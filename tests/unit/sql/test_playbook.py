from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.errors import StateConflict, UserError
from shared.playbook import Add, Bullet, BulletState, Importance, Merge, Operation, Pin, Retire, Reword, Scope, Vote
from shared.sql import Database, playbook
from shared.sql.playbook import Applied

ANA, EVA = Scope.user("ana"), Scope.user("eva")


def add(id: str, scope: Scope = ANA, importance: Importance = Importance.MEDIUM) -> Add:
    return Add(id=id, scope=scope, text=f"rule {id}", importance=importance, provenance={"run": "r1", "n": [1]})


def apply(
    db: Database,
    *operations: Operation,
    version: int,
    scope: Scope = ANA,
    limit: int = 50,
    run: str = "",
    by_user: bool = False,
    now: int = 1,
) -> Applied:
    return db.run_sync(
        lambda c: playbook.apply(
            c, scope, operations, version=version, now_ms=now, limit=limit, run=run, by_user=by_user
        )
    )


def texts(db: Database, scope: Scope = ANA) -> list[str]:
    return [bullet.text for bullet in db.run_sync(lambda c: playbook.read(c, scope)).bullets]


def test_bullets_come_back_as_merge_made_them(db: Database) -> None:
    done = apply(db, add("b1"), add("b2"), Vote(id="b1", helpful=True), Pin(id="b2"), version=0, by_user=True, now=7)
    assert done.playbook.version == 1
    assert [bullet.id for bullet in done.playbook.bullets] == ["b2", "b1"]
    assert done.playbook == db.run_sync(lambda c: playbook.read(c, ANA))
    assert done.playbook.bullets[1] == Bullet(
        id="b1",
        scope=ANA,
        text="rule b1",
        helpful=1,
        provenance={"run": "r1", "n": [1]},
        created_ms=7,
        updated_ms=7,
        last_used_ms=7,
    )


def test_of_two_learners_the_slower_one_must_read_again(db: Database) -> None:
    apply(db, add("b1"), version=0)
    with pytest.raises(StateConflict, match="version 1, not 0"):
        apply(db, add("b2"), version=0)
    assert texts(db) == ["rule b1"]
    assert apply(db, add("b2"), version=1).playbook.version == 2
    assert texts(db) == ["rule b1", "rule b2"]


def test_many_learners_at_once_lose_nothing(db: Database) -> None:
    apply(db, add("b0"), version=0)

    def learn(number: int) -> int:
        lost = 0
        while True:
            seen = db.run_sync(lambda c: playbook.read(c, ANA)).version
            try:
                apply(db, Vote(id="b0", helpful=True), add(f"b{number}"), version=seen, run=f"r{number}")
            except StateConflict:
                lost += 1
            else:
                return lost

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(learn, range(1, 25)))
    final = db.run_sync(lambda c: playbook.read(c, ANA))
    assert (final.version, len(final.bullets), max(b.helpful for b in final.bullets)) == (25, 25, 24)


def test_what_was_learned_from_a_run_is_learned_once(db: Database) -> None:
    apply(db, add("b1"), Vote(id="b1", helpful=True), version=0, run="r1")
    again = apply(db, Vote(id="b1", helpful=True), version=0, run="r1")
    assert again.changes == ()
    assert [bullet.helpful for bullet in again.playbook.bullets] == [1]


def test_refused_operations_change_neither_version_nor_ledger(db: Database) -> None:
    apply(db, add("b1"), version=0)
    done = apply(db, Vote(id="nothing", helpful=True), add("b1"), version=1)
    assert all(change.refused for change in done.changes)
    assert done.playbook.version == 1
    assert len(db.run_sync(lambda c: playbook.ledger(c, ANA))) == 1


def test_the_surplus_is_archived_not_destroyed_and_its_ids_stay_used(db: Database) -> None:
    for number in range(6):
        importance = Importance.LOW if number == 2 else Importance.MEDIUM
        apply(db, add(f"b{number}", importance=importance), version=number, limit=4, now=number)
    assert texts(db) == ["rule b1", "rule b3", "rule b4", "rule b5"]
    archived = db.run_sync(lambda c: playbook.retired(c, ANA))
    assert {bullet.id for bullet in archived} == {"b0", "b2"}
    assert "exists already" in apply(db, add("b2"), version=6, limit=4).changes[0].refused


def test_every_change_is_in_the_ledger_newest_first(db: Database) -> None:
    apply(db, add("b1"), add("b2"), version=0, run="r1", now=3)
    apply(db, Merge(ids=("b1", "b2"), text="both"), version=1, run="r2", now=4)
    entries = db.run_sync(lambda c: playbook.ledger(c, ANA))
    assert [(e.change.operation.kind, e.at_ms, e.run) for e in entries] == [
        ("merge", 4, "r2"),
        ("add", 3, "r1"),
        ("add", 3, "r1"),
    ]
    assert [bullet.text for bullet in entries[0].change.before] == ["rule b1", "rule b2"]
    assert [bullet.text for bullet in entries[0].change.after] == ["both", "rule b2"]
    older = db.run_sync(lambda c: playbook.ledger(c, ANA, before=entries[0].id, limit=1))
    assert older == [entries[1]]


def test_a_rollback_restores_and_is_itself_in_the_ledger_and_can_be_rolled_back(db: Database) -> None:
    apply(db, add("b1"), Reword(id="b1", text="worse"), version=0)
    [reword, _] = db.run_sync(lambda c: playbook.ledger(c, ANA))
    done = db.run_sync(lambda c: playbook.rollback(c, ANA, reword.id, now_ms=9, limit=50))
    assert done.playbook.version == 2
    assert texts(db) == ["rule b1"]
    [rollback, *_] = db.run_sync(lambda c: playbook.ledger(c, ANA))
    assert rollback.change.operation.kind == "rollback"
    with pytest.raises(StateConflict):
        db.run_sync(lambda c: playbook.rollback(c, ANA, reword.id, now_ms=9, limit=50))
    db.run_sync(lambda c: playbook.rollback(c, ANA, rollback.id, now_ms=9, limit=50))
    assert texts(db) == ["worse"]


def test_a_rollback_brings_an_archived_bullet_back_within_the_bound(db: Database) -> None:
    apply(db, add("b1"), add("b2"), Retire(id="b1"), add("b3"), version=0, limit=2)
    retire = db.run_sync(lambda c: playbook.ledger(c, ANA))[1]
    db.run_sync(lambda c: playbook.rollback(c, ANA, retire.id, now_ms=9, limit=2))
    back = db.run_sync(lambda c: playbook.read(c, ANA)).bullets
    assert len(back) == 2
    assert "b1" in [bullet.id for bullet in back]


def test_playbooks_are_apart(db: Database) -> None:
    apply(db, add("b1"), version=0, run="r1")
    [entry] = db.run_sync(lambda c: playbook.ledger(c, ANA))
    assert texts(db, EVA) == []
    assert texts(db, Scope.agent("ana", "main")) == []
    for operation in (Vote(id="b1", helpful=False), Reword(id="b1", text="hers"), Retire(id="b1")):
        assert apply(db, operation, version=0, scope=EVA, by_user=True).changes[0].refused
    with pytest.raises(UserError):
        apply(db, add("b1", EVA), version=0, scope=EVA)
    with pytest.raises(UserError):
        apply(db, add("b9", ANA), version=0, scope=EVA)
    with pytest.raises(UserError):
        db.run_sync(lambda c: playbook.rollback(c, EVA, entry.id, now_ms=9, limit=50))
    assert db.run_sync(lambda c: playbook.ledger(c, EVA)) == []
    assert db.run_sync(lambda c: playbook.retired(c, EVA)) == []
    assert texts(db) == ["rule b1"]
    assert apply(db, add("b2", EVA), version=0, scope=EVA, run="r1").playbook.version == 1


def test_a_prompt_reads_several_playbooks_in_one_order(db: Database) -> None:
    agent = Scope.agent("ana", "main")
    apply(db, add("b1"), add("b2", importance=Importance.HIGH), version=0, now=1)
    apply(db, add("b3", agent, Importance.HIGH), version=0, scope=agent, now=2)
    apply(db, add("b4", EVA, Importance.HIGH), version=0, scope=EVA, now=2)
    shown = db.run_sync(lambda c: playbook.active(c, [ANA, agent]))
    assert [bullet.id for bullet in shown] == ["b2", "b3", "b1"]
    assert db.run_sync(lambda c: playbook.active(c, [])) == []
    assert all(bullet.state is BulletState.ACTIVE for bullet in shown)
