"""What the calls of a tool cost: each a row of the bill, and together a part of what its node and run cost."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal

import structlog

from shared.contract import NodeResult, Usage
from shared.errors import ArchiveUnavailable
from shared.sql import costs
from shared.sql.engine import Database

log = structlog.get_logger(__name__)


@dataclass
class Tab:
    """What one tool call has spent on models and services so far. `cost` in dollars, None once a model's price is not
    known."""

    usage: Usage = field(default_factory=Usage)
    cost: Decimal | None = Decimal(0)
    calls: int = 0

    def add(self, calls: Sequence[costs.Call]) -> None:
        """Counts calls. One without tokens and price (a service that has none set) is in the bill alone."""
        for call in calls:
            if call.cost is None and not call.usage.total:
                continue
            self.calls += 1
            self.usage = self.usage + call.usage
            self.cost = None if self.cost is None or call.cost is None else self.cost + call.cost

    def put_on(self, result: NodeResult) -> NodeResult:
        """The result with what was spent, if anything was."""
        if not self.calls:
            return result
        cost = None if self.cost is None else f"{self.cost:f}"
        return result.model_copy(update={"usage": self.usage, "cost": cost})


TAB: ContextVar[Tab | None] = ContextVar("tab", default=None)
"""Where the task at hand counts what it spends; set around each tool call."""


class Bill:
    """The bill of a worker: writes calls into the archive, and counts them for the tool call that made them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, calls: Sequence[costs.Call]) -> None:
        """Never raises for an archive that is away: the answer is there."""
        if (tab := TAB.get()) is not None:
            tab.add(calls)
        try:
            await self._database.run(lambda conn: costs.add(conn, calls))
        except ArchiveUnavailable as error:
            log.warning("the cost of calls is not recorded", calls=len(calls), error=str(error))
