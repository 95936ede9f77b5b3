"""One step's model call: attempts with backoff, then the next model of the chain; deltas relayed as they come."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from dataclasses import dataclass

import structlog

from coordinator.handle import Handle
from coordinator.loop.services import LoopServices
from shared.llm.errors import LlmError
from shared.llm.model import Completion, Request, TextDelta, ThinkingDelta
from shared.llm.retry import next_delay
from shared.models import Choice

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Answer:
    """A whole completion, who gave it, and which attempt of the step it was (from 1)."""

    completion: Completion
    choice: Choice
    attempt: int


async def call_model(
    handle: Handle, services: LoopServices, request: Request, chain: tuple[Choice, ...], step: int
) -> Answer:
    """The step's answer. Raises the last LlmError when every model of the chain failed; RunCancelled on a cancel."""
    settings = services.settings.models
    rng = random.Random()
    attempt = 0
    last: LlmError | None = None
    for choice in chain:
        wanted = request.model_copy(update={"model": choice.model})
        for tried in range(1, settings.attempts + 1):
            attempt += 1
            kind = "step.started" if attempt == 1 else "step.restarted"
            handle.events.write(
                kind, step=step, attempt=attempt, model=choice.name, rehearsal=choice.provider.rehearsal
            )
            try:
                completion = await handle.race(_stream(handle, services, choice, wanted, attempt))
                return Answer(completion, choice, attempt)
            except LlmError as error:
                last = error
                log.warning("model call failed", run=handle.lease.run, model=choice.name, tried=tried, error=str(error))
                delay = next_delay(tried, error, rng, attempts=settings.attempts)
                handle.events.write(
                    "notice", code=error.code, text=str(error), model=choice.name, attempt=attempt, retry_in=delay
                )
                if delay is None:
                    break
                await handle.race(asyncio.sleep(delay))
    assert last is not None  # a chain is never empty
    raise last


async def _stream(handle: Handle, services: LoopServices, choice: Choice, request: Request, attempt: int) -> Completion:
    done: Completion | None = None
    async with aclosing(services.models.stream(choice.provider, request)) as items:
        async for item in items:
            if isinstance(item, TextDelta):
                handle.events.delta("text.delta", attempt, item.text)
            elif isinstance(item, ThinkingDelta):
                handle.events.delta("thinking.delta", attempt, item.text)
            elif isinstance(item, Completion):
                done = item
    assert done is not None  # the client's promise: the last item is a Completion, or it raises
    return done
