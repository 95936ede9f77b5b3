"""What a tool gets to see: who calls, for which node, until when, and the services of this worker.

Everything that touches the outside (SQL, artifacts, session state, models, HTTP, the clock) is behind a protocol
here, so that a tool runs the same in a worker and in a test.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic import JsonValue

from shared.contract import Catalogue
from shared.settings import Settings

if TYPE_CHECKING:
    import httpx
    from sqlalchemy import Connection

    from shared.artifacts import ArtifactStore
    from shared.entries import Stored
    from shared.llm.model import Completion, Request
    from shared.sql.costs import Call
    from shared.state.gate import Gate
    from shared.state.session import Fact

T = TypeVar("T")

PROGRESS_CHARS = 500


class StateView(Protocol):
    """The session state that tools may read and write."""

    async def facts(self, session: str) -> dict[str, Fact]:
        """All facts of the session by name."""
        ...

    async def set_fact(self, session: str, name: str, value: JsonValue, expected_version: int | None, by: str) -> int:
        """Sets one fact and returns its new version.

        With `expected_version` (0: it must not exist yet) raises StateConflict when another version is there.
        """
        ...

    async def catalogue(self) -> Catalogue:
        """What all live workers offer together."""
        ...

    async def todo(self, session: str) -> list[dict[str, JsonValue]]:
        """The session's todo list, in order; each item has `text` and `state`."""
        ...

    async def set_todo(self, session: str, items: list[dict[str, JsonValue]]) -> None:
        """Replaces the session's todo list."""
        ...

    async def log(self, session: str) -> list[Stored]:
        """The session's log, oldest entry first."""
        ...


class SqlRunner(Protocol):
    """The SQL archive: `run` calls a function with a connection inside one transaction, off the event loop."""

    async def run(self, fn: Callable[[Connection], T]) -> T:
        """Runs `fn` in a transaction of its own. Raises ArchiveUnavailable or StateConflict."""
        ...


class TierModel(Protocol):
    """Language models by tier."""

    async def complete(self, tier: str, request: Request) -> Completion:
        """One whole answer from the first model of the tier that works; it fills in `request.model`."""
        ...


def _plain_client(**options: Any) -> httpx.AsyncClient:
    import httpx

    return httpx.AsyncClient(**options)


async def _unbilled(_calls: Sequence[Call]) -> None:
    """Costs that nobody keeps."""


@dataclass(frozen=True)
class Services:
    """The outside world of one worker process. `bill` takes what calls of paid services cost; `gate` knows
    the budgets of the day (None: there are none).

    `http` makes a client from httpx.AsyncClient's keyword arguments. `now` is the clock, in Unix seconds.
    `blocking` is the bounded executor for code that blocks (None: the event loop's own).
    """

    db: SqlRunner
    artifacts: ArtifactStore
    state: StateView
    model: TierModel
    bill: Callable[[Sequence[Call]], Awaitable[None]] = _unbilled
    gate: Gate | None = None
    http: Callable[..., httpx.AsyncClient] = _plain_client
    now: Callable[[], float] = time.time
    blocking: Executor | None = None


async def _unreported(_text: str) -> None:
    """Progress that nobody listens to."""


@dataclass(frozen=True)
class ToolContext:
    """One call's surroundings.

    `idempotency_key` is the same for every attempt of the same node or workflow step: tools pass it to services that
    can use one.
    `deadline_ms` (Unix milliseconds) is when the caller stops waiting.
    """

    principal: str
    session: str
    run: str
    node: str
    idempotency_key: str
    deadline_ms: int
    settings: Settings
    services: Services
    report: Callable[[str], Awaitable[None]] = field(default=_unreported, repr=False)

    async def progress(self, text: str) -> None:
        """Tells whoever watches the run how far this call is. Long texts are cut."""
        await self.report(text[:PROGRESS_CHARS])

    @property
    def now_ms(self) -> int:
        """The time in Unix milliseconds."""
        return int(self.services.now() * 1000)

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline, never negative."""
        return max(0.0, self.deadline_ms / 1000 - self.services.now())
