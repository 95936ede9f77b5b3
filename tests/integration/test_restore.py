"""What the archive gives back when the state Redis has lost it, and who is told of what is gone for good."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from coordinator.archive import Archiver
from coordinator.context.agent import Agents
from coordinator.intake import Intake
from coordinator.restore import Restorer, lost_run
from shared.artifacts import SqlArtifacts
from shared.client import Client
from shared.entries import FactSet, Nudge, RunEnded, Stored, UserMessage
from shared.errors import StateConflict
from shared.fold import SessionFold
from shared.messages import Reply
from shared.settings import Settings
from shared.sql import Database, archive, runs
from shared.sql.archive import ArchivedEntry
from shared.state import keys
from shared.state.archived import ArchivedFact, ArchivedState
from shared.state.changes import Change
from shared.state.connection import connect
from shared.state.pipeline import Pipeliner
from shared.state.runs import Lease
from shared.state.session import SessionState
from tests.integration.test_acl import denials, load, url_of
from tests.integration.test_faults import await_line, probe_lines
from tests.integration.test_messages import call, calls, of_agents
from tests.support.model_server import ModelServer
from tests.support.processes import System
from tests.support.redis import TestRedis, redis_server
from tests.support.state import LIMITS, Rig, with_rig

pytestmark = pytest.mark.integration

MakeSystem = Callable[..., System]


@pytest.fixture(scope="module")
def server() -> Iterator[TestRedis]:
    with redis_server() as running:
        yield running


class Parts:
    """A rig with an archive, and two coordinators' parts over both."""

    def __init__(self, rig: Rig, database: Database) -> None:
        self.rig, self.database = rig, database
        self.facts = SessionState(rig.pipe, rig.limits)
        self.archived = ArchivedState(rig.pipe, "c1", rig.limits)
        self.archiver = Archiver(rig.c1, self.archived, database, "e1")
        self.restorers = [Restorer(ArchivedState(rig.pipe, c, rig.limits), database) for c in ("c1", "c2")]

    async def take(self, principal: str = "owner", **fields: str) -> int:
        """Submits a message, and routes the inbox as a coordinator does."""
        await self.rig.submit(principal, **fields)
        settings = Settings.model_construct(limits=self.rig.limits, principals=("eve",))
        agents = Agents(Path("none of ours"))
        intake = Intake(self.rig.c1, settings, agents, SqlArtifacts(self.database), self.restorers[0])
        return await intake.work()

    async def run(self, lease: Lease, answer: str) -> None:
        """Ends a run with an answer, and copies it."""
        change = Change(entries=[RunEnded(state="ended", finish_reason="stop", answer=answer)])
        assert await self.rig.c1.finish(lease, change, Reply(ok=True, run=lease.run, answer=answer))
        await self.archiver.work()

    async def recorded(self, text: str, **fields: str) -> Lease:
        """A run with its row in the archive, as it is before its first model call."""
        lease = await self.rig.started(text=text, **fields)
        [opened] = [e for e in await self.rig.c1.log(lease.session) if e.run == lease.run]
        assert isinstance(opened.value, UserMessage)
        row = runs.Run(
            id=lease.run,
            session=lease.session,
            principal=lease.principal,
            agent="default",
            epoch="e1",
            created_ms=1,
            question=text,
            replies=await self.rig.c1.reply_names(lease.run),
        )
        data = opened.value.model_dump(mode="json", exclude_defaults=True)
        entry = ArchivedEntry(opened.id, lease.run, opened.type, 1, data)

        def record(conn: Connection) -> None:
            runs.start_run(conn, row)
            archive.append_entries(conn, lease.session, lease.principal, [entry], 1)

        await self.database.run(record)
        return lease

    async def lose(self) -> None:
        """Everything in Redis is gone; the processes live."""
        await self.rig.redis.flushall()
        await self.rig.beat("c1", "c2")


def play(server: TestRedis, folder: Path, test: Callable[[Parts], Awaitable[None]]) -> None:
    database = Database(f"sqlite:///{folder}/archive.db")
    database.migrate()

    async def run(rig: Rig) -> None:
        await test(Parts(rig, database))

    try:
        asyncio.run(with_rig(server.url, run))
    finally:
        database.close()


