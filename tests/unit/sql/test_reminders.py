import threading

import pytest

from shared.sql import Database, reminders
from shared.sql.reminders import CLAIM_MS, Reminder, ReminderState


def add(db: Database, text: str, due_ms: int, who: str = "ana", rule: str | None = None) -> Reminder:
    return db.run_sync(lambda c: reminders.add(c, who, text=text, due_ms=due_ms, session="s", now_ms=1, rule=rule))


def claim(db: Database, mark: str, now_ms: int) -> list[str]:
    return [one.text for one in db.run_sync(lambda c: reminders.claim_due(c, mark, now_ms))]


def tell(db: Database, one: Reminder, run: str, following: int | None = None, who: str = "ana") -> Reminder | None:
    return db.run_sync(lambda c: reminders.tell(c, who, one.id, one.due_ms, run, lambda _: following))


def test_due_reminders_come_in_order_and_only_when_their_time_has_come(db: Database) -> None:
    late, early, future = add(db, "b", 20), add(db, "a", 10, "eva"), add(db, "c", 10**15)
    assert db.run_sync(lambda c: reminders.due(c, 9)) == []
    assert db.run_sync(lambda c: reminders.due(c, 20)) == [early, late]
    assert db.run_sync(lambda c: reminders.due(c, 10**15, limit=1)) == [early]
    assert future in db.run_sync(lambda c: reminders.due(c, 10**15))


def test_a_reminder_is_claimed_by_one_and_by_the_same_one_again(db: Database) -> None:
    add(db, "b", 20), add(db, "a", 10, "eva"), add(db, "later", 10**15)
    assert db.run_sync(lambda c: reminders.any_due(c, 30))
    assert claim(db, "slot-1", 30) == ["a", "b"]
    assert claim(db, "slot-2", 31) == []
    assert not db.run_sync(lambda c: reminders.any_due(c, 31))
    assert claim(db, "slot-1", 32) == ["a", "b"]


def test_a_claim_of_one_that_died_runs_out(db: Database) -> None:
    one = add(db, "a", 10)
    claim(db, "slot-1", 30)
    assert claim(db, "slot-2", 30 + CLAIM_MS) == ["a"]
    assert tell(db, one, "r1") is not None
    assert claim(db, "slot-3", 10**12) == []


@pytest.mark.parametrize("rounds", range(3))
def test_two_claimers_at_once_share_without_overlap(db: Database, rounds: int) -> None:
    names = [f"n{n:02}" for n in range(30)]
    for name in names:
        add(db, name, 10)
    found: dict[str, list[str]] = {}
    start = threading.Barrier(2)

    def claimer(mark: str) -> None:
        start.wait()
        found[mark] = []
        while some := [
            one.text for one in db.run_sync(lambda c: reminders.claim_due(c, f"{mark}{len(found[mark])}", 30, limit=4))
        ]:
            found[mark] += some

    threads = [threading.Thread(target=claimer, args=(mark,)) for mark in ("x", "y")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found["x"] + found["y"]) == names


def test_one_run_tells_it_as_often_as_it_asks(db: Database) -> None:
    one = add(db, "a", 10)
    told = tell(db, one, "r1")
    assert told is not None
    assert (told.state, told.told_by, told.told_due_ms) == (ReminderState.FIRED, "r1", 10)
    assert tell(db, one, "r1") == told
    assert tell(db, one, "r2") is None
    assert db.run_sync(lambda c: reminders.due(c, 99)) == []
    assert not db.run_sync(lambda c: reminders.cancel(c, "ana", one.id))


def test_what_repeats_goes_on_and_every_time_is_told_once(db: Database) -> None:
    one = add(db, "a", 10, rule="FREQ=HOURLY")
    claim(db, "slot", 11)
    told = tell(db, one, "r1", following=110)
    assert told is not None
    assert (told.state, told.due_ms, told.claim) == (ReminderState.PENDING, 110, None)
    assert tell(db, one, "r1", following=110) == told
    assert tell(db, one, "r2", following=110) is None
    assert claim(db, "slot", 12) == []
    assert claim(db, "slot", 111) == ["a"]
    assert tell(db, told, "r2") is not None


def test_what_is_changed_or_cancelled_meanwhile_is_not_told(db: Database) -> None:
    moved, gone = add(db, "a", 10), add(db, "b", 10)
    claim(db, "slot", 11)
    db.run_sync(lambda c: reminders.change(c, "ana", moved.id, due_ms=50))
    db.run_sync(lambda c: reminders.cancel(c, "ana", gone.id))
    assert tell(db, moved, "r1") is None
    assert tell(db, gone, "r1") is None
    assert claim(db, "slot-2", 51) == ["a"]


def test_changes_keep_what_is_not_given(db: Database) -> None:
    one = add(db, "a", 10, rule="FREQ=HOURLY")
    changed = db.run_sync(lambda c: reminders.change(c, "ana", one.id, text="b"))
    assert changed is not None
    assert (changed.text, changed.due_ms, changed.rule) == ("b", 10, "FREQ=HOURLY")
    changed = db.run_sync(lambda c: reminders.change(c, "ana", one.id, due_ms=7))
    assert changed is not None
    assert (changed.text, changed.due_ms, changed.rule) == ("b", 7, None)
    assert db.run_sync(lambda c: reminders.get(c, "ana", one.id)) == changed


def test_adding_twice_under_one_id_is_one_reminder(db: Database) -> None:
    for _ in range(2):
        db.run_sync(lambda c: reminders.add(c, "ana", text="a", due_ms=1, session="s", now_ms=1, id="m1"))
    assert [one.text for one in db.run_sync(lambda c: reminders.list_reminders(c, "ana"))] == ["a"]


def test_lists_show_pending_ones_unless_asked(db: Database) -> None:
    gone, kept = add(db, "a", 10), add(db, "b", 5)
    tell(db, gone, "r1")
    assert db.run_sync(lambda c: reminders.list_reminders(c, "ana")) == [kept]
    everything = db.run_sync(lambda c: reminders.list_reminders(c, "ana", None))
    assert [(r.id, r.state) for r in everything] == [(kept.id, ReminderState.PENDING), (gone.id, ReminderState.FIRED)]


def test_users_are_apart(db: Database) -> None:
    one = add(db, "a", 10)
    assert db.run_sync(lambda c: reminders.list_reminders(c, "eva", None)) == []
    assert not db.run_sync(lambda c: reminders.cancel(c, "eva", one.id))
    assert db.run_sync(lambda c: reminders.change(c, "eva", one.id, text="x")) is None
    assert db.run_sync(lambda c: reminders.get(c, "eva", one.id)) is None
    assert tell(db, one, "r1", who="eva") is None
    assert db.run_sync(lambda c: reminders.due(c, 99)) == [one]
