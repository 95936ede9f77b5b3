"""Limits and turns against a real Redis: what is refused, what is answered then, and that counts stay right."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis.exceptions

from coordinator.context.agent import Agents
from coordinator.inbox import classify
from coordinator.intake import PAGE, Intake
from coordinator.restore import Restorer
from shared.artifacts import Artifact
from shared.client import Client
from shared.entries import Nudge
from shared.errors import StateUnavailable
from shared.messages import Reply
from shared.settings import LimitSettings, Settings
from shared.state import keys
from shared.state.changes import Change
from shared.state.nodes import beat_coordinator
from shared.state.runs import Lease
from tests.support.redis import TestRedis, redis_server
from tests.support.state import AGENTS, Rig, with_rig

pytestmark = pytest.mark.integration

ALICE = "alice"
MB = 1024 * 1024


@pytest.fixture(scope="module")
def server() -> Iterator[TestRedis]:
    with redis_server() as running:
        yield running


def play(server: TestRedis, test: Callable[[Rig], Awaitable[None]], **limits: int) -> None:
    asyncio.run(with_rig(server.url, test, LimitSettings(**limits)))


async def send(rig: Rig, *, at_ms: int | None = None, principal: str = "owner", **fields: str) -> None:
    """Adds a message, of an earlier time if `at_ms` says so, and routes it."""
    entry: dict[Any, Any] = {"kind": "message", "session": "s", "text": "hi", **fields}
    await rig.redis.xadd(keys.inbox(principal), entry, id=f"{at_ms}-*" if at_ms is not None else "*")
    assert await rig.route(principal=principal) == 1


async def error_of(rig: Rig, name: str) -> dict[str, Any]:
    """The error in the next reply on a list."""
    reply = await rig.reply(name)
    assert reply is not None
    assert reply["ok"] is False
    return dict(reply["error"])


async def end(rig: Rig, lease: Lease) -> None:
    """Ends a run with an answer."""
    reply = Reply(ok=True, run=lease.run, session=lease.session, answer="ok", finish_reason="stop")
    assert await rig.c1.finish(lease, Change(), reply)


async def waiting(rig: Rig, principal: str = "owner") -> int:
    return int(await rig.redis.zcard(keys.waiting(principal)))


# --- waiting messages --------------------------------------------------------------------------------------------


def test_waiting_messages_are_counted_over_all_sessions(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        for n in range(3):
            await send(rig, session=f"s{n}", id=f"m{n}", reply_to=f"r{n}")
        error = await error_of(rig, "r2")
        assert error["code"] == "busy"
        assert 1 <= error["retry_after"] <= 300
        assert str(error["retry_after"]) in error["hint"]
        await send(rig, principal=ALICE, session="hers", id="hers")
        assert await waiting(rig, ALICE) == 1, "somebody else's messages do not count"
        assert sorted(m.id for _, m in await rig.c1.claim(2)) == ["hers", "m0"]
        await send(rig, session="s2", id="m2", reply_to="r2")
        assert await rig.reply("r2") is None, "one has begun, so there is room, and its id was not remembered"
        assert await waiting(rig) == 2
        assert sorted(m.id for _, m in await rig.c1.claim(5)) == ["m1", "m2"]
        assert await waiting(rig) == await waiting(rig, ALICE) == 0

    play(server, test, waiting=2)


def test_a_refused_message_leaves_no_session_behind(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await send(rig, session="first")
        await send(rig, session="second")
        assert not await rig.redis.exists(keys.session("second"), keys.queue("second"))
        assert await rig.events("second") == ["notice"]
        assert 0 < await rig.redis.ttl(keys.events("second")) <= rig.limits.reply_ttl_s
        [dead] = await rig.entries(keys.DEAD)
        assert (dead["code"], json.loads(dead["fields"])["session"]) == ("busy", "second")
        await send(rig, principal=ALICE, session="second")
        assert await rig.redis.hget(keys.session("second"), "owner") == ALICE

    play(server, test, waiting=1)


def test_a_cancelled_message_waits_no_more(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await send(rig)
        run = json.loads((await rig.redis.lrange(keys.queue("s"), 0, -1))[0])["run"]
        await send(rig, kind="cancel", run=run, text="")
        assert await waiting(rig) == 0

    play(server, test, waiting=1)


def test_routing_applied_twice_counts_once(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await rig.submit(session="s", text="a", reply_to="r1")
        entries = await rig.c1.read_inbox(keys.inbox())
        decisions = [classify(i, f, "owner", rig.limits, AGENTS) for i, f in entries]
        assert await rig.c1.route(keys.inbox(), "owner", decisions) == 1
        bucket = await rig.redis.get("capataz:rate:owner")
        assert await rig.c1.route(keys.inbox(), "owner", decisions) == 0
        assert await rig.redis.get("capataz:rate:owner") == bucket
        assert await waiting(rig) == await rig.redis.llen(keys.queue("s")) == 1

    play(server, test)


# --- rate --------------------------------------------------------------------------------------------------------


def test_the_rate_says_when_the_next_may_come(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await rig.started()
        for n in range(2):
            await send(rig, mode="steer", reply_to=f"r{n}")
        await send(rig, session="t", id="again", reply_to="r9")
        error = await error_of(rig, "r9")
        assert error["code"] == "too_fast"
        assert 0 < error["retry_after"] <= 20
        assert await waiting(rig) == 0
        assert 0 < await rig.redis.pttl("capataz:rate:owner") <= 121_000
        await send(rig, principal=ALICE, session="hers")
        assert await waiting(rig, ALICE) == 1
        await rig.redis.delete("capataz:rate:owner")  # as if a minute had passed
        await send(rig, session="t", id="again", reply_to="r9")
        assert await rig.reply("r9") is None
        assert await waiting(rig) == 1

    play(server, test, rate_per_minute=3)


def test_the_bucket_goes_by_the_time_at_which_messages_came(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        begin = int(time.time() * 1000) - 600_000
        taken = []
        for offset in (0, 0, 0, 0, 19_999, 20_000, 20_001, 40_000, 400_000, 400_000, 400_000, 400_000):
            before = await waiting(rig)
            await send(rig, at_ms=begin + offset)
            taken.append(await waiting(rig) - before)
        assert taken == [1, 1, 1, 0, 0, 1, 0, 1, 1, 1, 1, 0]

    play(server, test, rate_per_minute=3)


# --- runs at once, and turns -------------------------------------------------------------------------------------


def test_running_is_bounded_over_all_coordinators(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        for n in range(5):
            await send(rig, session=f"s{n}")
        await send(rig, principal=ALICE, session="hers")
        first = [lease for lease, _ in await rig.c1.claim(10)]
        assert sorted(lease.principal for lease in first) == [ALICE, "owner", "owner"]
        assert await rig.c2.claim(10) == []
        mine = [lease for lease in first if lease.principal == "owner"]
        await end(rig, mine[0])
        mine[0].sequence -= 1  # the answer got lost; the same change is sent again
        await end(rig, mine[0])
        assert len(await rig.c2.claim(10)) == 1
        assert await rig.c2.claim(10) == []
        assert await rig.redis.scard(keys.active_of()) == 2

    play(server, test, running=2)


def test_the_bound_holds_through_a_crash(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        for n in range(4):
            await send(rig, session=f"s{n}")
        claimed = await rig.c1.claim(10)
        await rig.dead("c1")
        assert await rig.c2.claim(10) == []
        taken = [await rig.c2.take_over(lease.run, dead_owners=True) for lease, _ in claimed]
        assert await rig.c2.claim(10) == []
        for lease in taken:
            assert lease is not None
            assert await rig.c2.finish(lease, Change(), Reply(ok=True, run=lease.run))
        assert len(await rig.c2.claim(10)) == 2

    play(server, test, running=2)


def test_a_parked_run_makes_room(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await send(rig, session="one")
        await send(rig, session="two")
        [(lease, _)] = await rig.c1.claim(10)
        assert await rig.c1.claim(10) == []
        assert await rig.c1.park(lease, [], 0, clock_stops=True)
        assert [m.session for _, m in await rig.c1.claim(10)] == ["two"]

    play(server, test, running=1)


def test_users_are_served_in_turn(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        for name, count in (("owner", 4), ("alice", 2), ("bob", 1)):
            for n in range(count):
                await send(rig, principal=name, session=f"{name}.{n}")
        order = [lease.session for lease, _ in await rig.c1.claim(4)]
        order += [(await rig.c1.claim(1))[0][0].session for _ in range(3)]
        assert order[:3] == ["alice.0", "bob.0", "owner.0"], "nobody had a turn, so by name"
        assert order[3:] == ["alice.1", "owner.1", "owner.2", "owner.3"]
        assert await rig.redis.zcard(keys.RUNNABLE) == await rig.redis.exists(keys.runnable()) == 0

    play(server, test)


def test_a_newcomer_is_next_behind_ten_thousand_sessions(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        pipe = rig.redis.pipeline(transaction=False)
        for n in range(10_000):
            pipe.xadd(keys.inbox(), {"kind": "message", "session": f"s{n}", "text": "x"})
        await pipe.execute()
        while await rig.route():
            pass
        assert await waiting(rig) == await rig.redis.zcard(keys.runnable()) == 10_000
        assert [m.session for _, m in await rig.c1.claim(3)] == ["s0", "s1", "s2"]
        await send(rig, principal=ALICE, session="hers")
        assert [m.session for _, m in await rig.c1.claim(2)] == ["hers", "s3"]

    play(server, test, waiting=20_000, rate_per_minute=0, running=0)


# --- age ---------------------------------------------------------------------------------------------------------


def test_a_message_that_waited_too_long_is_answered_instead_of_run(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        now = int(time.time() * 1000)
        await send(rig, at_ms=now - 61_000, id="old", text="é" * 5000, reply_to="r1")
        await send(rig, at_ms=now, id="new")
        assert [m.id for _, m in await rig.c1.claim(5)] == ["new"]
        reply = await rig.reply("r1")
        assert reply is not None
        assert (reply["id"], reply["error"]["code"]) == ("old", "too_late")
        assert reply["error"]["retry_after"] >= 1
        assert await waiting(rig) == 0
        assert (await rig.events())[-2:] == ["run.failed", "run.started"]
        assert await rig.redis.hget(keys.run(reply["run"]), "state") == "ended"
        [dead] = await rig.entries(keys.DEAD)
        assert dead["code"] == "too_late"
        assert dead["fields"].endswith("é…")
        await send(rig, session="t", id="old", reply_to="r2")
        assert [m.id for _, m in await rig.c1.claim(5)] == ["old"], "the same message may be sent again"

    play(server, test, queue_age_s=60)


def test_a_session_whose_messages_are_all_too_old_is_not_runnable(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        old = int(time.time() * 1000) - 61_000
        for n in range(3):
            await send(rig, at_ms=old, reply_to=f"r{n}")
        assert await rig.c1.claim(5) == []
        assert [(await error_of(rig, f"r{n}"))["code"] for n in range(3)] == ["too_late"] * 3
        assert await rig.redis.exists(keys.RUNNABLE, keys.runnable(), keys.waiting()) == 0

    play(server, test, queue_age_s=60)


# --- memory ------------------------------------------------------------------------------------------------------


def test_memory_above_the_mark_refuses_messages_and_nothing_else(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        await send(rig, session="t")
        used = int((await rig.redis.info("memory"))["used_memory"])
        try:
            await rig.redis.config_set("maxmemory", used + MB)
            await send(rig, session="u", id="m1", reply_to="r1")
            error = await error_of(rig, "r1")
            assert (error["code"], error["retry_after"]) == ("memory_full", 60)
            await send(rig, kind="cancel", text="", reply_to="r2")
            assert (await rig.reply("r2") or {})["ok"] is True
            assert len(await rig.c1.claim(5)) == 1, "what was accepted gets its turn"
            await rig.c1.append(lease, Change(mail_read=1))
            await end(rig, lease)
        finally:
            await rig.redis.config_set("maxmemory", 0)
        await send(rig, session="u", id="m1", reply_to="r1")
        assert await rig.reply("r1") is None
        assert len(await rig.c1.claim(5)) == 1

    play(server, test, memory_percent=5)


def test_full_memory_lets_runs_under_way_end(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started(reply_to="r1")
        await send(rig, session="t", id="m1")
        await rig.submit(session="u", text="x", id="m2", reply_to="r2")
        try:
            await rig.redis.config_set("maxmemory", MB // 2)
            with pytest.raises(redis.exceptions.OutOfMemoryError):
                await rig.submit(session="v", text="x")
            await rig.dead("c1")
            with server.client() as client:
                beat_coordinator(client, "c1", 60)
            assert await rig.redis.zscore(keys.COORDINATORS, "c1")
            assert await rig.route() == 1
            assert (await error_of(rig, "r2"))["code"] == "memory_full"
            assert await rig.c1.claim(5) == [], "nothing begins"
            await rig.c1.append(lease, Change(entries=[Nudge(reason="x", text="still here")]))
            await end(rig, lease)
            assert (await rig.reply("r1") or {})["ok"] is True
        finally:
            await rig.redis.config_set("maxmemory", 0)
        assert [m.id for _, m in await rig.c1.claim(5)] == ["m1"], "nothing is lost"

    play(server, test)


def test_a_full_redis_says_so_to_clients(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        try:
            await rig.redis.config_set("maxmemory", MB // 2)
            with pytest.raises(StateUnavailable, match="full"):
                await asyncio.to_thread(_ask, server.url)
        finally:
            await rig.redis.config_set("maxmemory", 0)

    play(server, test)


def _ask(url: str) -> None:
    client = Client.connect(url)
    try:
        client.submit("hello")
    finally:
        client.close()


# --- inboxes -----------------------------------------------------------------------------------------------------


class NoArtifacts:
    """A store that must not be asked."""

    async def put(self, principal: str, data: bytes, media_type: str) -> str:
        raise AssertionError("artifacts.put was used")

    async def get(self, principal: str, handle: str) -> Artifact:
        raise AssertionError("artifacts.get was used")


class EmptyArchive(Restorer):
    """An archive that knows no session."""

    def __init__(self) -> None:
        """It has nothing to ask."""

    async def look_up(self, principal: str, decisions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return list(decisions)


def intake(rig: Rig, folder: Path, *principals: str) -> Intake:
    settings = Settings(limits=rig.limits, principals=principals)
    return Intake(rig.c1, settings, Agents(folder), NoArtifacts(), EmptyArchive())


async def flood(rig: Rig, count: int) -> None:
    pipe = rig.redis.pipeline(transaction=False)
    for n in range(count):
        pipe.xadd(keys.inbox(), {"kind": "message", "session": f"s{n % 50}", "text": str(n), "id": f"m{n}"})
    await pipe.execute()


def test_a_long_inbox_is_cut_at_its_end_and_keeps_control_entries(server: TestRedis, tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started(session="running")
        await flood(rig, 7 * PAGE)
        await rig.submit(kind="cancel", session="running", reply_to="ack")
        assert await intake(rig, tmp_path).work() == 7 * PAGE + 1
        dead = await rig.entries(keys.DEAD)
        refused = sorted(int(json.loads(entry["fields"])["id"].removeprefix("m")) for entry in dead)
        assert refused == list(range(7 * PAGE - len(refused), 7 * PAGE)), "the newest, without a gap"
        assert await waiting(rig) == 7 * PAGE - len(refused) >= 2 * PAGE
        assert {entry["code"] for entry in dead} == {"busy"}
        assert (await rig.reply("ack") or {})["ok"] is True
        assert len(await rig.c1.mail(lease.run)) == 1

    play(server, test, inbox_entries=2 * PAGE, waiting=10_000, rate_per_minute=0)


def test_nobody_waits_for_anothers_flood(server: TestRedis, tmp_path: Path) -> None:
    async def test(rig: Rig) -> None:
        await flood(rig, 5 * PAGE)
        await rig.submit(principal=ALICE, session="hers", text="x")
        left: list[int] = []

        async def look() -> None:
            if await rig.redis.exists(keys.queue("hers")):
                left.append(await rig.redis.xlen(keys.inbox()))

        await intake(rig, tmp_path, ALICE).work(then=look)
        assert left[0] >= 3 * PAGE
        assert await rig.redis.xlen(keys.inbox()) == 0

    play(server, test, rate_per_minute=0)
