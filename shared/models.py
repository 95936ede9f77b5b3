"""Tiers: which models answer for what.

A tier is an ordered chain of `provider/model`; each link is asked when those before it failed or rest. A tier that is
not configured is the `default` one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from shared.errors import ConfigError
from shared.llm.provider import Provider, parse_model, providers_from
from shared.settings import ModelFacts, ModelSettings

DEFAULT_TIER: Final = "default"
WELL_KNOWN: Final = (DEFAULT_TIER, "fast", "long", "vision", "learner")
"""Tiers that parts of the system ask for; a configuration may lack all but the default one."""


@dataclass(frozen=True)
class Choice:
    """One link of a chain. `window` is the model's context in tokens, 0 if it is not known."""

    provider: Provider
    model: str
    window: int = 0
    sees: bool = True

    @property
    def name(self) -> str:
        """`provider/model`."""
        return f"{self.provider.name}/{self.model}"

    def holds(self, tokens: int) -> bool:
        """True unless a prompt of that many tokens is known not to fit."""
        return not self.window or tokens < self.window


class Tiers:
    """The configured chains, checked once. Raises ConfigError for a chain or a route that cannot work."""

    def __init__(self, settings: ModelSettings, env: Mapping[str, str] | None = None) -> None:
        self._providers = providers_from(settings, os.environ if env is None else env)
        self._about = settings.about
        self._chains = {tier: self._chain(tier, names) for tier, names in settings.tiers.items()}
        routes = settings.routes
        self._by_size = routes.long in self._chains
        named = {f"groups.{group}": tier for group, tier in routes.groups.items()}
        named |= {f"agents.{agent}": tier for agent, tier in routes.agents.items()}
        named |= {"images": routes.images, "long": routes.long}
        for where, tier in named.items():
            if tier and tier not in self._chains and tier not in WELL_KNOWN:
                known = ", ".join(sorted({*self._chains, *WELL_KNOWN}))
                raise ConfigError(f"models.routes.{where}: there is no tier {tier!r}", hint=f"known are: {known}")

    def _chain(self, tier: str, names: tuple[str, ...]) -> tuple[Choice, ...]:
        chain = tuple(self.choice(name) for name in names)
        if not chain:
            raise ConfigError(f"models.tiers.{tier} is empty", hint="name at least one provider/model, or remove it")
        if len({c.name for c in chain}) != len(chain):
            raise ConfigError(f"models.tiers.{tier} names a model twice", hint="each link must be another one")
        return chain

    def choice(self, name: str) -> Choice:
        """The model called `provider/model`. Raises ConfigError for an unknown provider."""
        provider, model = parse_model(name)
        if provider not in self._providers:
            known = ", ".join(sorted(self._providers)) or "none"
            raise ConfigError(f"model {name}: there is no provider {provider}", hint=f"configured are: {known}")
        found = self._providers[provider]
        facts = self._facts(name)
        return Choice(found, model, facts.window, facts.images and found.switches.images)

    def _facts(self, name: str) -> ModelFacts:
        if name in self._about:
            return self._about[name]
        return next((f for pattern, f in self._about.items() if fnmatchcase(name, pattern)), ModelFacts())

    def has(self, tier: str) -> bool:
        """True if the tier has a chain of its own."""
        return tier in self._chains

    @property
    def sized(self) -> bool:
        """True if a choice depends on the size of the prompt."""
        return self._by_size or any(choice.window for chain in self._chains.values() for choice in chain)

    def chain(self, tier: str) -> tuple[Choice, ...]:
        """The chain of a tier. Raises ConfigError if there is neither it nor a default."""
        chain = self._chains.get(tier) or self._chains.get(DEFAULT_TIER)
        if not chain:
            raise ConfigError(
                "no model is configured",
                hint="set models.tiers.default in capataz.toml, or start with `capataz up`, which finds one",
            )
        return chain


@dataclass(frozen=True)
class Payer:
    """For whom models are called. `group` is the tool group, or the groups, that the call serves."""

    principal: str = ""
    session: str = ""
    run: str = ""
    group: str = ""
    dollars: bool = False
    """True if a bound in dollars of its own is in force."""


PAYER: ContextVar[Payer | None] = ContextVar("payer", default=None)
"""Whom the task at hand works for; set around each tool call."""


def fitting(chain: Sequence[Choice], *, images: bool, tokens: int) -> tuple[Choice, ...]:
    """The links that can take a prompt of that size, and see if it has images; all of them where none can."""
    for keep in (
        [c for c in chain if c.holds(tokens) and (c.sees or not images)],
        [c for c in chain if c.holds(tokens)],
    ):
        if keep:
            return tuple(keep)
    return tuple(chain)
