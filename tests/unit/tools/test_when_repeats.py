from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from workers.tools.recurrence import Repeat, from_rule
from workers.tools.repeats import parse_repeat
from workers.tools.when import WhenError

MADRID = ZoneInfo("Europe/Madrid")
NOW = datetime(2026, 11, 10, 15, 0, tzinfo=MADRID)  # a Tuesday

WORKDAYS = "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"


@pytest.mark.parametrize(
    ("text", "rule", "first"),
    [
        ("every day", "FREQ=DAILY;BYHOUR=9;BYMINUTE=0", "2026-11-11T09:00"),
        ("todos los días a las 8", "FREQ=DAILY;BYHOUR=8;BYMINUTE=0", "2026-11-11T08:00"),
        ("daily at 7:30", "FREQ=DAILY;BYHOUR=7;BYMINUTE=30", "2026-11-11T07:30"),
        ("cada noche a las 10", "FREQ=DAILY;BYHOUR=22;BYMINUTE=0", "2026-11-10T22:00"),
        ("every morning", "FREQ=DAILY;BYHOUR=9;BYMINUTE=0", "2026-11-11T09:00"),
        ("todas las mañanas a las 7", "FREQ=DAILY;BYHOUR=7;BYMINUTE=0", "2026-11-11T07:00"),
        ("at 9 and 21 every day", "FREQ=DAILY;BYHOUR=9,21;BYMINUTE=0", "2026-11-10T21:00"),
        ("todos los días a las 8 y a las 20", "FREQ=DAILY;BYHOUR=8,20;BYMINUTE=0", "2026-11-10T20:00"),
        ("every other day at 8", "FREQ=DAILY;INTERVAL=2;BYHOUR=8;BYMINUTE=0", "2026-11-11T08:00"),
        ("cada 3 días", "FREQ=DAILY;INTERVAL=3;BYHOUR=9;BYMINUTE=0", "2026-11-11T09:00"),
        ("every weekday at 8:30", f"{WORKDAYS};BYHOUR=8;BYMINUTE=30", "2026-11-11T08:30"),
        ("de lunes a viernes a las 8 y media", f"{WORKDAYS};BYHOUR=8;BYMINUTE=30", "2026-11-11T08:30"),
        ("monday to friday at 9am", f"{WORKDAYS};BYHOUR=9;BYMINUTE=0", "2026-11-11T09:00"),
        ("entre semana a las 7", f"{WORKDAYS};BYHOUR=7;BYMINUTE=0", "2026-11-11T07:00"),
        ("cada lunes y miércoles a las 9", "FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=9;BYMINUTE=0", "2026-11-11T09:00"),
        (
            "los lunes, miércoles y viernes a las 6",
            "FREQ=WEEKLY;BYDAY=MO,WE,FR;BYHOUR=6;BYMINUTE=0",
            "2026-11-11T06:00",
        ),
        ("a las 9 los martes", "FREQ=WEEKLY;BYDAY=TU;BYHOUR=9;BYMINUTE=0", "2026-11-17T09:00"),
        ("on tuesdays at 5pm", "FREQ=WEEKLY;BYDAY=TU;BYHOUR=17;BYMINUTE=0", "2026-11-10T17:00"),
        ("mondays and thursdays", "FREQ=WEEKLY;BYDAY=MO,TH;BYHOUR=9;BYMINUTE=0", "2026-11-12T09:00"),
        ("los fines de semana a las 11", "FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=11;BYMINUTE=0", "2026-11-14T11:00"),
        ("every week", "FREQ=WEEKLY;BYDAY=TU;BYHOUR=9;BYMINUTE=0", "2026-11-17T09:00"),
        (
            "cada dos semanas los jueves a las 10",
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=TH;BYHOUR=10;BYMINUTE=0",
            "2026-11-12T10:00",
        ),
        ("every month on the 15th at 10", "FREQ=MONTHLY;BYMONTHDAY=15;BYHOUR=10;BYMINUTE=0", "2026-11-15T10:00"),
        ("el 1 de cada mes a las 9", "FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=0", "2026-12-01T09:00"),
        ("los días 1 y 15 de cada mes a las 8", "FREQ=MONTHLY;BYMONTHDAY=1,15;BYHOUR=8;BYMINUTE=0", "2026-11-15T08:00"),
        ("el primer lunes de cada mes", "FREQ=MONTHLY;BYDAY=1MO;BYHOUR=9;BYMINUTE=0", "2026-12-07T09:00"),
        ("the last friday of every month at 6 pm", "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=18;BYMINUTE=0", "2026-11-27T18:00"),
        (
            "el último día de cada mes a las 20:00",
            "FREQ=MONTHLY;BYMONTHDAY=-1;BYHOUR=20;BYMINUTE=0",
            "2026-11-30T20:00",
        ),
        ("every 3 months", "FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=10;BYHOUR=9;BYMINUTE=0", "2026-12-10T09:00"),
        ("every year on may 3", "FREQ=YEARLY;BYMONTH=5;BYMONTHDAY=3;BYHOUR=9;BYMINUTE=0", "2027-05-03T09:00"),
        ("cada 3 de mayo", "FREQ=YEARLY;BYMONTH=5;BYMONTHDAY=3;BYHOUR=9;BYMINUTE=0", "2027-05-03T09:00"),
        ("el 29 de febrero de cada año", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYHOUR=9;BYMINUTE=0", "2028-02-29T09:00"),
        ("every 20 minutes", "FREQ=MINUTELY;INTERVAL=20", "2026-11-10T15:20"),
        ("cada 2 horas", "FREQ=HOURLY;INTERVAL=2", "2026-11-10T17:00"),
        ("every day at 8 until friday", "FREQ=DAILY;UNTIL=20261113T235959;BYHOUR=8;BYMINUTE=0", "2026-11-11T08:00"),
        (
            "cada lunes a las 9 a partir del 1 de diciembre",
            "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0",
            "2026-12-07T09:00",
        ),
    ],
)  # fmt: skip
def test_phrases(text: str, rule: str, first: str) -> None:
    found = parse_repeat(text, NOW)
    assert found is not None
    assert (found[0].rule(), found[1]) == (rule, datetime.fromisoformat(first).replace(tzinfo=MADRID))


@pytest.mark.parametrize(
    "text",
    ["lunes a las 9", "el viernes a las 18", "mañana", "3 de mayo", "en 20 minutos", "el primer lunes de mayo", ""],
)
def test_what_happens_once_is_no_repetition(text: str) -> None:
    assert parse_repeat(text, NOW) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("every minute", "shortest repetition is 5 minutes"),
        ("every 2 hours at 9", "without a time of day"),
        ("every day at 8 and 9:30", "share their minute"),
        ("every 5000 days", "whole number from 1 to 1000"),
        ("cada 30 de febrero", "no such day"),
        ("el 32 de cada mes", "no month has a day 32"),
        ("every day until whenever", "cannot read a day"),
        ("every friday at 8 until tomorrow", "ends before it begins"),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    with pytest.raises(WhenError, match=reason):
        parse_repeat(text, NOW)


def _times(repeat: Repeat, start: datetime, count: int) -> list[str]:
    found, at = [], start
    for _ in range(count):
        following = repeat.next_after(at, at)
        if following is None:
            break
        at = following
        found.append(f"{at:%Y-%m-%d %H:%M%z}")
    return found


def test_days_that_a_month_lacks_are_passed_over() -> None:
    repeat = from_rule("FREQ=MONTHLY;BYMONTHDAY=31;BYHOUR=9;BYMINUTE=0")
    start = datetime(2026, 12, 31, 9, tzinfo=MADRID)
    assert _times(repeat, start, 2) == ["2027-01-31 09:00+0100", "2027-03-31 09:00+0200"]


def test_the_wall_clock_holds_over_the_change_of_the_clocks() -> None:
    daily = from_rule("FREQ=DAILY;BYHOUR=2;BYMINUTE=30")
    assert _times(daily, datetime(2026, 3, 28, 2, 30, tzinfo=MADRID), 2) == [
        "2026-03-29 03:30+0200",  # 02:30 does not exist
        "2026-03-30 02:30+0200",
    ]
    assert _times(daily, datetime(2026, 10, 24, 2, 30, tzinfo=MADRID), 2) == [
        "2026-10-25 02:30+0200",  # the first of two
        "2026-10-26 02:30+0100",
    ]
    hours = from_rule("FREQ=HOURLY;INTERVAL=6")
    assert _times(hours, datetime(2026, 10, 25, 0, tzinfo=MADRID), 1) == ["2026-10-25 05:00+0100"]


def test_intervals_keep_their_rhythm_from_any_occurrence() -> None:
    repeat = from_rule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;BYHOUR=9;BYMINUTE=0")
    monday = datetime(2026, 11, 16, 9, tzinfo=MADRID)
    assert [text[:10] for text in _times(repeat, monday, 3)] == ["2026-11-20", "2026-11-30", "2026-12-04"]
    later = repeat.next_after(monday, datetime(2027, 1, 1, tzinfo=MADRID))
    assert later == datetime(2027, 1, 1, 9, tzinfo=MADRID)


def test_until_ends_it() -> None:
    repeat = from_rule("FREQ=DAILY;UNTIL=20261112T235959;BYHOUR=8;BYMINUTE=0")
    assert len(_times(repeat, NOW, 9)) == 2


@pytest.mark.parametrize(
    ("text", "cron"),
    [
        ("every weekday at 8:30", "30 8 * * 1,2,3,4,5"),
        ("los domingos a las 10", "0 10 * * 0"),
        ("el primer lunes de cada mes", "0 9 * * 1#1"),
        ("the last day of every month", "0 9 L * *"),
        ("every other day", None),
        ("every 20 minutes", None),
    ],
)
def test_cron_lines(text: str, cron: str | None) -> None:
    found = parse_repeat(text, NOW)
    assert found is not None
    assert found[0].cron() == cron


def test_a_foreign_rule_is_refused() -> None:
    for rule in ("", "FREQ=SECONDLY", "FREQ=WEEKLY;BYDAY=XX", "nonsense"):
        with pytest.raises(WhenError):
            from_rule(rule)


EVERYDAY = [
    ("el último viernes de cada mes", "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9;BYMINUTE=0"),
    ("every friday at noon", "FREQ=WEEKLY;BYDAY=FR;BYHOUR=12;BYMINUTE=0"),
    ("todos los viernes a mediodía", "FREQ=WEEKLY;BYDAY=FR;BYHOUR=12;BYMINUTE=0"),
    ("cada lunes por la mañana", "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0"),
    ("lunes, miércoles y viernes a las 18:30", "FREQ=WEEKLY;BYDAY=MO,WE,FR;BYHOUR=18;BYMINUTE=30"),
    ("mon, wed, fri at 7am", "FREQ=WEEKLY;BYDAY=MO,WE,FR;BYHOUR=7;BYMINUTE=0"),
    ("every mon/wed/fri at 7", "FREQ=WEEKLY;BYDAY=MO,WE,FR;BYHOUR=7;BYMINUTE=0"),
    ("every day except sunday at 9", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR,SA;BYHOUR=9;BYMINUTE=0"),
    ("todos los días menos el domingo a las 9", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR,SA;BYHOUR=9;BYMINUTE=0"),
    ("weekdays at 8", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=8;BYMINUTE=0"),
    ("de lunes a jueves a las 22:00", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH;BYHOUR=22;BYMINUTE=0"),
    ("every second tuesday of the month at 10", "FREQ=MONTHLY;BYDAY=2TU;BYHOUR=10;BYMINUTE=0"),
    ("cada segundo martes del mes", "FREQ=MONTHLY;BYDAY=2TU;BYHOUR=9;BYMINUTE=0"),
    ("the first of every month", "FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=0"),
    ("el día 5 de cada mes a las 10", "FREQ=MONTHLY;BYMONTHDAY=5;BYHOUR=10;BYMINUTE=0"),
    ("cada día 15", "FREQ=MONTHLY;BYMONTHDAY=15;BYHOUR=9;BYMINUTE=0"),
    ("every 15th", "FREQ=MONTHLY;BYMONTHDAY=15;BYHOUR=9;BYMINUTE=0"),
    ("every two weeks on monday at 9", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=9;BYMINUTE=0"),
    ("every other friday at 17:00", "FREQ=WEEKLY;INTERVAL=2;BYDAY=FR;BYHOUR=17;BYMINUTE=0"),
    ("cada dos viernes", "FREQ=WEEKLY;INTERVAL=2;BYDAY=FR;BYHOUR=9;BYMINUTE=0"),
    ("un viernes sí y otro no", "FREQ=WEEKLY;INTERVAL=2;BYDAY=FR;BYHOUR=9;BYMINUTE=0"),
    ("fortnightly on monday", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=9;BYMINUTE=0"),
    ("every fortnight", "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=9;BYMINUTE=0"),
    ("cada quincena", "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=9;BYMINUTE=0"),
    ("quarterly", "FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=10;BYHOUR=9;BYMINUTE=0"),
    ("cada trimestre", "FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=10;BYHOUR=9;BYMINUTE=0"),
    ("every hour", "FREQ=HOURLY"),
    ("cada hora", "FREQ=HOURLY"),
    ("cada media hora", "FREQ=MINUTELY;INTERVAL=30"),
    ("every half hour", "FREQ=MINUTELY;INTERVAL=30"),
    ("cada 15 minutos", "FREQ=MINUTELY;INTERVAL=15"),
    ("every quarter of an hour", "FREQ=MINUTELY;INTERVAL=15"),
    ("cada hora y media", "FREQ=MINUTELY;INTERVAL=90"),
    ("once a week on sunday at 20:00", "FREQ=WEEKLY;BYDAY=SU;BYHOUR=20;BYMINUTE=0"),
    ("una vez a la semana", "FREQ=WEEKLY;BYDAY=TU;BYHOUR=9;BYMINUTE=0"),
    ("every evening at 8", "FREQ=DAILY;BYHOUR=20;BYMINUTE=0"),
    ("cada tarde", "FREQ=DAILY;BYHOUR=16;BYMINUTE=0"),
    ("nightly at 11pm", "FREQ=DAILY;BYHOUR=23;BYMINUTE=0"),
    ("todas las noches a las once y media", "FREQ=DAILY;BYHOUR=23;BYMINUTE=30"),
    ("cada año el 3 de mayo a las 9", "FREQ=YEARLY;BYMONTH=5;BYMONTHDAY=3;BYHOUR=9;BYMINUTE=0"),
    ("every year on december 24 at noon", "FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=24;BYHOUR=12;BYMINUTE=0"),
    ("todos los años el 6 de enero", "FREQ=YEARLY;BYMONTH=1;BYMONTHDAY=6;BYHOUR=9;BYMINUTE=0"),
    ("a final de cada mes", "FREQ=MONTHLY;BYMONTHDAY=-1;BYHOUR=9;BYMINUTE=0"),
    ("a finales de cada mes", "FREQ=MONTHLY;BYMONTHDAY=-1;BYHOUR=9;BYMINUTE=0"),
    ("at the end of every month", "FREQ=MONTHLY;BYMONTHDAY=-1;BYHOUR=9;BYMINUTE=0"),
    ("every morning at 6:45 until december 1", "FREQ=DAILY;UNTIL=20261201T235959;BYHOUR=6;BYMINUTE=45"),
    ("cada día a las 8 hasta el viernes", "FREQ=DAILY;UNTIL=20261113T235959;BYHOUR=8;BYMINUTE=0"),
    ("saturdays and sundays at 10:30", "FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=10;BYMINUTE=30"),
    ("los sábados y domingos a las 10 y media", "FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=10;BYMINUTE=30"),
    ("los fines de semana a mediodía", "FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=12;BYMINUTE=0"),
    ("martes y jueves a las 19h", "FREQ=WEEKLY;BYDAY=TU,TH;BYHOUR=19;BYMINUTE=0"),
    ("cada 8 horas", "FREQ=HOURLY;INTERVAL=8"),
    ("every six hours", "FREQ=HOURLY;INTERVAL=6"),
    ("every 10 days at 9", "FREQ=DAILY;INTERVAL=10;BYHOUR=9;BYMINUTE=0"),
    ("every weekday morning", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0"),
    ("every monday morning at 8", "FREQ=WEEKLY;BYDAY=MO;BYHOUR=8;BYMINUTE=0"),
    ("each tuesday evening", "FREQ=WEEKLY;BYDAY=TU;BYHOUR=19;BYMINUTE=0"),
]


@pytest.mark.parametrize(("text", "rule"), EVERYDAY)
def test_repetitions_as_people_write_them(text: str, rule: str) -> None:
    found = parse_repeat(text, NOW)
    assert found is not None
    assert found[0].rule() == rule
