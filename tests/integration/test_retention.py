"""Nothing grows for ever: keys of Redis live for a time or are bounded, and the archive forgets what is old."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import redis

from coordinator.retention import DAY_MS, JOB, Retention, sweeps
from shared.artifacts import SqlArtifacts
from shared.client import Client
from shared.entries import RunEnded
from shared.errors import ModelError
from shared.messages import Reply
from shared.names import LOCAL_PRINCIPAL
from shared.settings import RetentionSettings
from shared.sql import Database, runs, sessions
from shared.sql.runs import Run, RunState
from shared.state import keys
from shared.state.archived import ArchivedState
from shared.state.changes import Change
from tests.chaos.probe import until
from tests.integration.test_messages import call, calls
from tests.support.model_server import ModelServer
from tests.support.processes import System
from tests.support.redis import TestRedis, redis_server
from tests.support.state import Rig, with_rig

pytestmark = pytest.mark.integration

MAIL = "run:<rid>:mail"
BOUNDED = [k.pattern for k in keys.TABLE if k.ttl.startswith(("none", "trimmed")) and k.pattern != MAIL]
"""Keys that never expire: what they hold is taken out again, or only its newest part is kept."""
BEAT = re.compile(r"capataz:beat:.*")
"""Beat's own: as many as there are schedules."""


def is_bounded(key: str) -> bool:
    patterns = (re.escape(f"{keys.PREFIX}{pattern}").replace(">", "<").split("<") for pattern in BOUNDED)
    return any(re.fullmatch("[^:]+".join(p[::2]), key) for p in patterns) or BEAT.fullmatch(key) is not None


def undying(client: redis.Redis) -> set[str]:
    """Keys without an end that are none of the bounded ones."""
    return {k for k in map(str, client.scan_iter(count=1000)) if client.ttl(k) == -1 and not is_bounded(k)}


@pytest.fixture(scope="module")
def server() -> Iterator[TestRedis]:
    with redis_server() as running:
        yield running


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(f"sqlite:///{tmp_path}/archive.db")
    found.migrate()
    yield found
    found.close()


def test_which_keys_count_as_bounded() -> None:
    assert is_bounded(keys.inbox())
    assert is_bounded(keys.inbox("alice"))
    assert is_bounded(keys.EPOCH)
    for key in (keys.session("s"), keys.run("r"), keys.mail("r"), keys.log("s"), keys.reply("n"), keys.inbox() + "es"):
        assert not is_bounded(key)


@pytest.mark.timeout(300)
def test_each_key_of_many_short_sessions_ends_or_is_bounded(system: System, client: Client, model: ModelServer) -> None:
    rows = [
        call("fact_set", name="n", value=1),
        call("todo_set", items=[{"text": "x"}]),
        call("calculate", expression="1+1"),
    ]
    model.script(
        [
            *calls(*rows, user="work"),
            {"when": {"user": "slow"}, "then": {"text": "no", "stream_ms": 60_000}},
            {"then": {"text": "hi"}},
        ]
    )
    waiting = [client.submit("hello", session=f"short.{n}", id=f"m{n}") for n in range(40)]
    waiting += [client.submit("hello", session=f"short.{n}", id=f"m{n}") for n in range(5)]
    waiting += [client.submit("work", session=f"work.{n}", tools=("session", "utility")) for n in range(3)]
    waiting.append(client.submit_workflow("daily-brief", session="daily"))
    slow, behind = client.submit("slow", session="slow"), client.submit("behind", session="slow")
    with system.client() as raw:
        raw.xadd(keys.inbox(), {"kind": "message", "session": "broken", "texxt": "?", "reply_to": "b"})
        run = until(lambda: raw.hget(keys.session("slow"), "active"), "the slow run")
        client.cancel(run=str(run))
        for submitted in (*waiting, slow, behind):
            client.wait(submitted, 60)
        until(lambda: not raw.exists(keys.ACTIVE, keys.ARCHIVE, keys.RUNNABLE), "the end of all runs")
        assert raw.exists(keys.run(str(run)), keys.session("short.1"), keys.log("short.1"), keys.facts("work.1")) == 4
        assert undying(raw) == set()
        assert not list(raw.scan_iter(f"{keys.PREFIX}{MAIL.replace('<rid>', '*')}", 1000))


