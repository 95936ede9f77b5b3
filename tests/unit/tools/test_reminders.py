"""Reminders: how they are set and changed, and what their two workflows make of them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from shared.errors import ModelError, OperatorError, StateUnavailable
from shared.settings import Settings
from shared.sql.reminders import CLAIM_MS, Reminder
from tests.unit.tools.conftest import NOW, Bench
from workers.tools.reminders import language
from workers.workflows import reminders as workflows
from workers.workflows.reminders import any_due, duration

MADRID = ZoneInfo("Europe/Madrid")


def _at(bench: Bench, seconds: float) -> Bench:
    """The same installation, so much later."""
    services = dataclasses.replace(bench.services, now=lambda: NOW + seconds)
    return Bench(bench.settings, services, bench.state, bench.model)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Reminder]:
    found: list[Reminder] = []

    async def send(settings: Settings, one: Reminder) -> None:
        found.append(one)

    monkeypatch.setattr(workflows, "send", send)
    return found


def _tell(bench: Bench, one: Reminder, run: str = "r1") -> Any:
    ctx = dataclasses.replace(bench.ctx(one.principal), run=run)
    tool = bench.tool("workflow:reminder/tell")
    args = {"inputs": {"params": {"reminder": one.id, "due_ms": one.due_ms}}}
    return asyncio.run(tool.call(ctx, args))


def test_a_repeating_reminder_is_set_and_listed_in_words(bench: Any) -> None:
    one = bench.run("reminder_add", text="Sacar la basura", at="cada lunes y miércoles a las 9")
    assert one.value["at"] == "2026-11-11T09:00:00+01:00"
    assert one.value["repeats"] == "FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=9;BYMINUTE=0"
    assert "every Monday and Wednesday at 09:00" in bench.run("reminder_list").seen


def test_a_time_may_be_meant_elsewhere(bench: Any) -> None:
    one = bench.run("reminder_add", text="Call", at="tomorrow at 9", timezone="New York")
    assert one.value["at"] == "2026-11-11T15:00:00+01:00"
    daily = bench.run("reminder_add", node="r1.0.0.1", text="Call", at="every day at 9", timezone="America/New_York")
    assert "every day at 09:00, America/New_York time" in daily.seen


def test_a_changed_clock_is_said(bench: Any) -> None:
    one = bench.run("reminder_add", text="x", at="2027-03-28 02:30")
    assert one.value["at"] == "2027-03-28T03:30:00+02:00"
    assert "the clocks skip 02:30" in one.seen


def test_a_second_attempt_sets_nothing_twice(bench: Any) -> None:
    ids = {bench.run("reminder_add", text="x", at="mañana").value["id"] for _ in range(2)}
    assert len(ids) == len(bench.run("reminder_list").value["reminders"]) == 1


def test_a_reminder_is_changed_by_its_user_only(bench: Any) -> None:
    id = bench.run("reminder_add", text="Banco", at="every day at 9").value["id"]
    assert bench.run("reminder_change", id=id, text="Caja").value["repeats"] is not None
    moved = bench.run("reminder_change", id=id, at="mañana a las 10")
    assert (moved.value["text"], moved.value["at"], moved.value["repeats"]) == (
        "Caja",
        "2026-11-11T10:00:00+01:00",
        None,
    )
    for args, problem in (
        ({}, "nothing to change"),
        ({"at": "soonish"}, "was not changed"),
        ({"at": "mañana", "principal": "eva"}, "there is no pending"),
    ):
        with pytest.raises(ModelError, match=problem):
            bench.run("reminder_change", id=id, **args)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("llamar al banco", "mañana a las 9"), "es"),
        (("Banco", "el lunes"), "es"),
        (("call the bank", "tomorrow at 9"), "en"),
        (("Sacar el pan", "in 20 minutes"), "es"),
        (("Zahnarzt", "2026-12-01"), "en"),
    ],
)
def test_language_by_small_words(texts: tuple[str, ...], expected: str) -> None:
    assert language(*texts) == expected


def test_the_schedule_asks_first_whether_anything_is_due(bench: Any) -> None:
    assert bench.registry.workflows["due-reminders"].when is any_due
    assert not asyncio.run(any_due(bench.services))
    bench.run("reminder_add", text="x", at="in 20 minutes")
    assert not asyncio.run(any_due(bench.services))
    assert asyncio.run(any_due(_at(bench, 1200).services))


def test_what_is_due_is_sent_to_its_session_once_a_claim(bench: Any, sent: list[Reminder]) -> None:
    bench.run("reminder_add", text="ahora", at="in 20 minutes")
    bench.run("reminder_add", principal="eva", node="r1.0.0.1", text="suyo", at="in 10 minutes")
    bench.run("reminder_add", node="r1.0.0.2", text="luego", at="in 3 hours")
    later = _at(bench, 1200)
    for _ in range(2):
        later.run("workflow:due-reminders/deliver", inputs={"params": {}})
    # The same run, when it is repeated, sends again what its first attempt may not have sent.
    assert [(one.principal, one.text, one.session) for one in sent] == [
        ("eva", "suyo", "s1"),
        ("ana", "ahora", "s1"),
    ] * 2
    other = dataclasses.replace(later.ctx(), run="r2")
    tool = later.tool("workflow:due-reminders/deliver")
    assert asyncio.run(tool.call(other, {"inputs": {}})).value == []


def test_one_inbox_that_refuses_holds_up_no_other(
    bench: Any, sent: list[Reminder], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def send(settings: Settings, one: Reminder) -> None:
        if one.principal == "eva":
            raise StateUnavailable("the state Redis refuses us")
        sent.append(one)

    monkeypatch.setattr(workflows, "send", send)
    bench.run("reminder_add", principal="eva", text="suyo", at="in 10 minutes")
    bench.run("reminder_add", node="r1.0.0.1", text="mío", at="in 20 minutes")
    with pytest.raises(OperatorError, match="reminders of eva wait"):
        _at(bench, 1200).run("workflow:due-reminders/deliver", inputs={})
    assert [one.text for one in sent] == ["mío"]
    assert not asyncio.run(any_due(_at(bench, 1260).services))
    assert asyncio.run(any_due(_at(bench, 1200 + CLAIM_MS / 1000).services))


def test_a_reminder_is_told_in_its_language_and_only_by_one_run(bench: Any, sent: list[Reminder]) -> None:
    bench.run("reminder_add", text="sacar el pan del horno", at="en 20 minutos")
    later = _at(bench, 1230)
    later.run("workflow:due-reminders/deliver", inputs={})
    told = _tell(later, sent[0])
    assert told.seen == "⏰ Recordatorio: sacar el pan del horno"
    assert _tell(later, sent[0]).seen == told.seen
    other = _tell(later, sent[0], run="r2")
    assert other.value["told"] is False
    assert "was told already" in other.seen
    assert bench.run("reminder_list").value["reminders"] == []


def test_a_late_one_says_how_late_and_what_was_missed_is_told_once(bench: Any, sent: list[Reminder]) -> None:
    bench.run("reminder_add", text="take the pills", at="every day at 9")
    later = _at(bench, 3 * 86_400 + 4 * 3600)  # Friday 19:00; it was due on Wednesday, Thursday and Friday
    later.run("workflow:due-reminders/deliver", inputs={})
    assert len(sent) == 1
    assert _tell(later, sent[0]).seen.splitlines() == [
        "⏰ Reminder: take the pills",
        "(It was for 09:00 (2026-11-11); 2 d 10 h late.)",
        "Next time: 09:00 (2026-11-14).",
    ]
    assert bench.run("reminder_list").value["reminders"][0]["at"] == "2026-11-14T09:00:00+01:00"


def test_months_ahead_over_the_change_of_the_clocks(bench: Any, sent: list[Reminder]) -> None:
    one = bench.run("reminder_add", text="renovar el seguro", at="dentro de seis meses a las 9")
    assert one.value["at"] == "2027-05-10T09:00:00+02:00"
    due = datetime(2027, 5, 10, 9, tzinfo=MADRID).timestamp()
    _at(bench, due - NOW - 60).run("workflow:due-reminders/deliver", inputs={})
    assert sent == []
    on_time = _at(bench, due - NOW + 30)
    on_time.run("workflow:due-reminders/deliver", inputs={})
    assert _tell(on_time, sent[0]).seen == "⏰ Recordatorio: renovar el seguro"


def test_one_that_was_cancelled_after_it_was_sent_is_not_told(bench: Any, sent: list[Reminder]) -> None:
    id = bench.run("reminder_add", text="x", at="in 20 minutes").value["id"]
    later = _at(bench, 1230)
    later.run("workflow:due-reminders/deliver", inputs={})
    later.run("reminder_cancel", id=id)
    assert _tell(later, sent[0]).value["told"] is False


def test_the_workflow_wants_its_parameters(bench: Any) -> None:
    with pytest.raises(ModelError, match="needs the parameters"):
        bench.run("workflow:reminder/tell", inputs={"params": {}})


def test_a_user_whose_name_is_anothers_gets_nothing(bench: Any, sent: list[Reminder]) -> None:
    bench.run("reminder_add", text="secret", at="in 20 minutes")
    later = _at(bench, 1230)
    later.run("workflow:due-reminders/deliver", inputs={})
    stolen = dataclasses.replace(sent[0], principal="eva")
    assert "secret" not in _tell(later, stolen).seen


@pytest.mark.parametrize(
    ("seconds", "text"), [(61, "1 min"), (7500, "2 h 5 min"), (86_400, "1 d"), (90_061, "1 d 1 h"), (3600, "1 h")]
)
def test_durations(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_a_year_ahead_is_told_once_in_the_users_zone(bench: Any, sent: list[Reminder]) -> None:
    """Whatever is started anew in between: all that is known of it is in the archive."""
    set_ = bench.run("reminder_add", text="Renovar el DNI", at="2027-11-09 09:30")
    assert set_.value["at"] == "2027-11-09T09:30:00+01:00"
    due = datetime(2027, 11, 9, 9, 30, tzinfo=MADRID).timestamp()
    for seconds in (86_400.0, 200 * 86_400.0, due - NOW - 1):
        assert not asyncio.run(any_due(_at(bench, seconds).services))
    later = _at(bench, due - NOW)
    later.run("workflow:due-reminders/deliver", inputs={})
    (one,) = sent
    assert _tell(later, one).text == "⏰ Recordatorio: Renovar el DNI"
    assert not asyncio.run(any_due(_at(bench, due - NOW + 30 * 86_400).services))
    late = _tell(_at(bench, due - NOW + 60), one, "r2")
    assert late.value["told"] is False


def test_what_is_sent_names_the_channels_and_a_later_claim_is_another_message(
    make_bench: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    class Inbox:
        @classmethod
        def connect(cls, url: str, principal: str) -> Inbox:
            assert principal == "ana"
            return cls()

        async def submit(self, text: str, **fields: Any) -> None:
            asked.append(fields)

        async def aclose(self) -> None:
            pass

    monkeypatch.setattr(workflows, "AsyncClient", Inbox)
    channels = {"hook": {"kind": "webhook", "url": "https://example.org"}}
    bench = make_bench(delivery={"users": {"ana": {"default": ["session", "hook"], "channels": channels}}})
    bench.run("reminder_add", text="x", at="in 20 minutes")
    for _ in range(2):  # one node, run twice
        _at(bench, 1200).run("workflow:due-reminders/deliver", inputs={})
    _at(bench, 1200 + CLAIM_MS / 1000).run("workflow:due-reminders/deliver", inputs={})
    assert [one["deliver"] for one in asked] == [("hook",)] * 3
    first, second, third = (one["id"] for one in asked)
    assert first == second != third
