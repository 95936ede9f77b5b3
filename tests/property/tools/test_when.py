"""Times and repetitions in words: ahead of now, and read as they are written."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from dateutil.rrule import rrulestr  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from workers.tools.recurrence import Freq, Repeat, from_rule
from workers.tools.repeats import parse_repeat
from workers.tools.when import WhenError, parse_when

pytestmark = pytest.mark.property

MADRID = ZoneInfo("Europe/Madrid")
ZONES = st.sampled_from([MADRID, ZoneInfo("America/New_York"), ZoneInfo("Asia/Kolkata"), ZoneInfo("UTC")])
NAIVE = st.datetimes(datetime(2025, 1, 1), datetime(2035, 1, 1)).map(lambda at: at.replace(second=0, microsecond=0))
MOMENTS = st.builds(lambda at, zone: at.replace(tzinfo=zone).astimezone(UTC).astimezone(zone), NAIVE, ZONES)
WORDS = (
    "every cada todos los las días day days weekday lunes monday mondays y and el primer first last último mes month "
    "of de a at 9 8:30 15 15th until hasta friday mayo may weekly daily 2 other weeks semanas horas hours in en "
    "starting 1 31 29 febrero año year morning noche mañana media 3/5 que viene next semana week from now dentro"
)
CLOCKS = st.builds(time, st.integers(0, 23), st.integers(0, 59))
WEEKDAYS = st.sets(st.integers(0, 6), min_size=1).map(lambda days: tuple(sorted(days)))


@st.composite
def repeats(draw: st.DrawFn, *, interval: int = 6) -> Repeat:
    """Any repetition that words can make."""
    freq: Freq = draw(st.sampled_from(["minutely", "hourly", "daily", "weekly", "monthly", "yearly"]))
    step = draw(st.integers(1, interval))
    if freq in ("minutely", "hourly"):
        return Repeat(freq, step * 5 if freq == "minutely" else step)
    minute = draw(st.integers(0, 59))
    times = tuple(time(hour, minute) for hour in sorted(draw(st.sets(st.integers(0, 23), min_size=1, max_size=3))))
    if freq == "daily":
        return Repeat(freq, step, times)
    if freq == "weekly":
        return Repeat(freq, step, times, weekdays=draw(WEEKDAYS))
    if freq == "yearly":
        month = draw(st.integers(1, 12))
        return Repeat(freq, step, times, month=month, month_days=(draw(st.integers(1, 28)),))
    if draw(st.booleans()):
        nth = draw(st.sampled_from([1, 2, 3, 4, 5, -1]))
        return Repeat(freq, 1, times, weekdays=(draw(st.integers(0, 6)),), nth=nth)
    last = draw(st.booleans())
    days = (-1,) if last else tuple(sorted(draw(st.sets(st.integers(1, 31), min_size=1, max_size=3))))
    return Repeat(freq, step, times, month_days=days)


@given(st.lists(st.sampled_from(WORDS.split()), max_size=9).map(" ".join) | st.text(max_size=60), MOMENTS)
def test_what_is_understood_is_ahead(text: str, now: datetime) -> None:
    for parse in (parse_when, parse_repeat):
        try:
            found = parse(text, now)
        except WhenError:
            continue
        if found is not None:
            at = found[1] if isinstance(found, tuple) else found
            assert at.astimezone(UTC) > now.astimezone(UTC)
            assert at.tzinfo is now.tzinfo


@given(MOMENTS, st.timedeltas(timedelta(minutes=1), timedelta(days=3000)))
def test_a_written_moment_is_read_as_it_is(now: datetime, ahead: timedelta) -> None:
    at = (now.astimezone(UTC) + ahead).replace(second=0, microsecond=0).astimezone(now.tzinfo)
    if at.fold == 0 and at > now:
        assert parse_when(f"{at:%Y-%m-%d %H:%M}", now) == at
        assert parse_when(f"el {at.day}/{at.month}/{at.year} a las {at:%H:%M}", now) == at
    assert parse_when(at.isoformat(), now) == at


@given(CLOCKS, st.integers(1, 300), MOMENTS)
def test_days_of_a_span_are_days_of_the_calendar(at: time, days: int, now: datetime) -> None:
    found = parse_when(f"in {days} days at {at:%H:%M}", now)
    assert abs(found.date() - now.date() - timedelta(days=days)) <= timedelta(days=1)
    if found.time() != at:  # the clocks skip it
        assert found.utcoffset() != (found - timedelta(hours=3)).utcoffset()


@given(repeats(), MOMENTS)
def test_a_repetition_survives_its_words_and_its_rule(repeat: Repeat, now: datetime) -> None:
    assert from_rule(repeat.rule()) == repeat
    found = parse_repeat(repeat.words(), now)
    assert found is not None
    assert found[0] == repeat


@given(repeats(), MOMENTS)
def test_the_first_time_is_the_next_and_others_follow_it(repeat: Repeat, now: datetime) -> None:
    found = parse_repeat(repeat.words(), now)
    assert found is not None
    following = repeat.next_after(found[1], found[1])
    assert following is None or following.astimezone(UTC) > found[1].astimezone(UTC)


@given(repeats(), NAIVE)
def test_times_are_those_of_rfc_5545(repeat: Repeat, start: datetime) -> None:
    """Without a change of the clocks, as dateutil counts them."""
    anchor = start.replace(tzinfo=UTC)
    rule = rrulestr(repeat.rule(), dtstart=start)
    expected = rule.after(start)
    found = repeat.next_after(anchor, anchor)
    assert (found.replace(tzinfo=None) if found else None) == (expected.replace(second=0) if expected else None)


@given(repeats(interval=1), NAIVE)
def test_cron_lines_mean_the_same(repeat: Repeat, start: datetime) -> None:
    if (line := repeat.cron()) is not None:
        expected = next(CronSim(line, start))
        found = repeat.next_after(start.replace(tzinfo=UTC), start.replace(tzinfo=UTC))
        assert found is not None
        assert found.replace(tzinfo=None) == expected


@given(repeats(), st.dates(date(2026, 1, 1), date(2030, 1, 1)))
def test_until_is_never_passed(repeat: Repeat, last: date) -> None:
    bounded = Repeat(**{name: getattr(repeat, name) for name in repeat.__dataclass_fields__} | {"until": last})
    at: datetime | None = datetime(2025, 12, 31, 12, tzinfo=MADRID)
    for _ in range(20):
        if at is None or (at := bounded.next_after(at, at)) is None:
            break
        assert at.date() <= last
