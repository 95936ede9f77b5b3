"""Single moments of recovery, each of which once went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest

from coordinator.dispatch import collector as collecting
from coordinator.dispatch.collector import Collector, end_open
from coordinator.handle import Handle
from coordinator.process import Coordinator
from coordinator.supervision import Supervision
from shared.client import Client
from shared.contract import Effect, NodeOrder, NodeResult, NodeState
from shared.entries import RunEnded, Stored
from shared.errors import LeaseLost
from shared.fold import SessionFold
from shared.messages import QueuedMessage, Reply
from shared.settings import DataSettings, ModelSettings, RedisSettings, Settings
from shared.state import keys
from shared.state.changes import Change
from shared.state.runs import Lease, Reviewed
from tests.chaos.check import leftovers
from tests.chaos.model import call
from tests.chaos.probe import await_line, states, until
from tests.support.model_server import ModelServer
from tests.support.processes import System
from tests.support.redis import TestRedis, redis_server
from tests.support.state import Rig, done, make_node, with_rig

LEASE = Lease("r1", "s", "owner", "c1", "nonce")


@pytest.fixture(scope="module")
def server() -> Iterator[TestRedis]:
    with redis_server() as running:
        yield running


# ---- the end of a run


def test_end_of_a_run_ends_all_its_open_nodes() -> None:
    nodes = [make_node("ended"), make_node("sent", Effect.WRITE), make_node("waits", Effect.WRITE)]
    nodes[2] = nodes[2].model_copy(update={"args_hash": ""})
    fold = SessionFold()
    for node in nodes:
        fold.apply(Stored(id="1-0", run="r1", type=node.T, value=node))
    fold.run("r1").results["ended"] = done()
    change = end_open(cast(Handle, SimpleNamespace(run=fold.run("r1"))), "the user wants no more")
    ends = {node: result for node, _, result in change.ends}
    assert {node: result.state for node, result in ends.items()} == dict.fromkeys(
        ("sent", "waits"), NodeState.CANCELLED
    )
    assert ends["sent"].error is not None
    assert ends["sent"].error.may_have_had_effect
    assert ends["waits"].error is not None
    assert not ends["waits"].error.may_have_had_effect


@pytest.mark.integration
def test_nothing_of_a_run_is_left_behind_its_end(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started(id="m1")
        await rig.planned(lease, "n1")
        await rig.submit(kind="cancel", session="s")
        await rig.route()
        fold = SessionFold.of(await rig.c1.log("s"))
        change = end_open(cast(Handle, SimpleNamespace(run=fold.run(lease.run))), "cancelled")
        change.entries.append(RunEnded(state="cancelled", finish_reason="cancelled"))
        assert await rig.c1.finish(lease, change, Reply(ok=False, run=lease.run), force=True)
        assert [e.type for e in await rig.c1.log("s")][-2:] == ["node.result", "run.ended"]
        assert not await rig.redis.exists(keys.mail(lease.run))
        assert await rig.redis.hget(keys.ledger(lease.run), "n1:s") == "cancelled"

    asyncio.run(with_rig(server.url, test))


@pytest.mark.integration
@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_cancel_of_a_run_that_nobody_owns_stops_its_tools(
    make_system: Callable[..., System], model: ModelServer
) -> None:
    rows = [call("chaos_write", tag="w", after="never"), call("chaos_write", tag="next", _after=["1"])]
    model.script([{"when": {"step": 0}, "then": {"calls": rows}}, {"then": {"text": "{{results}}"}}])
    system = make_system()
    client = Client.connect(system.redis_url)
    submitted = client.submit("go", session="s", tools=("chaos",))
    await_line(system, "write w")
    system.kill(system.coordinators[0])
    with system.client() as raw:
        raw.xadd(keys.inbox(), {"kind": "cancel", "session": "s"})
    system.coordinators[0].start()
    assert client.wait(submitted, 60).finish_reason == "cancelled"
    assert states(client, "s") == {"w": "cancelled", "next": "cancelled"}
    until(lambda: "node stopped: its row has ended" in system.workers[0].output(), "the end of the tool")
    with system.client() as raw:
        until(lambda: not leftovers(raw), "rest")


# ---- taking runs


class Ledger:
    """The state as `Supervision` and `Coordinator` use it: a claim whose answer comes when the test says so."""

    def __init__(self) -> None:
        self.claimed = asyncio.Event()
        self.answer = asyncio.Event()
        self.taken: list[str] = []
        self.logs: dict[str, asyncio.Event] = {}

    async def claim(self, most: int) -> list[tuple[Lease, QueuedMessage]]:
        self.claimed.set()
        await self.answer.wait()
        return [(LEASE, QueuedMessage(run="r1", principal="owner", session="s", received_ms=0))]

    async def active_runs(self) -> set[str]:
        return {"r1"}

    async def take_over(self, run: str, *, dead_owners: bool) -> Lease | None:
        self.taken.append(run)
        return Lease(run, "s", "owner", "c1", "other")

    async def log(self, session: str, after: str = "-") -> list[Stored]:
        waits = self.logs.setdefault(str(len(self.logs)), asyncio.Event())
        await waits.wait()
        raise LeaseLost("gone")

    async def reply_names(self, run: str) -> list[str]:
        return []


def test_a_run_taken_up_anew_is_not_forgotten_when_the_old_work_ends() -> None:
    async def test() -> None:
        state = Ledger()
        runs = Supervision(cast(Any, state), cast(Any, None), cast(Any, None))
        runs.start(LEASE)
        await asyncio.sleep(0)
        runs.start(Lease("r1", "s", "owner", "c1", "newer"))
        await asyncio.sleep(0)
        state.logs["0"].set()
        await runs.ended.wait()
        assert runs.runs == {"r1"}
        state.logs["1"].set()
        runs.ended.clear()
        await runs.ended.wait()
        assert runs.runs == set()

    asyncio.run(test())


def test_a_claim_on_its_way_is_not_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPATAZ_SIGNING_KEY", "0" * 64)
    settings = Settings(
        data=DataSettings(dir=tmp_path),
        redis=RedisSettings(url="redis://127.0.0.1:1/0"),
        models=ModelSettings(tiers={"default": ("rehearsal/rehearsal",)}),
    )

    async def test() -> None:
        state = Ledger()
        coordinator = Coordinator(settings)
        coordinator._state = cast(Any, state)
        coordinator._runs = Supervision(cast(Any, state), cast(Any, None), cast(Any, None))
        claim = asyncio.create_task(coordinator._claim())
        await state.claimed.wait()
        adopt = asyncio.create_task(coordinator._adopt())
        for _ in range(20):  # whatever it can do before the answer, it does
            await asyncio.sleep(0)
        state.answer.set()
        await asyncio.gather(claim, adopt)
        assert state.taken == []
        assert coordinator._runs.runs == {"r1"}
        for waits in state.logs.values():
            waits.set()
        await coordinator._runs.ended.wait()

    asyncio.run(test())


# ---- judging workers


def test_workers_are_not_judged_by_a_state_that_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(collecting, "time", SimpleNamespace(monotonic=lambda: clock[0], time=lambda: 0.0))
    answers = iter([0.0, 6.0, 6.0, 0.0])  # seconds that the state takes to answer
    order: list[str] = []

    class Quiet(asyncio.Event):
        """No hint comes; in the meantime it gets late enough for a review."""

        async def wait(self) -> Literal[True]:
            clock[0] += collecting.REVIEW_S
            raise TimeoutError

    async def fetch(nodes: list[str]) -> dict[str, NodeResult]:
        if (seconds := next(answers, None)) is None:
            return {"n1": done()}
        order.append(f"answered after {seconds:g} s")
        clock[0] += seconds
        return {}

    async def review(*_: Any) -> list[Any]:
        order.append("review")
        return []

    async def test() -> None:
        handle = SimpleNamespace(fetch=fetch, state=SimpleNamespace(review=review), lease=LEASE, nodes_changed=Quiet())
        collector = Collector(cast(Handle, handle), cast(Any, None), cast(Any, None))
        collector.outstanding["n1"] = collecting.Outstanding(make_node("n1"), {}, 0.0, 0.0)
        await collector.results()

    asyncio.run(test())
    assert order == [f"answered after {s} s" for s in (0, 6, 6, 0)] + ["review"]


# ---- workers


@pytest.mark.integration
def test_an_effect_waits_for_the_heartbeat(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        [order] = await rig.planned(lease, "n1", effect=Effect.WRITE)
        assert await rig.w1.claim([order]) == [1]
        await rig.dead("w1")
        look = asyncio.create_task(rig.w1.may_start(order, 1))
        done_, _ = await asyncio.wait({look}, timeout=0.2)
        assert not done_
        await rig.beat("w1")
        assert await look
        await rig.c1.append(
            lease, Change(ends=[("n1", "probe", done().model_copy(update={"state": NodeState.CANCELLED}))])
        )
        assert not await rig.w1.may_start(order, 1)

    asyncio.run(with_rig(server.url, test))


@pytest.mark.integration
def test_an_effect_waits_for_the_state() -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        [order] = await rig.planned(lease, "n1", effect=Effect.WRITE)
        await rig.w1.claim([order])
        await asyncio.to_thread(own.kill)
        look = asyncio.create_task(rig.w1.may_start(order, 1))
        await asyncio.to_thread(own.start)
        assert await look

    with redis_server() as own:
        asyncio.run(with_rig(own.url, test))


@pytest.mark.integration
def test_a_worker_without_its_state_does_not_stay(model: ModelServer) -> None:
    system = System(model_url=model.url, coordinators=0, workers=0)
    try:
        system.broker.start()  # and no state Redis
        worker = system.add_worker()
        assert worker.popen.wait(60) != 0
        assert "worker cannot start" in worker.output()
    finally:
        system.stop()


@pytest.mark.integration
def test_a_node_that_was_taken_meanwhile_is_not_reported_as_never_taken(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease = await rig.started()
        taken, waiting = await rig.planned(lease, "n1", "n2", effect=Effect.WRITE)
        await rig.w1.claim([taken])
        nobody = NodeResult(state=NodeState.FAILED, text="no worker took it")
        await rig.c1.append(lease, Change(unstarted=[("n1", "probe", nobody), ("n2", "probe", nobody)]))
        assert set(await rig.c1.results(lease.run, ["n1", "n2"])) == {"n2"}
        assert await rig.w2.claim([waiting]) == ["ended"]
        assert await rig.w1.end(taken, 1, done())

    asyncio.run(with_rig(server.url, test))


@pytest.mark.integration
def test_a_run_that_another_took_over_is_seen_as_lost(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        lease, other = await rig.started("s1"), await rig.started("s2")
        await rig.dead("c1")
        assert await rig.c2.take_over(lease.run, dead_owners=True) is not None
        assert await rig.c1.lost([lease, other]) == [lease.run]

    asyncio.run(with_rig(server.url, test))


class Broker:
    """A publisher whose broker does not answer, and how often it was asked."""

    def __init__(self) -> None:
        self.failing = False
        self.asked = 0
        self.sent: list[str] = []

    async def depth(self, queue: str) -> int | None:
        self.asked += 1
        return None

    def publish(self, queue: str, order: NodeOrder) -> None:
        self.sent.append(order.node)


def test_a_broker_that_does_not_answer_is_asked_once_and_nothing_counts_as_sent() -> None:
    rows = [make_node(f"n{i}") for i in range(5)]

    async def review(*_: Any) -> list[Reviewed]:
        return [Reviewed(n.node, "planned") for n in rows]

    async def test() -> None:
        broker = Broker()
        message = QueuedMessage(run="r1", principal="owner", session="s", received_ms=0)
        handle = SimpleNamespace(state=SimpleNamespace(review=review), lease=LEASE, message=message)
        directory = SimpleNamespace(workers_of=lambda queue: 1, foreign=[])
        collector = Collector(cast(Handle, handle), cast(Any, broker), cast(Any, directory))
        collector.outstanding = {n.node: collecting.Outstanding(n, n.args, -1e6, -1e6) for n in rows}
        await collector._review()
        assert broker.asked == 1
        assert broker.sent == [n.node for n in rows]
        broker.failing = True
        for _ in range(collecting.MOST_SENDS):
            for item in collector.outstanding.values():
                item.sent_at = -1e6
            await collector._review()
        assert broker.asked == 1
        assert len(broker.sent) == len(rows) * (1 + collecting.MOST_SENDS)  # and none was given up

    asyncio.run(test())


@pytest.mark.integration
def test_a_node_that_stands_twice_in_a_message_runs_once(server: TestRedis) -> None:
    """While the broker is away a node is sent again, and both orders travel together when it is back."""

    async def test(rig: Rig) -> None:
        lease = await rig.started()
        one, two = await rig.planned(lease, "n1", "n2", effect=Effect.WRITE)
        assert await rig.w1.claim([one, two, one]) == [1, 1, "taken"]
        assert await rig.w1.claim([two, one]) == ["taken", "taken"]

    asyncio.run(with_rig(server.url, test))
