"""Schedules fire in a whole system: two beats, the archive, three workers, and the sessions that they are for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ops.supervisor import plan
from shared.client import Client
from shared.entries import RunEnded, UserMessage
from shared.schedules import Schedule, message_id
from shared.settings import DataSettings, Settings
from shared.sql import Database, database_url, schedules
from shared.timing import Missed, Timing
from tests.integration.test_messages import call, calls
from tests.support.model_server import ModelServer
from tests.support.processes import Proc, System

pytestmark = pytest.mark.integration

HOUR_MS = 3_600_000
SCHEDULED_S = 60.0
"""More than beat takes to start, and to notice that another has died."""


ENV = {"CAPATAZ_WORKFLOWS__TIMEZONE": "Europe/Madrid", "CAPATAZ_WORKFLOWS__TICK_S": "1"}


@pytest.fixture
def ticking(make_system: Callable[..., System]) -> System:
    system = make_system(beat=True, workers=3, env=ENV)
    _another_beat(system)
    return system


def _another_beat(system: System) -> Proc:
    proc = Proc("beat-2", plan.python("workers.beat"), system.env(), system.folder / "beat-2.log")
    system.others.append(proc)
    return proc


@pytest.fixture
def archive(ticking: System) -> Iterator[Database]:
    data = DataSettings(dir=ticking.folder / "data")
    database = Database(database_url(Settings.model_construct(data=data)))
    yield database
    database.close()


def _put(archive: Database, id: str, timing: Timing, next_ms: int, **values: Any) -> Schedule:
    one = Schedule(
        id, "owner", id, timing, f"session-{id}", next_ms, prompt=f"do {id}", tools=("notes",), next_ms=next_ms
    )
    return archive.run_sync(lambda conn: schedules.add(conn, replace(one, **values)))


def _asked(client: Client, session: str) -> list[UserMessage]:
    """The messages of a session, when the first run of it has ended."""
    for event in client.stream(session, timeout=SCHEDULED_S):
        if event.type in ("run.finished", "run.failed"):
            break
    return [entry.value for entry in client.history(session) if isinstance(entry.value, UserMessage)]


def test_schedules_fire_once_and_survive_a_restart(ticking: System, archive: Database, model: ModelServer) -> None:
    client = Client.connect(ticking.redis_url)
    model.script(
        calls(call("schedule_create", when="in 5 seconds", prompt="Look at it", tools=["notes"]), then="it is set")
    )
    assert client.ask("look at it in five seconds", session="desk", tools=["schedule", "notes"], timeout=30).ok
    model.script([{"then": {"text": "seen"}}])
    (made,) = archive.run_sync(lambda conn: schedules.list_schedules(conn, "owner"))
    now_ms = int(time.time() * 1000)
    hour_ago = now_ms - HOUR_MS
    late = _put(archive, "late", Timing("UTC", hour_ago, every="40m"), hour_ago)
    _put(archive, "skips", Timing("UTC", hour_ago), hour_ago, policy=Missed.SKIP)

    # All that runs them is started anew: what was scheduled is in the archive.
    for proc in ticking.workers:
        ticking.kill(proc)
    for proc in ticking.others:
        ticking.terminate(proc)  # a beat that is killed keeps its lock for a while
    ticking.others.clear()
    ticking.workers.clear()
    for _ in range(3):
        ticking.add_worker()
    _another_beat(ticking), _another_beat(ticking)
    ticking.wait_ready()

    (asked,) = _asked(client, "session-late")
    slot = hour_ago + 40 * 60_000
    assert asked.id == message_id("late", slot)
    assert "late; 1 earlier time was missed" in asked.text
    assert asked.text.endswith("do late")
    assert (asked.tools, asked.approvals) == (("notes",), "deny")
    found = {one.id: one for one in archive.run_sync(lambda conn: schedules.list_schedules(conn, "owner"))}
    assert found["late"].next_ms == late.timing.next_after(now_ms)
    assert (found["skips"].state, found["skips"].missed) == ("done", 1)
    # What was skipped is told, where its result would have been.
    skipped = _asked(client, "session-skips")
    assert [one.workflow for one in skipped] == ["notice"]
    (said,) = [e.value.answer for e in client.history("session-skips") if isinstance(e.value, RunEnded)]
    assert said.startswith("skips did not run: it missed its time ")
    # The one that the model made comes into the session in which it was asked for, and once.
    _wait_for_runs(client, "desk", 2)
    ids = [e.value.id for e in client.history("desk") if isinstance(e.value, UserMessage)]
    assert [one for one in ids if one.startswith("schedule-")] == [message_id(made.id, made.timing.start_ms)]

    model.script(calls(call("schedule_run_now", id="late"), user="run the late one", then="it runs"))
    assert client.ask("run the late one now", session="sofa", tools=["schedule"], timeout=30).ok
    _wait_for_runs(client, "session-late", 2)
    asked_ids = [e.value.id for e in client.history("session-late") if isinstance(e.value, UserMessage)]
    assert asked_ids[-1].startswith("schedule-late@now-")
    client.close()


def _wait_for_runs(client: Client, session: str, count: int) -> None:
    ended = 0
    for event in client.stream(session, timeout=SCHEDULED_S):
        ended += event.type in ("run.finished", "run.failed")
        if ended == count:
            break
    assert sum(isinstance(entry.value, RunEnded) for entry in client.history(session)) == count
