"""The client for asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import redis.asyncio

from shared.client.wire import (
    COMMAND_S,
    POLL_S,
    TERMINAL,
    Submitted,
    event_of,
    is_behind,
    new_command,
    new_message,
    plain,
    playbook_command,
    schedule_command,
    stream_rows,
)
from shared.entries import Event, Stored, Waiting, decode
from shared.ids import nonce, run_of
from shared.messages import Command, Control, Reply, as_fields
from shared.names import LOCAL_PRINCIPAL
from shared.state import keys
from shared.state.connection import connect, mapped


class AsyncClient:
    """The same for asyncio: `submit`, `wait`, `ask`, `stream`, `control`, `cancel`, `approve`, `deny`, `answer`,
    `waiting`, `undo`, `fork`, `set`, `schedule`, `playbook`, `history`."""

    def __init__(self, client: redis.asyncio.Redis, url: str, principal: str = LOCAL_PRINCIPAL) -> None:
        self._redis = client
        self._url = url
        self._principal = principal

    @classmethod
    def connect(cls, url: str, principal: str = LOCAL_PRINCIPAL) -> AsyncClient:
        """A client of the state Redis at `url`."""
        return cls(connect(url), url, principal)

    async def submit(self, text: str, *, session: str | None = None, **fields: Any) -> Submitted:
        """Puts a message into the inbox."""
        message = new_message(text, session, fields, self._principal)
        with mapped():
            entry = await self._redis.xadd(keys.inbox(self._principal), as_fields(message))  # type: ignore[arg-type]
        return Submitted(message.id or "", message.session, str(entry), message.reply_to or "")

    async def wait(self, submitted: Submitted, timeout: float = 300.0) -> Reply:
        """The reply to a submission. Raises TimeoutError after `timeout` seconds.

        The list is polled with short blocking reads that are never cancelled half way: a cancelled BLPOP can
        lose what it took.
        """
        deadline = time.monotonic() + timeout
        key = keys.reply(submitted.reply_to)
        async with connect(self._url, blocking=True, connections=2) as blocking:
            while (left := deadline - time.monotonic()) > 0:
                with mapped():
                    pop = asyncio.ensure_future(blocking.blpop([key], timeout=min(POLL_S, max(left, 0.01))))
                    row: Any = await asyncio.shield(pop)
                if row is not None:
                    return Reply.model_validate_json(row[1])
        raise TimeoutError(f"no answer within {timeout:g} s; the run goes on, read it with `history`")

    async def ask(self, text: str, *, session: str | None = None, timeout: float = 300.0, **fields: Any) -> Reply:
        """Submits and waits."""
        return await self.wait(await self.submit(text, session=session, **fields), timeout)

    async def stream(self, session: str, *, after: str = "0", run: str | None = None) -> AsyncIterator[Event]:
        """Events of a session behind `after`, as they come. With `run`, ends after that run's last event."""
        async with connect(self._url, blocking=True, connections=2) as blocking:
            if await blocking.exists(keys.events(session)):
                info: Any = await blocking.xinfo_stream(keys.events(session))
                if is_behind(info, after):
                    history = [plain(e) for e in await self.history(session)]
                    yield Event(id=after, type="snapshot", data={"behind": True, "history": history})
            while True:
                with mapped():
                    rows: Any = await blocking.xread({keys.events(session): after}, count=500, block=int(POLL_S * 1000))
                for entry_id, fields in stream_rows(rows):
                    after = entry_id
                    event = event_of(entry_id, fields)
                    yield event
                    if run is not None and event.run == run and event.type in TERMINAL:
                        return

    async def control(self, kind: str, *, session: str | None = None, run: str | None = None, **fields: Any) -> Reply:
        """Sends a control entry and waits for its acknowledgement."""
        control = Control(kind=kind, session=session, run=run, reply_to=f"c-{nonce()}", **fields)  # type: ignore[arg-type]
        with mapped():
            await self._redis.xadd(keys.inbox(self._principal), as_fields(control))  # type: ignore[arg-type]
        return await self.wait(Submitted("", session or "", "", control.reply_to or ""), 10.0)

    async def cancel(self, *, session: str | None = None, run: str | None = None) -> Reply:
        """Cancels a run, or the active run of a session."""
        return await self.control("cancel", session=session, run=run)

    async def approve(self, node: str, scope: str = "once") -> Reply:
        """Approves a node that waits for it."""
        return await self.control("approve", run=run_of(node), node=node, scope=scope)

    async def deny(self, node: str, text: str = "") -> Reply:
        """Refuses what a node waits for."""
        return await self.control("deny", run=run_of(node), node=node, text=text)

    async def answer(self, node: str, text: str) -> Reply:
        """Answers the question of a node."""
        return await self.control("answer", run=run_of(node), node=node, text=text)

    async def waiting(self, session: str) -> list[Waiting]:
        """Approvals and questions of a session that are open, oldest first."""
        with mapped():
            rows: Any = await self._redis.hgetall(keys.waits(session))
        return [Waiting.model_validate_json(rows[node]) for node in sorted(rows)]

    async def _order(self, command: Command, timeout: float = COMMAND_S) -> Reply:
        with mapped():
            await self._redis.xadd(keys.inbox(self._principal), as_fields(command))  # type: ignore[arg-type]
        return await self.wait(Submitted(command.id or "", command.session, "", command.reply_to or ""), timeout)

    async def undo(self, session: str) -> Reply:
        """Takes the newest turn of a session back."""
        return await self._order(new_command(session, "undo", {}))

    async def fork(self, session: str, to: str, *, at: str = "") -> Reply:
        """Copies a session to a new one called `to`: all turns that had ended by the log entry `at`."""
        return await self._order(new_command(session, "fork", {"to": to, "at": at or None}))

    async def set(
        self, session: str, *, model: str | None = None, thinking: str | None = None, debug: str | None = None
    ) -> Reply:
        """Changes how a session goes on, from the next step on."""
        return await self._order(new_command(session, "set", {"model": model, "thinking": thinking, "debug": debug}))

    async def schedule(self, do: str, *, session: str, timeout: float = COMMAND_S, **order: Any) -> Reply:
        """Adds, changes or deletes (`do`) a schedule; `order` are fields of `messages.ScheduleOrder`."""
        return await self._order(schedule_command(session, do, order), timeout)

    async def playbook(self, do: str, bullet: str, *, session: str, timeout: float = COMMAND_S, **order: Any) -> Reply:
        """Pins, unpins, edits or forgets (`do`) what was learned; `order` are fields of `messages.PlaybookOrder`."""
        return await self._order(playbook_command(session, do, bullet, order), timeout)

    async def history(self, session: str) -> list[Stored]:
        """The session's log."""
        with mapped():
            rows: Any = await self._redis.xrange(keys.log(session))
        return [decode(i, f) for i, f in rows]

    async def aclose(self) -> None:
        """Closes the connection."""
        await self._redis.aclose()
