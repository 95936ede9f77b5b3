from __future__ import annotations

from typing import Any

import pytest

from shared.errors import ModelError


def test_a_session_is_logged_read_and_corrected(bench: Any) -> None:
    logged = bench.run("gym_log", text="press banca 3x8 80kg\nsentadilla 5x5@100 (profunda)")
    assert logged.value["day"] == "2026-11-10"
    assert [one["text"] for one in logged.value["entries"]] == ["bench press 3x8 80kg", "squat 5x5 100kg (profunda)"]
    bench.run("gym_log", node="r1.0.0.1", text="bench 80x6", day="ayer")
    history = bench.run("gym_history", exercise="Press de Banca")
    assert [(one["day"], one["text"]) for one in history.value["entries"]] == [
        ("2026-11-10", "bench press 3x8 80kg"),
        ("2026-11-09", "bench press 1x6 80kg"),
    ]
    assert len(bench.run("gym_history", since="hoy").value["entries"]) == 2
    id = history.value["entries"][0]["id"]
    changed = bench.run("gym_correct", id=id, text="bench 3x8 185", unit="lb")
    assert "bench press 3x8 185lb" in changed.seen
    assert bench.run("gym_correct", id=id, day="el lunes").value["day"] == "2026-11-09"
    assert bench.run("gym_delete", id=id).value["deleted"] is True
    assert bench.run("gym_delete", id=id).value["deleted"] is False


def test_a_second_attempt_logs_nothing_twice(bench: Any) -> None:
    first = bench.run("gym_log", text="squat 3x5 100; bench 3x5 80")
    again = bench.run("gym_log", text="squat 3x5 100; bench 3x5 80")
    assert again.value == first.value
    assert len(bench.run("gym_history").value["entries"]) == 2


def test_what_cannot_be_read_logs_nothing_and_shows_the_place(bench: Any) -> None:
    with pytest.raises(ModelError, match=r"nothing was logged: .*bench >>>3xx8"):
        bench.run("gym_log", text="squat 3x5 100\nbench 3xx8")
    with pytest.raises(ModelError, match="lies ahead"):
        bench.run("gym_log", text="squat 3x5", day="mañana")
    with pytest.raises(ModelError, match="cannot read a day"):
        bench.run("gym_history", since="long ago")
    for args, problem in (({}, "nothing to correct"), ({"text": "squat 3x5; bench 3x5"}, "one exercise")):
        with pytest.raises(ModelError, match=problem):
            bench.run("gym_correct", id="g1", **args)
    with pytest.raises(ModelError, match="there is no entry"):
        bench.run("gym_correct", id="g1", day="ayer")
    assert bench.run("gym_history").seen == "Nothing is logged there."


def test_records_name_their_source(bench: Any) -> None:
    bench.run("gym_log", text="bench 5x5 80, 1x10 75; plank 3x60s; pull ups 3x8")
    bench.run("gym_log", node="r1.0.0.1", text="bench 3x3 85", day="2026-11-01")
    found = bench.run("gym_exercises")
    by_name = {one["exercise"]: one for one in found.value["exercises"]}
    assert by_name["bench press"]["best"] == "bench press 1x10 75kg"
    assert by_name["bench press"]["estimated_max_kg"] == 100.0
    assert by_name["bench press"]["sessions"] == 2
    assert by_name["plank"]["estimated_max_kg"] is None
    assert "Epley (1985)" in found.seen
    assert list(bench.run("gym_exercises", exercise="banca").value["exercises"]) == [by_name["bench press"]]


def test_statistics_count_weeks_muscles_and_the_streak(bench: Any) -> None:
    bench.run("gym_log", text="squat 5x5 100; run 5km 25:00")
    bench.run("gym_log", node="r1.0.0.1", text="squat 3x5 90", day="2026-11-03")
    stats = bench.run("gym_stats", count=2)
    assert [(one["monday"], one["days"], one["kilos"]) for one in stats.value["weeks"]] == [
        ("2026-11-02", 1, 1350.0),
        ("2026-11-09", 1, 2500.0),
    ]
    assert stats.value["muscles"] == {"glutes": 8, "quadriceps": 8, "cardio": 1}
    assert stats.value["streak_weeks"] == 2
    assert "5.0 km" in stats.seen


def test_routines_are_saved_shown_and_deleted(bench: Any) -> None:
    plan = ["press banca 3x8", "press militar 3x10 30"]
    saved = bench.run("gym_routine_save", name="Empuje", plan=plan)
    assert saved.value == {
        "name": "Empuje",
        "plan": ["bench press 3x8", "overhead press 3x10 30kg"],
        "created": True,
    }
    assert bench.run("gym_routine_save", name="empuje", plan=plan).value["created"] is False
    assert bench.run("gym_routines", name="EMPUJE").seen.startswith("empuje:\n- bench press 3x8")
    with pytest.raises(ModelError, match="there is no routine 'pierna'"):
        bench.run("gym_routines", name="pierna")
    with pytest.raises(ModelError, match="the routine was not saved"):
        bench.run("gym_routine_save", name="x", plan=["press banca"])
    assert bench.run("gym_routine_delete", name="Empuje").value["deleted"] is True
    assert bench.run("gym_routines").seen == "There are no routines."


def test_training_of_one_user_is_never_anothers(bench: Any) -> None:
    id = bench.run("gym_log", text="squat 3x5 100").value["entries"][0]["id"]
    bench.run("gym_routine_save", name="mine", plan=["squat 3x5"])
    assert bench.run("gym_history", principal="eva").value["entries"] == []
    assert bench.run("gym_exercises", principal="eva").value["exercises"] == []
    assert bench.run("gym_routines", principal="eva").value["routines"] == []
    assert bench.run("gym_delete", principal="eva", id=id).value["deleted"] is False
    assert len(bench.run("gym_history").value["entries"]) == 1
