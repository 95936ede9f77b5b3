"""Parking, waking and subagents against a real Redis: who wakes whom, what a repeat does, what is listed as waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.loop.waits import expired, take
from shared.contract import NodeResult, NodeState
from shared.entries import Decided, Node, NodeEnded, Nudge, RunEnded, Stored, UserMessage, Waiting
from shared.errors import LeaseLost
from shared.fold import SessionFold
from shared.messages import QueuedMessage, Reply
from shared.state import keys
from shared.state.changes import Change
from shared.state.runs import Lease
from shared.state.session import SessionState
from tests.support.redis import TestRedis, redis_server
from tests.support.state import Rig, done, ended, make_node, with_rig

pytestmark = pytest.mark.integration

AFTER_A_WHILE_MS = 40


@pytest.fixture(scope="module")
def server() -> Iterator[TestRedis]:
    with redis_server() as running:
        yield running


def play(server: TestRedis, test: Callable[[Rig], Awaitable[None]]) -> None:
    asyncio.run(with_rig(server.url, test))


def reply_of(lease: Lease) -> Reply:
    return Reply(ok=True, run=lease.run, session=lease.session, answer="42", finish_reason="stop")


def held(node: str, kind: str, run: str = "") -> Waiting:
    return Waiting.model_validate({"node": node, "kind": kind, "tool": "probe", "args_hash": "h", "run": run})


def child_of(lease: Lease, node: str, run: str = "rchild") -> QueuedMessage:
    return QueuedMessage(
        run=run,
        principal=lease.principal,
        session=lease.session,
        received_ms=1,
        text="do it",
        agent="default",
        parent=node,
        path=("default", "default"),
    )


async def waiting(rig: Rig, lease: Lease, node: str, kind: str = "approval") -> None:
    """Plans a node of the run and lets it wait."""
    await rig.c1.append(lease, Change(nodes=[make_node(node)], entries=[held(node, kind)]))


async def spawned(rig: Rig, lease: Lease, node: str, run: str = "rchild") -> None:
    """Plans a node of the run, and starts the subagent that it waits for."""
    change = Change(nodes=[make_node(node)], entries=[held(node, "agent", run)], spawn=[child_of(lease, node, run)])
    await rig.c1.append(lease, change)


async def taken(rig: Rig, run: str, *, dead_owners: bool = False) -> Lease:
    lease = await rig.c2.take_over(run, dead_owners=dead_owners)
    assert lease is not None
    return lease


async def state_of(rig: Rig, run: str) -> tuple[str, str, str]:
    """State and owner of a run, and which of the sets of runs it is in."""
    row = await rig.c1.run_row(run)
    active = "active" if await rig.redis.sismember(keys.ACTIVE, run) else ""
    parked = "parked" if await rig.redis.zscore(keys.PARKED, run) is not None else ""
    return row["state"], row.get("owner", ""), active + parked


async def hints(rig: Rig) -> list[tuple[str, str, str]]:
    """The hints so far: (coordinator, kind, run)."""
    out: list[tuple[str, str, str]] = []
    for cid in ("c1", "c2"):
        rows: Any = await rig.redis.xrange(keys.hints(cid))
        out += [(cid, f["kind"], f["run"]) for _, f in rows]
    return out


async def later(rig: Rig) -> None:
    """A moment passes for the server: it waits for a replica that there is not."""
    await rig.pipe.execute("WAIT", 1, AFTER_A_WHILE_MS)


def _ms(at: Any) -> int:
    return int(at[0]) * 1000 + int(at[1]) // 1000


# --- park ---------------------------------------------------------------------------------------------------------


def test_a_parked_run_is_in_no_process_and_keeps_its_slot(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        await waiting(rig, lease, "n1")
        assert await rig.c1.park(lease, ["n1"], 0, clock_stops=True)
        assert await state_of(rig, lease.run) == ("parked", "", "parked")
        assert await rig.c1.park(lease, ["n1"], 0, clock_stops=True), "twice is once"
        assert await rig.redis.hget(keys.session("s"), "active") == lease.run
        with pytest.raises(LeaseLost):
            await rig.c1.append(lease, Change(entries=[Nudge(reason="x", text="late")]))
        assert await rig.c2.take_over(lease.run, dead_owners=True) is None
        assert await rig.c1.wake_due() == 0
        assert not await rig.c1.release(lease)
        await rig.submit(session="s", text="next")
        await rig.route()
        assert await rig.c1.claim(5) == []

    play(server, test)


def test_nobody_parks_what_has_news_or_is_anothers(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        await waiting(rig, lease, "n1")
        await waiting(rig, lease, "n2")
        foreign = Lease(lease.run, "s", "owner", "c1", "another", lease.sequence)
        with pytest.raises(LeaseLost):
            await rig.c1.park(foreign, ["n1"], 0, clock_stops=True)
        with pytest.raises(LeaseLost):
            await rig.c2.park(Lease(lease.run, "s", "owner", "c2", lease.nonce), ["n1"], 0, clock_stops=True)
        await rig.dead("c1")
        with pytest.raises(LeaseLost):
            await rig.c1.park(lease, ["n1"], 0, clock_stops=True)
        await rig.beat("c1")
        await rig.c1.append(lease, Change(ends=[("n2", "probe", done())]))
        assert not await rig.c1.park(lease, ["n1", "n2"], 0, clock_stops=True)
        assert not await rig.c1.park(lease, ["n1", "unheard-of"], 0, clock_stops=True)
        await rig.submit(kind="steer", run=lease.run, text="hurry")
        await rig.route()
        assert not await rig.c1.park(lease, ["n1"], 0, clock_stops=True)
        assert await state_of(rig, lease.run) == ("active", "c1", "active")
        await rig.c1.append(lease, Change(mail_read=1))
        assert await rig.c1.park(lease, ["n1"], 0, clock_stops=True)

    play(server, test)


def test_a_park_that_is_repeated_after_the_run_was_woken_does_nothing(server: TestRedis) -> None:
    """The answer to the first was lost, and mail came in between."""

    async def test(rig: Rig) -> None:
        lease = await rig.started()
        await waiting(rig, lease, "n1")
        await rig.c1.park(lease, ["n1"], 0, clock_stops=True)
        await rig.submit(kind="approve", node="n1", run=lease.run)
        await rig.route()
        with pytest.raises(LeaseLost):
            await rig.c1.park(lease, ["n1"], 0, clock_stops=True)
        assert await state_of(rig, lease.run) == ("active", "", "active")

    play(server, test)


def test_nothing_of_a_session_ends_while_its_run_is_parked(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        await SessionState(rig.pipe, rig.limits).set_fact("s", "name", 1, None, lease.run)
        await rig.submit(session="s", text="behind")
        await rig.route()
        await waiting(rig, lease, "n1")
        kept = [
            keys.session("s"),
            keys.log("s"),
            keys.facts("s"),
            keys.waits("s"),
            keys.queue("s"),
            keys.run(lease.run),
        ]
        assert await rig.redis.ttl(keys.log("s")) > 0
        await rig.c1.park(lease, ["n1"], 0, clock_stops=True)
        assert [await rig.redis.ttl(key) for key in kept] == [-1] * len(kept)
        await rig.submit(kind="cancel", run=lease.run)
        await rig.route()
        again = await taken(rig, lease.run)
        end = Change(entries=[RunEnded(state="cancelled", finish_reason="x")], ends=[("n1", "probe", done())])
        assert await rig.c2.finish(again, end, reply_of(again), force=True)
        left = [key for key in kept if await rig.redis.ttl(key) == -1]
        assert left == []

    play(server, test)


# --- waking -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["steer", "approve", "cancel"])
def test_mail_wakes_a_run_and_a_live_coordinator_is_called(server: TestRedis, kind: str) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        node = f"{lease.run}.1.1.0"
        await waiting(rig, lease, node)
        await rig.c1.park(lease, [node], 0, clock_stops=True)
        await rig.redis.zadd(keys.COORDINATORS, {"gone": 1, "c1": 2, "c2": 3})
        await rig.dead("c1")
        await rig.submit(kind=kind, session="s", text="x")
        await rig.route(rig.c2)
        assert await state_of(rig, lease.run) == ("active", "", "active")
        assert await hints(rig) == [("c2", "adopt", lease.run)]
        again = await taken(rig, lease.run)
        assert [m["kind"] for m in await rig.c2.mail(lease.run)] == [kind]
        assert again.sequence == lease.sequence
        await rig.c2.append(again, Change(mail_read=1))
        assert "notice" not in await rig.events(), "nobody was missed"

    play(server, test)


def test_a_second_owner_after_an_expected_one_is_told(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        await waiting(rig, lease, "n1")
        await rig.c1.park(lease, ["n1"], 0, clock_stops=True)
        await rig.submit(kind="steer", session="s", text="x")
        await rig.route()
        await taken(rig, lease.run)
        assert "notice" not in await rig.events()
        await rig.dead("c2")
        assert await rig.c1.take_over(lease.run, dead_owners=True) is not None
        assert (await rig.events()).count("notice") == 1

    play(server, test)


def test_a_run_wakes_when_its_time_has_come(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        leases = [await rig.started(session=name) for name in ("past", "future", "never")]
        now = _ms(await rig.redis.time())
        for lease, until in zip(leases, (now - 1, now + 600_000, 0), strict=True):
            await waiting(rig, lease, f"{lease.run}.1.1.0", "timer")
            assert await rig.c1.park(lease, [f"{lease.run}.1.1.0"], until, clock_stops=True)
        assert await rig.c2.wake_due() == 1
        assert await rig.c2.wake_due() == 0
        states = [(await state_of(rig, lease.run))[0] for lease in leases]
        assert states == ["active", "parked", "parked"]

    play(server, test)


def test_what_is_listed_as_parked_and_is_not_is_taken_off(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        await rig.redis.zadd(keys.PARKED, {lease.run: 1, "unheard-of": 1})
        assert await rig.c1.wake_due() == 2
        assert await state_of(rig, lease.run) == ("active", "c1", "active")
        assert await rig.redis.zcard(keys.PARKED) == 0
        assert not await rig.redis.exists(keys.run("unheard-of"))

    play(server, test)


@pytest.mark.parametrize("stops", [True, False])
def test_the_clock_stands_still_for_people_only(server: TestRedis, stops: bool) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        await waiting(rig, lease, "n1")
        assert lease.waited_ms == 0
        total = 0
        for _ in range(2):
            assert await rig.c1.park(lease, ["n1"], 0, clock_stops=stops)
            await later(rig)
            await rig.submit(kind="steer", session="s", text="x")
            await rig.route()
            found = await rig.c1.take_over(lease.run, dead_owners=False)
            assert found is not None
            lease = found
            await rig.c1.append(lease, Change(mail_read=1))
            assert lease.waited_ms >= total + AFTER_A_WHILE_MS if stops else lease.waited_ms == 0
            total = lease.waited_ms

    play(server, test)


def test_the_clocks_of_parents_stand_still_with_a_child_that_waits_for_people(server: TestRedis) -> None:
    """Two children wait at the same time: their parent's clock does not stand still twice."""

    async def test(rig: Rig) -> None:
        root = await rig.started()
        await spawned(rig, root, "n1", "rmiddle")
        assert await rig.c1.park(root, ["n1"], 0, clock_stops=False)
        middle = await rig.c1.take_over("rmiddle", dead_owners=False)
        assert middle is not None
        for node, run in (("rmiddle.1.1.0", "rleaf1"), ("rmiddle.1.1.1", "rleaf2")):
            await spawned(rig, middle, node, run)
        assert await rig.c1.park(middle, ["rmiddle.1.1.0", "rmiddle.1.1.1"], 0, clock_stops=False)
        begin = _ms(await rig.redis.time())
        for run in ("rleaf1", "rleaf2"):
            leaf = await rig.c1.take_over(run, dead_owners=False)
            assert leaf is not None
            await waiting(rig, leaf, f"{run}.1.1.0")
            assert await rig.c1.park(leaf, [f"{run}.1.1.0"], 0, clock_stops=True)
        await later(rig)
        for run in ("rleaf1", "rleaf2"):
            await rig.submit(kind="approve", node=f"{run}.1.1.0")
            await rig.route()
        passed = _ms(await rig.redis.time()) - begin
        for run in (root.run, "rmiddle"):
            assert AFTER_A_WHILE_MS <= int((await rig.c1.run_row(run))["waited"]) <= passed
            assert (await state_of(rig, run))[0] == "parked", "they wait for the leaves, not for people"

    play(server, test)


