"""Continuous load: users who talk in sessions, and see to it that each message is in the inbox for sure.

A user whose XADD got no answer sends the message again under the same id, which is the same run.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from shared.ids import nonce
from shared.messages import Control, Message, as_fields
from shared.state import keys

RESEND_S = 0.3
POLL_S = 0.2
KINDS = ("mix", "mix", "chain", "long", "talk", "team", "team", "ask")


@dataclass
class Sent:
    """One message or control entry. `sure` are reply names under which it was accepted for certain, `doubtful` those
    whose XADD was not answered: it may be in the inbox or not."""

    kind: str
    id: str
    session: str
    text: str = ""
    sure: list[str] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)


class Submitter:
    """Puts entries into the inbox until Redis says that they are in. Safe among threads."""

    def __init__(self, connect: Callable[[], redis.Redis]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self.sent: list[Sent] = []

    def message(self, session: str, text: str, tools: str = "chaos", agent: str = "lead", **fields: Any) -> Sent:
        """Sends a message; returns when it is accepted."""
        fields["agent"] = agent
        sent = self._keep(Sent("message", nonce(), session, text))
        self.again(sent, tools, **fields)
        return sent

    def again(self, sent: Sent, tools: str = "chaos", **fields: Any) -> None:
        """Sends a message under the id that it has."""
        message = Message(id=sent.id, session=sent.session, text=sent.text, tools=(tools,), **fields)
        self._until_accepted(sent, lambda name: as_fields(message.model_copy(update={"reply_to": name})))

    def cancel(self, session: str) -> Sent:
        """Asks for the end of the session's active run, if it has one."""
        sent = self._keep(Sent("cancel", nonce(), session))
        control = Control(kind="cancel", session=session)
        self._until_accepted(sent, lambda name: as_fields(control.model_copy(update={"reply_to": name})))
        return sent

    def decide(self, node: str, allow: bool) -> Sent:
        """Says yes or no to a node that waits for approval."""
        sent = self._keep(Sent("decide", nonce(), node))
        control = Control(kind="approve" if allow else "deny", node=node)
        self._until_accepted(sent, lambda name: as_fields(control.model_copy(update={"reply_to": name})))
        return sent

    def _keep(self, sent: Sent) -> Sent:
        with self._lock:
            self.sent.append(sent)
        return sent

    def _until_accepted(self, sent: Sent, fields: Callable[[str], dict[str, str]]) -> None:
        while True:
            name = f"chaos-{nonce()}"
            try:
                with self._connect() as client:
                    client.xadd(keys.inbox(), fields(name))
            except redis.RedisError:
                sent.doubtful.append(name)
                threading.Event().wait(RESEND_S)
            else:
                sent.sure.append(name)
                return

    def replied(self, sent: Sent) -> bool:
        """True if every sure entry has its reply."""
        try:
            with self._connect() as client:
                pipe = client.pipeline(transaction=False)
                for name in sent.sure:
                    pipe.llen(keys.reply(name))
                return all(pipe.execute())
        except redis.RedisError:
            return False


class Approver:
    """A person who looks now and then what waits for approval, and says yes to most of it, until told to stop."""

    def __init__(self, submitter: Submitter, url: str, seed: int) -> None:
        self._submitter = submitter
        self._url = url
        self._rng = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="approver")

    def __enter__(self) -> Approver:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        decided: set[str] = set()
        while not self._stop.wait(POLL_S):
            for node in self._waiting() - decided:
                self._submitter.decide(node, self._rng.random() < 0.7)
                decided.add(node)

    def _waiting(self) -> set[str]:
        try:
            with plain_client(self._url) as client:
                sessions: Any = client.zrange(keys.SESSIONS, 0, -1)
                pipe = client.pipeline(transaction=False)
                for session in sessions:
                    pipe.hkeys(keys.waits(session))
                return set(itertools.chain.from_iterable(pipe.execute()))
        except redis.RedisError:
            return set()


def replies(client: redis.Redis, names: Sequence[str]) -> list[dict[str, Any]]:
    """Everything on these reply lists, which stay as they are."""
    pipe = client.pipeline(transaction=False)
    for name in names:
        pipe.lrange(keys.reply(name), 0, -1)
    return [json.loads(row) for row in itertools.chain.from_iterable(pipe.execute())]


def plain_client(url: str, timeout_s: float = 3.0) -> redis.Redis:
    """A client that repeats nothing by itself."""
    return redis.Redis.from_url(
        url,
        decode_responses=True,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
    )


class Users:
    """Users in threads of their own, each in one session at a time, until told to stop."""

    def __init__(self, submitter: Submitter, seed: int, users: int, messages: int = 8) -> None:
        self._submitter = submitter
        self._messages = messages
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._user, args=(n, random.Random(seed * 1000 + n)), name=f"user-{n}")
            for n in range(users)
        ]

    def start(self) -> None:
        """Begins."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """No new messages; returns when all threads have ended."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _user(self, number: int, rng: random.Random) -> None:
        for session in itertools.count():
            for _ in range(self._messages):
                if self._stop.is_set():
                    return
                self._turn(f"user{number}-{session}", rng)

    def _turn(self, session: str, rng: random.Random) -> None:
        put = self._submitter
        sent = put.message(session, f"{rng.choice(KINDS)} {nonce()}")
        what = rng.random()
        if what < 0.15:
            self._stop.wait(rng.uniform(0.1, 1.5))
            put.message(session, f"also {nonce()}", mode="steer")
        elif what < 0.25:
            self._stop.wait(rng.uniform(0.1, 1.5))
            put.cancel(session)
        elif what < 0.35:
            put.again(sent)
        elif what < 0.42:
            self._stop.wait(rng.uniform(0.1, 1.0))
            put.message(session, f"{rng.choice(KINDS)} {nonce()}", mode="interrupt")
        if rng.random() < 0.8:  # else the next message waits behind this one
            while not self._stop.wait(POLL_S) and not put.replied(sent):
                pass
