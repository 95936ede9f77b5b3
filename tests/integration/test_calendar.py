"""The calendar tools against a real CalDAV server: what they return, and what they stored there."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from shared.errors import ModelError
from tests.support.dovecot import free_port
from tests.support.radicale import Radicale, radicale
from tests.unit.tools import conftest as tool_bench
from tests.unit.tools.conftest import Bench

pytestmark = pytest.mark.integration

workspace, make_bench = tool_bench.workspace, tool_bench.make_bench
PASSWORD = "pa:ss wörd"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[Radicale]:
    with radicale({f"user{n}": PASSWORD for n in range(60)}) as running:
        yield running


@dataclass
class Desk:
    """A user with two calendars and a list of tasks, and the tools. It is Tuesday 2026-11-10, 15:00 in Madrid."""

    user: str
    server: Radicale
    bench: Bench

    def run(self, name: str, **args: Any) -> Any:
        return self.bench.run(name, principal="ana", **args)

    def put(self, uid: str, body: str, calendar: str = "casa") -> None:
        text = (
            f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//x//\nBEGIN:VEVENT\nUID:{uid}\n{body}\nEND:VEVENT\nEND:VCALENDAR\n"
        )
        path = f"{self.user}/{calendar}/{uid}.ics"
        self.server.request("PUT", path, f"{self.user}:{PASSWORD}", text.replace("\n", "\r\n"))

    def stored(self) -> list[str]:
        return self.server.events(self.user)

    def starts(self, days: int = 30, **args: Any) -> list[str]:
        return [one["start"] for one in self.run("calendar_upcoming", days=days, **args).value["events"]]


@pytest.fixture
def make_desk(
    server: Radicale, make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Desk]:
    monkeypatch.setenv("ANAS_PASSWORD", PASSWORD)

    def make(timeout_s: float = 10, **account: Any) -> Desk:
        user = f"user{next(_numbers)}"
        login = f"{user}:{PASSWORD}"
        server.make_calendar(login, "casa", "Casa")
        server.make_calendar(login, "tareas", "Tareas", "VTODO")
        server.make_calendar(login, "trabajo", "Trabajo")
        values = {"url": server.url, "user": user, "password_env": "ANAS_PASSWORD", "calendar": "Casa", **account}
        return Desk(user, server, make_bench(calendar={"accounts": {"ana": values}, "timeout_s": timeout_s}))

    return make


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    return make_desk()


def test_an_event_is_added_in_words_and_listed(desk: Desk) -> None:
    added = desk.run(
        "calendar_add", title="Dentista", start="mañana a las 9 y media", place="C/ Mayor 1", notes="traer tarjeta"
    )
    assert added.value["start"] == "2026-11-11T09:30:00+01:00"
    assert added.value["end"] == "2026-11-11T10:30:00+01:00"
    assert "Added: Dentista, Wed 2026-11-11 09:30 to 10:30 (Europe/Madrid); calendar Casa" in added.seen
    [text] = desk.stored()
    assert "DTSTART;TZID=Europe/Madrid:20261111T093000" in text
    assert "BEGIN:VTIMEZONE" in text
    listed = desk.run("calendar_upcoming", days=2)
    assert [one["uid"] for one in listed.value["events"]] == [added.value["uid"]]
    assert "Wed 2026-11-11 09:30 to 10:30: Dentista; at C/ Mayor 1; notes: traer tarjeta; uid" in listed.seen
    assert desk.run("calendar_today").seen == "Nothing is on the calendar today, Tuesday 2026-11-10."


def test_the_same_call_adds_one_event_and_another_call_another(desk: Desk) -> None:
    args = {"title": "Cena", "start": "on friday at 9 pm", "duration_minutes": 90}
    first = desk.run("calendar_add", node="r1.0.0.0", **args)
    again = desk.run("calendar_add", node="r1.0.0.0", **{**args, "start": "on friday at 10 pm"})
    assert again.value == first.value
    assert len(desk.stored()) == 1
    desk.run("calendar_add", node="r1.0.0.1", **args)
    assert len(desk.stored()) == 2
    assert first.value["end"] == "2026-11-13T22:30:00+01:00"


@pytest.mark.parametrize(
    ("args", "start", "end"),
    [
        ({"start": "2026-11-12T10:00", "end": "a las 12"}, "2026-11-12T10:00:00+01:00", "2026-11-12T12:00:00+01:00"),
        ({"start": "mañana a las 22", "end": "at 1 am"}, "2026-11-11T22:00:00+01:00", "2026-11-12T01:00:00+01:00"),
        ({"start": "hoy a las 20", "end": "mañana a las 8"}, "2026-11-10T20:00:00+01:00", "2026-11-11T08:00:00+01:00"),
        ({"start": "2026-11-10T09:00"}, "2026-11-10T09:00:00+01:00", "2026-11-10T10:00:00+01:00"),
        ({"start": "2026-12-24T12:00Z"}, "2026-12-24T13:00:00+01:00", "2026-12-24T14:00:00+01:00"),
        ({"start": "2026-12-24"}, "2026-12-24", "2026-12-24"),
        ({"start": "24 de diciembre", "end": "26 de diciembre", "all_day": True}, "2026-12-24", "2026-12-26"),
        ({"start": "hoy", "all_day": True}, "2026-11-10", "2026-11-10"),
        # A night in which the clocks go forward, and a time that they skip.
        (
            {"start": "2027-03-27T23:00", "duration_minutes": 480},
            "2027-03-27T23:00:00+01:00",
            "2027-03-28T08:00:00+02:00",
        ),
        ({"start": "2027-03-28T02:30"}, "2027-03-28T03:30:00+02:00", "2027-03-28T04:30:00+02:00"),
    ],
)
def test_times_as_people_write_them(desk: Desk, args: dict[str, Any], start: str, end: str) -> None:
    added = desk.run("calendar_add", title="x", **args)
    assert (added.value["start"], added.value["end"]) == (start, end)
    assert added.value["all_day"] == (len(start) == 10)


@pytest.mark.parametrize(
    ("repeat", "rule", "first"),
    [
        ("every thursday", "FREQ=WEEKLY;BYDAY=TH", "2026-11-12"),
        ("todos los lunes y miércoles", "FREQ=WEEKLY;BYDAY=MO,WE", "2026-11-16"),
        ("every day until 30 november", "FREQ=DAILY;UNTIL=20261130T225959Z", "2026-11-12"),
        ("cada dos semanas", "FREQ=WEEKLY;INTERVAL=2;BYDAY=TH", "2026-11-12"),
        ("el primer lunes de cada mes", "FREQ=MONTHLY;BYDAY=1MO", "2026-12-07"),
        ("cada día, 5 veces", "FREQ=DAILY;COUNT=5", "2026-11-12"),
        ("rrule:freq=monthly;bymonthday=31", "FREQ=MONTHLY;BYMONTHDAY=31", "2026-12-31"),
    ],
)
def test_what_repeats_begins_on_a_day_that_fits(desk: Desk, repeat: str, rule: str, first: str) -> None:
    added = desk.run("calendar_add", title="Yoga", start="2026-11-12T19:00", repeat=repeat)
    assert sorted(added.value["repeat"].split(";")) == sorted(rule.split(";"))
    assert added.value["start"].startswith(f"{first}T19:00")
    assert ("[the start was moved" in added.seen) == (first != "2026-11-12")


def test_a_series_is_listed_each_time_and_keeps_its_hour_over_the_change_of_the_clock(desk: Desk) -> None:
    desk.run("calendar_add", title="Clase", start="2027-03-22T09:00", repeat="cada lunes")
    listed = desk.run("calendar_upcoming", from_day="2027-03-20", days=14).value["events"]
    assert [(one["start"], one["occurrence"]) for one in listed] == [
        ("2027-03-22T09:00:00+01:00", "2027-03-22T09:00:00+01:00"),
        ("2027-03-29T09:00:00+02:00", "2027-03-29T09:00:00+02:00"),
    ]


def test_one_time_of_a_series_is_changed_or_left_out(desk: Desk) -> None:
    uid = desk.run("calendar_add", title="Yoga", start="2026-11-12T19:00", repeat="every thursday").value["uid"]
    second, third = "2026-11-19T19:00:00+01:00", "2026-11-26T19:00:00+01:00"
    for _ in range(2):
        moved = desk.run(
            "calendar_change", uid=uid, occurrence=second, start="2026-11-20T20:00", title="Yoga (viernes)"
        )
    assert "Changed: Yoga" in moved.seen
    for deleted in (True, False):
        assert desk.run("calendar_delete", uid=uid, occurrence=third).value["deleted"] is deleted
    assert desk.starts(24) == [
        "2026-11-12T19:00:00+01:00", "2026-11-20T20:00:00+01:00", "2026-12-03T19:00:00+01:00",
    ]  # fmt: skip
    titles = [one["title"] for one in desk.run("calendar_upcoming", days=12, text="VIERNES").value["events"]]
    assert titles == ["Yoga (viernes)"]
    with pytest.raises(ModelError, match="does not happen at 2026-11-18"):
        desk.run("calendar_change", uid=uid, occurrence="2026-11-18T19:00:00+01:00", title="x")
    with pytest.raises(ModelError, match="is no occurrence"):
        desk.run("calendar_delete", uid=uid, occurrence="the second one")


def test_a_change_keeps_what_it_does_not_name(desk: Desk) -> None:
    uid = desk.run("calendar_add", title="Dentista", start="2026-11-12T09:00", duration_minutes=45, place="Sol").value[
        "uid"
    ]
    for _ in range(2):
        changed = desk.run("calendar_change", uid=uid, start="on friday at 17:00")
        assert (changed.value["start"], changed.value["end"]) == (
            "2026-11-13T17:00:00+01:00",
            "2026-11-13T17:45:00+01:00",
        )
    assert changed.value["place"] == "Sol"
    longer = desk.run("calendar_change", uid=uid, duration_minutes=60)
    assert longer.value["end"] == "2026-11-13T18:00:00+01:00"
    later = desk.run("calendar_change", uid=uid, end="at 19:00", place="", notes="urgente")
    assert (later.value["end"], later.value["place"], later.value["notes"]) == (
        "2026-11-13T19:00:00+01:00",
        "",
        "urgente",
    )
    days = desk.run("calendar_change", uid=uid, start="2026-11-14", end="2026-11-15")
    assert (days.value["start"], days.value["end"], days.value["all_day"]) == ("2026-11-14", "2026-11-15", True)
    assert desk.starts() == ["2026-11-14"]
    with pytest.raises(ModelError, match="the end is not behind the start"):
        desk.run("calendar_change", uid=uid, start="2026-11-14", end="2026-11-12")
    assert desk.starts() == ["2026-11-14"]


def test_a_series_can_repeat_differently_or_no_more(desk: Desk) -> None:
    uid = desk.run("calendar_add", title="Yoga", start="2026-11-12T19:00", repeat="every thursday").value["uid"]
    desk.run("calendar_change", uid=uid, start="2026-11-12T20:00")
    assert desk.starts(10) == ["2026-11-12T20:00:00+01:00", "2026-11-19T20:00:00+01:00"]
    with pytest.raises(ModelError, match="does not fit its repetition"):
        desk.run("calendar_change", uid=uid, start="2026-11-13T20:00")
    moved = desk.run("calendar_change", uid=uid, repeat="every tuesday")
    assert moved.value["start"] == "2026-11-17T20:00:00+01:00"
    assert desk.starts(16) == ["2026-11-17T20:00:00+01:00", "2026-11-24T20:00:00+01:00"]
    assert desk.run("calendar_change", uid=uid, repeat="").value["repeat"] == ""
    assert desk.starts() == ["2026-11-17T20:00:00+01:00"]


def test_deleting_may_be_repeated(desk: Desk) -> None:
    uid = desk.run("calendar_add", title="x", start="mañana a las 9").value["uid"]
    assert [desk.run("calendar_delete", uid=uid).value["deleted"] for _ in range(2)] == [True, False]
    assert desk.stored() == []
    with pytest.raises(ModelError, match="no event with uid"):
        desk.run("calendar_change", uid=uid, title="y")


def test_what_other_programs_wrote_is_read(desk: Desk) -> None:
    desk.put("utc", "DTSTAMP:20260101T000000Z\nDTSTART:20261110T170000Z\nDURATION:PT30M\nSUMMARY:Llamada\\, Tokio")
    desk.put("floating", "DTSTAMP:20260101T000000Z\nDTSTART:20261110T200000\nDTEND:20261110T210000\nSUMMARY:Cine")
    desk.put("york", "DTSTAMP:20260101T000000Z\nDTSTART;TZID=America/New_York:20261110T120000\nSUMMARY:NY", "trabajo")
    desk.put("gone", "DTSTAMP:20260101T000000Z\nDTSTART:20261110T180000Z\nSTATUS:CANCELLED\nSUMMARY:No")
    desk.put("days", "DTSTAMP:20260101T000000Z\nDTSTART;VALUE=DATE:20261109\nDTEND;VALUE=DATE:20261112\nSUMMARY:Feria")
    desk.put("often", "DTSTAMP:20260101T000000Z\nDTSTART:20261110T000000Z\nRRULE:FREQ=SECONDLY\nSUMMARY:Tic")
    found = desk.run("calendar_today")
    assert [(one["title"], one["start"], one["calendar"]) for one in found.value["events"]] == [
        ("Feria", "2026-11-09", "Casa"),
        ("Llamada, Tokio", "2026-11-10T18:00:00+01:00", "Casa"),
        ("NY", "2026-11-10T18:00:00+01:00", "Trabajo"),
        ("Cine", "2026-11-10T20:00:00+01:00", "Casa"),
    ]
    assert "Mon 2026-11-09 to Wed 2026-11-11, all day: Feria" in found.seen
    assert "[1 entries of the calendar could not be read]" in found.seen
    changed = desk.run("calendar_change", uid="york", title="Nueva York")
    assert changed.value["calendar"] == "Trabajo"


def test_events_go_to_the_calendar_that_is_named(desk: Desk) -> None:
    assert (
        desk.run("calendar_add", title="x", start="mañana a las 9", calendar="trabajo").value["calendar"] == "Trabajo"
    )
    with pytest.raises(ModelError, match=r"no calendar 'Tareas'; nothing was changed.*Casa, Trabajo"):
        desk.run("calendar_add", title="x", start="mañana a las 9", calendar="Tareas")


def test_somebody_elses_change_in_between_is_kept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from workers.tools import calendar_store

    uid = desk.run("calendar_add", title="Cena", start="2026-11-12T21:00", node="r1.0.0.0").value["uid"]
    replace = calendar_store.Store.replace
    others: list[int] = []

    def interrupted(store: Any, entry: Any, data: bytes) -> bool:
        if not others:
            others.append(1)
            desk.run("calendar_change", uid=uid, place="Casa Paco", node="r2.0.0.0")
        return replace(store, entry, data)

    monkeypatch.setattr(calendar_store.Store, "replace", interrupted)
    changed = desk.run("calendar_change", uid=uid, title="Cena con Eva")
    assert (changed.value["title"], changed.value["place"]) == ("Cena con Eva", "Casa Paco")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"start": "algún día"}, "start: cannot read a time"),
        ({"start": "mañana a las 9", "end": "nunca"}, "end: cannot read a time"),
        ({"start": "mañana a las 9", "repeat": "a veces"}, "cannot read a repetition from 'a veces'"),
        ({"start": "mañana a las 9", "repeat": "FREQ=SECONDLY"}, "every day at most"),
        ({"start": "mañana a las 9", "repeat": "FREQ=NEVER"}, "is no repetition"),
        ({"start": "mañana a las 9", "end": "a las 10", "duration_minutes": 5}, "either end or duration"),
        ({"start": "2026-11-12", "duration_minutes": 5}, "whole days have no duration"),
        ({"start": "2026-11-12T10:00", "end": "2026-11-12T09:00"}, "the end is not behind the start"),
        ({"start": ""}, "start"),
        ({}, "argument `start` is missing"),
        ({"start": "mañana a las 9", "duration_minutes": 0}, "duration_minutes"),
    ],
)
def test_what_is_not_understood_is_said_and_changes_nothing(desk: Desk, args: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        desk.run("calendar_add", title="x", **args)
    assert desk.stored() == []
    for name, wrong in (("calendar_upcoming", {"days": 0}), ("calendar_delete", {}), ("calendar_change", {"uid": "u"})):
        with pytest.raises(ModelError):
            desk.run(name, **wrong)


def test_users_have_their_own_calendars_or_none(desk: Desk, make_desk: Callable[..., Desk]) -> None:
    uid = desk.run("calendar_add", title="secreto", start="mañana a las 9").value["uid"]
    other = make_desk()
    assert other.starts() == []
    assert other.run("calendar_delete", uid=uid).value["deleted"] is False
    assert len(desk.stored()) == 1
    with pytest.raises(ModelError, match=r"no calendar account.*calendar\.accounts\.eva"):
        desk.bench.run("calendar_today", principal="eva")


def test_a_time_zone_of_ones_own(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(timezone="America/Mexico_City")
    assert desk.run("calendar_add", title="x", start="mañana a las 9").value["start"] == "2026-11-11T09:00:00-06:00"


def test_a_wrong_password_is_told_without_it(make_desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    desk = make_desk()
    monkeypatch.setenv("ANAS_PASSWORD", "hunter2")
    with pytest.raises(ModelError, match="refused the login of user") as failure:
        desk.run("calendar_today")
    assert failure.value.code == "auth_refused"
    assert "hunter2" not in str(failure.value)


def _answering(answer: bytes) -> tuple[socket.socket, str]:
    listening = socket.create_server(("127.0.0.1", 0))

    def talk() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)

    threading.Thread(target=talk, daemon=True).start()
    return listening, f"http://127.0.0.1:{listening.getsockname()[1]}/"


def test_a_server_that_is_away_slow_or_something_else(make_desk: Callable[..., Desk]) -> None:
    with pytest.raises(ModelError, match="cannot be reached") as failure:
        make_desk(url=f"http://127.0.0.1:{free_port()}/").run("calendar_today")
    assert failure.value.code == "unreachable"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        desk = make_desk(timeout_s=0.5, url=f"http://127.0.0.1:{silent.getsockname()[1]}/")
        with pytest.raises(ModelError, match="did not answer in time") as failure:
            desk.run("calendar_add", title="x", start="mañana a las 9")
        assert failure.value.code == "timed_out"
    for body in (b"<html>hello</html>", b"<multistatus xmlns='DAV:'", b"\x00\xff"):
        head = b"HTTP/1.1 207 Multi-Status\r\nContent-Type: text/xml\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        listening, url = _answering(head % len(body) + body)
        with listening, pytest.raises(ModelError) as failure:
            make_desk(url=url).run("calendar_today")
        assert failure.value.code in ("bad_response", "not_found"), str(failure.value)
    listening, url = _answering(b"HTTP/1.1 500 Oops\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    with listening, pytest.raises(ModelError) as failure:
        make_desk(url=url).run("calendar_today")
    assert failure.value.code == "bad_response"
