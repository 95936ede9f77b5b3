"""The Lua scripts against a real Redis: who may write, what happens twice, what is never lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import pytest

from shared.contract import Effect, NodeState
from shared.entries import Nudge, RunEnded
from shared.errors import LeaseLost, StateConflict
from shared.fold import SessionFold
from shared.llm.model import ToolResult
from shared.messages import QueuedMessage, Reply
from shared.settings import LimitSettings
from shared.state import keys
from shared.state.changes import Change
from shared.state.config import script_config
from shared.state.scripting import Scripts
from shared.state.session import SessionState
from tests.support.redis import TestRedis, redis_server
from tests.support.state import Rig, done, ended, with_rig

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server() -> Iterator[TestRedis]:
    with redis_server() as running:
        yield running


def play(server: TestRedis, test: Callable[[Rig], Awaitable[None]], limits: LimitSettings | None = None) -> None:
    asyncio.run(with_rig(server.url, test, limits or LimitSettings()))


def reply_of(lease_run: str) -> Reply:
    return Reply(ok=True, run=lease_run, session="s", answer="42", finish_reason="stop")


def test_message_becomes_run_and_reply(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started(reply_to="r1", id="m1")
        assert lease.principal == "owner"
        assert await rig.redis.xlen(keys.inbox()) == 0
        end = RunEnded(state="ended", finish_reason="stop", answer="42")
        assert await rig.c1.finish(lease, Change(entries=[end]), reply_of(lease.run))
        reply = await rig.reply("r1")
        assert reply is not None
        assert reply["answer"] == "42"
        assert await rig.redis.ttl(keys.reply("r1")) == -2  # popped
        assert await rig.redis.zscore(keys.ARCHIVE, lease.run)
        assert [e.type for e in await rig.c1.log("s")] == ["user.message", "run.ended"]

    play(server, test)


def test_same_id_twice_is_one_run_and_two_replies(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await rig.submit(session="s", text="a", id="m1", reply_to="r1")
        await rig.submit(session="s", text="a", id="m1", reply_to="r2")
        assert await rig.route() == 2
        claimed = await rig.c1.claim(5)
        assert len(claimed) == 1
        lease = claimed[0][0]
        await rig.c1.finish(lease, Change(), reply_of(lease.run))
        assert (await rig.reply("r1")) == (await rig.reply("r2"))
        await rig.submit(session="s", text="a", id="m1", reply_to="r3")
        await rig.route()
        assert await rig.c1.claim(5) == []
        late = await rig.reply("r3")
        assert late is not None
        assert late["run"] == lease.run

    play(server, test)


def test_two_coordinators_route_each_entry_once_in_order(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        for n in range(50):
            await rig.submit(session="s", text=str(n))
        taken = await asyncio.gather(*(rig.route(s) for s in (rig.c1, rig.c2, rig.c1, rig.c2)))
        assert sum(taken) == 50
        queued = [json.loads(p)["text"] for p in await rig.redis.lrange(keys.queue("s"), 0, -1)]
        assert queued == [str(n) for n in range(50)]

    play(server, test)


def test_session_has_one_slot(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await rig.submit(session="s", text="one")
        await rig.submit(session="s", text="two")
        await rig.submit(session="t", text="three")
        await rig.route()
        claimed = await rig.c1.claim(10)
        assert sorted(m.text for _, m in claimed) == ["one", "three"]
        first = next(lease for lease, m in claimed if m.text == "one")
        await rig.c1.finish(first, Change(), reply_of(first.run))
        [(_, message)] = await rig.c2.claim(10)
        assert message.text == "two"

    play(server, test)


def test_what_follows_a_run_waits_in_sessions_of_its_user_alone(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await rig.submit("bob", session="deliver.ana", text="mine now")
        await rig.route(principal="bob")
        [(taken, _)] = await rig.c1.claim(1)
        await rig.c1.finish(taken, Change(), reply_of(taken.run))
        lease = await rig.started()
        names = ("deliver.ana", "deliver.owner")
        following = [
            QueuedMessage(run=f"r-{name}", principal="owner", session=name, received_ms=1, text="told")
            for name in names
        ]
        for _ in range(2):  # a client may repeat it
            assert await rig.c1.finish(replace(lease), Change(), reply_of(lease.run), follow_ups=following)
        assert await rig.redis.llen(keys.queue("deliver.ana")) == 0
        assert await rig.redis.llen(keys.queue("deliver.owner")) == 1
        [(started, _)] = await rig.c1.claim(5)
        assert (started.session, started.principal) == ("deliver.owner", "owner")

    play(server, test)


def test_dead_owner_cannot_write_even_before_takeover(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        await rig.dead("c1")
        with pytest.raises(LeaseLost):
            await rig.c1.append(lease, Change(entries=[Nudge(reason="x", text="late")]))
        taken = await rig.c2.take_over(lease.run, dead_owners=True)
        assert taken is not None
        await rig.beat("c1")  # it was only paused
        with pytest.raises(LeaseLost):
            await rig.c1.append(lease, Change(entries=[Nudge(reason="x", text="late")]))
        with pytest.raises(LeaseLost):
            await rig.c1.finish(lease, Change(), reply_of(lease.run))
        await rig.c2.append(taken, Change(entries=[Nudge(reason="x", text="mine")]))
        assert [e.value.text for e in await rig.c2.log("s") if isinstance(e.value, Nudge)] == ["mine"]

    play(server, test)


def test_live_owner_keeps_its_run(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        assert await rig.c2.take_over(lease.run, dead_owners=True) is None
        await rig.dead("c1")
        assert await rig.c2.take_over(lease.run, dead_owners=False) is None
        await rig.beat("c1")
        assert await rig.c1.release(lease)
        assert await rig.c2.take_over(lease.run, dead_owners=False) is not None

    play(server, test)


def test_append_applied_twice_answers_the_stored_outcome(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        change = Change(entries=[Nudge(reason="x", text="once")])
        first = await rig.c1.append(lease, change)
        lease.sequence -= 1  # the answer got lost; the same change is sent again
        assert await rig.c1.append(lease, change) == first
        assert sum(e.type == "nudge" for e in await rig.c1.log("s")) == 1
        lease.sequence += 5
        with pytest.raises(StateConflict):
            await rig.c1.append(lease, change)

    play(server, test)


def test_finish_refuses_when_mail_has_arrived(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started(id="m1")
        await rig.submit(session="s", text="and also this", mode="steer", reply_to="r2")
        await rig.route()
        assert await rig.c1.finish(lease, Change(), reply_of(lease.run)) is False
        mails = await rig.c1.mail(lease.run)
        assert [m["text"] for m in mails] == ["and also this"]
        await rig.c1.append(lease, Change(mail_read=1))
        assert await rig.c1.finish(lease, Change(), reply_of(lease.run))
        assert await rig.reply("r2") is not None

    play(server, test)


def test_other_users_session_is_refused_and_buried(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await rig.started()
        await rig.submit(principal="eve", session="s", text="mine now", reply_to="r9")
        await rig.route(principal="eve")
        reply = await rig.reply("r9")
        assert reply is not None
        assert reply["error"]["code"] == "forbidden"
        [dead] = await rig.entries(keys.DEAD)
        assert dead["principal"] == "eve"
        assert dead["code"] == "forbidden"

    play(server, test)


def test_full_queue_says_when_to_try_again(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        for n in range(3):
            await rig.submit(session="s", text=str(n), reply_to=f"q{n}")
        await rig.route()
        reply = await rig.reply("q2")
        assert reply is not None
        assert reply["error"]["code"] == "busy"
        assert reply["error"]["retry_after"] > 0
        assert await rig.reply("q1") is None

    play(server, test, LimitSettings(session_queue=2))


def test_cancel_of_a_waiting_message(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await rig.started()
        await rig.submit(session="s", text="later", reply_to="r2")
        await rig.route()
        waiting = json.loads((await rig.redis.lrange(keys.queue("s"), 0, -1))[0])["run"]
        await rig.submit(kind="cancel", run=waiting, reply_to="ack")
        await rig.route()
        assert (await rig.reply("ack") or {}).get("ok") is True
        assert (await rig.reply("r2") or {}).get("finish_reason") == "cancelled"
        assert await rig.redis.llen(keys.queue("s")) == 0

    play(server, test)


def test_nobody_else_controls_a_run(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        await rig.submit(principal="eve", kind="cancel", run=lease.run, reply_to="ack")
        await rig.route(principal="eve")
        assert (await rig.reply("ack") or {})["error"]["code"] == "not_found"
        assert await rig.c1.mail(lease.run) == []

    play(server, test)


def test_no_row_no_run(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        [order] = await rig.planned(lease, "n1")
        forged = order.model_copy(update={"node": "n2"})
        changed = order.model_copy(update={"args_hash": "0" * 64})
        assert await rig.w1.claim([forged, changed, order]) == ["unknown", "changed", 1]
        assert await rig.w2.claim([order]) == ["taken"]
        assert await rig.w1.end(order, 1, done())
        assert await rig.w2.claim([order]) == ["ended"]

    play(server, test)


def test_claim_repeated_after_a_lost_answer_is_the_same_claim(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        [order] = await rig.planned(lease, "n1")
        scripts, cfg = Scripts(rig.pipe), script_config(rig.limits)
        body = json.dumps([{"run": order.run, "session": "s", "node": "n1", "hash": order.args_hash, "tool": "probe"}])
        first = await scripts.call("claim_nodes", "w1", body, cfg, "n1", "claim-1")
        again = await scripts.call("claim_nodes", "w1", body, cfg, "n1", "claim-1")
        other = await scripts.call("claim_nodes", "w1", body, cfg, "n1", "claim-2")
        assert (first, again, other) == ([1], [1], ["taken"])

    play(server, test)


def test_deaf_worker_claims_nothing(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        [order] = await rig.planned(lease, "n1")
        await rig.dead("w1")
        assert await rig.w1.claim([order]) == ["deaf"]

    play(server, test)


def test_first_terminal_state_wins(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        [order] = await rig.planned(lease, "n1")
        await rig.w1.claim([order])
        await rig.c1.append(lease, Change(ends=[("n1", "probe", ended(NodeState.TIMED_OUT))]))
        assert await rig.w1.end(order, 1, done()) is False
        results = await rig.c1.results(lease.run, ["n1"])
        assert results["n1"].state is NodeState.TIMED_OUT
        assert sum(e.type == "node.result" for e in await rig.c1.log("s")) == 1

    play(server, test)


@pytest.mark.parametrize(
    ("effect", "found", "state"),
    [
        (Effect.READ, "requeued", None),
        (Effect.IDEMPOTENT, "requeued", None),
        (Effect.WRITE, "ended", "outcome_unknown"),
    ],
)
def test_rows_of_a_dead_worker(server: TestRedis, effect: Effect, found: str, state: str | None) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        [order] = await rig.planned(lease, "n1", effect=effect)
        await rig.w1.claim([order])
        unknown, failed = ended(NodeState.OUTCOME_UNKNOWN), ended(NodeState.FAILED)
        review = [("n1", "probe", unknown, failed)]
        assert (await rig.c1.review(lease, review))[0].state == "running"
        await rig.dead("w1")
        assert (await rig.c1.review(lease, review))[0].state == found
        results = await rig.c1.results(lease.run, ["n1"])
        assert (results["n1"].state.value if results else None) == state
        if state is None:
            assert await rig.w2.claim([order]) == [2]
            assert await rig.w1.end(order, 1, done()) is False  # it comes back from the dead
            assert await rig.w2.end(order, 2, done())

    play(server, test)


def test_node_that_kills_its_workers_fails_in_the_end(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        [order] = await rig.planned(lease, "n1")
        review = [("n1", "probe", ended(NodeState.OUTCOME_UNKNOWN), ended(NodeState.FAILED))]
        seen = []
        for _ in range(3):
            await rig.beat("w1")
            await rig.w1.claim([order])
            await rig.dead("w1")
            seen.append((await rig.c1.review(lease, review))[0].state)
        assert seen == ["requeued", "requeued", "ended"]
        assert (await rig.c1.results(lease.run, ["n1"]))["n1"].state is NodeState.FAILED

    play(server, test)


def test_given_back_row_does_not_count_as_a_death(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        [order] = await rig.planned(lease, "n1")
        assert await rig.w1.claim([order]) == [1]
        assert await rig.w1.give_back(order, 1)
        assert await rig.w2.claim([order]) == [1]
        assert await rig.w1.end(order, 1, done()) is False

    play(server, test)


def test_facts_compare_and_set(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        state = SessionState(rig.pipe, rig.limits)
        assert await state.set_fact("s", "a", [], None, "r1") == 1
        with pytest.raises(StateConflict):
            await state.set_fact("s", "a", 2, 0, "r2")
        assert await state.set_fact("s", "a", {"x": []}, 1, "r2") == 2
        facts = await state.facts("s")
        assert (facts["a"].value, facts["a"].version, facts["a"].by) == ({"x": []}, 2, "r2")

    play(server, test)


def test_fold_of_the_log_is_the_conversation(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started(text="go")
        one, two = await rig.planned(lease, "n1", "n2")
        await rig.w1.claim([one, two])
        await rig.w1.end(two, 1, done("second"))
        await rig.w1.end(one, 1, done("first"))
        fold = SessionFold.of(await rig.c1.log("s"))
        assert [m.role for m in fold.messages] == ["user", "assistant", "tool"]
        answers = [b.text if isinstance(b, ToolResult) else b for b in fold.messages[2].blocks]
        assert answers == ["first", "second"]
        assert fold.run(lease.run).open_nodes == []

    play(server, test)
