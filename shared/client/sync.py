"""The client for scripts and command lines."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

from shared.catalogue import merge_catalogues
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
from shared.contract import Catalogue, WorkerInfo
from shared.entries import Event, Stored, Waiting, decode
from shared.errors import StateUnavailable
from shared.ids import nonce, run_of
from shared.messages import Command, Control, Message, Reply, as_fields
from shared.names import LOCAL_PRINCIPAL
from shared.state import keys
from shared.state.connection import connect_sync, mapped

_LIVE_MS = 5000


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
        return self._put(new_message(text, session, fields, self._principal))

    def submit_workflow(self, name: str, *, session: str, **fields: Any) -> Submitted:
        """Starts a workflow in `session`."""
        return self._put(new_message("", session, {"kind": "workflow", "workflow": name, **fields}, self._principal))

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
                if is_behind(info, after):
                    yield self._snapshot(session, after)
            quiet = 0.0
            while timeout is None or quiet < timeout:
                rows: Any = blocking.xread({keys.events(session): after}, count=500, block=int(POLL_S * 1000))
                quiet = 0.0 if rows else quiet + POLL_S
                for entry_id, fields in stream_rows(rows):
                    after = entry_id
                    event = event_of(entry_id, fields)
                    yield event
                    if run is not None and event.run == run and event.type in TERMINAL:
                        return
        raise TimeoutError(f"no event for {timeout:g} s")

    def _snapshot(self, session: str, after: str) -> Event:
        entries = [plain(e) for e in self.history(session)]
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

    def approve(self, node: str, scope: str = "once") -> Reply:
        """Approves a node that waits for it: this call, or also such calls in the `session` or `always`."""
        return self.control("approve", run=run_of(node), node=node, scope=scope)

    def deny(self, node: str, text: str = "") -> Reply:
        """Refuses what a node waits for; `text` says why."""
        return self.control("deny", run=run_of(node), node=node, text=text)

    def answer(self, node: str, text: str) -> Reply:
        """Answers the question of a node, with a text or the number of an option."""
        return self.control("answer", run=run_of(node), node=node, text=text)

    def waiting(self, session: str | None = None) -> list[Waiting]:
        """Approvals and questions that are open, in a session or in the newest 1000, oldest first."""
        with mapped():
            sessions: Any = [session] if session else self._redis.zrevrange(keys.SESSIONS, 0, 999)
            pipe = self._redis.pipeline(transaction=False)
            for sid in sessions:
                pipe.hgetall(keys.waits(sid))
            rows = {node: row for found in pipe.execute() for node, row in found.items()}
        return [Waiting.model_validate_json(rows[node]) for node in sorted(rows)]

    def _order(self, command: Command, timeout: float = COMMAND_S) -> Reply:
        with mapped():
            self._redis.xadd(keys.inbox(self._principal), as_fields(command))  # type: ignore[arg-type]
        return self.wait(Submitted(command.id or "", command.session, "", command.reply_to or ""), timeout)

    def undo(self, session: str) -> Reply:
        """Takes the newest turn of a session back; `run` of the answer says which. What it did stays done."""
        return self._order(new_command(session, "undo", {}))

    def fork(self, session: str, to: str, *, at: str = "") -> Reply:
        """Copies a session to a new one called `to`: all turns that had ended by the log entry `at` (empty: by now).

        `run` of the answer is the last one in the copy.
        """
        return self._order(new_command(session, "fork", {"to": to, "at": at or None}))

    def set(
        self, session: str, *, model: str | None = None, thinking: str | None = None, debug: str | None = None
    ) -> Reply:
        """Changes how a session goes on, from the next step on: `model` (a tier or `provider/model`, empty for the
        default), `thinking` (show, hide), `debug` (on, off)."""
        return self._order(new_command(session, "set", {"model": model, "thinking": thinking, "debug": debug}))

    def schedule(self, do: str, *, session: str, timeout: float = COMMAND_S, **order: Any) -> Reply:
        """Adds, changes or deletes (`do`) a schedule; `order` are fields of `messages.ScheduleOrder`.

        It is a run of its own in `session`, whose answer says what became of the schedule.
        """
        return self._order(schedule_command(session, do, order), timeout)

    def playbook(self, do: str, bullet: str, *, session: str, timeout: float = COMMAND_S, **order: Any) -> Reply:
        """Pins, unpins, edits or forgets (`do`) what was learned; `order` are fields of `messages.PlaybookOrder`.

        It is a run of its own in `session`.
        """
        return self._order(playbook_command(session, do, bullet, order), timeout)

    def history(self, session: str) -> list[Stored]:
        """The session's log."""
        return [decode(i, f) for i, f in self.log(session)]

    def log(self, session: str) -> list[tuple[str, dict[str, str]]]:
        """The session's log as it stands in the stream: ids and fields."""
        with mapped():
            rows: Any = self._redis.xrange(keys.log(session))
        return list(rows)

    def owner(self, session: str) -> str:
        """Whose session it is; empty if there is none."""
        with mapped():
            return str(self._redis.hget(keys.session(session), "owner") or "")

    def session_of(self, run: str) -> str:
        """The session of a run; empty if the run is not known, or no longer."""
        with mapped():
            return str(self._redis.hget(keys.run(run), "session") or "")

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
            ids: Any = self._redis.zrangebyscore(keys.COORDINATORS, time.time() * 1000 - _LIVE_MS, "+inf")
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
