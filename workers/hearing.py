"""Whether the broker's messages still reach this worker: a round trip to its own queue, and what it means.

A process can live, beat and be deaf: its consumer was lost in a reconnect, or cancelled from outside. So it sends
itself a ping over the broker whenever it has heard nothing for a while. One whose threads are all at work is not deaf,
however long they work: it takes no message, and should not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import structlog
from celery import Celery
from kombu.exceptions import OperationalError

from shared.names import TASK_PING

log = structlog.get_logger(__name__)

_BROKER_ERRORS = (OperationalError, OSError)
_EXPIRY = 6
"""A ping is thrown away after so many intervals: one that comes late has still been heard."""


class Hearing:
    """What this worker has heard, judged once per interval by `check`. Thread-safe, without clocks.

    Every task runs inside `with hearing:`. Deaf is who has missed `misses` pings in a row.
    """

    def __init__(self, threads: int, misses: int) -> None:
        self._threads = threads
        self._limit = misses
        self._lock = threading.Lock()
        self._running = 0
        self._heard = False
        self._misses = 0

    def __enter__(self) -> None:
        with self._lock:
            self._running += 1
            self._heard = True

    def __exit__(self, *_exc: object) -> None:
        with self._lock:
            self._running -= 1

    def check(self, consuming: bool) -> bool:
        """True if this worker is deaf. `consuming`: it still asks for messages of all its queues."""
        with self._lock:
            heard, self._heard = self._heard, False
            if self._running >= self._threads or (heard and consuming):
                self._misses = 0
                return False
            self._misses += 1
            return self._misses >= self._limit

    def unreachable(self) -> None:
        """The broker does not take messages: nobody is deaf, and afterwards there is twice the patience, because the
        consumer may rest for half a minute before it connects again."""
        with self._lock:
            self._misses = -self._limit


class Listener:
    """Pings `queue` every `every_s` seconds from a thread until `stop`; calls `on_deaf` once when nothing comes back.

    `consuming` tells whether the consumer asks for messages of all its queues.
    """

    def __init__(
        self,
        app: Celery,
        hearing: Hearing,
        queue: str,
        every_s: float,
        consuming: Callable[[], bool],
        on_deaf: Callable[[], None],
    ) -> None:
        self._app = app
        self._hearing = hearing
        self._queue = queue
        self._every_s = every_s
        self._consuming = consuming
        self._on_deaf = on_deaf
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hearing", daemon=True)
        self._producer: Any = None

    def start(self) -> None:
        """Begins to listen: call it when the consumer is ready."""
        self._ping()
        self._thread.start()

    def stop(self) -> None:
        """Ends it soon; does not wait."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            if self._hearing.check(self._consuming()):
                self._on_deaf()
                return
            self._ping()

    def _ping(self) -> None:
        try:
            if self._producer is None:
                self._producer = self._app.amqp.Producer(self._app.connection_for_write())
            self._app.send_task(
                TASK_PING,
                args=[""],
                queue=self._queue,
                producer=self._producer,
                retry=False,
                ignore_result=True,
                expires=self._every_s * _EXPIRY,
            )
        except _BROKER_ERRORS as error:
            log.debug("the broker does not take a ping", error=str(error))
            self._hearing.unreachable()
            producer, self._producer = self._producer, None
            if producer is not None:
                producer.connection.release()


def consumes(consumer: Any, queues: Iterable[str]) -> bool:
    """True if Celery's `consumer` asks for messages of all these queues at the moment."""
    tasks = consumer.task_consumer
    return tasks is not None and all(tasks.consuming_from(queue) for queue in queues)
