"""The workflows that ship, step by step on a real archive."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from shared.artifacts import content_handle
from shared.contract import Usage
from shared.entries import Node, NodeEnded
from shared.messages import Message
from shared.models import Payer
from shared.settings import Settings
from shared.sql import costs, gym, metrics, notes, runs
from shared.sql.costs import Call
from shared.sql.gym import GymEntry
from shared.sql.runs import Run, RunState
from shared.sql.tables import log_entries
from shared.timing import Timing
from shared.workflow_settings import HeartbeatSettings
from tests.unit.tools.conftest import NOW, Bench
from workers.tools.training import Logged
from workers.tools.workout import Set
from workers.workflows import heartbeat
from workers.workflows.gym_week import missed_days, records, report
from workers.workflows.heartbeat import is_quiet, may_speak

NOW_MS = int(NOW * 1000)
DAY_MS = 86_400_000
TODAY = date(2026, 11, 10)


def _do(bench: Bench, fn: Any) -> Any:
    return asyncio.run(bench.services.db.run(fn))


def _run(id: str, *, ago_days: float, session: str = "sofa", principal: str = "ana", **values: Any) -> Run:
    at = NOW_MS - int(ago_days * DAY_MS)
    ended = Run(id, session, principal, "default", "e", at, state=RunState.ENDED, ended_ms=at + 1000, seconds=2.0)
    return dataclasses.replace(ended, **values)


# --- the week in numbers -------------------------------------------------------------------------------------------


def _called(bench: Bench, run: str, tool: str, state: str, number: int) -> None:
    node = f"{run}.1.0.{number}"
    planned = Node(node=node, step=1, position=number, tool=tool)
    for seq, (kind, data) in enumerate(
        (
            (Node.T, planned.model_dump(mode="json")),
            (Node.T, planned.model_dump(mode="json") | {"args_hash": "h"}),  # logged again when it was ready
            (NodeEnded.T, {"node": node, "result": {"state": state}}),
        )
    ):
        row = {"session": "sofa", "entry_ms": NOW_MS + number, "entry_seq": seq, "run": run, "type": kind, "v": 1}
        _do(bench, lambda conn, row=row, data=data: conn.execute(log_entries.insert().values(**row, data=data)))


def test_the_week_is_counted_for_its_user_alone(bench: Bench) -> None:
    for one in (
        _run("r1", ago_days=1),
        _run("r2", ago_days=2, state=RunState.FAILED, error_code="timed_out", seconds=4.0),
        _run("r3", ago_days=9),
        _run("r4", ago_days=1, parent="r1.1.0.0"),
        _run("r5", ago_days=1, principal="eva", session="hers"),
    ):
        _do(bench, lambda conn, one=one: runs.end_run(conn, one))
    for number, (tool, state) in enumerate(
        (("web_get", "done"), ("web_get", "failed"), ("note_save", "done"), ("workflow:x/y", "done"))
    ):
        _called(bench, "r1", tool, state, number)
    payer = Payer("ana", "sofa", "r1", "web")
    usage = Usage(input=100, cache_read=40, output=7)
    call = Call("r1.1.0", NOW_MS - DAY_MS, payer, "default", "p", "m", "ok", usage, Decimal("0.0125"), 900)
    _do(bench, lambda conn: costs.add(conn, [call]))
    span = _do(bench, lambda conn: metrics.of_user(conn, "ana", NOW_MS - 7 * DAY_MS, NOW_MS))
    assert span.runs == {"ended": 1, "failed": 1}
    assert span.tools == {"web_get": (2, 1), "note_save": (1, 0)}
    said = bench.run("workflow:weekly-metrics/count", inputs={}).seen
    assert said.splitlines() == [
        "2 runs in the last seven days (1 in the seven before): 1 ended, 1 failed.",
        "A run took 3.0 s on average.",
        "Failures: timed_out 1.",
        "Tools: web_get 2 (1 not done), note_save 1.",
        "p/m: 1 calls, 140 tokens in (40 of them from the cache), 7 out, $0.0125.",
        "Together $0.0125.",
    ]
    assert bench.run("workflow:weekly-metrics/count", principal="zoe", inputs={}).seen.startswith("No runs")


# --- the week of training ------------------------------------------------------------------------------------------


def _trained(ago: int, exercise: str = "bench press", reps: int = 5, kilos: int = 80, sets: int = 3) -> Logged:
    return Logged(TODAY - timedelta(days=ago), exercise, (Set(reps=reps, grams=kilos * 1000),) * sets)


def test_records_are_of_this_week_and_better_than_all_before() -> None:
    log = [_trained(1, kilos=90), _trained(10, kilos=80), _trained(1, "squat"), _trained(2, "row"), _trained(20, "row")]
    (only,) = records(log, TODAY - timedelta(days=6), TODAY)
    assert only.startswith("bench press")
    assert "105.0 kg estimated (93.3 before)" in only


@pytest.mark.parametrize(("weeks", "missed"), [((1, 2, 3), [1]), ((1, 2), []), ((0, 1, 2, 3), [])])
def test_a_habit_that_was_not_kept_is_told(weeks: tuple[int, ...], missed: list[int]) -> None:
    assert missed_days([_trained(7 * week) for week in weeks], TODAY) == missed


def test_the_week_of_training_is_summed_up(bench: Bench) -> None:
    assert bench.run("workflow:gym-week/sum_up", inputs={}).seen == "No training in the last seven days."
    rows = [
        GymEntry(
            f"g{ago}", "ana", (TODAY - timedelta(days=ago)).isoformat(), "bench press",
            [{"reps": 5, "grams": kilos * 1000}] * 3, "", NOW_MS,
        )
        for ago, kilos in ((0, 90), (7, 80), (14, 80))
    ]  # fmt: skip
    _do(bench, lambda conn: gym.add(conn, rows))
    lines = bench.run("workflow:gym-week/sum_up", inputs={}).seen.splitlines()
    assert lines[0] == "1 days of training from 2026-11-04 to 2026-11-10: Tue."
    assert lines[1] == "- bench press: 3 sets, 1350 kg (+150 kg against the week before)"
    assert lines[2].startswith("Record: bench press")
    assert lines[3] == "Together 3 sets, 1350 kg lifted."


def test_a_week_over_two_calendar_weeks_is_summed_once() -> None:
    assert report([_trained(0), _trained(5)], TODAY).endswith("Together 6 sets, 2400 kg lifted.")


# --- heartbeat -----------------------------------------------------------------------------------------------------


def _settings(**values: Any) -> Settings:
    flows = {"timezone": "Europe/Madrid", "cron": {"heartbeat": "*/30 * * * *"}, "heartbeat": values}
    return Settings.model_validate({"workflows": flows})


def _day(settings: Settings, principal: str = "owner", day: str = "2026-11-10") -> list[int]:
    """The slots of a day in which the agent may speak."""
    timing = Timing("Europe/Madrid", 0, cron="*/30 * * * *")
    midnight = int(_midnight(day) * 1000)
    slots = [slot for slot, _ in zip(timing.slots(midnight - 1), range(48), strict=False)]
    return [slot for slot in slots if may_speak(settings, principal, slot)]


def _midnight(day: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(day).replace(tzinfo=ZoneInfo("Europe/Madrid")).timestamp()


def test_the_same_slot_is_decided_the_same_and_days_differ() -> None:
    settings = _settings(probability=0.5, per_day=100, quiet_from=0, quiet_to=0)
    first = _day(settings)
    assert first == _day(settings)
    assert 8 <= len(first) <= 40
    assert {slot % DAY_MS for slot in first} != {slot % DAY_MS for slot in _day(settings, day="2026-11-11")}
    assert first != _day(settings, principal="ana")


@pytest.mark.parametrize(("probability", "count"), [(0.0, 0), (1.0, 3)])
def test_no_more_of_a_day_than_may_be_and_none_in_the_quiet_hours(probability: float, count: int) -> None:
    found = _day(_settings(probability=probability, per_day=3, quiet_from=22, quiet_to=9))
    assert len(found) == count
    if found:
        assert found[0] == int((_midnight("2026-11-10") + 9 * 3600) * 1000)  # the first slot behind the quiet hours


def test_quiet_hours_go_over_midnight_or_not() -> None:
    over, within = HeartbeatSettings(quiet_from=22, quiet_to=9), HeartbeatSettings(quiet_from=13, quiet_to=15)
    assert [hour for hour in range(24) if is_quiet(over, hour)] == [*range(9), 22, 23]
    assert [hour for hour in range(24) if is_quiet(within, hour)] == [13, 14]
    assert not any(is_quiet(HeartbeatSettings(quiet_from=5, quiet_to=5), hour) for hour in range(24))


@pytest.mark.parametrize(
    ("answer", "said"), [("Water the plants.", True), ("NOTHING", False), (" nothing. ", False), ("", False)]
)
def test_the_agent_says_it_or_is_silent(bench: Bench, monkeypatch: pytest.MonkeyPatch, answer: str, said: bool) -> None:
    sent: list[Message] = []

    async def submit(redis_url: str, principal: str, message: Message) -> None:
        sent.append(message)

    monkeypatch.setattr(heartbeat, "submit", submit)
    decided = bench.run("workflow:heartbeat/decide", inputs={"params": {"slot_ms": NOW_MS}}).value
    for _ in range(2):  # a run that is repeated says the same, once
        inputs = {"decide": decided, "think": answer}
        assert bench.run("workflow:heartbeat/say", inputs=inputs).value == {"said": said}
    assert len({str(one.id) for one in sent}) == int(said)
    if sent:
        assert (sent[0].workflow, sent[0].params) == ("notice", {"text": answer})
    assert bench.run("workflow:heartbeat/decide", inputs={"params": {}}).value == {"speak": False, "slot_ms": 0}
    assert str(bench.run("workflow:heartbeat/gather", inputs={}).value).startswith("It is Tuesday 2026-11-10 15:00")


# --- notes of idle sessions ----------------------------------------------------------------------------------------


def test_idle_sessions_get_a_note_once_and_another_when_they_were_used_again(bench: Bench) -> None:
    for one in (
        _run("r1", ago_days=41, question="book a table", answer="done"),
        _run("r2", ago_days=40, question="cancel it\nplease", state=RunState.FAILED, error="no phone"),
        _run("r3", ago_days=3, session="fresh", question="hi", answer="hello"),
        _run("r4", ago_days=50, session=".learn.2026-09-21.ana", question="[workflow learn]"),
        _run("r5", ago_days=50, session="hers", principal="eva", question="mine"),
    ):
        _do(bench, lambda conn, one=one: runs.end_run(conn, one))
    assert bench.run("workflow:session-archive/archive", inputs={}).value == {"archived": ["sofa"]}
    (note,) = _do(bench, lambda conn: notes.list_notes(conn, "ana"))
    handle = note.text.rpartition(" ")[2]
    assert (note.title, note.tags) == ("Session sofa", ("session",))
    assert note.text.splitlines()[:3] == [
        "2 messages, 2026-09-30 to 2026-10-01.",
        "Began with: book a table",
        "Ended with: no phone",
    ]
    kept = asyncio.run(bench.services.artifacts.get("ana", handle))
    assert kept.data.decode() == (
        "# Session sofa\n\n## 2026-09-30 14:00 UTC\n\n> book a table\n\ndone\n\n"
        "## 2026-10-01 14:00 UTC\n\n> cancel it\n> please\n\n*failed: no phone*\n"
    )
    assert content_handle(kept.data) == handle
    assert bench.run("workflow:session-archive/archive", inputs={}).seen.strip() == ""
    later = Bench(
        bench.settings,
        dataclasses.replace(bench.services, now=lambda: NOW + 90 * 86_400),
        bench.state,
        bench.model,
    )
    _do(bench, lambda conn: runs.end_run(conn, _run("r6", ago_days=-10, question="again", answer="yes")))
    assert later.run("workflow:session-archive/archive", inputs={}).value == {"archived": ["fresh", "sofa"]}


def test_what_ships_is_off_until_it_is_wanted(bench: Bench) -> None:
    flows = {one.name: one for one in bench.registry.catalogue(bench.settings).workflows}
    on = {"daily-brief", "due-reminders", "due-deliveries"}
    mine = {"weekly-metrics", "gym-week", "heartbeat", "session-archive", "notice", "deliver", "schedule", *on}
    assert {name for name in mine if flows[name].cron} == on
    assert {name for name in mine if flows[name].hidden} == {"heartbeat", "deliver", "due-reminders", "due-deliveries"}


def test_the_settings_give_and_take_times(bench: Bench) -> None:
    cron = {"daily-brief": "off", "gym-week": "0 20 * * 0 Europe/Madrid skip"}
    settings = Settings.model_validate({"workflows": {"timezone": "UTC", "cron": cron}})
    flows = {one.name: (one.cron, one.timezone) for one in bench.registry.catalogue(settings).workflows}
    assert flows["daily-brief"] == ("", "UTC")
    assert flows["gym-week"] == ("0 20 * * 0 Europe/Madrid skip", "UTC")
