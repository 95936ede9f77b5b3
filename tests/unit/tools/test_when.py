from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest

from workers.tools.days import past_day
from workers.tools.timewords import plain
from workers.tools.when import WhenError, parse_when, read_when

MADRID = ZoneInfo("Europe/Madrid")
NOW = datetime(2026, 11, 10, 15, 0, tzinfo=MADRID)  # a Tuesday


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-12-01T07:30", "2026-12-01T07:30"),
        ("2026-12-01 07:30", "2026-12-01T07:30"),
        ("2026-12-01", "2026-12-01T09:00"),
        ("2026-12-01T07:30:15Z", "2026-12-01T08:30:15"),
        ("2026-12-01T07:30+05:00", "2026-12-01T03:30"),
        ("in 20 minutes", "2026-11-10T15:20"),
        ("In 1 hour and 30 minutes", "2026-11-10T16:30"),
        ("in an hour and a half", "2026-11-10T16:30"),
        ("in half an hour", "2026-11-10T15:30"),
        ("in a couple of hours", "2026-11-10T17:00"),
        ("in 2 days", "2026-11-12T15:00"),
        ("en 20 minutos", "2026-11-10T15:20"),
        ("en media hora", "2026-11-10T15:30"),
        ("en una hora y media", "2026-11-10T16:30"),
        ("dentro de tres días", "2026-11-13T15:00"),
        ("en dos semanas", "2026-11-24T15:00"),
        ("tomorrow", "2026-11-11T09:00"),
        ("tomorrow at 7:30", "2026-11-11T07:30"),
        ("7pm tomorrow", "2026-11-11T19:00"),
        ("tomorrow morning", "2026-11-11T09:00"),
        ("the day after tomorrow at noon", "2026-11-12T12:00"),
        ("mañana a las 7", "2026-11-11T07:00"),
        ("Mañana por la mañana a las 8", "2026-11-11T08:00"),
        ("mañana a mediodía", "2026-11-11T12:00"),
        ("pasado mañana a las 20h", "2026-11-12T20:00"),
        ("hoy a las 6 de la tarde", "2026-11-10T18:00"),
        ("esta noche", "2026-11-10T21:00"),
        ("tonight at 9", "2026-11-10T21:00"),
        ("on friday at 6 pm", "2026-11-13T18:00"),
        ("friday", "2026-11-13T09:00"),
        ("next tuesday", "2026-11-17T09:00"),
        ("tuesday at 10", "2026-11-17T10:00"),
        ("tuesday at 16:00", "2026-11-10T16:00"),
        ("el viernes a las 6 de la tarde", "2026-11-13T18:00"),
        ("el martes que viene a las 10", "2026-11-17T10:00"),
        ("at 7", "2026-11-11T07:00"),
        ("at 16:30", "2026-11-10T16:30"),
        ("a las siete y media", "2026-11-11T07:30"),
        ("a las ocho menos cuarto", "2026-11-11T07:45"),
        ("a la 1 de la tarde", "2026-11-11T13:00"),
        ("12 am", "2026-11-11T00:00"),
        ("at 12 pm", "2026-11-11T12:00"),
        ("el 3 de mayo", "2027-05-03T09:00"),
        ("3 de diciembre a las 10:15", "2026-12-03T10:15"),
        ("march 3rd 2027 at 5pm", "2027-03-03T17:00"),
        ("29 de febrero", "2028-02-29T09:00"),
    ],
)
def test_forms(text: str, moment: str) -> None:
    assert parse_when(text, NOW) == datetime.fromisoformat(moment).replace(tzinfo=MADRID)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-12-01 a las 7:30", "2026-12-01T07:30"),
        ("el 2026-12-01 a las 19h", "2026-12-01T19:00"),
        ("in 45 mins", "2026-11-10T15:45"),
        ("in 2h", "2026-11-10T17:00"),
        ("in 1h30", "2026-11-10T16:30"),
        ("en 1h 15m", "2026-11-10T16:15"),
        ("in 1.5 hours", "2026-11-10T16:30"),
        ("en 1,5 horas", "2026-11-10T16:30"),
        ("dentro de dos horas", "2026-11-10T17:00"),
        ("dentro de un cuarto de hora", "2026-11-10T15:15"),
        ("en tres cuartos de hora", "2026-11-10T15:45"),
        ("in a quarter of an hour", "2026-11-10T15:15"),
        ("in two hours and a half", "2026-11-10T17:30"),
        ("en dos horas y media", "2026-11-10T17:30"),
        ("en treinta y cinco minutos", "2026-11-10T15:35"),
        ("in twenty-five minutes", "2026-11-10T15:25"),
        ("en 30 segundos", "2026-11-10T15:00:30"),
        ("20 minutes from now", "2026-11-10T15:20"),
        ("two days from now", "2026-11-12T15:00"),
        ("dentro de 3 días a las 9", "2026-11-13T09:00"),
        ("in 3 days at 9am", "2026-11-13T09:00"),
        ("in a week at noon", "2026-11-17T12:00"),
        ("dentro de una semana por la tarde", "2026-11-17T16:00"),
        ("de aquí a dos semanas", "2026-11-24T15:00"),
        ("in a month", "2026-12-10T15:00"),
        ("dentro de seis meses", "2027-05-10T15:00"),
        ("in a year", "2027-11-10T15:00"),
        ("en 2 años", "2028-11-10T15:00"),
        ("in a fortnight", "2026-11-24T15:00"),
        ("pasado mañana por la tarde", "2026-11-12T16:00"),
        ("mañana por la noche", "2026-11-11T21:00"),
        ("mañana a primera hora", "2026-11-11T08:00"),
        ("first thing tomorrow", "2026-11-11T08:00"),
        ("para mañana a las 8", "2026-11-11T08:00"),
        ("tomorrow at half past seven", "2026-11-11T07:30"),
        ("tomorrow at quarter to eight", "2026-11-11T07:45"),
        ("tomorrow at ten past eight", "2026-11-11T08:10"),
        ("tomorrow at 20 to 9", "2026-11-11T08:40"),
        ("tomorrow at eight thirty", "2026-11-11T08:30"),
        ("mañana a las ocho y diez", "2026-11-11T08:10"),
        ("mañana a las 9 menos veinte", "2026-11-11T08:40"),
        ("mañana a las siete y veinticinco de la tarde", "2026-11-11T19:25"),
        ("mañana a las 8 en punto", "2026-11-11T08:00"),
        ("mañana a eso de las 10", "2026-11-11T10:00"),
        ("mañana sobre las 10 y cuarto", "2026-11-11T10:15"),
        ("tomorrow around 5pm", "2026-11-11T17:00"),
        ("tomorrow at 8.30 pm", "2026-11-11T20:30"),
        ("tomorrow at 7 p.m.", "2026-11-11T19:00"),
        ("mañana a las 3 de la madrugada", "2026-11-11T03:00"),
        ("mañana a la 1 de la noche", "2026-11-11T01:00"),
        ("hoy a las 6", "2026-11-10T18:00"),
        ("today at 6", "2026-11-10T18:00"),
        ("hoy a medianoche", "2026-11-11T00:00"),
        ("esta tarde a las 7", "2026-11-10T19:00"),
        ("this evening at 8", "2026-11-10T20:00"),
        ("esta noche a las 10 y media", "2026-11-10T22:30"),
        ("tonight", "2026-11-10T21:00"),
        ("a medianoche", "2026-11-11T00:00"),
        ("por la mañana", "2026-11-11T09:00"),
        ("el lunes que viene a las 8:30", "2026-11-16T08:30"),
        ("el próximo lunes", "2026-11-16T09:00"),
        ("el viernes próximo a las 12", "2026-11-13T12:00"),
        ("este viernes a las 9", "2026-11-13T09:00"),
        ("next Friday 18:00", "2026-11-13T18:00"),
        ("this friday at 9", "2026-11-13T09:00"),
        ("a las 9 del jueves", "2026-11-12T09:00"),
        ("at 9 on thursday", "2026-11-12T09:00"),
        ("a las 7 de la tarde del domingo", "2026-11-15T19:00"),
        ("monday next week at 10", "2026-11-16T10:00"),
        ("friday next week", "2026-11-20T09:00"),
        ("el viernes de la semana que viene a las 12", "2026-11-20T12:00"),
        ("next week", "2026-11-17T09:00"),
        ("la semana que viene a las 10", "2026-11-17T10:00"),
        ("this weekend", "2026-11-14T09:00"),
        ("el fin de semana por la tarde", "2026-11-14T16:00"),
        ("next month", "2026-12-10T09:00"),
        ("el mes que viene", "2026-12-10T09:00"),
        ("el año que viene", "2027-11-10T09:00"),
        ("3 de mayo", "2027-05-03T09:00"),
        ("el tres de mayo a las 10", "2027-05-03T10:00"),
        ("el 1 de enero de 2028 a las 0:00", "2028-01-01T00:00"),
        ("may 3rd at 10am", "2027-05-03T10:00"),
        ("the 3rd of may", "2027-05-03T09:00"),
        ("10 de noviembre", "2027-11-10T09:00"),
        ("10 de noviembre a las 18:00", "2026-11-10T18:00"),
        ("el 3/5 a las 10", "2027-05-03T10:00"),
        ("3/5/2027", "2027-05-03T09:00"),
        ("3/5/28", "2028-05-03T09:00"),
        ("12/24 at 8pm", "2026-12-24T20:00"),
        ("24-12-2026", "2026-12-24T09:00"),
        ("el día 15", "2026-11-15T09:00"),
        ("el 15 a las 10", "2026-11-15T10:00"),
        ("the 15th at 10", "2026-11-15T10:00"),
        ("el día 5 a las 10", "2026-12-05T10:00"),
        ("on the 31st", "2026-12-31T09:00"),
        ("el 3 del mes que viene", "2026-12-03T09:00"),
        ("el primer lunes de mayo", "2027-05-03T09:00"),
        ("the first monday of next month at 9", "2026-12-07T09:00"),
        ("el último viernes de este mes", "2026-11-27T09:00"),
        ("the last day of the month", "2026-11-30T09:00"),
        ("a fin de mes", "2026-11-30T09:00"),
        ("end of next month", "2026-12-31T09:00"),
        ("el último día de febrero", "2027-02-28T09:00"),
        ("en mayo", "2027-05-01T09:00"),
        ("en nochevieja a las 23:55", "2026-12-31T23:55"),
        ("on christmas day at 10", "2026-12-25T10:00"),
        ("tomorrow at 9 UTC", "2026-11-11T10:00"),
        ("mañana a las 9 America/New_York", "2026-11-11T15:00"),
        ("tomorrow at 9 Europe/London", "2026-11-11T10:00"),
    ],
)
def test_everyday_phrases(text: str, moment: str) -> None:
    assert parse_when(text, NOW) == datetime.fromisoformat(moment).replace(tzinfo=MADRID)


