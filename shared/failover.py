"""One answer from a chain of models, whatever happens to some of them: attempts, failover, and the gate.

Coordinators and workers go the same way here; what differs between them (streaming to a user, being cancelled) is
behind `Caller`.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Protocol

from shared.entries import Retry
from shared.llm.errors import (
    AuthFailed,
    BadRequest,
    BudgetSpent,
    ContentFiltered,
    LlmError,
    NotFound,
    PriceUnknown,
    Resting,
    TooLarge,
)
from shared.llm.model import Completion, Request, Usage
from shared.llm.pricing import PriceTable
from shared.llm.retry import next_delay
from shared.llm.usage import estimate_request
from shared.models import Choice, Payer
from shared.settings import Settings
from shared.state.gate import Ask, Gate, Outcome, Ticket, Verdict

ANSWER_TOKENS: Final = 1_000
"""What an answer is guessed to take where the request sets no bound."""

HURRY_S: Final = 2.0
"""A model that is to be asked again later than this is left for the next of the chain first."""

Price = Callable[[Choice, Usage], Decimal | None]
"""Dollars for the tokens of one call; None if nobody knows."""


@dataclass(frozen=True)
class Answer:
    """A whole completion, who gave it, at which attempt of the step (from 1), and what it and the failed ones cost.

    `first_ms` is the time to the first piece, 0 if it was not seen; `took_ms` that of the whole call.
    """

    completion: Completion
    choice: Choice
    attempt: int
    usage: Usage
    cost: Decimal | None = None
    first_ms: int = 0
    took_ms: int = 0
    retries: tuple[Retry, ...] = ()


class Caller(Protocol):
    """Who wants the answer: makes single attempts, and hears what becomes of them."""

    async def attempt(self, choice: Choice, request: Request, attempt: int) -> tuple[Completion, float | None]:
        """One call; (answer, seconds to its first piece, if it knows). Raises LlmError."""
        ...

    async def pause(self, seconds: float) -> None:
        """Waits."""
        ...

    def failed(self, choice: Choice, retry: Retry, error: LlmError, retry_in: float | None) -> None:
        """An attempt failed; the model is asked again in so many seconds, or no more."""
        ...

    def passed_over(self, choice: Choice, code: str, wait_s: float) -> None:
        """A model is not asked now: it rests (the code of its last failure), is busy, or has no known price."""
        ...


@dataclass
class _Search:
    """The state of one `answer`."""

    request: Request
    payer: Payer
    caller: Caller
    give_up: float
    tokens: int
    """Of the prompt, by our guess; 0 if nothing depends on it."""
    attempts: int = 0
    tried: dict[str, int] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    retries: list[Retry] = field(default_factory=list)
    last: LlmError | None = None

    def drop(self, choice: Choice, error: LlmError) -> None:
        """Nothing more is to be expected of this model."""
        self.over.add(choice.name)
        self.last = error


@dataclass(frozen=True)
class _Rest:
    """A model that may be asked again in `wait_s`."""

    choice: Choice
    wait_s: float
    why: str


class Failover:
    """Asks the links of a chain in order. One per process."""

    def __init__(self, settings: Settings, gate: Gate | None, price: Price, rng: random.Random | None = None) -> None:
        self._models = settings.models
        self._refuse_unpriced = settings.budget.unpriced == "refuse"
        self._gate = gate
        self._price = price
        self._rng = rng or random.Random()
        self._leaving: set[asyncio.Task[None]] = set()

    async def answer(self, chain: Sequence[Choice], request: Request, payer: Payer, caller: Caller) -> Answer:
        """The first whole answer; fills in `request.model`. A model that rests is passed over, and waited for only if
        no other is left, `models.patience_s` at most.

        Raises the last LlmError when every link failed; BudgetSpent, PriceUnknown or Resting for calls not made.
        """
        bounded = self._gate is not None and self._gate.bounded
        give_up = time.monotonic() + self._models.patience_s
        search = _Search(request, payer, caller, give_up, estimate_request(request) if bounded else 0)
        while True:
            resting: list[_Rest] = []
            for choice in chain:
                if choice.name in search.over:
                    continue
                found = await self._ask(choice, chain, search)
                if isinstance(found, Answer):
                    return found
                if found is not None:
                    resting.append(found)
            soonest = min((rest.wait_s for rest in resting), default=math.inf)
            if time.monotonic() + soonest > search.give_up:
                raise search.last or _resting(resting, soonest)
            await caller.pause(soonest)

    async def aclose(self) -> None:
        """Waits for what the gate has still to be told."""
        await asyncio.gather(*self._leaving, return_exceptions=True)

    async def _ask(self, choice: Choice, chain: Sequence[Choice], search: _Search) -> Answer | _Rest | None:
        """The answer of this model, or that it rests; None when nothing more is to be expected of it."""
        wanted = search.request.model_copy(update={"model": choice.model})
        while True:
            try:
                ticket = await self._admitted(choice, search)
            except (BudgetSpent, PriceUnknown) as refused:
                search.caller.passed_over(choice, refused.code, 0.0)
                search.drop(choice, refused)
                return None
            if isinstance(ticket, _Rest):
                search.caller.passed_over(choice, ticket.why, ticket.wait_s)
                return ticket
            search.attempts += 1
            tried = search.tried[choice.name] = search.tried.get(choice.name, 0) + 1
            try:
                return await self._attempt(choice, wanted, ticket, search)
            except LlmError as error:
                delay = next_delay(tried, error, self._rng, attempts=self._models.attempts)
                search.caller.failed(choice, search.retries[-1], error, delay)
                if delay is None:
                    search.drop(choice, error)
                    return None
                search.last = error
                if delay > HURRY_S and any(c.name not in search.over and c != choice for c in chain):
                    return _Rest(choice, delay, error.code)
                await search.caller.pause(delay)

    async def _admitted(self, choice: Choice, search: _Search) -> Ticket | _Rest:
        """A ticket, possibly after waiting for a free slot. Raises BudgetSpent or PriceUnknown."""
        tokens = Usage(input=search.tokens, output=search.request.max_tokens or ANSWER_TOKENS)
        dollars = self._price(choice, tokens)
        bounded = search.payer.dollars or (self._gate is not None and self._gate.bounded_in_dollars)
        if dollars is None and bounded and self._refuse_unpriced:
            raise PriceUnknown(f"a budget in dollars is in force, and the price of {choice.name} is not known")
        ask = Ask(
            choice.name,
            choice.provider.name,
            choice.provider.concurrency,
            search.payer.principal,
            tokens.total,
            dollars or Decimal(0),
        )
        if self._gate is None:
            return Ticket(ask, "", reserved=False)
        while True:
            verdict = await self._gate.enter(ask)
            if verdict.ticket is not None:
                return verdict.ticket
            if verdict.kind == "spent":
                raise budget_spent(verdict)
            wait_s = verdict.wait_s * self._rng.uniform(1.0, 1.5)
            if verdict.kind == "open" or time.monotonic() + wait_s > search.give_up:
                return _Rest(choice, verdict.wait_s, verdict.why or verdict.kind)
            await search.caller.pause(wait_s)

    async def _attempt(self, choice: Choice, request: Request, ticket: Ticket, search: _Search) -> Answer:
        began = time.monotonic()
        try:
            completion, first_s = await search.caller.attempt(choice, request, search.attempts)
        except LlmError as error:
            usage = error.usage or Usage()
            cost = self._price(choice, usage)
            search.retries.append(
                Retry(
                    provider=choice.provider.name,
                    model=choice.model,
                    attempt=search.attempts,
                    code=error.code,
                    usage=usage,
                    cost=None if cost is None else str(cost),
                    took_ms=_ms_since(began),
                )
            )
            # Waited for, so that the next attempt finds what this one has changed.
            await self._leave(ticket, blame(error), usage, cost, why=error.code, wait_s=error.retry_after or 0.0)
            raise
        except BaseException:  # cancelled: that says nothing about the model
            self._leave(ticket, "none", Usage(), None)
            raise
        usage = completion.usage or Usage(estimated=True)
        cost = self._price(choice, usage)
        self._leave(ticket, "ok", usage, cost)
        return Answer(
            completion,
            choice,
            search.attempts,
            usage,
            cost,
            first_ms=round((first_s or 0.0) * 1000),
            took_ms=_ms_since(began),
            retries=tuple(search.retries),
        )

    def _leave(
        self,
        ticket: Ticket,
        outcome: Outcome,
        usage: Usage,
        cost: Decimal | None,
        *,
        why: str = "",
        wait_s: float = 0.0,
    ) -> Awaitable[None]:
        """Tells the gate, in the background: no answer waits for it."""
        if self._gate is None:
            nothing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            nothing.set_result(None)
            return nothing
        leave = self._gate.leave(ticket, outcome, why=why, wait_s=wait_s, tokens=usage.total, dollars=cost)
        task = asyncio.create_task(leave)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        return asyncio.shield(task)


def price_by(table: PriceTable) -> Price:
    """Prices from a table, by the provider's preset where it has one."""

    def price(choice: Choice, usage: Usage) -> Decimal | None:
        return table.cost(choice.provider.preset or choice.provider.name, choice.model, usage)

    return price


