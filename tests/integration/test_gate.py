"""The gate against a real Redis: two coordinators and a worker see the same breaker, slots and budgets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
import redis.asyncio

from shared.settings import BudgetSettings, Settings
from shared.state import keys
from shared.state.connection import connect
from shared.state.gate import DAY_S, NANO, Ask, Gate, Outcome, Ticket, Verdict
from shared.state.pipeline import Pipeliner
from tests.support.redis import TestRedis, redis_server

pytestmark = pytest.mark.integration

MODEL = Ask("prov/m", "prov")


@pytest.fixture(scope="module")
def server() -> Iterator[TestRedis]:
    with redis_server() as running:
        yield running


class Rig:
    """Gates of coordinators `c1` and `c2` and of worker `w1`, alive until they are said to be dead."""

    def __init__(self, client: redis.asyncio.Redis, settings: Settings) -> None:
        self.redis = client
        self.pipe = Pipeliner(client)
        self.c1, self.c2, self.w1 = (
            Gate(self.pipe, process, settings.models, settings.budget) for process in ("c1", "c2", "w1")
        )

    async def fail(self, gate: Gate, times: int = 1, outcome: Outcome = "fault", **how: Any) -> None:
        for _ in range(times):
            await gate.leave(await let_in(gate), outcome, why="cut_stream", **how)

    async def wake(self) -> None:
        """Ends the model's rest: as if its cooldown were over."""
        await self.redis.hset(f"{keys.PREFIX}gate:breaker:prov/m", "until", "0")


async def let_in(gate: Gate, ask: Ask = MODEL) -> Ticket:
    verdict = await gate.enter(ask)
    assert verdict.ticket is not None, verdict
    return verdict.ticket


