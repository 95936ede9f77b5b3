"""Vectors kept with bullets, what was forgotten, and learners in threads that compare by meaning."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from shared.errors import StateConflict
from shared.meanings import to_bytes
from shared.playbook import Add, BulletState, Operation, Retire, Reword, Scope, Vote
from shared.resemblance import Vector, unit
from shared.sql import Database, playbook, retention
from workers.learner.sift import sift

ANA = Scope.user("ana")
A, B = to_bytes((1.0, 0.0)), to_bytes((0.0, 1.0))


def change(db: Database, *operations: Operation, by_user: bool = False, now: int = 1) -> None:
    version = db.run_sync(lambda c: playbook.read(c, ANA)).version
    db.run_sync(lambda c: playbook.apply(c, ANA, operations, version=version, now_ms=now, limit=50, by_user=by_user))


def test_a_vector_is_that_of_the_words_and_of_one_encoder(db: Database) -> None:
    change(db, Add(id="b1", scope=ANA, text="one"), Add(id="b2", scope=ANA, text="two"))
    db.run_sync(lambda c: playbook.keep_vectors(c, ANA, "e1", {"one": A, "other": B}))
    assert db.run_sync(lambda c: playbook.vectors(c, ANA, "e1")) == {"one": A}
    assert db.run_sync(lambda c: playbook.vectors(c, ANA, "e2")) == {}
    change(db, Vote(id="b1", helpful=True))
    assert db.run_sync(lambda c: playbook.vectors(c, ANA, "e1")) == {"one": A}
    change(db, Reword(id="b1", text="uno"))
    assert db.run_sync(lambda c: playbook.vectors(c, ANA, "e1")) == {}


def test_what_the_user_takes_away_stays_as_a_sign_and_is_never_swept(db: Database) -> None:
    change(db, Add(id="b1", scope=ANA, text="one"), Add(id="b2", scope=ANA, text="two"), Retire(id="b2"))
    db.run_sync(lambda c: playbook.keep_vectors(c, ANA, "e1", {"one": A}))
    change(db, Retire(id="b1"), by_user=True, now=5)
    gone = db.run_sync(lambda c: playbook.forgotten(c, ANA))
    assert [(one.id, one.state) for one in gone] == [("b1", BulletState.FORGOTTEN)]
    assert db.run_sync(lambda c: playbook.vectors(c, ANA, "e1")) == {"one": A}
    assert db.run_sync(lambda c: retention.retired_bullets(c, 1_000, 10)) == 1
    found = db.run_sync(lambda c: playbook.find(c, "b1"))
    assert found is not None
    assert found.text == "one"
    assert db.run_sync(lambda c: playbook.find(c, "b2")) is None
    assert db.run_sync(playbook.scopes) == []


def test_an_archived_bullet_can_be_forgotten_too(db: Database) -> None:
    change(db, Add(id="b1", scope=ANA, text="one"), Retire(id="b1"))
    change(db, Retire(id="b1"), by_user=True)
    assert [one.id for one in db.run_sync(lambda c: playbook.forgotten(c, ANA))] == ["b1"]


def test_what_was_added_and_is_rolled_back_is_forgotten(db: Database) -> None:
    change(db, Add(id="b1", scope=ANA, text="one"))
    [entry] = db.run_sync(lambda c: playbook.ledger(c, ANA))
    db.run_sync(lambda c: playbook.rollback(c, ANA, entry.id, now_ms=2, limit=50))
    assert [one.id for one in db.run_sync(lambda c: playbook.forgotten(c, ANA))] == ["b1"]


def test_threads_that_learn_the_same_in_other_words_leave_one_bullet(db: Database) -> None:
    texts = ["Weights in kilograms.", "Pesos en kilogramos.", "Kilos, please.", "kg for all weights"]
    vectors: dict[str, Vector] = {text: unit((1.0, n / 10)) for n, text in enumerate(texts)}
    vectors |= {f"Rule about {n}": unit([0.0, 0.0] + [float(n == k) for k in range(8)]) for n in range(8)}

    def learn(number: int) -> None:
        mine: list[Operation] = [
            Add(id=f"k{number}", scope=ANA, text=texts[number % 4]),
            Add(id=f"n{number}", scope=ANA, text=f"Rule about {number}"),
        ]
        while True:
            book = db.run_sync(lambda c: playbook.read(c, ANA))
            steps = sift(mine, book.bullets, [], vectors).operations
            try:
                db.run_sync(
                    partial(
                        playbook.apply,
                        scope=ANA,
                        operations=steps,
                        version=book.version,
                        now_ms=1,
                        limit=50,
                        run=f"r{number}",
                    )
                )
            except StateConflict:
                continue
            return

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(learn, range(8)))
    bullets = db.run_sync(lambda c: playbook.read(c, ANA)).bullets
    about = [one for one in bullets if one.text in texts]
    assert len(about) == 1
    assert about[0].helpful == 7
    assert {one.text for one in bullets} - set(texts) == {f"Rule about {n}" for n in range(8)}
