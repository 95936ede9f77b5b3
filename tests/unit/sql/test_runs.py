from dataclasses import replace
from decimal import Decimal
from functools import partial

import pytest

from shared.errors import StateConflict, UserError
from shared.sql import Database, runs, sessions
from shared.sql.runs import Run, RunState

RUN = Run(
    id="r1",
    session="s",
    principal="ana",
    agent="main",
    epoch="e1",
    created_ms=1000,
    question="¿Qué?",
    replies=("a", "b"),
)
END = replace(
    RUN,
    state=RunState.ENDED,
    started_ms=1001,
    ended_ms=2000,
    finish_reason="stop",
    answer="42",
    model="p/m",
    steps=3,
    usage={"input": 10, "output": 5},
    cost=Decimal("0.0000012345678901234567890"),
    seconds=0.5,
)


def test_a_run_is_recorded_whole(db: Database) -> None:
    db.run_sync(lambda c: runs.start_run(c, RUN))
    assert db.run_sync(lambda c: runs.get_run(c, "r1", "ana")) == RUN
    db.run_sync(lambda c: runs.end_run(c, END))
    assert db.run_sync(lambda c: runs.get_run(c, "r1", "ana")) == END


def test_start_and_end_may_come_twice_and_in_any_order(db: Database) -> None:
    for step, run in ((runs.end_run, END), (runs.start_run, RUN), (runs.end_run, END), (runs.start_run, RUN)):
        db.run_sync(partial(step, run=run))
    assert db.run_sync(lambda c: runs.list_runs(c, "ana")) == [END]


def test_text_that_databases_refuse_does_not_stop_a_run(db: Database) -> None:
    db.run_sync(lambda c: runs.start_run(c, replace(RUN, question="a\x00b\ud800c", usage={"k": "\x00\ud800"})))
    found = db.run_sync(lambda c: runs.get_run(c, "r1", "ana"))
    assert found is not None
    assert found.question == "a\ufffdb\ufffdc"


def test_runs_of_another_epoch_are_closed_once_as_lost(db: Database) -> None:
    present = replace(RUN, id="r2", epoch="e2")
    ended = replace(END, id="r3")
    for run in (RUN, present):
        db.run_sync(partial(runs.start_run, run=run))
    db.run_sync(lambda c: runs.end_run(c, ended))
    assert db.run_sync(lambda c: runs.running_runs(c, not_epoch="e2")) == [RUN]
    ids = ["r1", "r3", "unknown"]
    assert db.run_sync(lambda c: runs.close_lost(c, ids, now_ms=5000)) == ["r1"]
    assert db.run_sync(lambda c: runs.close_lost(c, ids, now_ms=6000)) == []
    lost = db.run_sync(lambda c: runs.get_run(c, "r1", "ana"))
    assert lost is not None
    assert (lost.state, lost.ended_ms, lost.error_code) == (RunState.LOST, 5000, "lost")
    assert db.run_sync(lambda c: runs.get_run(c, "r3", "ana")) == ended
    assert db.run_sync(lambda c: runs.running_runs(c, not_epoch="e2")) == []
    assert db.run_sync(lambda c: runs.running_runs(c, session="s")) == [present]
    assert db.run_sync(lambda c: runs.running_runs(c, session="t")) == []


def test_an_end_keeps_who_waits_for_the_answer(db: Database) -> None:
    db.run_sync(lambda c: runs.start_run(c, RUN))
    db.run_sync(lambda c: runs.end_run(c, replace(END, replies=())))
    found = db.run_sync(lambda c: runs.get_run(c, "r1", "ana"))
    assert found is not None
    assert found.replies == ("a", "b")


def test_a_real_end_overrules_lost(db: Database) -> None:
    db.run_sync(lambda c: runs.start_run(c, RUN))
    db.run_sync(lambda c: runs.close_lost(c, ["r1"], now_ms=5000))
    db.run_sync(lambda c: runs.end_run(c, END))
    assert db.run_sync(lambda c: runs.get_run(c, "r1", "ana")) == END


def test_lists_are_bounded_newest_first_and_filtered(db: Database) -> None:
    for number in range(5):
        run = replace(RUN, id=f"r{number}", session=f"s{number % 2}", created_ms=1000 + number)
        db.run_sync(partial(runs.start_run, run=run))
    ids = [run.id for run in db.run_sync(lambda c: runs.list_runs(c, "ana", limit=3))]
    assert ids == ["r4", "r3", "r2"]
    assert [r.id for r in db.run_sync(lambda c: runs.list_runs(c, None, "s1", limit=9))] == ["r3", "r1"]
    assert [r.id for r in db.run_sync(lambda c: runs.list_runs(c, "ana", limit=9, offset=3))] == ["r1", "r0"]


def test_users_are_apart(db: Database) -> None:
    db.run_sync(lambda c: runs.start_run(c, RUN))
    assert db.run_sync(lambda c: runs.get_run(c, "r1", "eva")) is None
    assert db.run_sync(lambda c: runs.list_runs(c, "eva")) == []
    assert db.run_sync(lambda c: runs.list_runs(c, "eva", "s")) == []
    with pytest.raises(UserError, match="another user"):
        db.run_sync(lambda c: runs.start_run(c, replace(RUN, id="r2", principal="eva")))
    with pytest.raises(UserError, match="another user"):
        db.run_sync(lambda c: runs.end_run(c, replace(END, principal="eva")))
    with pytest.raises(StateConflict):
        db.run_sync(lambda c: runs.end_run(c, replace(END, principal="eva", session="s2")))
    assert db.run_sync(lambda c: runs.list_runs(c, None)) == [RUN]


def test_sessions_belong_to_who_used_them_first(db: Database) -> None:
    db.run_sync(lambda c: sessions.ensure(c, "s", "ana", 1000))
    db.run_sync(lambda c: sessions.ensure(c, "s", "ana", 3000))
    db.run_sync(lambda c: sessions.ensure(c, "s", "ana", 2000))
    db.run_sync(lambda c: sessions.ensure(c, "t", "ana", 2500))
    assert db.run_sync(lambda c: sessions.set_title(c, "s", "ana", "Viaje"))
    assert not db.run_sync(lambda c: sessions.set_title(c, "s", "eva", "Otra"))
    assert db.run_sync(lambda c: sessions.get(c, "s", "eva")) is None
    assert db.run_sync(lambda c: sessions.list_sessions(c, "eva")) == []
    [first, second] = db.run_sync(lambda c: sessions.list_sessions(c, "ana"))
    assert first == sessions.Session("s", "ana", 1000, 3000, "Viaje")
    assert second.id == "t"
    with pytest.raises(UserError, match="another user"):
        db.run_sync(lambda c: sessions.ensure(c, "s", "eva", 9000))
    assert db.run_sync(lambda c: sessions.get(c, "s", None)) == first


def test_the_epoch_is_remembered(db: Database) -> None:
    assert db.run_sync(sessions.known_epoch) is None
    for epoch in ("e1", "e2", "e2"):
        db.run_sync(partial(sessions.set_epoch, epoch=epoch, now_ms=1))
    assert db.run_sync(sessions.known_epoch) == "e2"
