"""From inboxes to runnable sessions: the alarm clock that wakes this process, and the routing that follows."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import redis.asyncio
import redis.exceptions
import structlog

from coordinator.context.agent import Agents
from coordinator.inbox import classify, reject
from coordinator.restore import Restorer
from shared.artifacts import ArtifactStore
from shared.client import stream_rows
from shared.errors import StateUnavailable, UserError
from shared.messages import Attachment, QueuedMessage
from shared.names import LOCAL_PRINCIPAL
from shared.settings import LimitSettings, Settings
from shared.state import keys
from shared.state.runs import RunState

log = structlog.get_logger(__name__)

BLOCK_MS = 1000
PAUSE_S = 0.5
PAGE = 200
"""Entries of an inbox that are routed in one trip."""


async def _nothing() -> None:
    """Nothing follows."""


class Intake:
    """Routes what is in the inboxes of all principals."""

    def __init__(
        self, state: RunState, settings: Settings, agents: Agents, artifacts: ArtifactStore, restorer: Restorer
    ) -> None:
        self._state = state
        self._settings = settings
        self._agents = agents
        self._artifacts = artifacts
        self._restorer = restorer
        self._lock = asyncio.Lock()
        self.inboxes = tuple(keys.inbox(p) for p in (LOCAL_PRINCIPAL, *settings.principals))

    async def work(self, then: Callable[[], Awaitable[None]] = _nothing) -> int:
        """Routes everything that is there; returns how many entries were taken.

        Inboxes are served a page at a time in turn, so that nobody waits for another's flood. `then` is called together
        with each routing, so that its command travels in the same trip, right behind.
        """
        taken, more = 0, True
        async with self._lock:
            while more:
                more = False
                for inbox in self.inboxes:
                    if entries := await self._state.read_inbox(inbox, PAGE):
                        routed = await self._route(inbox, entries, then)
                        taken += routed
                        if routed and len(entries) == PAGE:  # else it is empty, or another coordinator is faster
                            more = True
                            taken += await self._turn_away(inbox)
        return taken

    async def _route(
        self, inbox: str, entries: list[tuple[str, dict[str, str]]], then: Callable[[], Awaitable[None]]
    ) -> int:
        decisions = await self._restorer.look_up(keys.principal_of(inbox), self._decisions(inbox, entries))
        for decision in decisions:
            if decision["action"] == "message" and '"data"' in decision["payload"]:
                decision["payload"] = await self._store(decision["payload"])
        routed, _ = await asyncio.gather(self._state.route(inbox, keys.principal_of(inbox), decisions), then())
        return routed

    async def _turn_away(self, inbox: str) -> int:
        """Answers a page of what lies beyond the inbox's limit at once, the newest first.

        Whoever came late learns it without waiting for those before, which stay. Entries that control runs stay too:
        they are few, and what they are about may still be in the inbox.
        """
        entries = await self._state.inbox_beyond(inbox, self._settings.limits.inbox_entries, PAGE)
        decisions = [
            decision | {"beyond": True, "payload": ""}
            for decision in self._decisions(inbox, entries)
            if decision["action"] in ("message", "reject")
        ]
        return await self._state.route(inbox, keys.principal_of(inbox), decisions)

    def _decisions(self, inbox: str, entries: list[tuple[str, dict[str, str]]]) -> list[dict[str, Any]]:
        principal, limits, names = keys.principal_of(inbox), self._settings.limits, self._agents.names()
        return [_judged(entry_id, fields, principal, limits, names) for entry_id, fields in entries]

    async def _store(self, payload: str) -> str:
        """Puts inline attachments into the artifact store; the queue and the log carry their handles."""
        message = QueuedMessage.model_validate_json(payload)
        stored: list[Attachment] = []
        for attachment in message.attachments:
            if not attachment.data:
                stored.append(attachment)
                continue
            data = base64.b64decode(attachment.data)
            handle = await self._artifacts.put(message.principal, data, attachment.media_type)
            stored.append(attachment.model_copy(update={"artifact": handle, "data": ""}))
        return message.model_copy(update={"attachments": tuple(stored)}).model_dump_json(exclude_defaults=True)


def _judged(
    entry_id: str, fields: dict[str, str], principal: str, limits: LimitSettings, agents: Collection[str]
) -> dict[str, Any]:
    """The decision on one entry. A fault of ours in judging it refuses this entry, and stops no other."""
    try:
        return classify(entry_id, fields, principal, limits, agents)
    except Exception:
        log.exception("an inbox entry could not be judged", entry=entry_id)
        return reject(entry_id, fields, UserError("this entry could not be read", code="internal"))


class Alarm:
    """Wakes one coordinator per inbox entry. Its consumer group is nothing but that: entries stay until routed."""

    def __init__(self, client: redis.asyncio.Redis, coordinator: str, inboxes: tuple[str, ...]) -> None:
        self._client = client
        self._coordinator = coordinator
        self._inboxes = inboxes

    async def ring(self) -> bool:
        """Waits up to a second; True if an entry arrived. Raises StateUnavailable."""
        try:
            streams: dict[Any, Any] = dict.fromkeys(self._inboxes, ">")
            rows = await self._client.xreadgroup(
                keys.GROUP, self._coordinator, streams, count=100, block=BLOCK_MS, noack=True
            )
            return any(True for _ in stream_rows(rows))
        except redis.exceptions.ResponseError as error:
            if not str(error).startswith("NOGROUP"):
                raise StateUnavailable(f"cannot read the inbox: {error}") from error
            await self._make_groups()
            return True
        except (redis.exceptions.RedisError, OSError) as error:
            raise StateUnavailable(f"cannot read the inbox: {error}") from error

    async def _make_groups(self) -> None:
        for inbox in self._inboxes:
            try:
                await self._client.xgroup_create(inbox, keys.GROUP, id="$", mkstream=True)
            except redis.exceptions.ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise StateUnavailable(f"cannot read the inbox {inbox}: {error}") from error


class Hints:
    """The process's hint stream."""

    def __init__(self, client: redis.asyncio.Redis, coordinator: str) -> None:
        self._client = client
        self._key = keys.hints(coordinator)
        self._last = "0"

    async def read(self) -> list[dict[str, str]]:
        """Waits up to a second for hints. Raises StateUnavailable."""
        try:
            rows = await self._client.xread({self._key: self._last}, count=1000, block=BLOCK_MS)
        except (redis.exceptions.RedisError, OSError) as error:
            raise StateUnavailable(f"cannot read hints: {error}") from error
        found = []
        for entry_id, fields in stream_rows(rows):
            self._last = entry_id
            found.append(fields)
        return found
