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


EVERYDAY = [
    ("dominadas 4x al fallo", "pull up 4xmax"),
    ("dominadas 4 series al fallo", "pull up 4xmax"),
    ("pull ups 3xAMRAP", "pull up 3xmax"),
    ("push ups 3x to failure", "push up 3xmax"),
    ("bench 3x8 80kg al fallo", "bench press 3x8 80kg to failure"),
    ("squat 3x8 to failure 60kg", "squat 3x8 60kg to failure"),
    ("dominadas 3xmax +5kg", "pull up 3xmax +5kg"),
    ("bench 60kgx8,70x6", "bench press 1x8 60kg, 1x6 70kg"),
    ("press banca 3x8 80kg RIR 2", "bench press 3x8 80kg rpe 8"),
    ("squat 5x3 120 @RIR1", "squat 5x3 120kg rpe 9"),
    ("curl 3x12 12 rir 0,5", "biceps curl 3x12 12kg rpe 9.5"),
    ("superset: curl 3x12 12kg + fondos 3x10", "biceps curl 3x12 12kg; dip 3x10"),
    ("superserie: press banca 3x8 80; remo 3x10 60", "bench press 3x8 80kg; barbell row 3x10 60kg"),
    ("A1 bench 3x8 80kg; A2 row 3x8 60kg", "bench press 3x8 80kg; barbell row 3x8 60kg"),
    ("A1) press banca 3x8 80; A2) remo 3x10 60", "bench press 3x8 80kg; barbell row 3x10 60kg"),
    ("1. squat 5x5 100kg", "squat 5x5 100kg"),
    ("- squat 5x5 100kg", "squat 5x5 100kg"),
    ("• sentadilla 3x8 60kg", "squat 3x8 60kg"),
    ("bench: 80kg 3x8", "bench press 3x8 80kg"),
    ("squat 100kg 5x5", "squat 5x5 100kg"),
    ("squat 225lbs 3x5", "squat 3x5 225lb"),
    ("bench 80kg x 8 x 3", "bench press 3x8 80kg"),
    ("squat 100kg 5 reps", "squat 1x5 100kg"),
    ("bench 80kg 8/8/6", "bench press 2x8 80kg, 1x6 80kg"),
    ("press militar 40kg: 8, 8, 7", "overhead press 2x8 40kg, 1x7 40kg"),
    ("bench 8,8,6 @ 80", "bench press 2x8 80kg, 1x6 80kg"),
    ("bench 8/8/6 con 62,5 kg", "bench press 2x8 62.5kg, 1x6 62.5kg"),
    ("bench 3x8-10 80kg", "bench press 3x8 80kg (8-10 reps)"),
    ("bench 3x8 80 kg descanso 90s", "bench press 3x8 80kg (descanso 90s)"),
    ("bench 3x8 80kg, rest 2min", "bench press 3x8 80kg (rest 2min)"),
    ("deadlift 1RM 180kg", "deadlift 1x1 180kg"),
    ("dominadas lastradas 5x5 +10kg", "pull up 5x5 +10kg"),
    ("dominadas 5x5 con 10 kg extra", "pull up 5x5 +10kg"),
    ("dominadas 10", "pull up 1x10"),
    ("flexiones 50 (seguidas)", "push up 1x50 (seguidas)"),
    ("abdominales 3x20 sin peso", "crunch 3x20 bw"),
    ("zancadas 3x10 por pierna 12kg", "lunge 3x10 12kg (por pierna)"),
    ("lunges 3x10 each leg 12kg", "lunge 3x10 12kg (each leg)"),
    ("zancadas 3x12/lado", "lunge 3x12 (lado)"),
    ("Press Militar  4 × 6 – 45 kg", "overhead press 4x6 45kg"),
    ("bench 3x8 80kg - last set hard", "bench press 3x8 80kg (last set hard)"),
    ("3x8 press banca 80kg", "bench press 3x8 80kg"),
    ("5x5 squat @100", "squat 5x5 100kg"),
    ("4 series de 10 de sentadilla con 60 kg", "squat 4x10 60kg"),
    ("3 sets of 12 curls with 10 kg", "biceps curl 3x12 10kg"),
    ("BENCH PRESS 3X8 80KG", "bench press 3x8 80kg"),
    ("bench 3х8 80kg", "bench press 3x8 80kg"),
    ("plancha 1:30 x 3", "plank 3x1:30"),
    ("plancha 45s x 3", "plank 3x45s"),
    ("plancha 3 x 1 minuto", "plank 3x1:00"),
    ("correr 5km 25:30", "running 5km 25:30"),
    ("correr 5k 25:30", "running 5km 25:30"),
    ("10k run 52:10", "running 10km 52:10"),
    ("run 10k in 52:10", "running 10km 52:10"),
    ("correr 45'", "running 45:00"),
    ("correr 25'30\"", "running 25:30"),
    ("correr 5 km a 5:00/km", "running 5km (a 5:00/km)"),
    ("bici 1h30", "cycling 1:30:00"),
    ("bici 1h 30min 40km", "cycling 40km 1:30:00"),
    ("remo ergómetro 2000m 7:45", "rowing machine 2km 7:45"),
    ("caminar 8,5 km", "walking 8.5km"),
    ("sprint 10x100m", "sprint 10x100m"),
    ("saltos a la comba 10 min", "jump rope 10:00"),
]


@pytest.mark.parametrize(("text", "canonical"), EVERYDAY)
def test_training_as_people_write_it(text: str, canonical: str) -> None:
    entries = parse_log(text)
    assert "; ".join(map(format_entry, entries)) == canonical
    assert parse_log(canonical) == entries


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("curl mancuernas 2x12kg 3x10", ">>>2x12kg"),
        ("sentadilla 3x102,5 kg", ">>>5 kg"),
        ("bench 3x8 @ 80%", ">>>%"),
        ("nadar 40 largos", ">>>40 largos"),
        ("bench 3x8 1000g", "an exercise is expected"),
        ("bench 3x8 80kg easy", "easy has no sets"),
        ("bench 25xmax", "1 to 20 sets"),
        ("kg 3x8", "an exercise is expected"),
    ],
)
def test_what_cannot_be_known_is_not_guessed(text: str, problem: str) -> None:
    with pytest.raises(NotationError, match=problem):
        parse_log(text)


def test_weights_in_lists_are_in_the_unit_of_the_caller() -> None:
    (entry,) = parse_log("bench 8/8/6 @ 185", "lb")
    assert format_entry(entry) == "bench press 2x8 185lb, 1x6 185lb"
