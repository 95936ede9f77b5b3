"""The Python client: `Client` for scripts and command lines, `AsyncClient` for asyncio. Both speak only Redis.

    client = Client.connect("redis://localhost:6379")
    print(client.ask("what time is it in Madrid?").answer)

Every submission gets an id, so a repeat after a lost connection is the same run.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
import redis.asyncio
import redis.exceptions

from shared.catalogue import merge_catalogues
from shared.contract import Catalogue, WorkerInfo
from shared.entries import Event, Stored, decode
from shared.errors import StateUnavailable
from shared.ids import nonce, sortable_id
from shared.messages import Control, Message, Reply, as_fields
from shared.names import LOCAL_PRINCIPAL
from shared.state import keys
from shared.state.connection import connect, connect_sync, mapped

POLL_S = 1.0
LIVE_MS = 5000
_TERMINAL = ("run.finished", "run.failed")


@dataclass(frozen=True)
class Submitted:
    """What was put into the inbox. `reply_to` names the list on which the answer will arrive."""

    id: str
    session: str
    entry: str
    reply_to: str


def _message(text: str, session: str | None, fields: dict[str, Any], principal: str) -> Message:
    # A user's sessions begin with the user's name, so that access rules by key pattern can tell them apart.
    own = sortable_id() if principal == LOCAL_PRINCIPAL else f"{principal}.{sortable_id()}"
    values: dict[str, Any] = {"session": session or own, "text": text, "id": sortable_id()}
    values["reply_to"] = f"c-{nonce()}"
    values.update({k: v for k, v in fields.items() if v is not None})
    return Message(**values)


def _event(entry_id: str, fields: dict[str, str]) -> Event:
    return Event(id=entry_id, type=fields["type"], run=fields.get("run", ""), data=json.loads(fields["data"] or "{}"))


def _behind(info: dict[str, Any], after: str) -> bool:
    """True if entries behind `after` have been trimmed away: then the oldest one left is a later one."""
    first = info.get("first-entry")
    trimmed = int(info.get("entries-added", 0)) > int(info.get("length", 0))
    return bool(trimmed and first and after not in ("0", "0-0") and _number(str(first[0])) > _number(after))


def _number(entry_id: str) -> tuple[int, int]:
    ms, _, seq = entry_id.partition("-")
    return int(ms or 0), int(seq or 0)


class Client:
    """A synchronous client. `principal` picks the inbox; the Redis user must be allowed to write there."""

    def __init__(self, client: redis.Redis, url: str, principal: str = LOCAL_PRINCIPAL) -> None:
        self._redis = client
        self._url = url
        self._principal = principal

    @classmethod
    def connect(cls, url: str, principal: str = LOCAL_PRINCIPAL) -> Client:
        """A client of the state Redis at `url` (redis://, rediss:// or unix://)."""
        return cls(connect_sync(url), url, principal)

    @classmethod
    def local(cls, data_dir: Path = Path(".capataz")) -> Client:
        """A client of the system that `capataz up` runs on this data folder. Raises StateUnavailable if none does."""
        try:
            url = json.loads((data_dir / "run.json").read_text("utf-8"))["redis_url"]
        except FileNotFoundError as error:
            raise StateUnavailable(f"no system runs on {data_dir}", hint="start one with `capataz up`") from error
        return cls.connect(url)

    def submit(self, text: str, *, session: str | None = None, **fields: Any) -> Submitted:
        """Puts a message into the inbox. `fields` are those of `messages.Message` (agent, mode, tools, budget …)."""
        return self._put(_message(text, session, fields, self._principal))

    def submit_workflow(self, name: str, *, session: str, **fields: Any) -> Submitted:
        """Starts a workflow in `session`."""
        return self._put(_message("", session, {"kind": "workflow", "workflow": name, **fields}, self._principal))

    def _put(self, message: Message) -> Submitted:
        with mapped():
            entry = self._redis.xadd(keys.inbox(self._principal), as_fields(message))  # type: ignore[arg-type]
        return Submitted(message.id or "", message.session, str(entry), message.reply_to or "")

    def wait(self, submitted: Submitted, timeout: float = 300.0) -> Reply:
        """The reply to a submission. Raises TimeoutError after `timeout` seconds; the run goes on all the same."""
        with mapped(), connect_sync(self._url, blocking=True) as blocking:
            row = blocking.blpop([keys.reply(submitted.reply_to)], timeout=timeout)
        if row is None:
            raise TimeoutError(f"no answer within {timeout:g} s; the run goes on, read it with `history`")
        return Reply.model_validate_json(row[1])

    def ask(self, text: str, *, session: str | None = None, timeout: float = 300.0, **fields: Any) -> Reply:
        """Submits and waits."""
        return self.wait(self.submit(text, session=session, **fields), timeout)

    def last_event(self, session: str) -> str:
        """The id of the newest event of a session, to stream from; "0" if there is none."""
        with mapped():
            rows: Any = self._redis.xrevrange(keys.events(session), count=1)
        return str(rows[0][0]) if rows else "0"

    def stream(
        self, session: str, *, after: str = "0", run: str | None = None, timeout: float | None = None
    ) -> Iterator[Event]:
        """Events of a session behind `after`, as they come. With `run`, ends after that run's last event.

        A reader that fell behind the trim first gets a `snapshot` event with the history. Raises TimeoutError
        when nothing came for `timeout` seconds.
        """
        with mapped(), connect_sync(self._url, blocking=True) as blocking:
            if blocking.exists(keys.events(session)):
                info: Any = blocking.xinfo_stream(keys.events(session))
                if _behind(info, after):
                    yield self._snapshot(session, after)
            quiet = 0.0
            while timeout is None or quiet < timeout:
                rows: Any = blocking.xread({keys.events(session): after}, count=500, block=int(POLL_S * 1000))
                quiet = 0.0 if rows else quiet + POLL_S
                for entry_id, fields in stream_rows(rows):
                    after = entry_id
                    event = _event(entry_id, fields)
                    yield event
                    if run is not None and event.run == run and event.type in _TERMINAL:
                        return
        raise TimeoutError(f"no event for {timeout:g} s")

    def _snapshot(self, session: str, after: str) -> Event:
        entries = [_plain(e) for e in self.history(session)]
        return Event(id=after, type="snapshot", data={"behind": True, "history": entries})

    def control(self, kind: str, *, session: str | None = None, run: str | None = None, **fields: Any) -> Reply:
        """Sends a control entry (cancel, steer, approve, deny, answer) and waits for its acknowledgement."""
        control = Control(kind=kind, session=session, run=run, reply_to=f"c-{nonce()}", **fields)  # type: ignore[arg-type]
        with mapped():
            self._redis.xadd(keys.inbox(self._principal), as_fields(control))  # type: ignore[arg-type]
        return self.wait(Submitted("", session or "", "", control.reply_to or ""), 10.0)

    def cancel(self, *, session: str | None = None, run: str | None = None) -> Reply:
        """Cancels a run, or the active run of a session."""
        return self.control("cancel", session=session, run=run)

    def approve(self, run: str, node: str, scope: str = "once") -> Reply:
        """Approves a node that waits for it."""
        return self.control("approve", run=run, node=node, scope=scope)

    def history(self, session: str) -> list[Stored]:
        """The session's log."""
        with mapped():
            rows: Any = self._redis.xrange(keys.log(session))
        return [decode(i, f) for i, f in rows]

    def runs(self, limit: int = 50) -> list[dict[str, Any]]:
        """Recent runs, newest first: run, session, principal, state, times in ms, reply."""
        with mapped():
            ids: Any = self._redis.zrevrange(keys.RECENT, 0, limit - 1)
            pipe = self._redis.pipeline(transaction=False)
            for rid in ids:
                pipe.hgetall(keys.run(rid))
            rows = pipe.execute()
        return [{"run": rid, **_run_row(row)} for rid, row in zip(ids, rows, strict=True) if row]

    def workers(self) -> list[WorkerInfo]:
        """Workers whose heartbeat lives."""
        with mapped():
            ids: Any = self._redis.zrange(keys.WORKERS, 0, -1)
            found: Any = self._redis.mget([keys.worker(w) for w in ids]) if ids else []
        return [WorkerInfo.model_validate_json(f) for f in found if f]

    def coordinators(self) -> list[str]:
        """Ids of coordinators whose heartbeat lives."""
        with mapped():
            ids: Any = self._redis.zrangebyscore(keys.COORDINATORS, time.time() * 1000 - LIVE_MS, "+inf")
        return [str(i) for i in ids]

    def catalogue(self) -> Catalogue:
        """All tools and workflows of the live workers."""
        with mapped():
            found: Any = [self._redis.get(keys.catalogue(d)) for d in sorted({w.catalogue for w in self.workers()})]
        return merge_catalogues([Catalogue.model_validate_json(f) for f in found if f])

    def ping(self) -> None:
        """Raises StateUnavailable if the state Redis does not answer."""
        with mapped():
            self._redis.ping()

    def close(self) -> None:
        """Closes the connection."""
        self._redis.close()


def _run_row(row: dict[str, str]) -> dict[str, Any]:
    out: dict[str, Any] = {k: row.get(k, "") for k in ("session", "principal", "state", "owner")}
    for name in ("created", "started", "ended"):
        out[f"{name}_ms"] = int(row[name]) if row.get(name) else None
    out["reply"] = json.loads(row["reply"]) if row.get("reply") else None
    return out


def stream_rows(answer: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Entries of an XREAD answer on one stream, in the shape of either protocol version."""
    streams = answer.items() if isinstance(answer, dict) else answer or []
    for _, entries in streams:
        for entry in entries[0] if entries and isinstance(entries[0], list) else entries:
            yield entry[0], entry[1]


def _plain(entry: Stored) -> dict[str, Any]:
    value = entry.value.model_dump(mode="json") if entry.value is not None else {}
    return {"id": entry.id, "run": entry.run, "type": entry.type, "value": value}


class AsyncClient:
    """The same for asyncio: `submit`, `wait`, `ask`, `stream`, `control`, `cancel`, `approve`, `history`."""

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
        message = _message(text, session, fields, self._principal)
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
                if _behind(info, after):
                    history = [_plain(e) for e in await self.history(session)]
                    yield Event(id=after, type="snapshot", data={"behind": True, "history": history})
            while True:
                with mapped():
                    rows: Any = await blocking.xread({keys.events(session): after}, count=500, block=int(POLL_S * 1000))
                for entry_id, fields in stream_rows(rows):
                    after = entry_id
                    event = _event(entry_id, fields)
                    yield event
                    if run is not None and event.run == run and event.type in _TERMINAL:
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

    async def approve(self, run: str, node: str, scope: str = "once") -> Reply:
        """Approves a node that waits for it."""
        return await self.control("approve", run=run, node=node, scope=scope)

    async def history(self, session: str) -> list[Stored]:
        """The session's log."""
        with mapped():
            rows: Any = await self._redis.xrange(keys.log(session))
        return [decode(i, f) for i, f in rows]

    async def aclose(self) -> None:
        """Closes the connection."""
        await self._redis.aclose()