def entries_of(log: list[Stored]) -> list[tuple[str, str, str]]:
    return [(e.id, e.type, e.value.model_dump_json() if e.value else "") for e in log]


def test_a_session_comes_back_as_it_was_for_the_next_message(server: TestRedis, tmp_path: Path) -> None:
    async def test(parts: Parts) -> None:
        rig = parts.rig
        lease = await parts.recorded("first", reply_to="r1")
        await parts.facts.set_fact("s", "color", ["red", {}], None, f"{lease.run}.1.1.0")
        await parts.facts.set_fact("s", "color", {"now": []}, 1, "somebody")
        await parts.run(lease, "one")
        before, facts = await rig.c1.log("s"), await parts.facts.facts("s")
        await parts.lose()
        assert await parts.take(session="s", text="second") == 1
        assert entries_of(await rig.c1.log("s")) == entries_of(before)
        assert await parts.facts.facts("s") == facts
        [(again, _)] = await rig.c1.claim(1)
        assert [e.run for e in await rig.c1.log("s")][-1] == again.run
        assert await parts.facts.set_fact("s", "color", 3, 2, "r") == 3
        await parts.run(again, "two")
        copied = await parts.database.run(lambda c: archive.entries(c, "s", "owner"))
        assert [e.entry_id for e in copied] == [e.id for e in await rig.c1.log("s")], "each entry once, none left out"

    play(server, tmp_path, test)


def test_a_name_stays_its_owners_while_the_archive_has_it(server: TestRedis, tmp_path: Path) -> None:
    async def test(parts: Parts) -> None:
        await parts.run(await parts.recorded("first"), "one")
        await parts.rig.redis.delete(keys.session("s"), keys.log("s"), keys.facts("s"))  # as if they had expired
        assert await parts.take("eve", session="s", text="mine?", reply_to="e1") == 1
        reply = await parts.rig.reply("e1")
        assert reply is not None
        assert reply["error"]["code"] == "forbidden"
        assert not await parts.rig.redis.exists(keys.session("s"), keys.log("s"))
        assert await parts.take(session="s", text="second") == 1
        assert await parts.rig.redis.hget(keys.session("s"), "owner") == "owner"
        assert len(await parts.rig.c1.log("s")) == 2

    play(server, tmp_path, test)


def test_a_session_that_vanished_after_the_look_is_not_made_anew(server: TestRedis, tmp_path: Path) -> None:
    async def test(parts: Parts) -> None:
        await parts.run(await parts.recorded("first"), "one")
        entry = await parts.rig.submit("eve", session="s", text="mine?")
        decisions = [{"action": "message", "entry": entry, "session": "s", "id": "", "known": True}]
        await parts.rig.redis.delete(keys.session("s"))
        assert await parts.rig.c1.route(keys.inbox("eve"), "eve", decisions) == 0
        assert await parts.rig.redis.xlen(keys.inbox("eve")) == 1

    play(server, tmp_path, test)


def test_while_the_archive_is_away_unknown_sessions_are_refused_and_known_ones_go_on(
    server: TestRedis, tmp_path: Path
) -> None:
    async def test(parts: Parts) -> None:
        await parts.take(session="known", text="first")
        (tmp_path / "archive.db").rename(tmp_path / "away.db")
        (tmp_path / "archive.db").mkdir()
        parts.database = broken = Database(f"sqlite:///{tmp_path}/archive.db")
        parts.restorers[0] = Restorer(parts.archived, broken)
        await parts.rig.submit(session="known", text="second")
        assert await parts.take(session="new", text="hi", reply_to="n1") == 2
        reply = await parts.rig.reply("n1")
        assert reply is not None
        assert (reply["error"]["code"], reply["error"]["retry_after"]) == ("archive_unavailable", 10)
        assert await parts.rig.redis.llen(keys.queue("known")) == 2
        assert not await parts.rig.redis.exists(keys.session("new"))
        broken.close()

    play(server, tmp_path, test)