def test_what_the_clocks_do_is_said() -> None:
    before_gap = datetime(2026, 3, 28, 12, tzinfo=MADRID)
    assert read_when("tomorrow at 2:30", before_gap).note == "the clocks skip 02:30 on 2026-03-29: 03:30 is meant"
    before_fold = datetime(2026, 10, 24, 12, tzinfo=MADRID)
    twice = read_when("mañana a las 2:30", before_fold)
    assert twice.note == "02:30 happens twice on 2026-10-25: the first is meant"
    assert twice.at.isoformat() == "2026-10-25T02:30:00+02:00"
    assert read_when("tomorrow at 4", before_fold).note == ""


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("hoy", "2026-11-10"), ("yesterday", "2026-11-09"), ("anteayer", "2026-11-08"), ("3 days ago", "2026-11-07"),
        ("hace tres días", "2026-11-07"), ("el lunes", "2026-11-09"), ("last tuesday", "2026-11-03"),
        ("el viernes pasado", "2026-11-06"), ("3 de mayo", "2026-05-03"), ("24 de diciembre", "2025-12-24"),
        ("2026-01-02", "2026-01-02"), ("nonsense", None),
    ],
)  # fmt: skip
def test_past_days(text: str, day: str | None) -> None:
    assert past_day(plain(text), NOW.date()) == (date.fromisoformat(day) if day else None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "cannot read"),
        ("7", "cannot read"),
        ("soon", "cannot read"),
        ("tomorrow at 7 or 8", "cannot read"),
        ("in many days", "cannot read"),
        ("at 25:00", "not a time of day"),
        ("at 13 pm", "not a time"),
        ("31 de abril", "no such day"),
        ("2026-13-01", "not a date"),
        ("2026-11-09", "in the past"),
        ("today at 10 am", "in the past"),
        ("hoy a las 10 de la mañana", "in the past"),
        ("today at 14:30", "in the past"),
        ("el 30 de febrero", "no such day"),
        ("el día 32", "no month has a day 32"),
        ("in 1.5 days", "cannot read"),
        ("tomorrow at 9 Europe/Madird", "no time zone"),
        ("ayer a las 7", "cannot read"),
        ("at 7:75", "not a time of day"),
        ("in 0 minutes", "in the past"),
        ("in 99999 weeks", "ten years"),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    with pytest.raises(WhenError, match=reason):
        parse_when(text, NOW)


