"""Removes from the archive what is older than the settings say, in small batches, about once an hour."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

import structlog

from shared.settings import RetentionSettings
from shared.sql import retention
from shared.sql.engine import Database
from shared.state.archived import ArchivedState

log = structlog.get_logger(__name__)

JOB = "retention"
BATCH = 50
PAUSE_S = 0.05
"""Between batches, for those who wait to write."""

DAY_MS = 86_400_000

Sweep = Callable[..., int]
"""Takes a connection and `limit`, removes one batch, and returns how large it was."""


class Retention:
    """One coordinator has the turn; the others find it taken."""

    def __init__(self, state: ArchivedState, database: Database, settings: RetentionSettings) -> None:
        self._state = state
        self._database = database
        self._settings = settings

    async def work(self) -> dict[str, int]:
        """Does the job if it is due and nobody else does it; returns what was removed, by name.

        Raises StateUnavailable, ArchiveUnavailable; what is left is removed next time.
        """
        if not await self._state.take_turn(JOB):
            return {}
        due = sweeps(self._settings, int(time.time() * 1000))
        removed = {name: await self._all(sweep) for name, sweep in due.items()}
        removed = {name: count for name, count in removed.items() if count}
        if removed:
            log.info("removed from the archive, as its time had passed", **removed)
        return removed

    async def _all(self, sweep: Sweep) -> int:
        total = 0
        while count := await self._database.run(partial(sweep, limit=BATCH)):
            total += count
            await asyncio.sleep(PAUSE_S)
        return total


def sweeps(settings: RetentionSettings, now_ms: int) -> dict[str, Sweep]:
    """What is to be removed at a time, by name; what is kept for ever is left out. Pure."""
    kept = (
        ("runs", retention.ended_runs, settings.runs_days),
        ("sessions", retention.unused_sessions, settings.runs_days),
        ("reminders", retention.past_reminders, settings.runs_days),
        ("model_calls", retention.costs, settings.costs_days),
        ("playbook_changes", retention.playbook_changes, settings.playbook_days),
        ("retired_bullets", retention.retired_bullets, settings.playbook_days),
        ("untimed_artifacts", retention.untimed_artifacts, settings.artifacts_days),
    )
    found: dict[str, Sweep] = {
        name: partial(remove, before_ms=now_ms - days * DAY_MS) for name, remove, days in kept if days
    }
    return found | {"artifacts": partial(retention.expired_artifacts, before_ms=now_ms)}
