"""Whole answers by tier, for workers: the same chains, gate and bill as the coordinators'."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import structlog

from shared.entries import Retry
from shared.failover import Answer, Failover, price_by
from shared.ids import nonce
from shared.llm.deadlines import Timeouts
from shared.llm.errors import LlmError
from shared.llm.model import Completion, ImageBlock, Request
from shared.llm.pricing import load_prices
from shared.llm.usage import estimate_request
from shared.models import PAYER, Choice, Payer, Tiers, fitting
from shared.settings import Settings
from shared.sql.costs import OK, Call, of_retries
from shared.state.gate import Gate

if TYPE_CHECKING:
    from shared.llm.client import ModelClient

log = structlog.get_logger(__name__)

Record = Callable[[Sequence[Call]], Awaitable[None]]
"""Keeps what calls cost. It must not raise for a database that is away: the answer is there."""


class TierClient:
    """One per process. Whom a call is for is in `models.PAYER`. Raises ConfigError for chains that cannot work."""

    def __init__(self, settings: Settings, gate: Gate | None = None, record: Record | None = None) -> None:
        self._tiers = Tiers(settings.models)
        self._timeouts = Timeouts.of(settings.models)
        self._client: ModelClient | None = None
        self._failover = Failover(settings, gate, price_by(load_prices(settings.models.prices)))
        self._record = record

    async def complete(self, tier: str, request: Request) -> Completion:
        """Fills in `request.model`. Raises the last LlmError when every link failed."""
        payer = PAYER.get() or Payer()
        chain = fitting(self._tiers.chain(tier), images=_has_images(request), tokens=estimate_request(request))
        calls = _Calls(self._opened())
        answer = None
        try:
            answer = await self._failover.answer(chain, request, payer, calls)
        finally:
            if self._record is not None:
                await self._record(_bill(payer, tier, calls.retries, answer))
        return answer.completion

    async def aclose(self) -> None:
        """Closes connections."""
        await self._failover.aclose()
        if self._client is not None:
            await self._client.aclose()

    def _opened(self) -> ModelClient:
        """The client. Its HTTP library takes seven megabytes, which a worker that asks no model does without."""
        if self._client is None:
            from shared.llm.client import ModelClient

            self._client = ModelClient(timeouts=self._timeouts)
        return self._client


class _Calls:
    """Attempts that nobody watches, beyond the log."""

    def __init__(self, client: ModelClient) -> None:
        self._client = client
        self.retries: list[Retry] = []

    async def attempt(self, choice: Choice, request: Request, attempt: int) -> tuple[Completion, float | None]:
        return await self._client.complete(choice.provider, request), None

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def failed(self, choice: Choice, retry: Retry, error: LlmError, retry_in: float | None) -> None:
        self.retries.append(retry)
        log.warning("model call failed", model=choice.name, attempt=retry.attempt, retry_in=retry_in, error=str(error))

    def passed_over(self, choice: Choice, code: str, wait_s: float) -> None:
        log.info("model passed over", model=choice.name, code=code, wait_s=wait_s)


def _bill(payer: Payer, tier: str, retries: Sequence[Retry], answer: Answer | None) -> list[Call]:
    at_ms, step = int(time.time() * 1000), f"{payer.run}.{nonce()}"
    calls = of_retries(retries, step, at_ms, payer, tier)
    if answer is not None:
        calls.append(
            Call(
                id=f"{step}.{answer.attempt}",
                at_ms=at_ms,
                payer=payer,
                tier=tier,
                provider=answer.choice.provider.name,
                model=answer.choice.model,
                outcome=OK,
                usage=answer.usage,
                cost=answer.cost,
                took_ms=answer.took_ms,
            )
        )
    return calls


def _has_images(request: Request) -> bool:
    return any(isinstance(block, ImageBlock) for message in request.messages for block in message.blocks)
