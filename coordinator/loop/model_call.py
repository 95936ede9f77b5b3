"""One step's model call: deltas relayed as they come, attempts and failover told as events, the bill kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing

import structlog

from coordinator.handle import Handle
from coordinator.loop.decide import Limits
from coordinator.loop.early import EarlyStart
from coordinator.loop.services import LoopServices
from coordinator.loop.wire import WireLog
from coordinator.models.images import load_images, with_images
from coordinator.models.route import Route
from shared.entries import Assistant, Retry
from shared.errors import ArchiveUnavailable
from shared.failover import Answer
from shared.llm.errors import LlmError
from shared.llm.model import CallReady, Completion, ImageBlock, Message, Request, TextDelta, ThinkingDelta
from shared.messages import Switches
from shared.models import Choice, Payer
from shared.sql import costs

__all__ = ["Answer", "assistant_entry", "call_model"]

log = structlog.get_logger(__name__)

AS_USUAL = Switches()


async def call_model(
    handle: Handle,
    services: LoopServices,
    request: Request,
    route: Route,
    step: int,
    group: str = "",
    early: Callable[[int], EarlyStart] | None = None,
    switches: Switches = AS_USUAL,
    relay: bool = True,
) -> Answer:
    """The step's answer, from the first model of the route that gives one. `group`: what the call is billed under.
    `early` makes, for an attempt, what starts calls while the model still streams. `switches`: what of it is shown;
    without `relay` none of its text is.

    Raises RunCancelled on a cancel, else as `Failover.answer` does; what the failed attempts cost is recorded then.
    """
    message = handle.message
    limits = Limits.of(services.settings.budget, message.budget)
    payer = Payer(message.principal, handle.lease.session, handle.lease.run, group, dollars=limits.dollars > 0)
    images: dict[str, ImageBlock] = {}
    if message.attachments and any(choice.sees for choice in route.chain):
        images = await load_images(services.artifacts, message.principal, message.attachments)
    attempts = _Attempts(handle, services, step, images, early, switches, relay)
    try:
        return await services.failover.answer(route.chain, request, payer, attempts)
    except LlmError:
        await _record(services, payer, route.tier, step, attempts.retries)
        raise


def assistant_entry(answer: Answer, message: Message, step: int, *, tier: str, group: str) -> Assistant:
    """The log entry of an answer: `message` is what of it is kept."""
    completion = answer.completion
    return Assistant(
        step=step,
        attempt=answer.attempt,
        message=message,
        finish=completion.finish,
        raw_finish=completion.raw_finish,
        usage=answer.usage,
        provider=answer.choice.provider.name,
        model=answer.choice.model,
        cost=None if answer.cost is None else str(answer.cost),
        tier=tier,
        group=group,
        first_ms=answer.first_ms,
        took_ms=answer.took_ms,
        retries=answer.retries,
    )


async def _record(services: LoopServices, payer: Payer, tier: str, step: int, retries: list[Retry]) -> None:
    """Keeps the bill of a step that ended without an answer, and so without a log entry."""
    calls = costs.of_retries(retries, f"{payer.run}.{step}", int(time.time() * 1000), payer, tier)
    if not calls:
        return
    try:
        await services.database.run(lambda conn: costs.add(conn, calls))
    except ArchiveUnavailable as error:
        log.warning("the cost of failed calls is not recorded", run=payer.run, error=str(error))


class _Attempts:
    """Attempts of one step, raced against a cancel of the run."""

    def __init__(
        self,
        handle: Handle,
        services: LoopServices,
        step: int,
        images: dict[str, ImageBlock],
        early: Callable[[int], EarlyStart] | None,
        switches: Switches,
        relay: bool,
    ) -> None:
        self._handle = handle
        self._services = services
        self._step = step
        self._images = images
        self._early = early
        self._switches = switches
        self._relay = relay
        self.retries: list[Retry] = []

    async def attempt(self, choice: Choice, request: Request, attempt: int) -> tuple[Completion, float | None]:
        """One streamed call."""
        kind = "step.started" if attempt == 1 else "step.restarted"
        self._handle.events.write(
            kind, step=self._step, attempt=attempt, model=choice.name, rehearsal=choice.provider.rehearsal
        )
        if self._images and choice.sees:
            request = request.model_copy(update={"messages": with_images(request.messages, self._images)})
        early = self._early(attempt) if self._early is not None else None
        wire = self._wire(choice, attempt) if self._switches.debug == "on" else None
        try:
            return await self._handle.race(self._stream(choice, request, attempt, early, wire))
        finally:
            if early is not None:
                await early.settle()
            if wire is not None:
                await wire.close()

    def _wire(self, choice: Choice, attempt: int) -> WireLog:
        principal = self._handle.message.principal
        return WireLog(self._handle.events, self._services.artifacts, principal, choice, self._step, attempt)

    async def pause(self, seconds: float) -> None:
        """Waits, unless the run is cancelled."""
        await self._handle.race(asyncio.sleep(seconds))

    def failed(self, choice: Choice, retry: Retry, error: LlmError, retry_in: float | None) -> None:
        """Tells user and operator."""
        self.retries.append(retry)
        run, attempt = self._handle.lease.run, retry.attempt
        log.warning("model call failed", run=run, model=choice.name, attempt=attempt, error=str(error))
        self._handle.events.write(
            "notice", code=error.code, text=str(error), model=choice.name, attempt=attempt, retry_in=retry_in
        )

    def passed_over(self, choice: Choice, code: str, wait_s: float) -> None:
        """Tells the user."""
        when = f"; it may be asked again in {wait_s:.0f} s" if wait_s else ""
        text = f"{choice.name} is not asked now: {code}{when}"
        self._handle.events.write("notice", code="passed_over", text=text, model=choice.name)

    async def _stream(
        self, choice: Choice, request: Request, attempt: int, early: EarlyStart | None, wire: WireLog | None
    ) -> tuple[Completion, float | None]:
        began, first_s = time.monotonic(), None
        done: Completion | None = None
        events, thinks = self._handle.events, self._relay and self._switches.thinking != "hide"
        async with aclosing(self._services.models.stream(choice.provider, request, wire)) as items:
            async for item in items:
                if first_s is None:
                    first_s = time.monotonic() - began
                if isinstance(item, TextDelta) and self._relay:
                    events.delta("text.delta", attempt, item.text)
                elif isinstance(item, ThinkingDelta) and thinks:
                    events.delta("thinking.delta", attempt, item.text)
                elif isinstance(item, CallReady) and early is not None:
                    early.offer(item.call)
                elif isinstance(item, Completion):
                    done = item
        assert done is not None  # the client's promise: the last item is a Completion, or it raises
        return done, first_s
