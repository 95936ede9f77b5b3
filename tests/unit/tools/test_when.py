from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from workers.tools.when import WhenError, parse_when

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
        ("today at 10", "in the past"),
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