def test_two_coordinators_at_once_rebuild_one_log_and_tell_once(server: TestRedis, tmp_path: Path) -> None:
    async def test(parts: Parts) -> None:
        rig = parts.rig
        await parts.run(await parts.recorded("first"), "one")
        lost = await parts.recorded("buy the tickets", reply_to="waiting")
        before = await rig.c1.log("s")
        await parts.lose()
        await asyncio.gather(
            *(r.end_lost("e2") for r in parts.restorers), *(r.session("s", "owner") for r in parts.restorers)
        )
        log = await rig.c1.log("s")
        assert entries_of(log)[: len(before)] == entries_of(before)
        nudge, end = (e.value for e in log[len(before) :])
        assert isinstance(nudge, Nudge)
        assert nudge.reason == "lost"
        assert "buy the tickets" in nudge.text
        assert isinstance(end, RunEnded)
        assert (end.state, end.finish_reason) == ("lost", "error")
        assert end.error is not None
        assert end.error.code == "lost"
        assert await rig.events() == ["run.failed"]
        reply = await rig.reply("waiting")
        assert reply is not None
        assert (reply["run"], reply["error"]["code"]) == (lost.run, "lost")
        assert await rig.reply("waiting") is None
        assert not [k async for k in rig.redis.scan_iter(f"{keys.log('s')}:*")], "no rebuilding is left behind"
        row = await parts.database.run(lambda c: runs.get_run(c, lost.run, "owner"))
        assert row is not None
        assert (row.state, row.error_code) == (runs.RunState.LOST, "lost")
        assert await parts.restorers[0].end_lost("e2") == []

    play(server, tmp_path, test)


def test_word_of_a_lost_run_outlives_a_second_loss(server: TestRedis, tmp_path: Path) -> None:
    async def test(parts: Parts) -> None:
        lost = await parts.recorded("buy the tickets")
        await parts.lose()
        assert await parts.restorers[0].end_lost("e2") == [lost.run]
        await parts.archiver.work()
        log = await parts.rig.c1.log("s")
        await parts.lose()
        assert await parts.restorers[0].end_lost("e3") == []
        await parts.take(session="s", text="and?")
        assert entries_of(await parts.rig.c1.log("s")) == entries_of(log)
        said = [m.text for m in SessionFold.of(log).messages]
        assert said[0] == "buy the tickets"
        assert "may have had an effect" in said[1]

    play(server, tmp_path, test)


def test_a_run_that_this_state_has_is_not_lost_whatever_its_row_says(server: TestRedis, tmp_path: Path) -> None:
    async def test(parts: Parts) -> None:
        lease = await parts.recorded("still going on")
        assert await parts.restorers[0].end_lost("another") == []
        await parts.run(lease, "done")
        row = await parts.database.run(lambda c: runs.get_run(c, lease.run, "owner"))
        assert row is not None
        assert row.state == runs.RunState.ENDED

    play(server, tmp_path, test)


def test_pages_may_come_twice(server: TestRedis, tmp_path: Path) -> None:
    async def test(parts: Parts) -> None:
        rows = [(f"{n}-0", {"t": "steer", "v": "1", "run": "r", "d": '{"text":"x"}'}) for n in range(1, 5)]
        put = partial(parts.archived.restore_page, "s", "part")
        for _ in range(2):
            assert await put("", rows[:2])
        for _ in range(2):
            assert await put("2-0", rows[2:])
        with pytest.raises(StateConflict):
            await restore(parts, "3-0")
        for _ in range(2):
            assert await restore(parts, "4-0") == []
        assert [e.id for e in await parts.rig.c1.log("s")] == ["1-0", "2-0", "3-0", "4-0"]
        assert not await put("4-0", rows), "it has a log now"
        with pytest.raises(StateConflict):
            await restore(parts, "4-0", owner="eve")

    async def restore(parts: Parts, last: str, owner: str = "owner") -> list[str]:
        return await parts.archived.restore("s", owner, "part", last, updated_ms=5, facts={}, lost=[])

    play(server, tmp_path, test)


def test_what_stands_between_runs_is_archived_too(server: TestRedis, tmp_path: Path) -> None:
    async def test(parts: Parts) -> None:
        await parts.run(await parts.recorded("first"), "one")
        await parts.facts.set_fact("s", "late", 1, None, "nobody")
        await parts.run(await parts.recorded("second"), "two")
        copied = await parts.database.run(lambda c: archive.entries(c, "s", "owner"))
        assert [e.entry_id for e in copied] == [e.id for e in await parts.rig.c1.log("s")]
        assert [e.type for e in copied].count(FactSet.T) == 1

    play(server, tmp_path, test)


