"""What calls of the media services cost: the settings' prices by picture, minute and character; rows of the bill."""

from __future__ import annotations

import io
import time
import wave
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

from shared.errors import ModelError
from shared.failover import budget_spent
from shared.ids import nonce
from shared.llm.model import Usage
from shared.models import PAYER, Payer
from shared.settings import Settings
from shared.sql.costs import OK, Call
from shared.state.gate import Ask
from workers.context import ToolContext

Kind = Literal["image", "transcription", "speech"]

PROVIDER: Final = "media"
_UNITS: Final = {
    "image": "price_per_image",
    "transcription": "price_per_minute",
    "speech": "price_per_million_characters",
}
_BYTES_PER_SECOND: Final = 16_000
"""Of a recording whose length nobody tells: 128 kbit/s."""


def price(settings: Settings, kind: Kind) -> Decimal | None:
    """Dollars for one unit of that service; None if it is not known.

    Raises ModelError if so and a budget in dollars of the installation could not hold.
    """
    known: Decimal | None = getattr(getattr(settings.media, kind), _UNITS[kind])
    budget = settings.budget
    bounded = budget.dollars or budget.user_day_dollars or budget.day_dollars
    if known is None and bounded and budget.unpriced == "refuse":
        raise ModelError(
            f"a budget in dollars is in force, and nobody knows what the {kind} service costs; nothing was done",
            hint=f"tell the user: the operator sets media.{kind}.{_UNITS[kind]}",
            code="unpriced",
        )
    return known


def seconds_of(data: bytes, ending: str, answer: Any) -> tuple[float, bool]:
    """How long a recording is, and whether that is a guess: by the service, by its header, else by its size."""
    told = answer.get("usage") if isinstance(answer, dict) else None
    length = answer.get("duration") if isinstance(answer, dict) else None
    for found in (told.get("seconds") if isinstance(told, dict) else None, length):
        if isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found < 10**6:
            return float(found), False
    if ending == "wav":
        try:
            with wave.open(io.BytesIO(data)) as sound:
                return sound.getnframes() / (sound.getframerate() or 1), False
        except (wave.Error, EOFError):
            pass
    return len(data) / _BYTES_PER_SECOND, True


@dataclass
class Paid:
    """A call that is made: `answered` once the service did its work, then at `dollars` (None: nobody knows)."""

    answered: bool = False
    dollars: Decimal | None = None
    estimated: bool = False

    def settle(self, dollars: Decimal | None, *, estimated: bool = False) -> None:
        """The service has answered, for that price."""
        self.answered, self.dollars, self.estimated = True, dollars, estimated


@asynccontextmanager
async def paid(ctx: ToolContext, kind: Kind, guess: Decimal | None) -> AsyncIterator[Paid]:
    """Around a call of a media service: it passes the budgets of the day, and comes on the bill once it is settled.

    `guess` is what it may cost, in dollars. Raises BudgetSpent if a budget leaves no room.
    """
    call, started = Paid(), time.monotonic()
    gate = ctx.services.gate
    ticket = None
    if gate is not None and gate.bounded:
        model = f"{PROVIDER}/{_model(ctx, kind)}"
        verdict = await gate.enter(Ask(model, PROVIDER, principal=ctx.principal, dollars=guess or Decimal(0)))
        if verdict.kind == "spent":
            raise budget_spent(verdict)
        ticket = verdict.ticket
    try:
        yield call
    finally:
        if gate is not None and ticket is not None:
            await gate.leave(ticket, "none", dollars=call.dollars)
        if call.answered:
            await ctx.services.bill([_row(ctx, kind, call, started)])


def _model(ctx: ToolContext, kind: Kind) -> str:
    return str(getattr(ctx.settings.media, kind).model)


def _row(ctx: ToolContext, kind: Kind, call: Paid, started: float) -> Call:
    return Call(
        id=f"{ctx.run}.{nonce()}",
        at_ms=ctx.now_ms,
        payer=PAYER.get() or Payer(ctx.principal, ctx.session, ctx.run, "media"),
        tier=kind,
        provider=PROVIDER,
        model=_model(ctx, kind),
        outcome=OK,
        usage=Usage(estimated=call.estimated),
        cost=call.dollars,
        took_ms=int((time.monotonic() - started) * 1000),
    )
