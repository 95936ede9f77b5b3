"""Reminders fire: beat, the archive, a worker, the coordinator and the session in which they were asked for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection

from shared.client import Client
from shared.entries import RunEnded, UserMessage
from shared.settings import DataSettings, Settings
from shared.sql import Database, database_url, reminders
from tests.integration.test_messages import call, calls, of_agents
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = pytest.mark.integration

HOUR_MS = 3_600_000
SCHEDULED_S = 100.0
"""More than a slot of the schedule, and the time that beat takes to start."""


@pytest.fixture
def ticking(make_system: Callable[..., System]) -> System:
    return make_system(beat=True, env={"CAPATAZ_WORKFLOWS__TIMEZONE": "Europe/Madrid"})


@pytest.fixture
def archive(ticking: System) -> Iterator[Database]:
    data = DataSettings(dir=ticking.folder / "data")
    database = Database(database_url(Settings.model_construct(data=data)))
    yield database
    database.close()


def _put(archive: Database, session: str, text: str, due_ms: int, rule: str | None = None) -> str:
    now_ms = int(time.time() * 1000)

    def add(conn: Connection) -> reminders.Reminder:
        return reminders.add(
            conn, "owner", text=text, due_ms=due_ms, session=session, now_ms=now_ms, rule=rule, language="en"
        )

    return archive.run_sync(add).id


def _told(client: Client, session: str) -> str:
    """The answer of the first run of a session that a reminder made."""
    for event in client.stream(session, timeout=SCHEDULED_S):
        if event.type == "run.finished" and "⏰" in json.dumps(event.data, ensure_ascii=False):
            return str(event.data["answer"])
    raise AssertionError("the stream ended")


def test_reminders_are_told_in_their_sessions_once(ticking: System, archive: Database, model: ModelServer) -> None:
    client = Client.connect(ticking.redis_url)
    model.script(calls(call("reminder_add", text="turn the oven off", at="in 1 second"), then="I will"))
    assert client.ask("remind me in a second to turn the oven off", session="kitchen", timeout=30).ok
    now_ms = int(time.time() * 1000)
    _put(archive, "desk", "send the letter", now_ms - 2 * HOUR_MS)
    daily = _put(archive, "bath", "pills", now_ms - 50 * HOUR_MS, "FREQ=HOURLY;INTERVAL=24")
    future = _put(archive, "desk", "much later", now_ms + 24 * HOUR_MS)

    assert _told(client, "kitchen").splitlines()[0] == "⏰ Reminder: turn the oven off"
    assert "2 h late" in _told(client, "desk")
    assert "2 d 2 h late" in (pills := _told(client, "bath"))
    assert "Next time:" in pills

    left = {one.id: one for one in archive.run_sync(lambda conn: reminders.list_reminders(conn, "owner"))}
    assert set(left) == {daily, future}
    assert left[daily].due_ms > now_ms
    # Any number of beats, and messages that come twice: told once.
    for _ in range(2):
        for one in archive.run_sync(
            lambda conn: reminders.list_reminders(conn, "owner", reminders.ReminderState.FIRED)
        ):
            params = {"reminder": one.id, "due_ms": one.due_ms}
            again = client.submit_workflow("reminder", session=one.session, params=params)
            assert "⏰" not in client.wait(again, 30).answer
    for session in ("kitchen", "desk", "bath"):
        ended = [entry.value for entry in client.history(session) if isinstance(entry.value, RunEnded)]
        assert sum("⏰" in end.answer for end in ended) == 1
    # The reminder is part of the conversation: the next message may be about it.
    model.script([{"then": {"text": "noted"}}])
    client.ask("done, thanks", session="kitchen", timeout=30)
    said = [m["content"] for m in of_agents(model)[-1].body["messages"] if m["role"] == "assistant"]
    assert any("turn the oven off" in text for text in said if text)
    # Slots in which nothing was due have left no runs.
    sweeps = [row for row in client.runs() if row["session"].startswith(".due-reminders.")]
    assert 1 <= len(sweeps) <= 3
    asked = [e.value for e in client.history(sweeps[0]["session"]) if isinstance(e.value, UserMessage)]
    assert {message.workflow for message in asked if message.kind == "workflow"} == {"due-reminders"}
    client.close()