def test_clock_changes() -> None:
    before_gap = datetime(2026, 3, 28, 12, tzinfo=MADRID)
    assert parse_when("tomorrow at 2:30", before_gap).isoformat() == "2026-03-29T03:30:00+02:00"
    assert parse_when("in 1 day", before_gap).isoformat() == "2026-03-29T12:00:00+02:00"
    assert parse_when("in 24 hours", before_gap).isoformat() == "2026-03-29T13:00:00+02:00"
    first_of_two = datetime(2026, 10, 25, 2, 50, tzinfo=MADRID)
    assert parse_when("in 20 minutes", first_of_two).isoformat() == "2026-10-25T02:10:00+01:00"


def test_now_must_be_aware() -> None:
    with pytest.raises(ValueError, match="aware"):
        parse_when("at 7", datetime(2026, 1, 1))


EVERYDAY = [
    ("next tue 3pm", "2026-11-17T15:00"),
    ("dentro de hora y media", "2026-11-10T16:30"),
    ("noon", "2026-11-11T12:00"),
    ("el 3 de marzo a las 8 y media de la tarde", "2027-03-03T20:30"),
    ("in two and a half hours", "2026-11-10T17:30"),
    ("dentro de dos horas y media", "2026-11-10T17:30"),
    ("de aquí a 10 minutos", "2026-11-10T15:10"),
    ("in 1h 15m", "2026-11-10T16:15"),
    ("in 90min", "2026-11-10T16:30"),
    ("en hora y cuarto", "2026-11-10T16:15"),
    ("tomorrow night at 9", "2026-11-11T21:00"),
    ("tomorrow at noon", "2026-11-11T12:00"),
    ("mañana al mediodía", "2026-11-11T12:00"),
    ("mañana temprano", "2026-11-11T08:00"),
    ("mañana a última hora", "2026-11-11T18:00"),
    ("hoy por la noche", "2026-11-10T21:00"),
    ("esta noche a las 9", "2026-11-10T21:00"),
    ("tonight at 8:30", "2026-11-10T20:30"),
    ("this afternoon", "2026-11-10T16:00"),
    ("mon 9am", "2026-11-16T09:00"),
    ("Wed at 14:00", "2026-11-11T14:00"),
    ("next wednesday at half past two", "2026-11-11T02:30"),
    ("el miércoles que viene a las 10", "2026-11-11T10:00"),
    ("el próximo martes a las 9", "2026-11-17T09:00"),
    ("el martes a las 10", "2026-11-17T10:00"),
    ("el martes a las 18:00", "2026-11-10T18:00"),
    ("jueves 8:15", "2026-11-12T08:15"),
    ("viernes a las 8 de la mañana", "2026-11-13T08:00"),
    ("sábado por la mañana", "2026-11-14T09:00"),
    ("on sunday evening", "2026-11-15T19:00"),
    ("a week from today", "2026-11-17T15:00"),
    ("a week from now", "2026-11-17T15:00"),
    ("a week on friday", "2026-11-20T09:00"),
    ("friday week", "2026-11-20T09:00"),
    ("monday after next", "2026-11-23T09:00"),
    ("dentro de una semana", "2026-11-17T15:00"),
    ("en 15 días", "2026-11-25T15:00"),
    ("de hoy en ocho días", "2026-11-18T15:00"),
    ("dentro de dos meses", "2027-01-10T15:00"),
    ("in 6 months at 10am", "2027-05-10T10:00"),
    ("el 24 de diciembre a las nueve de la noche", "2026-12-24T21:00"),
    ("december 24 at 9pm", "2026-12-24T21:00"),
    ("24 Dec 21:00", "2026-12-24T21:00"),
    ("24th of december, 9 pm", "2026-12-24T21:00"),
    ("Dec 24th, 2026 at 21:00", "2026-12-24T21:00"),
    ("3/4 a las 10", "2027-04-03T10:00"),
    ("03/04", "2027-04-03T09:00"),
    ("el 03/04/2027 a las 10:30", "2027-04-03T10:30"),
    ("13/02 10:00", "2027-02-13T10:00"),
    ("02/13 10:00", "2027-02-13T10:00"),
    ("2026-11-12 at 18:00", "2026-11-12T18:00"),
    ("2026-11-12 18:00", "2026-11-12T18:00"),
    ("2026-11-12T18:00:00Z", "2026-11-12T19:00"),
    ("2026-11-12T18:00+02:00", "2026-11-12T17:00"),
    ("el día 20 a las 7 de la tarde", "2026-11-20T19:00"),
    ("on the 20th at 7pm", "2026-11-20T19:00"),
    ("el 20 por la tarde", "2026-11-20T16:00"),
    ("el último viernes de mes a las 10", "2026-11-27T10:00"),
    ("el último viernes del mes", "2026-11-27T09:00"),
    ("last friday of the month at 5pm", "2026-11-27T17:00"),
    ("the first monday of december", "2026-12-07T09:00"),
    ("primer domingo de diciembre a las 12", "2026-12-06T12:00"),
    ("el segundo martes de enero", "2027-01-12T09:00"),
    ("a las siete y media de la tarde", "2026-11-10T19:30"),
    ("a las 3 de la tarde", "2026-11-11T15:00"),
    ("a las 23", "2026-11-10T23:00"),
    ("a las 8 menos cuarto de la tarde", "2026-11-10T19:45"),
    ("a las cinco menos diez", "2026-11-11T04:50"),
    ("at 5pm", "2026-11-10T17:00"),
    ("5 pm", "2026-11-10T17:00"),
    ("17h", "2026-11-10T17:00"),
    ("17:30h", "2026-11-10T17:30"),
    ("a las 17h30", "2026-11-10T17:30"),
    ("at quarter past six in the evening", "2026-11-10T18:15"),
    ("quarter to eight tonight", "2026-11-10T19:45"),
    ("at ten to nine pm", "2026-11-10T20:50"),
    ("at 7 in the morning", "2026-11-11T07:00"),
    ("at 0:30", "2026-11-11T00:30"),
    ("midnight", "2026-11-11T00:00"),
    ("12am", "2026-11-11T00:00"),
    ("12:30pm", "2026-11-11T12:30"),
    ("mañana a las 12 de la noche", "2026-11-12T00:00"),
    ("mañana a las doce del mediodía", "2026-11-11T12:00"),
    ("a las 2 de la madrugada", "2026-11-11T02:00"),
    ("mañana de madrugada", "2026-11-11T05:00"),
    ("mañana, a las 9:05", "2026-11-11T09:05"),
    ("Mañana a las 7 p. m.", "2026-11-11T19:00"),
    ("MAÑANA A LAS 7", "2026-11-11T07:00"),
    ("manana a las 7", "2026-11-11T07:00"),
    ("el lunes 16 a las 9", "2026-11-16T09:00"),
    ("lunes 16 de noviembre a las 9", "2026-11-16T09:00"),
    ("monday 16 november 9am", "2026-11-16T09:00"),
    ("Monday, November 16 at 9am", "2026-11-16T09:00"),
    ("viernes 13 a las 13:13", "2026-11-13T13:13"),
    ("en navidad a las 10", "2026-12-25T10:00"),
    ("next january", "2027-01-01T09:00"),
    ("a principios de enero", "2027-01-01T09:00"),
    ("a mediados de mes", "2026-11-15T09:00"),
    ("dentro de 3 días a las 9 de la mañana", "2026-11-13T09:00"),
    ("3 days from now at 9", "2026-11-13T09:00"),
    ("in 3 days", "2026-11-13T15:00"),
    ("dentro de una hora", "2026-11-10T16:00"),
    ("20 minutos", "2026-11-10T15:20"),
    ("in three quarters of an hour", "2026-11-10T15:45"),
    ("tomorrow same time", "2026-11-11T15:00"),
    ("mañana a esta hora", "2026-11-11T15:00"),
    ("this time tomorrow", "2026-11-11T15:00"),
    ("mañana a la misma hora", "2026-11-11T15:00"),
    ("tomorrow 0900", "2026-11-11T09:00"),
    ("at 1830", "2026-11-10T18:30"),
    ("el finde que viene", "2026-11-14T09:00"),
    ("el 29 de febrero", "2028-02-29T09:00"),
    ("tomorrow at midnight", "2026-11-12T00:00"),
    ("el viernes a medianoche", "2026-11-14T00:00"),
    ("two and a half hours from now", "2026-11-10T17:30"),
    ("in 2 days at midnight", "2026-11-13T00:00"),
    ("in two days and three hours", "2026-11-12T18:00"),
    ("next march", "2027-03-01T09:00"),
    ("early december", "2026-12-01T09:00"),
    ("el lunes 9", "2026-11-16T09:00"),
    ("viernes en ocho a las 11", "2026-11-20T11:00"),
]


