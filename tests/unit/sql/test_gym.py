from functools import partial

import pytest

from shared.errors import ModelError
from shared.sql import Database, gym
from shared.sql.gym import GymEntry


def entry(id: str, day: str, exercise: str = "squat", who: str = "ana", at: int = 1) -> GymEntry:
    return GymEntry(id, who, day, exercise, [{"reps": 5, "grams": 100_000}], "", at)


def test_logging_twice_is_logging_once(db: Database) -> None:
    rows = [entry("g1", "2026-11-10"), entry("g2", "2026-11-10", "bench press")]
    for _ in range(2):
        assert db.run_sync(lambda c: gym.add(c, rows)) == rows
    assert db.run_sync(lambda c: gym.history(c, "ana")) == rows


def test_history_is_by_exercise_and_day_the_newest_first(db: Database) -> None:
    rows = [entry("g1", "2026-11-01"), entry("g2", "2026-11-10"), entry("g3", "2026-11-05", "bench press")]
    db.run_sync(lambda c: gym.add(c, rows))
    assert [one.id for one in db.run_sync(lambda c: gym.history(c, "ana"))] == ["g2", "g3", "g1"]
    assert [one.id for one in db.run_sync(lambda c: gym.history(c, "ana", exercise="squat"))] == ["g2", "g1"]
    assert [one.id for one in db.run_sync(lambda c: gym.history(c, "ana", since="2026-11-05"))] == ["g2", "g3"]
    assert [one.id for one in db.run_sync(lambda c: gym.history(c, "ana", limit=1))] == ["g2"]


def test_a_correction_changes_what_is_given(db: Database) -> None:
    db.run_sync(lambda c: gym.add(c, [entry("g1", "2026-11-10")]))
    changed = db.run_sync(lambda c: gym.correct(c, "ana", "g1", sets=[{"reps": 3}], day="2026-11-09"))
    assert changed is not None
    assert (changed.exercise, changed.sets, changed.day) == ("squat", [{"reps": 3}], "2026-11-09")
    assert db.run_sync(lambda c: gym.remove(c, "ana", "g1"))
    assert not db.run_sync(lambda c: gym.remove(c, "ana", "g1"))


def test_routines_go_by_name_without_case_and_accents(db: Database) -> None:
    assert db.run_sync(lambda c: gym.save_routine(c, "ana", "Tracción", ["pull up 3x8"], 1))
    assert not db.run_sync(lambda c: gym.save_routine(c, "ana", "traccion", ["pull up 4x8"], 2))
    found = db.run_sync(lambda c: gym.routines(c, "ana"))
    assert [(one.name, one.plan, one.updated_ms) for one in found] == [("traccion", ("pull up 4x8",), 2)]
    assert db.run_sync(lambda c: gym.routine(c, "ana", "TRACCIÓN")) == found[0]
    assert db.run_sync(lambda c: gym.delete_routine(c, "ana", "Traccion"))
    assert db.run_sync(lambda c: gym.routine(c, "ana", "Tracción")) is None
    for name in ("", "   ", "x" * 101):
        with pytest.raises(ModelError, match="name"):
            db.run_sync(partial(gym.save_routine, principal="ana", name=name, plan=[], now_ms=1))


def test_users_are_apart(db: Database) -> None:
    db.run_sync(lambda c: gym.add(c, [entry("g1", "2026-11-10")]))
    db.run_sync(lambda c: gym.save_routine(c, "ana", "piernas", ["squat 3x8"], 1))
    assert db.run_sync(lambda c: gym.history(c, "eva")) == []
    assert db.run_sync(lambda c: gym.correct(c, "eva", "g1", day="2026-01-01")) is None
    assert not db.run_sync(lambda c: gym.remove(c, "eva", "g1"))
    assert db.run_sync(lambda c: gym.routines(c, "eva")) == []
    assert not db.run_sync(lambda c: gym.delete_routine(c, "eva", "piernas"))
    assert [one.day for one in db.run_sync(lambda c: gym.history(c, "ana"))] == ["2026-11-10"]
