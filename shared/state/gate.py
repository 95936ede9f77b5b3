"""The gate before every model call, the same for all coordinators and workers: breakers, slots, budgets of the day.

A call asks `enter` first and tells `leave` how it went. What a dead process held counts no more once its heartbeat is
gone. While Redis is away the gate is open: a call is better than none, and what it cost is lost to the counters only.

The breaker is the usual one (M. Nygard, Release It!): closed, open for a cooldown, then half-open for one call.
"""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import structlog

from shared.errors import StateUnavailable
from shared.ids import nonce
from shared.settings import BudgetSettings, ModelSettings
from shared.state import keys
from shared.state.connection import mapped
from shared.state.pipeline import Pipeliner
from shared.state.scripting import Scripts

log = structlog.get_logger(__name__)

NANO = 1_000_000_000
"""Nanodollars in a dollar: the counters are whole numbers."""
ANSWER_S = 1.0
"""How long a call waits for the gate itself."""
HOLD_MARGIN_S = 30.0
DAY_S = 86_400

Outcome = Literal["ok", "fault", "dead", "none"]
"""How a call went: an answer; a fault of the model; one that will not pass soon; nothing that says much of it."""


@dataclass(frozen=True)
class Ask:
    """A call that wants in. `model` is `provider/model`; `slots` 0 is no bound; `tokens` and `dollars` are guesses."""

    model: str
    provider: str
    slots: int = 0
    principal: str = ""
    tokens: int = 0
    dollars: Decimal = Decimal(0)


@dataclass(frozen=True)
class Ticket:
    """A call that was let in."""

    ask: Ask
    call: str
    reserved: bool


@dataclass(frozen=True)
class Verdict:
    """The gate's answer. `ticket` is there if the call may go; else `wait_s` says when to ask again, and `why`.

    kind `open`: the model rests, `why` is the code of its last failure. `busy`: the provider has no free slot.
    `spent`: `why` names the bound: `user_day_tokens`, `user_day_nano` (dollars), `day_tokens`, `day_nano`.
    """

    kind: Literal["go", "open", "busy", "spent"]
    ticket: Ticket | None = None
    wait_s: float = 0.0
    why: str = ""


@dataclass(frozen=True)
class Spent:
    """What the calls of today cost so far."""

    tokens: int
    dollars: Decimal


class Gate:
    """One per process; `process` is the id of its heartbeat."""

    def __init__(self, pipeline: Pipeliner, process: str, models: ModelSettings, budget: BudgetSettings) -> None:
        self._pipe = pipeline
        self._scripts = Scripts(pipeline)
        self._process = process
        self._hold_ms = int((models.total_s + HOLD_MARGIN_S) * 1000)
        self._bounds = {
            "user_day_tokens": budget.user_day_tokens,
            "user_day_nano": to_nano(Decimal(str(budget.user_day_dollars))),
            "day_tokens": budget.day_tokens,
            "day_nano": to_nano(Decimal(str(budget.day_dollars))),
        }
        breaker = models.breaker
        self._breaker = {
            "failures": breaker.failures,
            "within_ms": int(breaker.within_s * 1000),
            "cooldown_ms": int(breaker.cooldown_s * 1000),
            "most_ms": int(breaker.most_s * 1000),
        }
        self._away = False

    @property
    def bounded(self) -> bool:
        """True if a budget of the day is in force."""
        return any(self._bounds.values())

    @property
    def bounded_in_dollars(self) -> bool:
        """True if a budget of the day in dollars is in force."""
        return self._bounds["user_day_nano"] > 0 or self._bounds["day_nano"] > 0

    async def enter(self, ask: Ask) -> Verdict:
        """Asks whether a call may be made now."""
        ticket = Ticket(ask, nonce(), reserved=False)
        body = {
            "model": ask.model,
            "provider": ask.provider,
            "slots": ask.slots,
            "principal": ask.principal,
            "tokens": ask.tokens,
            "nano": to_nano(ask.dollars),
            "hold_ms": self._hold_ms,
            "bounds": self._bounds,
        }
        answer = await self._call("gate_enter", ticket.call, body)
        match answer:
            case ["go", reserved]:
                return Verdict("go", Ticket(ask, ticket.call, bool(reserved)))
            case ["open" | "busy" | "spent" as kind, int(wait_ms), *rest]:
                return Verdict(kind, wait_s=wait_ms / 1000, why=str(rest[0]) if rest else "")
            case _:  # the gate is away; it may have let us in without our hearing of it
                return Verdict("go", Ticket(ask, ticket.call, ask.slots > 0 or self.bounded))

    async def leave(
        self,
        ticket: Ticket,
        outcome: Outcome,
        *,
        why: str = "",
        wait_s: float = 0.0,
        tokens: int = 0,
        dollars: Decimal | None = None,
    ) -> None:
        """Tells how a call went and what it cost (None: not known). `wait_s`: the provider asked to be left alone."""
        ask = ticket.ask
        body = {
            "model": ask.model,
            "provider": ask.provider,
            "principal": ask.principal,
            "reserved": ticket.reserved,
            "outcome": outcome,
            "why": why,
            "wait_ms": int(wait_s * 1000),
            "tokens": tokens,
            "nano": to_nano(dollars or Decimal(0)),
            "breaker": self._breaker,
        }
        rests_ms = await self._call("gate_leave", ticket.call, body)
        if isinstance(rests_ms, int) and rests_ms > 0 and outcome in ("fault", "dead"):
            log.warning("model rests", model=ask.model, seconds=rests_ms / 1000, why=why)

    async def spent(self, principal: str) -> Verdict | None:
        """The bound of the day that is used up already, if there is one."""
        if not self.bounded:
            return None
        now_ms = await self._now_ms()
        day, passed_ms = divmod(now_ms, DAY_S * 1000)
        for prefix, who in (("day", ""), ("user_day", principal)):
            found = await self.today(day, who)
            for unit, used in (("tokens", found.tokens), ("nano", to_nano(found.dollars))):
                bound = self._bounds[f"{prefix}_{unit}"]
                if bound and used >= bound:
                    return Verdict("spent", wait_s=DAY_S - passed_ms / 1000, why=f"{prefix}_{unit}")
        return None

    async def today(self, day: int, principal: str = "") -> Spent:
        """What was spent on a day (days since 1970), by everybody or by one user. Raises StateUnavailable."""
        with mapped():
            tokens, nano = await self._pipe.execute("HMGET", keys.spend(day, principal), "tokens", "nano")
        return Spent(int(tokens or 0), Decimal(nano or 0) / NANO)

    async def _now_ms(self) -> int:
        with mapped():
            seconds, micros = await self._pipe.execute("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def _call(self, script: str, call: str, body: dict[str, object]) -> object:
        """A script's answer, None while Redis does not give one in time."""
        try:
            async with asyncio.timeout(ANSWER_S):
                answer: object = await self._scripts.call(script, call, self._process, json.dumps(body), retry=False)
        except (StateUnavailable, TimeoutError) as error:
            if not self._away:
                log.warning("the gate is away; models are called without it", error=str(error) or "no answer in time")
            self._away = True
            return None
        self._away = False
        return answer


def to_nano(dollars: Decimal) -> int:
    """Whole nanodollars, rounded up, so that no call is free that is not."""
    return math.ceil(dollars * NANO)
