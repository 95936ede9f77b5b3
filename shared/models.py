"""Tiers: which models answer for what, and one whole answer from the first of a chain that works.

A tier is an ordered chain of `provider/model`. A tier that is not configured is the `default` one.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from shared.errors import ConfigError
from shared.llm.client import ModelClient, Timeouts
from shared.llm.errors import LlmError
from shared.llm.model import Completion, Request
from shared.llm.provider import Provider, parse_model, providers_from
from shared.llm.retry import next_delay
from shared.settings import ModelSettings

log = structlog.get_logger(__name__)

DEFAULT_TIER = "default"


@dataclass(frozen=True)
class Choice:
    """One link of a chain."""

    provider: Provider
    model: str

    @property
    def name(self) -> str:
        """`provider/model`."""
        return f"{self.provider.name}/{self.model}"


class Tiers:
    """The configured chains."""

    def __init__(self, settings: ModelSettings, env: Mapping[str, str] | None = None) -> None:
        self._providers = providers_from(settings, os.environ if env is None else env)
        self._chains = {tier: self._chain(tier, names) for tier, names in settings.tiers.items()}

    def _chain(self, tier: str, names: tuple[str, ...]) -> tuple[Choice, ...]:
        chain = tuple(self.choice(name) for name in names)
        if len({c.name for c in chain}) != len(chain):
            raise ConfigError(f"models.tiers.{tier} names a model twice", hint="each link must be another one")
        return chain

    def choice(self, name: str) -> Choice:
        """The model called `provider/model`. Raises ConfigError for an unknown provider."""
        provider, model = parse_model(name)
        if provider not in self._providers:
            known = ", ".join(sorted(self._providers)) or "none"
            raise ConfigError(f"model {name}: there is no provider {provider}", hint=f"configured are: {known}")
        return Choice(self._providers[provider], model)

    def chain(self, tier: str) -> tuple[Choice, ...]:
        """The chain of a tier. Raises ConfigError if there is neither it nor a default."""
        chain = self._chains.get(tier) or self._chains.get(DEFAULT_TIER)
        if not chain:
            raise ConfigError(
                "no model is configured",
                hint="set models.tiers.default in capataz.toml, or start with `capataz up`, which finds one",
            )
        return chain


class TierClient:
    """One whole answer from a tier: retries with backoff, then the next link of the chain."""

    def __init__(self, settings: ModelSettings) -> None:
        self._tiers = Tiers(settings)
        self._attempts = settings.attempts
        self._client = ModelClient(timeouts=Timeouts.of(settings))
        self._rng = random.Random()

    async def complete(self, tier: str, request: Request) -> Completion:
        """Fills in `request.model`. Raises the last LlmError when every link failed."""
        last: LlmError | None = None
        for choice in self._tiers.chain(tier):
            for attempt in range(1, self._attempts + 1):
                try:
                    wanted = request.model_copy(update={"model": choice.model})
                    return await self._client.complete(choice.provider, wanted)
                except LlmError as error:
                    last = error
                    delay = next_delay(attempt, error, self._rng, attempts=self._attempts)
                    log.warning("model call failed", model=choice.name, attempt=attempt, error=str(error))
                    if delay is None:
                        break
                    await asyncio.sleep(delay)
        assert last is not None  # a chain is never empty
        raise last

    async def aclose(self) -> None:
        """Closes connections."""
        await self._client.aclose()
