"""The one publishing thread. What is ready while it is busy goes together when it is free again.

A publish that fails is not repeated here: the node's owner finds the unclaimed row and sends it again.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import structlog
from celery import Celery
from kombu.exceptions import OperationalError

from coordinator.dispatch.batches import split
from shared.contract import NodeOrder
from shared.names import TASK_RUN_NODES
from shared.signing import sign

log = structlog.get_logger(__name__)

PICTURED: Final = 3
"""How many nodes of a message are named for those who watch the broker."""

_BROKER_ERRORS = (OperationalError, OSError)


class Publisher:
    """Signs orders and sends them by task name. `workers_of` tells how many live workers consume a queue."""

    def __init__(self, app: Celery, key: bytes, most: int, workers_of: Callable[[str], int]) -> None:
        self._app = app
        self._key = key
        self._most = most
        self._workers_of = workers_of
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[str, NodeOrder]] = defaultdict(dict)
        self._scheduled = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="publisher")
        self._producer: Any = None
        self._declared: set[str] = set()
        """Queues that the present producer knows to exist."""
        self.failing = False

    def publish(self, queue: str, order: NodeOrder) -> None:
        """Hands an order over; returns at once."""
        with self._lock:
            self._waiting[queue][order.node] = order  # one that is sent again while it waits goes once
            if self._scheduled:
                return
            self._scheduled = True
        self._thread.submit(self._send_waiting)

    def _send_waiting(self) -> None:
        while True:
            with self._lock:
                waiting, self._waiting = self._waiting, defaultdict(dict)
                if not waiting:
                    self._scheduled = False
                    return
            for queue, orders in waiting.items():
                for part in split(list(orders.values()), self._workers_of(queue), self._most):
                    self._send(queue, [sign(o, self._key) for o in part])

    def _send(self, queue: str, orders: list[dict[str, Any]]) -> None:
        try:
            if self._producer is None:
                self._producer = self._app.amqp.Producer(self._app.connection_for_write())
                self._declared.clear()
            self._app.send_task(
                TASK_RUN_NODES,
                args=[orders],
                # What Flower shows; Celery's own picture of the arguments costs as much as all the rest.
                argsrepr=_picture(orders),
                kwargsrepr="{}",
                queue=queue,
                declare=[] if queue in self._declared else None,
                producer=self._producer,
                retry=False,
                ignore_result=True,
            )
            self._declared.add(queue)
            if self.failing:
                log.info("the broker takes messages again")
            self.failing = False
        except _BROKER_ERRORS as error:
            if not self.failing:
                log.error("the broker does not take messages; nodes are sent again later", error=str(error))
            self.failing = True
            self._reset()

    def _reset(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                producer.connection.close()
            except _BROKER_ERRORS as error:
                log.debug("closing the broken connection", error=str(error))

    async def depth(self, queue: str) -> int | None:
        """How many messages wait in a queue; None if the broker does not say."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._depth, queue)

    def _depth(self, queue: str) -> int | None:
        try:
            connection = self._app.connection_for_read()
            with connection:
                try:
                    return int(connection.default_channel.queue_declare(queue, passive=True).message_count)
                except connection.channel_errors:  # no such queue: nothing waits in it
                    return 0
        except _BROKER_ERRORS as error:
            log.warning("the broker does not answer", error=str(error))
            return None

    def close(self) -> None:
        """Ends the thread."""
        self._thread.submit(self._reset)
        self._thread.shutdown(wait=True)


def _picture(orders: Sequence[Mapping[str, Any]]) -> str:
    """A batch in a line: its first nodes with their tools, and how many there are."""
    named = ", ".join(f"{order['tool']} {order['node']}" for order in orders[:PICTURED])
    return f"[{named}]" if len(orders) <= PICTURED else f"[{named}, … {len(orders)} in all]"
