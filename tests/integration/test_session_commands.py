"""The commands `undo`, `fork` and `set` against a real Redis: what they change, whom they obey, what happens twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from shared.entries import Assistant, RunEnded
from shared.fold import SessionFold
from shared.llm.model import Finish, Message, TextBlock
from shared.messages import QueuedMessage, Reply, Switches
from shared.state import keys
from shared.state.changes import Change
from shared.state.runs import Lease
from shared.state.session import SessionState
from tests.support.redis import TestRedis, redis_server
from tests.support.state import LIMITS, Rig, with_rig

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server() -> Iterator[TestRedis]:
    with redis_server() as running:
        yield running


def play(server: TestRedis, test: Callable[[Rig], Awaitable[None]]) -> None:
    asyncio.run(with_rig(server.url, test))


async def order(rig: Rig, what: str, params: dict[str, Any] | None = None, **fields: str) -> dict[str, Any]:
    """A command and its answer."""
    given = {"session": "s", "principal": "owner", **fields}
    if params is not None:
        given["params"] = json.dumps(params)
    principal = given.pop("principal")
    await rig.submit(principal, kind="command", command=what, reply_to="c", **given)
    assert await rig.route(principal=principal) == 1
    answer = await rig.reply("c")
    assert answer is not None
    return answer


async def turn(rig: Rig, text: str, answer: str = "", session: str = "s") -> Lease:
    """A whole run: asked and answered."""
    lease = await rig.started(session, text)
    await finish(rig, lease, answer or f"re {text}")
    return lease


async def finish(rig: Rig, lease: Lease, answer: str) -> None:
    message = Message(role="assistant", blocks=(TextBlock(text=answer),))
    said = Assistant(step=1, attempt=1, message=message, finish=Finish.STOP)
    end = RunEnded(state="ended", finish_reason="stop", answer=answer)
    assert await rig.c1.finish(lease, Change(entries=[said, end]), Reply(ok=True, run=lease.run))


async def talk(rig: Rig, session: str = "s") -> list[str]:
    """The conversation as a model would see it."""
    return [m.text for m in SessionFold.of(await rig.c1.log(session)).messages]


def code(answer: dict[str, Any]) -> str:
    return "" if answer["ok"] else str(answer["error"]["code"])


def test_undo_takes_back_one_turn_after_the_other(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        first, second = await turn(rig, "one"), await turn(rig, "two")
        answer = await order(rig, "undo", id="u1")
        assert (answer["ok"], answer["run"], answer["session"]) == (True, second.run, "s")
        assert await talk(rig) == ["one", "re one"]
        assert (await order(rig, "undo", id="u1"))["run"] == second.run  # the same entry again
        assert await talk(rig) == ["one", "re one"]
        third = await turn(rig, "three")
        assert await talk(rig) == ["one", "re one", "three", "re three"]
        assert (await order(rig, "undo"))["run"] == third.run
        assert (await order(rig, "undo"))["run"] == first.run
        assert await talk(rig) == []
        assert code(await order(rig, "undo")) == "not_found"
        assert (await rig.events()).count("undone") == 3

    play(server, test)


def test_a_turn_that_is_taken_back_is_copied_to_the_archive_once_more(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await turn(rig, "one")
        await rig.c1.archived([lease.run])
        await rig.redis.delete(keys.run(lease.run))  # expired
        await order(rig, "undo")
        assert await rig.c1.archive_due() == [lease.run]
        row = await rig.c1.run_row(lease.run)
        assert (row["session"], row["principal"]) == ("s", "owner")
        assert await rig.redis.ttl(keys.run(lease.run)) > 0

    play(server, test)


def test_undo_waits_for_nobody(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await turn(rig, "one")
        await rig.submit(session="s", text="waits")
        await rig.route()
        waiting = await order(rig, "undo")
        [(lease, _)] = await rig.c1.claim(1)
        running = await order(rig, "undo")
        for refused in (waiting, running):
            assert code(refused) == "busy"
            assert refused["error"]["retry_after"] > 0
        await finish(rig, lease, "ok")
        assert (await order(rig, "undo"))["run"] == lease.run

    play(server, test)


def test_a_subagents_run_is_no_turn_of_its_own(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started("s", "one")
        child = QueuedMessage(
            run="rchild", principal="owner", session="s", received_ms=1, text="task", parent=f"{lease.run}.1.1.0"
        )
        await rig.redis.xadd(
            keys.log("s"), {"t": "user.message", "v": "1", "run": "rchild", "d": child.model_dump_json()}
        )
        await finish(rig, lease, "re one")
        assert (await order(rig, "undo"))["run"] == lease.run

    play(server, test)


def test_others_sessions_are_not_there(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await turn(rig, "one")
        for what, params in (("undo", None), ("fork", {"to": "mine"}), ("set", {"debug": "on"})):
            assert code(await order(rig, what, params, principal="alice")) == "not_found"
            assert code(await order(rig, what, params, session="nobody's")) == "bad_field"
            assert code(await order(rig, what, params, session="none")) == "not_found"
        assert await rig.redis.exists(keys.session("mine"), keys.session("none"), keys.switches("s")) == 0
        assert await talk(rig) == ["one", "re one"]

    play(server, test)


def test_fork_copies_the_whole_turns_up_to_an_entry(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        state = SessionState(rig.pipe, LIMITS)
        first = await turn(rig, "one")
        await state.set_fact("s", 'odd "name"', {"list": []}, 0, first.run)
        second = await rig.started("s", "two")
        await state.set_fact("s", 'odd "name"', [[], {}], 1, second.run)
        inside = (await rig.c1.log("s"))[-1].id
        await order(rig, "set", {"model": "fast"})

        early = await order(rig, "fork", {"to": "early", "at": inside})
        assert (early["ok"], early["run"], early["session"]) == (True, first.run, "early")
        assert await talk(rig, "early") == ["one", "re one"]
        [fact] = (await state.facts("early")).values()
        assert (fact.value, fact.version, fact.by) == ({"list": []}, 1, first.run)

        await finish(rig, second, "re two")
        late = await order(rig, "fork", {"to": "late"})
        assert late["run"] == second.run
        assert await rig.redis.xrange(keys.log("late")) == await rig.redis.xrange(keys.log("s"))
        assert (await state.facts("late")) == (await state.facts("s"))
        assert (await state.switches("late")).model == "fast"
        # Both go on from there, each for itself.
        await turn(rig, "three", session="late")
        assert await talk(rig, "late") == ["one", "re one", "two", "re two", "three", "re three"]
        assert await talk(rig) == ["one", "re one", "two", "re two"]
        assert await state.set_fact("late", 'odd "name"', 1, 2, "r") == 3
        for key in (keys.session("late"), keys.log("late"), keys.facts("late"), keys.switches("late")):
            assert await rig.redis.ttl(key) > 0

    play(server, test)


def test_fork_of_a_session_whose_turn_was_taken_back(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await turn(rig, "one")
        second = await turn(rig, "two")
        end = (await rig.c1.log("s"))[-1].id
        await order(rig, "undo")
        await order(rig, "fork", {"to": "after"})
        await order(rig, "fork", {"to": "before", "at": end})
        assert await talk(rig, "after") == ["one", "re one"]
        assert await talk(rig, "before") == ["one", "re one", "two", "re two"]
        assert (await order(rig, "undo", session="before"))["run"] == second.run

    play(server, test)


def test_fork_is_refused_with_a_reason(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started("s", "one")
        assert code(await order(rig, "fork", {"to": "b"})) == "not_found"  # no run has ended
        await finish(rig, lease, "re one")
        assert code(await order(rig, "fork", {"to": "b", "at": "1-1"})) == "not_found"
        await rig.submit("alice", session="b", text="mine")
        await rig.route(principal="alice")
        assert code(await order(rig, "fork", {"to": "b"})) == "exists"
        assert await rig.redis.hget(keys.session("b"), "owner") == "alice"
        for params, expected in (
            ({}, "missing_field"),
            ({"to": "s"}, "bad_field"),
            ({"to": "x y"}, "bad_field"),
            ({"to": "c", "at": "now"}, "bad_field"),
            ({"to": "c", "more": 1}, "unknown_field"),
        ):
            assert code(await order(rig, "fork", params)) == expected

    play(server, test)


def test_a_long_log_is_copied_whole(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started("s", "one")
        pipe = rig.redis.pipeline(transaction=False)
        for n in range(1203):
            pipe.xadd(keys.log("s"), {"t": "steer", "v": "1", "run": lease.run, "d": json.dumps({"text": str(n)})})
        await pipe.execute()
        await finish(rig, lease, "re one")
        assert (await order(rig, "fork", {"to": "copy"}))["ok"]
        assert await rig.redis.xrange(keys.log("copy")) == await rig.redis.xrange(keys.log("s"))
        assert (await order(rig, "undo"))["run"] == lease.run  # found behind more than one page

    play(server, test)


def test_switches_are_kept_one_by_one(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        state = SessionState(rig.pipe, LIMITS)
        await turn(rig, "one")
        assert await state.switches("s") == Switches()
        assert (await order(rig, "set", {"model": "a/b", "debug": "on"}))["ok"]
        await order(rig, "set", {"thinking": "hide"})
        assert await state.switches("s") == Switches(model="a/b", thinking="hide", debug="on")
        await order(rig, "set", {"model": "", "debug": "off", "thinking": None})
        assert await state.switches("s") == Switches(thinking="hide", debug="off")
        assert code(await order(rig, "set", {"debug": "maybe"})) == "bad_field"
        assert code(await order(rig, "set", {})) == "missing_field"
        await rig.redis.expire(keys.switches("s"), 10)
        await state.switches("s")
        assert await rig.redis.ttl(keys.switches("s")) > 10  # a session that is used keeps them

    play(server, test)