def test_the_scripts_run_with_a_coordinators_rights(tmp_path: Path) -> None:
    async def test(url: str) -> None:
        client = connect(url)
        pipe = Pipeliner(client)
        state = ArchivedState(pipe, "c1", LIMITS)
        rows = [("1-0", {"t": "steer", "v": "1", "run": "r", "d": '{"text":"x"}'})]
        assert await state.unknown(["s"]) == ["s"]
        assert await state.restore_page("s", "part", "", rows)
        lost = lost_run(runs.Run("r", "s", "owner", "default", "e", 1, replies=("waiting",)))
        facts = {"a": ArchivedFact(3, {"value": 1, "by": "r"})}
        assert await state.restore("s", "owner", "part", "1-0", updated_ms=5, facts=facts, lost=[lost]) == ["r"]
        await state.set_copied("s", "1-0")
        assert await state.copied_to("s") == "1-0"
        assert len(await state.log("s", "-")) == 3
        assert [await state.take_turn("x"), await state.take_turn("x")] == [True, False]
        await pipe.aclose()
        await client.aclose()

    with redis_server() as guarded:
        load(guarded, "state.acl")
        asyncio.run(test(url_of(guarded, "coordinator")))
        assert denials(guarded) == []


# --- a whole system ----------------------------------------------------------------------------------------------


def lose_redis(system: System) -> None:
    """Kills the state Redis, deletes its data, and starts it again, empty, where it was."""
    system.state.kill()
    shutil.rmtree(system.state.folder / "appendonlydir")
    for dump in system.state.folder.glob("*.rdb"):
        dump.unlink()
    system.state.restart()


def asked(model: ModelServer, text: str) -> Any:
    """The body of the newest request whose newest user message has the text."""
    bodies = [r.body for r in of_agents(model)]
    return next(b for b in reversed(bodies) if text in [m for m in b["messages"] if m["role"] == "user"][-1]["content"])


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_redis_and_its_disk_are_gone_and_the_system_goes_on(make_system: MakeSystem, model: ModelServer) -> None:
    noted = [call("calculate", expression="6*7"), call("fact_set", name="people", value=4)]
    paid = [call("probe_write", tag="payment", seconds=3.0)]
    model.script(
        [
            *calls(*noted, user="keep in mind", then="It is 42, noted"),
            *calls(*paid, user="pay the bill", then="paid"),
            {"then": {"text": "I see"}},
        ]
    )
    system = make_system(coordinators=2, env={"CAPATAZ_PRINCIPALS": '["alice"]'})
    client = Client.connect(system.redis_url)
    assert client.ask("keep in mind that we are four, and what is 6*7?", session="kept", timeout=30).ok
    submitted = client.submit("pay the bill", session="flight", tools=("probe",))
    await_line(system, "write payment")
    lose_redis(system)
    client, alice = Client.connect(system.redis_url), Client.connect(system.redis_url, "alice")

    lost = client.wait(submitted, 60)
    assert lost.error is not None
    assert lost.error.code == "lost"
    assert "pay the bill" in lost.error.message
    assert [e.type for e in client.history("flight")] == ["user.message", "nudge", "run.ended"]
    assert [e.type for e in client.stream("flight", run=lost.run, timeout=10)] == ["run.failed"]

    taken = alice.ask("mine now?", session="kept", timeout=30)
    assert taken.error is not None
    assert taken.error.code == "forbidden"

    assert client.ask("hello", session="kept", timeout=30).ok
    body = asked(model, "hello")
    said = json.dumps(body["messages"])
    assert said.index("what is 6*7?") < said.index("It is 42, noted") < said.index("hello")
    assert "- people: 4" in body["messages"][-1]["content"]
    offered = {t["function"]["name"] for t in body["tools"]}
    assert "fact_set" in offered, "its group was opened before the loss"
    assert "file_write" not in offered, "this is not simply the whole catalogue"

    assert client.ask("did you?", session="flight", timeout=30).ok
    assert "may have had an effect" in json.dumps(asked(model, "did you?")["messages"])
    assert probe_lines(system).count("write payment") == 1
    with pytest.raises(TimeoutError):
        client.wait(submitted, 1)
    assert all(c.alive for c in system.coordinators)
