"""Attempts and failover, with models and a gate that answer as told; nothing sleeps."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, cast

import pytest

from shared.entries import Retry
from shared.failover import Answer, Failover, blame, budget_spent
from shared.llm.errors import (
    AuthFailed,
    BadRequest,
    BudgetSpent,
    ContentFiltered,
    ContextTooLong,
    CutStream,
    LlmError,
    NotFound,
    PriceUnknown,
    RateLimited,
    Refused,
    Resting,
    ServerFault,
    TooLarge,
)
from shared.llm.model import Completion, Finish, Message, Request, TextBlock, Usage
from shared.llm.provider import Provider
from shared.models import Choice, Payer
from shared.settings import Settings
from shared.state.gate import Ask, Gate, Outcome, Ticket, Verdict

REQUEST = Request(model="", messages=(Message(role="user", blocks=(TextBlock(text="hi"),)),))
USAGE = Usage(input=10, output=5)


def link(name: str) -> Choice:
    return Choice(Provider(name=name, dialect="openai", base_url="http://127.0.0.1:1/v1"), "m")


ONE, TWO, THREE = link("one"), link("two"), link("three")


class Models:
    """A caller whose models do, call by call, what is on their list; then they answer. `told` is what it heard."""

    def __init__(self, **lists: Sequence[LlmError]) -> None:
        self._next = {name: deque(errors) for name, errors in lists.items()}
        self.asked: list[str] = []
        self.pauses: list[float] = []
        self.told: list[str] = []

    async def attempt(self, choice: Choice, request: Request, attempt: int) -> tuple[Completion, float | None]:
        assert request.model == choice.model
        self.asked.append(choice.provider.name)
        assert attempt == len(self.asked)
        if errors := self._next.get(choice.provider.name):
            raise errors.popleft()
        text = Message(role="assistant", blocks=(TextBlock(text=choice.provider.name),))
        return Completion(message=text, finish=Finish.STOP, usage=USAGE), 0.25

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def failed(self, choice: Choice, retry: Retry, error: LlmError, retry_in: float | None) -> None:
        self.told.append(f"{choice.provider.name} failed: {retry.code}{'' if retry_in is None else ', again'}")

    def passed_over(self, choice: Choice, code: str, wait_s: float) -> None:
        self.told.append(f"{choice.provider.name} passed over: {code}")


class ScriptedGate:
    """Answers from a list by model, then lets in; `left` is what it was told."""

    def __init__(self, bounded_in_dollars: bool = False, **verdicts: Sequence[Verdict]) -> None:
        self._next = {name: deque(found) for name, found in verdicts.items()}
        self.bounded = self.bounded_in_dollars = bounded_in_dollars
        self.asks: list[Ask] = []
        self.left: list[tuple[str, Outcome, str, int]] = []

    async def enter(self, ask: Ask) -> Verdict:
        self.asks.append(ask)
        if verdicts := self._next.get(ask.provider):
            return verdicts.popleft()
        return Verdict("go", Ticket(ask, "call", reserved=False))

    async def leave(
        self, ticket: Ticket, outcome: Outcome, *, why: str = "", wait_s: float, tokens: int, dollars: Decimal | None
    ) -> None:
        self.left.append((ticket.ask.provider, outcome, why, tokens))


def failover(gate: ScriptedGate | None = None, *, price: str | None = "0.001", **settings: Any) -> Failover:
    cost = None if price is None else Decimal(price)
    return Failover(Settings(**settings), cast("Gate | None", gate), lambda choice, usage: cost)


def answer(
    caller: Models,
    chain: Sequence[Choice] = (ONE, TWO, THREE),
    gate: ScriptedGate | None = None,
    *,
    payer: Payer = Payer("ana"),  # noqa: B008 - frozen
    **options: Any,
) -> Answer:
    async def main() -> Answer:
        engine = failover(gate, **options)
        try:
            return await engine.answer(chain, REQUEST, payer, caller)
        finally:
            await engine.aclose()

    return asyncio.run(main())


def test_the_first_model_answers() -> None:
    models, gate = Models(), ScriptedGate()
    found = answer(models, gate=gate)
    assert (found.choice, found.attempt, found.completion.message.text) == (ONE, 1, "one")
    assert (found.usage, found.cost, found.first_ms, found.retries) == (USAGE, Decimal("0.001"), 250, ())
    assert gate.left == [("one", "ok", "", 15)]
    assert gate.asks[0].principal == "ana"


def test_a_fault_is_repeated_and_then_left_for_the_next_model() -> None:
    models, gate = Models(one=[CutStream("x")] * 3, two=[ServerFault("x")]), ScriptedGate()
    found = answer(models, gate=gate)
    assert models.asked == ["one", "one", "one", "two", "two"]
    assert (found.choice, found.attempt) == (TWO, 5)
    assert [(r.provider, r.attempt, r.code) for r in found.retries] == [
        ("one", 1, "cut_stream"),
        ("one", 2, "cut_stream"),
        ("one", 3, "cut_stream"),
        ("two", 4, "server_fault"),
    ]
    assert models.told[2:4] == ["one failed: cut_stream", "two failed: server_fault, again"]
    assert [(name, outcome) for name, outcome, *_ in gate.left] == [("one", "fault")] * 3 + [
        ("two", "fault"),
        ("two", "ok"),
    ]


def test_what_no_repetition_can_help_goes_to_the_next_model_at_once() -> None:
    models = Models(one=[ContextTooLong("x")], two=[AuthFailed("x")])
    assert answer(models).choice == THREE
    assert models.asked == ["one", "two", "three"]
    assert models.pauses == []


def test_what_a_failed_attempt_cost_is_kept() -> None:
    error = CutStream("x")
    error.usage = Usage(input=10, output=1, estimated=True)
    gate = ScriptedGate()
    found = answer(Models(one=[error]), gate=gate)
    assert (found.retries[0].usage, found.retries[0].cost) == (error.usage, "0.001")
    assert gate.left[0] == ("one", "fault", "cut_stream", 11)


def test_when_all_fail_the_last_error_is_raised() -> None:
    models = Models(one=[Refused("a")] * 3, two=[AuthFailed("b")])
    with pytest.raises(AuthFailed, match="b"):
        answer(models, (ONE, TWO))


def test_a_model_that_rests_is_not_asked() -> None:
    gate = ScriptedGate(one=[Verdict("open", wait_s=9.0, why="cut_stream")])
    models = Models()
    assert answer(models, gate=gate).choice == TWO
    assert models.asked == ["two"]
    assert models.told == ["one passed over: cut_stream"]


def test_a_breaker_that_opens_between_attempts_ends_them() -> None:
    go = Verdict("go", Ticket(Ask("one/m", "one"), "c", reserved=False))
    gate = ScriptedGate(one=[go, Verdict("open", wait_s=9.0, why="cut_stream")])
    models = Models(one=[CutStream("x")] * 3)
    assert answer(models, gate=gate).choice == TWO
    assert models.asked == ["one", "two"]


def test_with_no_other_model_a_rest_is_waited_for() -> None:
    rests = Verdict("open", wait_s=4.0, why="refused")
    models = Models()
    assert answer(models, (ONE,), ScriptedGate(one=[rests])).choice == ONE
    assert models.pauses == [4.0]
    models = Models(one=[BadRequest("x")])
    assert answer(models, (ONE, TWO), ScriptedGate(two=[rests])).choice == TWO
    assert models.asked == ["one", "two"]


def test_but_not_for_longer_than_patience_lasts() -> None:
    long = Verdict("open", wait_s=60.0, why="auth_failed")
    with pytest.raises(Resting, match=r"one/m \(auth_failed, 60 s\)") as caught:
        answer(Models(), (ONE,), ScriptedGate(one=[long]))
    assert caught.value.retry_after == 60
    with pytest.raises(BadRequest):
        answer(Models(two=[BadRequest("x")]), (ONE, TWO), ScriptedGate(one=[long]))


def test_a_busy_provider_is_waited_for() -> None:
    models = Models()
    gate = ScriptedGate(one=[Verdict("busy", wait_s=0.25)] * 3)
    assert answer(models, gate=gate).choice == ONE
    assert len(models.pauses) == 3
    impatient = ScriptedGate(one=[Verdict("busy", wait_s=0.25)])
    assert answer(Models(), gate=impatient, models={"patience_s": 0}).choice == TWO


def test_a_long_retry_after_goes_to_the_next_model_first() -> None:
    models = Models(one=[RateLimited("x", retry_after=30)])
    assert answer(models).choice == TWO
    assert models.pauses == []
    alone = Models(one=[RateLimited("x", retry_after=30)])
    assert answer(alone, (ONE,)).choice == ONE
    assert alone.pauses[0] >= 30


def test_a_spent_budget_ends_in_an_error_that_says_when() -> None:
    spent = Verdict("spent", wait_s=3_700.0, why="user_day_tokens")
    models = Models()
    with pytest.raises(BudgetSpent, match="1 h 2 min") as caught:
        answer(models, gate=ScriptedGate(one=[spent], two=[spent], three=[spent]))
    assert caught.value.retry_after == 3_700
    assert not caught.value.retryable
    assert models.asked == []


def test_a_budget_that_a_cheaper_model_fits_does_not_end_the_run() -> None:
    spent = Verdict("spent", wait_s=60.0, why="day_nano")
    models = Models()
    assert answer(models, gate=ScriptedGate(one=[spent])).choice == TWO
    assert models.told == ["one passed over: budget_spent"]


@pytest.mark.parametrize(
    ("payer", "gate"),
    [(Payer(dollars=True), ScriptedGate()), (Payer(), ScriptedGate(bounded_in_dollars=True))],
)
def test_without_a_price_a_bound_in_dollars_cannot_hold(payer: Payer, gate: ScriptedGate) -> None:
    with pytest.raises(PriceUnknown, match="one/m"):
        answer(Models(), (ONE,), gate, payer=payer, price=None)
    allowed = answer(Models(), (ONE,), gate, payer=payer, price=None, budget={"unpriced": "allow"})
    assert allowed.cost is None


def test_an_unknown_price_alone_stops_nothing() -> None:
    assert answer(Models(), (ONE,), ScriptedGate(), price=None).cost is None


def test_what_is_reserved_is_the_prompt_and_an_answer() -> None:
    gate = ScriptedGate(bounded_in_dollars=True)
    answer(Models(), (ONE,), gate)
    assert 1_000 < gate.asks[0].tokens < 1_020
    assert gate.asks[0].dollars == Decimal("0.001")


def test_a_cancel_says_nothing_about_the_model() -> None:
    class Slow(Models):
        async def attempt(self, choice: Choice, request: Request, attempt: int) -> tuple[Completion, float | None]:
            began.set()
            await asyncio.Event().wait()
            raise AssertionError

    gate = ScriptedGate()
    began = asyncio.Event()

    async def main() -> None:
        engine = failover(gate)
        task = asyncio.create_task(engine.answer((ONE,), REQUEST, Payer(), Slow()))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await engine.aclose()

    asyncio.run(main())
    assert [outcome for _, outcome, *_ in gate.left] == ["none"]


@pytest.mark.parametrize(
    ("make", "outcome"),
    [
        (BadRequest, "ok"),
        (ContextTooLong, "ok"),
        (TooLarge, "ok"),
        (ContentFiltered, "ok"),
        (AuthFailed, "dead"),
        (NotFound, "dead"),
        (RateLimited, "fault"),
        (CutStream, "fault"),
        (Refused, "fault"),
    ],
)
def test_whose_fault_it_was(make: Callable[[str], LlmError], outcome: str) -> None:
    assert blame(make("x")) == outcome
    assert blame(RateLimited("x", code="quota_exhausted")) == "dead"


@pytest.mark.parametrize("bound", ["user_day_tokens", "user_day_nano", "day_tokens", "day_nano"])
def test_every_bound_has_its_words(bound: str) -> None:
    error = budget_spent(Verdict("spent", wait_s=60, why=bound))
    assert bound not in error.message
    assert "try again in 0 h 1 min" in error.message