def blame(error: LlmError) -> Outcome:
    """What an error says about the model: nothing if the request was at fault, that it is dead if no repetition can
    help soon, else a fault that may pass."""
    if isinstance(error, BadRequest | TooLarge | ContentFiltered):
        return "ok"  # it works, and refused this
    if isinstance(error, AuthFailed | NotFound) or error.code == "quota_exhausted":
        return "dead"
    return "fault"


_BOUNDS = {
    "user_day_tokens": "your budget of tokens for today",
    "user_day_nano": "your budget of dollars for today",
    "day_tokens": "this installation's budget of tokens for today",
    "day_nano": "this installation's budget of dollars for today",
}


def budget_spent(verdict: Verdict) -> BudgetSpent:
    """The error for the gate's word that a bound of the day leaves no room."""
    hours, minutes = divmod(math.ceil(verdict.wait_s / 60), 60)
    what = _BOUNDS.get(verdict.why, verdict.why)
    return BudgetSpent(
        f"{what} is used up; try again in {hours} h {minutes} min, when the next day begins (UTC)",
        retry_after=math.ceil(verdict.wait_s),
    )


def _resting(resting: Sequence[_Rest], soonest_s: float) -> Resting:
    listed = ", ".join(f"{rest.choice.name} ({rest.why}, {rest.wait_s:.0f} s)" for rest in resting)
    return Resting(f"no model may be asked now: {listed}", retry_after=math.ceil(soonest_s))


def _ms_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