# --- subagents ----------------------------------------------------------------------------------------------------


def test_a_change_with_a_child_that_is_repeated_starts_one(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        number = lease.sequence
        await spawned(rig, lease, "n1")
        lease.sequence = number
        await spawned(rig, lease, "n1")
        log = await rig.c1.log("s")
        assert [e.run for e in log if isinstance(e.value, UserMessage) and e.value.parent] == ["rchild"]
        child = await taken(rig, "rchild")
        assert (child.session, child.principal, child.sequence) == ("s", "owner", 0)
        assert await rig.events() == ["message.accepted", "run.started"], "nobody was missed"
        row = await rig.c1.run_row("rchild")
        assert (row["parent"], row["node"]) == (lease.run, "n1")
        lease.sequence = number + 1
        await spawned(rig, lease, "n1")  # under another number: it runs already
        assert (await state_of(rig, "rchild"))[1] == "c2"

    play(server, test)


def finished(child: Lease, node: str = "n1") -> tuple[Change, Reply, tuple[str, str, NodeResult]]:
    change = Change(entries=[RunEnded(state="ended", finish_reason="stop", answer="42")])
    return change, reply_of(child), (node, "agent_default", done("42"))


def test_the_end_of_a_child_wakes_its_parked_parent(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        await spawned(rig, lease, "n1")
        await rig.c1.park(lease, ["n1"], 0, clock_stops=False)
        child = await taken(rig, "rchild")
        change, reply, up = finished(child)
        assert await rig.c2.finish(child, change, reply, up=up)
        child.sequence -= 1
        assert await rig.c2.finish(child, change, reply, up=up), "twice is once"
        assert (await state_of(rig, lease.run)) == ("active", "", "active")
        assert (await state_of(rig, "rchild")) == ("ended", "c2", "")
        assert await rig.redis.hget(keys.session("s"), "active") == lease.run, "the slot is the root's"
        again = await taken(rig, lease.run)
        assert (await rig.c2.results(lease.run, ["n1"]))["n1"].text == "42"
        ends = [e.run for e in await rig.c2.log("s") if isinstance(e.value, NodeEnded)]
        assert ends == [lease.run]
        await rig.c2.append(again, Change(entries=[Nudge(reason="x", text="on")]))

    play(server, test)


def test_the_end_of_a_child_is_a_hint_to_an_active_parent(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        await spawned(rig, lease, "n1")
        await waiting(rig, lease, "n2")
        child = await taken(rig, "rchild")
        change, reply, up = finished(child)
        assert await rig.c2.finish(child, change, reply, up=up)
        assert ("c1", "node", lease.run) in await hints(rig)
        assert await state_of(rig, lease.run) == ("active", "c1", "active")
        assert not await rig.c1.park(lease, ["n1", "n2"], 0, clock_stops=False)
        await rig.c1.append(lease, Change(entries=[Nudge(reason="x", text="mine as before")]))

    play(server, test)


@pytest.mark.parametrize("gone", ["ended", "ledger", "all"])
def test_the_end_of_a_child_does_nothing_to_a_parent_that_is_over(server: TestRedis, gone: str) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        await spawned(rig, lease, "n1")
        child = await taken(rig, "rchild")
        end = Change(
            entries=[RunEnded(state="cancelled", finish_reason="cancelled")],
            ends=[("n1", "agent_default", ended(NodeState.CANCELLED))],
        )
        assert await rig.c1.finish(lease, end, reply_of(lease), force=True)
        if gone != "ended":
            await rig.redis.delete(keys.ledger(lease.run))
        if gone == "all":
            await rig.redis.delete(keys.run(lease.run), keys.session("s"))
        before = await rig.c1.run_row(lease.run)
        change, reply, up = finished(child)
        assert await rig.c2.finish(child, change, reply, up=up)
        assert await rig.c1.run_row(lease.run) == before
        assert await rig.redis.exists(keys.ledger(lease.run)) == (gone == "ended")
        ends = [e for e in await rig.c1.log("s") if isinstance(e.value, NodeEnded)]
        assert [e.value.result.state for e in ends if isinstance(e.value, NodeEnded)] == ["cancelled"]
        assert await rig.redis.exists(keys.session("s")) == (gone != "all"), "it is not begun anew"
        assert [await rig.redis.ttl(k) for k in (keys.run("rchild"), keys.log("s"))] != [-1, -1]

    play(server, test)


def test_a_parent_that_ends_cancels_children_that_have_not(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        for n in range(4):
            await spawned(rig, lease, f"n{n}", f"rchild{n}")
        parked, over, working = await taken(rig, "rchild0"), await taken(rig, "rchild1"), await taken(rig, "rchild2")
        await rig.c2.append(parked, Change(nodes=[make_node("p")], entries=[held("p", "question")]))
        assert await rig.c2.park(parked, ["p"], 0, clock_stops=True)
        change, reply, up = finished(over, "n1")
        await rig.c2.finish(over, change, reply, up=up)
        end = Change(entries=[RunEnded(state="cancelled", finish_reason="x")], cancel_reason="enough")
        end.cancel = [f"rchild{n}" for n in range(4)] + ["unheard-of"]
        assert await rig.c1.finish(lease, end, reply_of(lease), force=True)
        for run in ("rchild0", "rchild2", "rchild3"):
            assert await rig.c1.mail(run) == [{"kind": "cancel", "reason": "enough"}]
        assert await rig.redis.exists(keys.mail("rchild1"), keys.mail("unheard-of")) == 0
        assert await state_of(rig, "rchild0") == ("active", "", "active")
        assert ("c2", "mail", "rchild2") in await hints(rig)
        assert working.run == "rchild2"

    play(server, test)


# --- what is listed as waiting ------------------------------------------------------------------------------------


def test_an_entry_without_a_node_is_about_what_waited_when_it_came(server: TestRedis) -> None:
    """Else an approval that was sent twice would also be one of what is asked next."""

    async def test(rig: Rig) -> None:
        lease = await rig.started()
        first, second = f"{lease.run}.1.1.0", f"{lease.run}.2.1.0"
        await waiting(rig, lease, first)
        for text in ("one", "two"):
            await rig.submit(kind="approve", session="s", text=text, scope="session")
        await rig.route()
        mails = await rig.c1.mail(lease.run)
        assert [(m["node"], m["text"], m["scope"]) for m in mails] == [
            (first, "one", "session"),
            (first, "two", "session"),
        ]
        decided = Decided(node=first, tool="probe", args_hash="h", allowed=True)
        await rig.c1.append(lease, Change(entries=[decided], mail_read=1))
        await waiting(rig, lease, second)
        run = SessionFold.of(await rig.c1.log("s")).run(lease.run)
        assert not take(mails[1], run, "default", "owner", 1, Change())
        await rig.submit(kind="deny", session="s", reply_to="r")
        await rig.route()
        assert (await rig.c1.mail(lease.run))[-1]["node"] == second
        reply = await rig.reply("r")
        assert reply is not None
        assert reply["run"] == lease.run

    play(server, test)


@pytest.mark.parametrize(("nodes", "code"), [((), "not_waiting"), (("n1", "n2"), "ambiguous")])
def test_an_entry_without_a_node_needs_exactly_one(server: TestRedis, nodes: tuple[str, ...], code: str) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        for node in nodes:
            await waiting(rig, lease, f"{lease.run}.{node}")
        await rig.submit(kind="approve", session="s", reply_to="r")
        await rig.route()
        reply = await rig.reply("r")
        assert reply is not None
        assert reply["error"]["code"] == code
        assert all(f"{lease.run}.{node}" in reply["error"]["message"] for node in nodes)
        assert await rig.c1.mail(lease.run) == []

    play(server, test)


@dataclass
class World:
    """A session with a root run and its subagent, whose operations keep log and list of waits in step, or do not."""

    rig: Rig
    leases: dict[str, Lease] = field(default_factory=dict)
    count: int = 0

    async def fold(self) -> SessionFold:
        return SessionFold.of(await self.rig.c1.log("s"))

    async def change(self, run: str, change: Change, *, twice: bool) -> None:
        """Applies a change, and once more if its answer was lost."""
        lease = self.leases[run]
        await self.rig.c1.append(lease, change)
        if twice:
            lease.sequence -= 1
            await self.rig.c1.append(lease, change)

    async def ask(self, run: str, kind: str, twice: bool) -> None:
        self.count += 1
        node = f"{run}.{self.count}.1.0"
        change = Change(nodes=[make_node(node)], entries=[held(node, kind)])
        await self.change(run, change, twice=twice)

    async def say(self, run: str, word: str, pick: int, twice: bool) -> None:
        """A person says something of a node, perhaps of one that does not wait any more."""
        found = (await self.fold()).run(run)
        if waits := list(found.waiting.values()):
            wait, change = waits[pick % len(waits)], Change()
            mail = {"kind": "answer" if wait.kind == "question" else word, "node": wait.node, "text": "1"}
            take(mail, found, "default", "owner", 1, change)
            await self.change(run, change, twice=twice)

    async def expire(self, run: str, pick: int, twice: bool) -> None:
        """The time of some waits of the run has come."""
        found = (await self.fold()).run(run)
        for node, wait in list(found.waiting.items())[pick:]:
            found.waiting[node] = wait.model_copy(update={"until_ms": 1})
        await self.change(run, Change(ends=expired(found, 2)), twice=twice)

    async def end_node(self, run: str, pick: int, twice: bool) -> None:
        """A node ends, whether it waits or has been approved or has ended already."""
        nodes = list((await self.fold()).run(run).nodes)
        if nodes:
            await self.change(run, Change(ends=[(nodes[pick % len(nodes)], "probe", done())]), twice=twice)

    async def park(self, run: str) -> None:
        """Parks a run that waits, and wakes it at once."""
        open_waits = list((await self.fold()).run(run).open_waits)
        if open_waits and await self.rig.c1.park(self.leases[run], open_waits, 1, clock_stops=True):
            await self.rig.c1.wake_due()
            lease = await self.rig.c1.take_over(run, dead_owners=False)
            assert lease is not None
            self.leases[run] = lease

    async def finish(self, run: str) -> None:
        """The run ends, with all that it had open."""
        lease, found = self.leases.pop(run), (await self.fold()).run(run)
        ends = [(n, "probe", ended(NodeState.CANCELLED)) for n in found.nodes if n not in found.results]
        change = Change(entries=[RunEnded(state="cancelled", finish_reason="x")], ends=ends)
        up = ("up", "agent_default", done()) if run == "rchild" else None
        assert await self.rig.c1.finish(lease, change, reply_of(lease), up=up, force=True)


OPERATIONS = st.tuples(
    st.sampled_from(["ask", "ask", "ask", "say", "say", "say", "say", "expire", "end_node", "park", "finish"]),
    st.sampled_from(["root", "rchild"]),
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["approval", "approval", "question", "timer"]),
            "word": st.sampled_from(["approve", "deny"]),
            "pick": st.integers(0, 5),
            "twice": st.booleans(),
        }
    ),
)


async def listed(rig: Rig) -> dict[str, str]:
    """Node to kind of what is listed as waiting for people."""
    rows: dict[str, str] = await rig.pipe.execute("HGETALL", keys.waits("s"))
    return {node: Waiting.model_validate_json(row).kind for node, row in rows.items()}


def open_for_people(entries: list[Stored]) -> dict[str, str]:
    """What the log says of it."""
    runs = SessionFold.of(entries).runs.values()
    return {n: w.kind for run in runs for n, w in run.open_waits.items() if w.kind in ("approval", "question")}


@pytest.mark.property
@settings(max_examples=40, deadline=None)
@given(st.lists(OPERATIONS, min_size=8, max_size=20))
def test_what_is_listed_as_waiting_is_what_the_log_has_open(server: TestRedis, operations: list[Any]) -> None:
    async def test(rig: Rig) -> None:
        root = await rig.started()
        up = Node(node="up", step=1, position=0, tool="agent_default")
        await rig.c1.append(root, Change(nodes=[up], spawn=[child_of(root, "up")]))
        child = await rig.c1.take_over("rchild", dead_owners=False)
        assert child is not None
        world = World(rig, {root.run: root, "rchild": child})
        for name, who, how in operations:
            run = root.run if who == "root" else who
            if run not in world.leases:
                continue
            operation = getattr(world, name)
            await operation(run, **{n: how[n] for n in how if n in signature(operation).parameters})
            assert await listed(rig) == open_for_people(await rig.c1.log("s"))
        for run in list(world.leases):
            await world.finish(run)
        assert await listed(rig) == {}

    play(server, test)
