"""The steady load of a soak: users who talk in one short session after the other, and what the model does with it."""

from __future__ import annotations

import itertools
import random
import threading
from typing import Any, Final

import redis

from shared.ids import nonce
from shared.messages import Control, Message, as_fields
from shared.state import keys
from tests.chaos import model
from tests.chaos.model import UID, answer, call, turn
from tests.support.redis import stream_entry

REPLY_S: Final = 60
KINDS: Final = ("mix", "mix", "chain", "order", "talk", "broken", "refused")

RULES: Final[list[dict[str, Any]]] = [
    *model.RULES,
    # A tool that fails, one that is not there, and one that was not called as it must be.
    turn("broken", 0, call("order_pay", order=UID, amount=1), call("no_such_tool"), call("chaos_look", tug=UID)),
    answer("broken", 1),
    # A model that fails for good.
    {"when": {"user": r"^refused \w+"}, "then": {"error": {"status": 400}}},
]


class Users:
    """Users in threads of their own. Each waits for the answer before it goes on, so that the load is as steady as the
    system; some cancel, steer, interrupt, or send the same message again."""

    def __init__(self, url: str, users: int, seed: int = 1, messages: int = 5) -> None:
        self._url = url
        self._messages = messages
        self._stop = threading.Event()
        self._counting = threading.Lock()
        self.sent = 0
        self.answered = 0
        self.missing = 0
        """Messages that had no reply after `REPLY_S`."""
        self._threads = [
            threading.Thread(target=self._user, args=(n, random.Random(seed * 1000 + n)), name=f"user-{n}")
            for n in range(users)
        ]

    def start(self) -> None:
        """Begins."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """No new messages; returns when the last ones are answered."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _user(self, number: int, rng: random.Random) -> None:
        # One connection each for the whole soak: what the server counts shall be the system's doing.
        with redis.Redis.from_url(self._url, decode_responses=True, socket_timeout=None) as client:
            for session in itertools.count():
                for _ in range(self._messages):
                    if self._stop.is_set():
                        return
                    self._turn(client, f"soak{number}-{session}", rng)

    def _turn(self, client: redis.Redis, session: str, rng: random.Random) -> None:
        identity, text, name = nonce(), f"{rng.choice(KINDS)} {nonce()}", f"soak-{nonce()}"
        message = Message(id=identity, session=session, text=text, tools=("chaos", "orders"), reply_to=name)
        self._put(client, message)
        what = rng.random()
        if what < 0.1:
            self._put(client, Message(session=session, text=f"also {nonce()}", tools=("chaos",), mode="steer"))
        elif what < 0.2:
            self._put(client, Control(kind="cancel", session=session))
        elif what < 0.25:
            self._put(client, Message(session=session, text=f"talk {nonce()}", mode="interrupt"))
        elif what < 0.3:
            self._put(client, message.model_copy(update={"reply_to": None}))  # the same id: the same run
        elif what < 0.35:
            client.xadd(keys.inbox(), {"kind": "nonsense"})
        row = client.blpop([keys.reply(name)], timeout=REPLY_S)
        with self._counting:
            self.sent += 1
            self.answered += row is not None
            self.missing += row is None

    def _put(self, client: redis.Redis, entry: Message | Control) -> None:
        client.xadd(keys.inbox(), stream_entry(as_fields(entry)))
