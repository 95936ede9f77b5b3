from shared.sql import Database, reminders
from shared.sql.reminders import Reminder, ReminderState


def add(db: Database, text: str, due_ms: int, who: str = "ana") -> Reminder:
    return db.run_sync(lambda c: reminders.add(c, who, text=text, due_ms=due_ms, session="s", now_ms=1))


def test_due_reminders_come_in_order_and_only_when_their_time_has_come(db: Database) -> None:
    late, early, future = add(db, "b", 20), add(db, "a", 10, "eva"), add(db, "c", 10**15)
    assert db.run_sync(lambda c: reminders.due(c, 9)) == []
    assert db.run_sync(lambda c: reminders.due(c, 20)) == [early, late]
    assert db.run_sync(lambda c: reminders.due(c, 10**15, limit=1)) == [early]
    assert future in db.run_sync(lambda c: reminders.due(c, 10**15))


def test_a_reminder_fires_once(db: Database) -> None:
    reminder = add(db, "a", 10)
    assert db.run_sync(lambda c: reminders.mark_fired(c, reminder.id))
    assert not db.run_sync(lambda c: reminders.mark_fired(c, reminder.id))
    assert db.run_sync(lambda c: reminders.due(c, 99)) == []
    assert not db.run_sync(lambda c: reminders.cancel(c, "ana", reminder.id))


def test_a_cancelled_reminder_never_fires(db: Database) -> None:
    reminder = add(db, "a", 10)
    assert db.run_sync(lambda c: reminders.cancel(c, "ana", reminder.id))
    assert db.run_sync(lambda c: reminders.due(c, 99)) == []
    assert not db.run_sync(lambda c: reminders.mark_fired(c, reminder.id))


def test_lists_show_pending_ones_unless_asked(db: Database) -> None:
    gone, kept = add(db, "a", 10), add(db, "b", 5)
    db.run_sync(lambda c: reminders.mark_fired(c, gone.id))
    assert db.run_sync(lambda c: reminders.list_reminders(c, "ana")) == [kept]
    everything = db.run_sync(lambda c: reminders.list_reminders(c, "ana", None))
    assert [(r.id, r.state) for r in everything] == [(kept.id, ReminderState.PENDING), (gone.id, ReminderState.FIRED)]


def test_users_are_apart(db: Database) -> None:
    reminder = add(db, "a", 10)
    assert db.run_sync(lambda c: reminders.list_reminders(c, "eva", None)) == []
    assert not db.run_sync(lambda c: reminders.cancel(c, "eva", reminder.id))
    assert db.run_sync(lambda c: reminders.due(c, 99)) == [reminder]
