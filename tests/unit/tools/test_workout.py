from __future__ import annotations

from datetime import date

import pytest

from workers.tools.exercises import exercise_named, muscles_of
from workers.tools.training import Logged, best_set, estimated_max, muscle_sets, streak, weeks
from workers.tools.workout import Entry, NotationError, Set, format_entry, parse_log


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("press banca 3x8 80kg", "bench press 3x8 80kg"),
        ("sentadilla 5x5@100, 3x10 60 kg", "squat 5x5 100kg, 3x10 60kg"),
        ("bench 80x8,8,6", "bench press 2x8 80kg, 1x6 80kg"),
        ("pull ups 3x10 +10kg", "pull up 3x10 +10kg"),
        ("run 5 km 25:30", "running 5km 25:30"),
        ("dominadas 3x8 bw", "pull up 3x8 bw"),
        ("fondos 3x8 -20kg", "dip 3x8 -20kg"),
        ("press militar 3x8 40kg rpe 8", "overhead press 3x8 40kg rpe 8"),
        ("squat 3x5 100kg @8.5", "squat 3x5 100kg rpe 8.5"),
        ("squat 3x5 @100 @9", "squat 3x5 100kg rpe 9"),
        ("deadlift 3x5x140", "deadlift 3x5 140kg"),
        ("plancha 3x45s", "plank 3x45s"),
        ("plank 3x1:30", "plank 3x1:30"),
        ("remo 4x8 62,5kg (agarre ancho)", "barbell row 4x8 62.5kg (agarre ancho)"),
        ("curl 12 reps 15kg", "biceps curl 1x12 15kg"),
        ("bench 185lb x 5", "bench press 1x5 185lb"),
        ("bench 3x5 185 libras", "bench press 3x5 185lb"),
        ("press banca 3x8 80kg, sentadilla 5x5 100", "bench press 3x8 80kg; squat 5x5 100kg"),
        ("Sentadilla: 3x8 80 kilos; press banca 3x8", "squat 3x8 80kg; bench press 3x8"),
        ("squat 3x8\nbench 3x5", "squat 3x8; bench press 3x5"),
        ("bench 3x10,8,6 60kg", "bench press 1x10 60kg, 1x8 60kg, 1x6 60kg"),
        ("bench 60x8, 70x6, 80x4", "bench press 1x8 60kg, 1x6 70kg, 1x4 80kg"),
        ("peso muerto 5x5, 3x10 60kg", "deadlift 5x5 60kg, 3x10 60kg"),
        ("correr 45 min", "running 45:00"),
        ("bike 20km 1:05:00", "cycling 20km 1:05:00"),
        ("swim 1500m", "swimming 1.5km"),
        ("run 3 mi 24:00", "running 4828m 24:00"),
        ("correr 4x400m", "running 4x400m"),
        ("sentadillas 3 por 12 con 60kg", "squat 3x12 60kg"),
        ("bench 3 series de 8 con 80", "bench press 3x8 80kg"),
        ("bench 3 sets of 8 at 80", "bench press 3x8 80kg"),
        ("Landmine Pivot 3x10 5kg", "landmine pivot 3x10 5kg"),
        ("bench 3×8 80kg", "bench press 3x8 80kg"),
    ],
)
def test_notation(text: str, canonical: str) -> None:
    entries = parse_log(text)
    assert "; ".join(map(format_entry, entries)) == canonical
    assert parse_log(canonical) == entries


def test_what_a_line_holds() -> None:
    (entry,) = parse_log("sentadilla 2x5@100 rpe 8, 1x3 +10lb (lento)")
    heavy = Set(reps=5, grams=100_000, rpe=8)
    assert entry == Entry("squat", (heavy, heavy, Set(reps=3, grams=4536, unit="lb", body=True)), "lento")


def test_weights_without_a_unit_are_the_callers() -> None:
    (entry,) = parse_log("bench 3x8 185", "lb")
    assert entry.sets[0] == Set(reps=8, grams=83_915, unit="lb")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "nothing to log"),
        ("bench", "bench press has no sets.* at character 6: bench>>>"),
        ("80kg", "an exercise is expected at character 1: >>>80kg"),
        ("bench 3xx8", "sets are expected.* at character 7: bench >>>3xx8"),
        ("bench 3x8 80kg rpe 12", "an RPE is 1 to 10, not 12"),
        ("bench 3x8 80kg 90kg", "at character 16: bench 3x8 80kg >>>90kg"),
        ("bench 30x8x80", "1 to 20 sets are expected"),
        ("bench 3x8 9000kg", "too heavy"),
        ("squat 3x8; bench 3x0", "repetitions are possible, not 0"),
        ("squat 3x8 (open", "sets are expected.*>>>\\(open"),
    ],
)
def test_errors_show_the_place(text: str, problem: str) -> None:
    with pytest.raises(NotationError, match=problem):
        parse_log(text)


def test_names_in_both_languages_are_one_exercise() -> None:
    assert {exercise_named(name) for name in ("Press de Banca", "bench", "press banca plano")} == {"bench press"}
    assert exercise_named("Sentadilla búlgara") == "bulgarian split squat"
    assert exercise_named("Algo Nuevo") == "algo nuevo"
    assert muscles_of("squat") == ("quadriceps", "glutes")
    assert muscles_of("algo nuevo") == ("other",)


def test_the_estimated_maximum_is_epleys() -> None:
    assert estimated_max(Set(reps=10, grams=90_000)) == pytest.approx(120)
    assert estimated_max(Set(reps=1, grams=140_000)) == 140
    for no in (Set(reps=13, grams=1), Set(reps=5), Set(reps=5, grams=-20_000, body=True), Set(seconds=9)):
        assert estimated_max(no) is None
    light, heavy = Set(reps=10, grams=80_000), Set(reps=1, grams=100_000)
    assert best_set([heavy, light]) == light
    assert best_set([Set(reps=8), Set(reps=12)]) == Set(reps=12)
    assert best_set([]) is None


def test_weeks_sum_up_and_empty_ones_count() -> None:
    today = date(2026, 11, 10)
    log = [
        Logged(date(2026, 11, 10), "squat", parse_log("squat 2x5 100")[0].sets),
        Logged(date(2026, 11, 9), "running", parse_log("run 5km 25:00")[0].sets),
        Logged(date(2026, 10, 27), "pull up", parse_log("pull ups 1x8 -20kg")[0].sets),
    ]
    found = weeks(log, today, 3)
    assert [(one.days, one.sets, one.kilos, one.meters, one.seconds) for one in found] == [
        (1, 1, 0, 0, 0),
        (0, 0, 0, 0, 0),
        (2, 3, 1000, 5000, 1500),
    ]
    assert muscle_sets(log) == {"glutes": 2, "quadriceps": 2, "back": 1, "biceps": 1, "cardio": 1}


def test_a_streak_may_wait_for_this_week() -> None:
    today = date(2026, 11, 10)
    last_weeks = [date(2026, 11, 6), date(2026, 10, 26)]
    assert streak(last_weeks, today) == 2
    assert streak([*last_weeks, today], today) == 3
    assert streak([date(2026, 10, 26)], today) == 0
