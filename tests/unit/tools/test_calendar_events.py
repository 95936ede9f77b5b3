"""Events as texts, without a server: what is written is found again, whatever the zone and the day."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.settings import Settings
from workers.declare import Registry
from workers.tools.calendar_events import Changes, Draft, EventError, changed, first, new, occurrences, without

NOW = datetime(2026, 11, 10, 15, tzinfo=ZoneInfo("Europe/Madrid"))
ZONES = st.sampled_from(["Europe/Madrid", "America/Mexico_City", "Pacific/Auckland", "Asia/Kolkata", "UTC"]).map(
    ZoneInfo
)
SPAN = timedelta(days=40)


@pytest.mark.property
@settings(max_examples=30, deadline=None)
@given(
    zone=ZONES,
    start=st.datetimes(datetime(2026, 1, 1), datetime(2028, 1, 1)),
    minutes=st.integers(1, 3000),
    title=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30),
)
def test_an_event_is_where_it_was_put(zone: ZoneInfo, start: datetime, minutes: int, title: str) -> None:
    begin = start.replace(second=0, microsecond=0, tzinfo=zone).astimezone(UTC).astimezone(zone)
    end = (begin.astimezone(UTC) + timedelta(minutes=minutes)).astimezone(zone)
    data = new(Draft("u", title, begin, end), NOW)
    found, broken = occurrences([("c", data)], begin - SPAN, begin + SPAN, zone)
    assert [(one.title, one.start, one.end, one.id) for one in found] == [(title, begin, end, "")]
    assert broken == 0
    assert occurrences([("c", data)], end, end + SPAN, zone)[0] == []
    moved = changed(data, Changes(start=begin), "", zone, NOW)
    assert first(moved, "c", zone).end == end


@pytest.mark.property
@settings(max_examples=20, deadline=None)
@given(zone=ZONES, which=st.sets(st.integers(0, 5), max_size=5))
def test_what_is_left_out_of_a_series_is_all_that_is_missing(zone: ZoneInfo, which: set[int]) -> None:
    begin = datetime(2026, 3, 20, 9, 30, tzinfo=zone)
    data = new(Draft("u", "x", begin, begin + timedelta(hours=1), rule="FREQ=WEEKLY;COUNT=6"), NOW)
    times, _ = occurrences([("c", data)], begin - SPAN, begin + 2 * SPAN, zone)
    assert [one.start.replace(tzinfo=None).time() for one in times if isinstance(one.start, datetime)] == [
        begin.time()
    ] * 6
    for number in which:
        data = without(data, times[number].id, zone, NOW)
    left, _ = occurrences([("c", data)], begin - SPAN, begin + 2 * SPAN, zone)
    assert [one.id for one in left] == [one.id for number, one in enumerate(times) if number not in which]


def test_an_entry_that_is_none_is_counted_and_passed_over() -> None:
    good = new(Draft("u", "x", date(2026, 11, 10), date(2026, 11, 11)), NOW)
    no_start = b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:q\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    bad_rule = good.replace(b"UID:u", b"UID:v\r\nRRULE:FREQ=DAILY;BYDAY=XX")
    found, broken = occurrences(
        [("a", b"nonsense"), ("b", good), ("c", no_start), ("d", bad_rule)], NOW - SPAN, NOW + SPAN, ZoneInfo("UTC")
    )
    assert [one.calendar for one in found if one.uid == "u"] == ["b"]
    assert broken >= 1
    for data in (b"nonsense", no_start):
        with pytest.raises(EventError):
            changed(data, Changes(title="y"), "", ZoneInfo("UTC"), NOW)


def test_a_single_event_has_no_times_of_its_own() -> None:
    data = new(Draft("u", "x", date(2026, 11, 10), date(2026, 11, 11)), NOW)
    with pytest.raises(EventError, match="does not repeat"):
        without(data, "2026-11-10", ZoneInfo("UTC"), NOW)
    with pytest.raises(EventError, match="both have a time"):
        changed(data, Changes(end=NOW), "", ZoneInfo("UTC"), NOW)


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry()
    registry.load_builtin()

    def missing(**calendar: object) -> dict[str, str]:
        values = {"workspace": {"dir": tmp_path}, "calendar": calendar}
        found = registry.catalogue(Settings.model_validate(values)).missing
        return {name: why for name, why in found.items() if name.startswith("calendar_")}

    assert len(missing()) == 5
    assert "set calendar.accounts.owner" in missing()["calendar_add"]
    accounts = {"owner": {"url": "https://x.example/", "user": "u", "password_env": "OWNERS_CALENDAR"}}
    assert "variable OWNERS_CALENDAR" in missing(accounts=accounts)["calendar_today"]
    monkeypatch.setenv("OWNERS_CALENDAR", "x")
    assert missing(accounts=accounts) == {}
    assert missing(accounts={"owner": {"url": "https://x.example/", "password_env": ""}}) == {}