def test_a_run_that_nobody_starts_ends_with_its_session(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await rig.submit(session="s", text="x", reply_to="r")
        await rig.route()
        [(run, _)] = [(k, 0) async for k in rig.redis.scan_iter("capataz:run:*") if not str(k).endswith(":replies")]
        assert 0 < await rig.redis.ttl(run) <= rig.limits.session_ttl_s
        assert 0 < await rig.redis.ttl(f"{run}:replies") <= rig.limits.session_ttl_s
        [(lease, _)] = await rig.c1.claim(1)
        assert [await rig.redis.ttl(k) for k in (run, f"{run}:replies", keys.session("s"))] == [-1] * 3, "it works"
        change = Change(entries=[RunEnded(state="ended", finish_reason="stop")])
        assert await rig.c1.finish(lease, change, Reply(ok=True))
        assert 0 < await rig.redis.ttl(run) <= rig.limits.run_ttl_s
        assert 0 < await rig.redis.ttl(keys.session("s")) <= rig.limits.session_ttl_s

    asyncio.run(with_rig(server.url, test))


def test_facts_live_as_long_as_their_session(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        for key in (keys.facts("s"), keys.switches("s")):
            await rig.redis.hset(key, "x", "1")
            await rig.redis.expire(key, 100)
        await rig.redis.set(keys.todo("s"), "[]", ex=100)
        lease = await rig.started()
        await rig.c1.finish(lease, Change(), Reply(ok=True))
        for key in (keys.facts("s"), keys.switches("s"), keys.todo("s")):
            assert await rig.redis.ttl(key) > 100

    asyncio.run(with_rig(server.url, test))


# --- the archive -------------------------------------------------------------------------------------------------


def put(database: Database, run: str, ended_ms: int) -> None:
    row = Run(
        id=run, session=f"of-{run}", principal="owner", agent="default", epoch="e", created_ms=ended_ms,
        ended_ms=ended_ms, state=RunState.ENDED,
    )  # fmt: skip
    database.run_sync(lambda c: runs.end_run(c, row))


def kept(database: Database) -> set[str]:
    return {r.id for r in database.run_sync(lambda c: runs.list_runs(c, None, limit=1000))}


def test_one_coordinator_removes_what_is_old_and_the_others_find_it_done(server: TestRedis, database: Database) -> None:
    now = int(time.time() * 1000)
    settings = RetentionSettings(runs_days=10)
    for number in range(120):
        put(database, f"old{number}", now - 11 * DAY_MS)
    put(database, "young", now - 9 * DAY_MS)

    async def test(rig: Rig) -> None:
        jobs = [Retention(ArchivedState(rig.pipe, c, rig.limits), database, settings) for c in ("c1", "c2")]
        done = await asyncio.gather(*(job.work() for job in jobs))
        assert sorted(done, key=len) == [{}, {"runs": 120, "sessions": 120}]
        assert kept(database) == {"young"}
        assert [s.id for s in database.run_sync(lambda c: sessions.list_sessions(c, None))] == ["of-young"]
        put(database, "late", now - 11 * DAY_MS)
        assert await jobs[1].work() == {}, "not before an hour has passed"
        await rig.redis.delete(keys.job(JOB))
        assert await jobs[1].work() == {"runs": 1, "sessions": 1}

    asyncio.run(with_rig(server.url, test))


def test_zero_days_are_for_ever(database: Database) -> None:
    put(database, "ancient", 1)
    everything = RetentionSettings(runs_days=0, costs_days=0, playbook_days=0, artifacts_days=0)
    assert set(sweeps(everything, int(time.time() * 1000))) == {"artifacts"}, "those that were given a time"
    assert everything.artifacts_s is None
    assert len(sweeps(RetentionSettings(), 0)) == 8
    for sweep in sweeps(everything, int(time.time() * 1000)).values():
        assert database.run_sync(partial(sweep, limit=10)) == 0
    assert kept(database) == {"ancient"}


def test_values_go_when_they_have_not_been_stored_for_long(database: Database) -> None:
    settings = RetentionSettings(artifacts_days=2)
    clock = [1000.0]
    store = SqlArtifacts(database, ttl_s=settings.artifacts_s, clock=lambda: clock[0])
    handle = asyncio.run(store.put(LOCAL_PRINCIPAL, b"x", "text/plain"))
    sweep = sweeps(settings, int((clock[0] + 1.9 * 86400) * 1000))["artifacts"]
    assert database.run_sync(lambda c: sweep(c, limit=10)) == 0
    clock[0] += 2.1 * 86400
    with pytest.raises(ModelError, match="expired"):
        asyncio.run(store.get(LOCAL_PRINCIPAL, handle))
    sweep = sweeps(settings, int(clock[0] * 1000))["artifacts"]
    assert database.run_sync(lambda c: sweep(c, limit=10)) == 1