@pytest.mark.parametrize(("text", "moment"), EVERYDAY)
def test_times_as_people_write_them(text: str, moment: str) -> None:
    assert parse_when(text, NOW) == datetime.fromisoformat(moment).replace(tzinfo=MADRID)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("in un ratito", "cannot read"),
        ("in 5", "cannot read"),
        ("tomorow at 7", "cannot read"),
        ("after lunch", "cannot read"),
        ("después de comer", "cannot read"),
        ("later today", "cannot read"),
        ("mañana a las 9 y pico", "cannot read"),
        ("tomorrow at 8 and a half", "cannot read"),
        ("monday 17 november", "2026-11-17 is a Tuesday, not a monday"),
        ("el martes 16 a las 9", "cannot read"),
        ("tomorrow at 9am PST", "which time zone is 'PST'"),
        ("mañana a las 9 hora de Londres", "which time zone is 'hora de Londres'"),
        ("9am London time tomorrow", "which time zone is 'London time'"),
        ("at 2460", "cannot read"),
        ("tomorrow 2500", "cannot read"),
    ],
)
def test_what_cannot_be_known_is_refused(text: str, reason: str) -> None:
    with pytest.raises(WhenError, match=reason):
        parse_when(text, NOW)


def test_the_midnight_that_is_meant_is_said() -> None:
    assert read_when("tomorrow at midnight", NOW).note == "the midnight that ends 2026-11-11 is meant"
    assert read_when("mañana a las 0:00", NOW).at.isoformat()[:16] == "2026-11-11T00:00"
