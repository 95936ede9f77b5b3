from dataclasses import replace
from decimal import Decimal
from functools import partial

from sqlalchemy import Connection, Table, func, select

from shared.contract import Usage
from shared.models import Payer
from shared.playbook import Add, Merge, Retire, Scope
from shared.sql import Database, archive, costs, playbook, reminders, retention, runs, sessions
from shared.sql.archive import ArchivedEntry
from shared.sql.runs import Run, RunState
from shared.sql.tables import artifacts, bullet_ledger, bullets, insert, log_entries, model_calls
from shared.sql.tables import reminders as reminders_table
from shared.sql.tables import runs as runs_table

DAY = 86_400_000
ENDED = Run(id="r", session="s", principal="ana", agent="main", epoch="e", created_ms=1, state=RunState.ENDED)


def count(db: Database, table: Table) -> int:
    return int(db.run_sync(lambda c: c.execute(select(func.count()).select_from(table)).scalar_one()))


def put_run(db: Database, run: str, ended_ms: int | None, session: str = "s", entries: int = 2) -> None:
    state = RunState.RUNNING if ended_ms is None else RunState.ENDED
    row = replace(ENDED, id=run, session=session, ended_ms=ended_ms, state=state)
    at = ended_ms or 1
    copies = [ArchivedEntry(f"{at}-{n}", run, "steer", 1, {"text": "x"}) for n in range(entries)]
    db.run_sync(partial(runs.end_run, run=row))
    db.run_sync(lambda c: archive.append_entries(c, session, "ana", copies, at))


def test_runs_go_with_their_part_of_the_log_and_the_oldest_first(db: Database) -> None:
    for number in range(5):
        put_run(db, f"r{number}", 1000 + number)
    put_run(db, "young", 9000)
    put_run(db, "running", None)
    assert db.run_sync(lambda c: retention.ended_runs(c, 1004, 3)) == 3
    assert {r.id for r in db.run_sync(lambda c: runs.list_runs(c, "ana"))} == {"r3", "r4", "young", "running"}
    assert count(db, log_entries) == 8
    assert db.run_sync(lambda c: retention.ended_runs(c, 1004, 3)) == 1
    assert db.run_sync(lambda c: retention.ended_runs(c, 1004, 3)) == 0
    assert {e.run for e in db.run_sync(lambda c: archive.entries(c, "s", "ana"))} == {"r4", "young", "running"}


def test_a_session_goes_when_nothing_of_it_is_left_and_its_name_is_free(db: Database) -> None:
    put_run(db, "old", 1000, session="empty", entries=0)
    put_run(db, "kept", 1000, session="used")
    db.run_sync(lambda c: sessions.ensure(c, "young", "ana", 9000))
    orphans = [ArchivedEntry(f"5-{n}", "gone", "steer", 1, {}) for n in range(3)]
    db.run_sync(lambda c: archive.append_entries(c, "empty", "ana", orphans, 5))
    assert db.run_sync(lambda c: retention.unused_sessions(c, 5000, 2)) == 0, "its run is still there"

    def forget(conn: Connection) -> None:
        conn.execute(runs_table.delete().where(runs_table.c.id == "old"))

    db.run_sync(forget)
    assert [db.run_sync(lambda c: retention.unused_sessions(c, 5000, 2)) for _ in range(4)] == [2, 1, 1, 0]
    assert db.run_sync(lambda c: archive.owners(c, ["empty", "used", "young"])) == {"used": "ana", "young": "ana"}
    db.run_sync(lambda c: sessions.ensure(c, "empty", "eva", 9000))


def test_the_bill_goes_by_whole_days(db: Database) -> None:
    calls = [
        costs.Call(f"c{n}", at, Payer("ana", "s", "r"), "", "p", "m", costs.OK, Usage(input=1), Decimal(1), 5)
        for n, at in enumerate((DAY - 1, DAY, 2 * DAY - 1, 2 * DAY, 3 * DAY))
    ]
    db.run_sync(lambda c: costs.add(c, calls))
    half_past = 2 * DAY + DAY // 2
    assert [db.run_sync(lambda c: retention.costs(c, half_past, 2)) for _ in range(3)] == [2, 1, 0]
    assert count(db, model_calls) == 2


def test_playbooks_keep_what_is_active_and_young(db: Database) -> None:
    scope = Scope.user("ana")

    def change(operations: list[Add | Retire | Merge], now_ms: int) -> None:
        version = db.run_sync(lambda c: playbook.read(c, scope)).version
        db.run_sync(lambda c: playbook.apply(c, scope, operations, version=version, now_ms=now_ms, limit=50))

    change([Add(id=f"b{n}", scope=scope, text=f"text number {n}") for n in range(3)], 1000)
    change([Retire(id="b0")], 2000)
    change([Retire(id="b1")], 8000)
    assert db.run_sync(lambda c: retention.retired_bullets(c, 5000, 10)) == 1
    assert count(db, bullets) == 2
    assert count(db, bullet_ledger) == 5
    assert [db.run_sync(lambda c: retention.playbook_changes(c, 5000, 3)) for _ in range(3)] == [3, 1, 0]
    assert [e.at_ms for e in db.run_sync(lambda c: playbook.ledger(c, scope))] == [8000]
    assert [b.id for b in db.run_sync(lambda c: playbook.read(c, scope)).bullets] == ["b2"]


def test_reminders_that_still_wait_stay(db: Database) -> None:
    for due in (1000, 2000, 9000):
        db.run_sync(partial(reminders.add, principal="ana", text="x", due_ms=due, session="s", now_ms=1))
    waiting = db.run_sync(lambda c: retention.past_reminders(c, 5000, 10))
    assert waiting == 0

    def all_fired(conn: Connection) -> None:
        conn.execute(reminders_table.update().values(state=reminders.ReminderState.FIRED.value))

    db.run_sync(all_fired)
    assert db.run_sync(lambda c: retention.past_reminders(c, 5000, 10)) == 2
    assert count(db, reminders_table) == 1


def test_artifacts_of_before_there_were_times(db: Database) -> None:
    def put(conn: Connection) -> None:
        for name, created, expires in (("a", 1000, None), ("b", 9000, None), ("c", 1000, 99_000)):
            row = {"principal": "ana", "sha256": name, "media_type": "t", "size": 1, "content": b"x"}
            conn.execute(insert(conn, artifacts).values(created_ms=created, expires_ms=expires, **row))

    db.run_sync(put)
    assert db.run_sync(lambda c: retention.untimed_artifacts(c, 5000, 10)) == 1
    assert db.run_sync(lambda c: retention.expired_artifacts(c, 5000, 10)) == 0
    assert count(db, artifacts) == 2