def with_rig(server: TestRedis, test: Callable[[Rig], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        client = connect(server.url)
        await client.flushall()
        rig = Rig(client, Settings(**settings))
        for key in (keys.coordinator("c1"), keys.coordinator("c2"), keys.worker("w1")):
            await client.set(key, "1")
        await test(rig)
        await rig.pipe.aclose()
        await client.aclose()

    asyncio.run(main())


def test_a_breaker_opens_for_all_and_lets_one_probe_through(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await rig.fail(rig.c1, 2)
        assert (await rig.c2.enter(MODEL)).kind == "go"
        await rig.fail(rig.w1)
        for gate in (rig.c1, rig.c2, rig.w1):
            verdict = await gate.enter(MODEL)
            assert (verdict.kind, verdict.why) == ("open", "cut_stream")
            assert 0 < verdict.wait_s <= 5
        assert (await rig.c1.enter(Ask("prov/other", "prov"))).kind == "go", "another model is not affected"
        await rig.wake()
        probe = await let_in(rig.c2)
        assert (await rig.c1.enter(MODEL)).kind == "open", "one probe at a time"
        await rig.c2.leave(probe, "ok")
        assert (await rig.c1.enter(MODEL)).kind == "go"
        assert await rig.redis.exists(f"{keys.PREFIX}gate:breaker:prov/m") == 0

    with_rig(server, test)


def test_each_failed_probe_doubles_the_rest_up_to_the_most(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await rig.fail(rig.c1, 3)
        waits = []
        for _ in range(4):
            waits.append((await rig.c1.enter(MODEL)).wait_s)
            await rig.wake()
            await rig.fail(rig.c2)
        assert [round(w) for w in waits] == [5, 10, 20, 30]

    with_rig(server, test, models={"breaker": {"most_s": 30}})


def test_a_success_forgets_failures_and_old_ones_do_not_count(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await rig.fail(rig.c1, 2)
        await rig.c1.leave(await let_in(rig.c1), "ok")
        await rig.fail(rig.c1, 2)
        assert (await rig.c1.enter(MODEL)).kind == "go"
        await rig.redis.hset(f"{keys.PREFIX}gate:breaker:prov/m", "since", "1")
        await rig.fail(rig.c1, 2)
        assert (await rig.c1.enter(MODEL)).kind == "go"
        await rig.fail(rig.c1)
        assert (await rig.c1.enter(MODEL)).kind == "open"

    with_rig(server, test)


def test_what_cannot_pass_soon_opens_it_at_once(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await rig.fail(rig.c1, outcome="dead")
        assert (await rig.c2.enter(MODEL)).kind == "open"

    with_rig(server, test)


def test_a_retry_after_is_kept_by_all_without_opening(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        await rig.fail(rig.c1, wait_s=7.0)
        assert 6 < (await rig.c2.enter(MODEL)).wait_s <= 7
        await rig.wake()
        first, second = await let_in(rig.c1), await let_in(rig.c2)
        assert first != second, "it was cooling, not broken: no probe is needed"

    with_rig(server, test)


def test_calls_that_began_before_it_opened_change_nothing(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        early = [await let_in(rig.c1) for _ in range(6)]
        for ticket in early[:3]:
            await rig.c1.leave(ticket, "fault")
        before = await rig.redis.hgetall(f"{keys.PREFIX}gate:breaker:prov/m")
        await rig.c1.leave(early[3], "fault")
        await rig.c1.leave(early[4], "ok")
        assert await rig.redis.hgetall(f"{keys.PREFIX}gate:breaker:prov/m") == before

    with_rig(server, test)


@pytest.mark.parametrize("how", ["dies", "is cancelled"])
def test_a_probe_that_never_reports_frees_its_place(server: TestRedis, how: str) -> None:
    async def test(rig: Rig) -> None:
        await rig.fail(rig.c1, 3)
        await rig.wake()
        probe = await let_in(rig.c2)
        assert (await rig.c1.enter(MODEL)).kind == "open"
        if how == "dies":
            await rig.redis.delete(keys.coordinator("c2"))
        else:
            await rig.c2.leave(probe, "none")
        assert (await rig.c1.enter(MODEL)).kind == "go"

    with_rig(server, test)


def test_slots_are_shared_and_those_of_the_dead_are_free(server: TestRedis) -> None:
    ask = Ask("prov/m", "prov", slots=2)

    async def test(rig: Rig) -> None:
        first, _ = await let_in(rig.c1, ask), await let_in(rig.w1, ask)
        assert (await rig.c2.enter(ask)).kind == "busy"
        assert (await rig.c2.enter(Ask("prov/other", "prov", slots=2))).kind == "busy", "slots are the provider's"
        await rig.c1.leave(first, "ok")
        await let_in(rig.c2, ask)
        assert (await rig.c1.enter(ask)).kind == "busy"
        await rig.redis.delete(keys.worker("w1"))
        await let_in(rig.c1, ask)
        assert await rig.redis.ttl(f"{keys.PREFIX}gate:slots:prov") > 0

    with_rig(server, test)


def test_many_at_once_never_exceed_the_slots(server: TestRedis) -> None:
    ask = Ask("prov/m", "prov", slots=5)

    async def test(rig: Rig) -> None:
        verdicts = await asyncio.gather(*(gate.enter(ask) for gate in (rig.c1, rig.c2, rig.w1) for _ in range(20)))
        assert [v.kind for v in verdicts].count("go") == 5

    with_rig(server, test)


TOKENS = Ask("prov/m", "prov", principal="ana", tokens=60)
DOLLARS = Ask("prov/m", "prov", principal="ana", dollars=Decimal("0.06"))
BOUNDS: dict[str, tuple[dict[str, Any], Ask, str]] = {
    "tokens of a user": ({"user_day_tokens": 100}, TOKENS, "user_day_tokens"),
    "dollars of a user": ({"user_day_dollars": 0.10}, DOLLARS, "user_day_nano"),
    "tokens of all": ({"day_tokens": 100}, TOKENS, "day_tokens"),
    "dollars of all": ({"day_dollars": 0.10}, DOLLARS, "day_nano"),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_budget_stops_a_call_before_it_is_made(server: TestRedis, name: str) -> None:
    budget, ask, why = BOUNDS[name]
    other = Ask(ask.model, ask.provider, principal="eva", tokens=ask.tokens, dollars=ask.dollars)

    async def test(rig: Rig) -> None:
        ticket = await let_in(rig.c1, ask)
        verdict = await rig.c2.enter(ask)
        assert (verdict.kind, verdict.why) == ("spent", why), "what is reserved counts while the call runs"
        assert 0 < verdict.wait_s <= DAY_S
        assert (await rig.w1.enter(other)).kind == ("go" if "user" in why else "spent")
        await rig.c1.leave(ticket, "ok", tokens=10, dollars=Decimal("0.01"))
        assert (await rig.c2.enter(ask)).kind == "go", "it cost less than was guessed"

    with_rig(server, test, budget=budget)


def test_the_day_adds_up_what_calls_really_cost(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        day = (await rig.c1._now_ms()) // (DAY_S * 1000)
        ask = Ask("prov/m", "prov", principal="ana", tokens=1_000, dollars=Decimal(1))
        await rig.c1.leave(await let_in(rig.c1, ask), "ok", tokens=70, dollars=Decimal("0.0000005"))
        await rig.w1.leave(await let_in(rig.w1, ask), "fault", tokens=7, dollars=None)
        await rig.c2.leave(await let_in(rig.c2, Ask("prov/m", "prov")), "ok", tokens=3, dollars=Decimal("0.5"))
        assert (await rig.c1.today(day, "ana")).tokens == 77
        assert (await rig.c1.today(day, "ana")).dollars == Decimal(500) / NANO
        assert (await rig.c1.today(day)).tokens == 80
        assert (await rig.c1.today(day)).dollars == Decimal("0.5000005")
        assert 0 < await rig.redis.ttl(keys.spend(day, "ana")) <= 2 * DAY_S

    with_rig(server, test)
    with_rig(server, test, budget={"user_day_tokens": 10**9, "day_dollars": 10**6})


def test_a_spent_day_is_seen_before_anything_is_asked(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        assert await rig.c1.spent("ana") is None
        ask = Ask("prov/m", "prov", principal="ana", tokens=1)
        await rig.c1.leave(await let_in(rig.c1, ask), "ok", tokens=100)
        verdict = await rig.c2.spent("ana")
        assert verdict is not None
        assert (verdict.kind, verdict.why) == ("spent", "user_day_tokens")
        assert 0 < verdict.wait_s <= DAY_S
        assert await rig.c2.spent("eva") is None

    with_rig(server, test, budget={"user_day_tokens": 100})


def test_asking_or_leaving_twice_counts_once(server: TestRedis) -> None:
    ask = Ask("prov/m", "prov", slots=1, principal="ana", tokens=50)

    async def test(rig: Rig) -> None:
        day = (await rig.c1._now_ms()) // (DAY_S * 1000)
        ticket = await let_in(rig.c1, ask)
        body = {"model": ask.model, "provider": ask.provider, "slots": 1, "principal": "ana", "tokens": 50, "nano": 0}
        again = await rig.c1._call("gate_enter", ticket.call, body | {"hold_ms": 1000, "bounds": rig.c1._bounds})
        assert again == ["go", 1]
        assert (await rig.c1.today(day, "ana")).tokens == 50
        for _ in range(2):
            await rig.c1.leave(ticket, "ok", tokens=20)
        assert (await rig.c1.today(day, "ana")).tokens == 20

    with_rig(server, test, budget={"user_day_tokens": 100})


def test_where_nothing_is_bounded_the_way_in_writes_nothing(server: TestRedis) -> None:
    async def test(rig: Rig) -> None:
        before = await rig.redis.dbsize()
        await let_in(rig.c1)
        assert await rig.redis.dbsize() == before

    with_rig(server, test)


def test_a_redis_that_is_away_stops_no_call() -> None:
    async def main(server: TestRedis, hurt: Callable[[], None]) -> Verdict:
        client = connect(server.url)
        settings = Settings(budget=BudgetSettings(user_day_tokens=1))
        gate = Gate(Pipeliner(client), "c1", settings.models, settings.budget)
        hurt()
        verdict = await asyncio.wait_for(gate.enter(Ask("prov/m", "prov", tokens=100)), 5)
        assert verdict.ticket is not None
        await asyncio.wait_for(gate.leave(verdict.ticket, "ok", tokens=1), 5)
        await client.aclose()
        return verdict

    with redis_server() as own:
        assert asyncio.run(main(own, own.pause)).kind == "go"
        own.resume()
        assert asyncio.run(main(own, own.kill)).kind == "go"
