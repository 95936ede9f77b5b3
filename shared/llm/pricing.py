"""What a call cost, in exact decimals of US dollars. Pure, apart from reading the price table.

A model without a known price costs None, never zero: a sum that cannot be known is shown as unknown.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from shared.errors import ConfigError
from shared.llm.model import Usage

_MILLION = Decimal(1_000_000)
# A dated snapshot costs what its family costs: claude-x-20251001, gpt-x-2026-04-23, x-latest.
_SNAPSHOT = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$")

Money = Annotated[
    Decimal, BeforeValidator(lambda value: str(value) if isinstance(value, float) else value), Field(ge=0)
]


class Price(BaseModel):
    """USD per million tokens of each class. `above`: for calls whose prompt has more tokens than this."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: str
    model: str
    as_of: date
    above: int = Field(default=0, ge=0)
    input: Money
    output: Money
    cache_read: Money | None = None
    cache_write: Money | None = None
    reasoning: Money | None = None

    def cost(self, usage: Usage) -> Decimal:
        """USD for the tokens of one call."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        reasoning = self.output if self.reasoning is None else self.reasoning
        total = (
            usage.input * self.input
            + usage.cache_read * read
            + usage.cache_write * write
            + usage.output * self.output
            + usage.reasoning * reasoning
        )
        return total / _MILLION


class PriceTable:
    """Prices by provider and model. Of equal entries the later one counts."""

    def __init__(self, prices: Iterable[Price]) -> None:
        self._prices: dict[tuple[str, str], dict[int, Price]] = {}
        for price in prices:
            self._prices.setdefault((price.provider, price.model), {})[price.above] = price

    def find(self, provider: str, model: str, prompt_tokens: int = 0) -> Price | None:
        """The price of a call with a prompt of that many tokens, or None if it is not known.

        `provider` is a provider's preset, or its name if it has none.
        """
        name = model.removeprefix("models/")
        for candidate in (name, _SNAPSHOT.sub("", name), "*"):
            bands = self._prices.get((provider, candidate))
            fitting = [above for above in bands if above < prompt_tokens or above == 0] if bands else []
            if bands and fitting:
                return bands[max(fitting)]
        return None

    def cost(self, provider: str, model: str, usage: Usage) -> Decimal | None:
        """USD for one call, or None if the price is not known. Do not sum calls first: bands go by the call."""
        price = self.find(provider, model, usage.input + usage.cache_read + usage.cache_write)
        return None if price is None else price.cost(usage)


def load_prices(extra: Path | None = None) -> PriceTable:
    """The shipped table, and above it that of `extra`, if the file exists. Raises ConfigError for a bad entry."""
    shipped = files("shared.llm").joinpath("prices.toml").read_text("utf-8")
    prices = _parse(shipped, "prices.toml")
    if extra is not None and extra.is_file():
        prices += _parse(extra.read_text("utf-8"), str(extra))
    return PriceTable(prices)


def _parse(text: str, source: str) -> list[Price]:
    try:
        entries: Any = tomllib.loads(text, parse_float=Decimal).get("price", [])
        return [Price.model_validate(entry) for entry in entries]
    except (tomllib.TOMLDecodeError, ValidationError, AttributeError, TypeError) as error:
        raise ConfigError(f"{source} is not a price table: {error}", hint="see shared/llm/prices.toml") from error
