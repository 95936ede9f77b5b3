"""Reminders and schedules of a user with a Redis user of its own: the worker appends to the inboxes it is let into."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest

from shared.client import Client
from shared.schedules import Schedule, started
from shared.settings import DataSettings, Settings
from shared.sql import Database, database_url, reminders, schedules
from shared.state import keys
from shared.timing import Timing
from tests.integration.test_acl import GuardedSystem, allowed, denials, guarding, url_of
from tests.support.model_server import ModelServer

pytestmark = pytest.mark.integration

TOLD_S = 60.0


@pytest.fixture
def guarded(model: ModelServer) -> Iterator[GuardedSystem]:
    env = {"CAPATAZ_PRINCIPALS": '["alice", "eva"]', "CAPATAZ_WORKFLOWS__TICK_S": "1"}
    with guarding(model.url, env) as system:
        yield system


def test_a_users_reminders_and_schedules_come_where_the_worker_is_let_in(
    guarded: GuardedSystem, model: ModelServer
) -> None:
    now_ms = int(time.time() * 1000)
    database = Database(database_url(Settings.model_construct(data=DataSettings(dir=guarded.folder / "data"))))
    for user in ("alice", "eva"):
        mine = Schedule(
            f"look-{user}",
            user,
            "look",
            Timing("UTC", now_ms + 2000),
            f"{user}.watch",
            now_ms,
            prompt="look",
            tools=("notes",),
        )
        database.run_sync(partial(schedules.add, one=started(mine, now_ms)))
        database.run_sync(
            partial(
                reminders.add,
                principal=user,
                text="pills",
                due_ms=now_ms,
                session=f"{user}.desk",
                now_ms=now_ms,
                language="en",
            )
        )
    model.script([{"then": {"text": "seen"}}])
    guarded.add_other("beat", "workers.beat")
    alice = Client.connect(url_of(guarded.state, "alice"), principal="alice")
    for session, said in (("alice.watch", "seen"), ("alice.desk", "pills")):
        ended = next(e for e in alice.stream(session, timeout=90) if e.type in ("run.finished", "run.failed"))
        assert said in str(ended.data.get("answer"))
    alice.close()
    # Nobody has let the worker into eva's inbox: what is hers waits, and is not lost.
    left = database.run_sync(lambda conn: reminders.due(conn, now_ms))
    assert [one.principal for one in left] == ["eva"]
    database.close()
    assert all("capataz:inbox:eva" in line for line in denials(guarded.state))
    assert "eva" in guarded.workers[0].output()
    for command in (("DEL", keys.inbox("alice")), ("XRANGE", keys.inbox("alice"), "-", "+"), ("DEL", keys.inbox())):
        assert not allowed(guarded.state, "worker", *command)
