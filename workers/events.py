"""Celery's task events for Flower, sent in company: with the worker's own heartbeat every two seconds, or as soon as
many have come. One by one, as Celery sends them, they take half of what a message costs the worker's main thread."""

from __future__ import annotations

from typing import Any, Final

from celery.app import events
from celery.events.dispatcher import EventDispatcher

MOST: Final = 100
"""So many task events do not wait for the heartbeat."""
OWN: Final = "worker-"
"""Begins the types of events about the worker itself: heartbeats, and that it goes."""


class Dispatcher(EventDispatcher):  # type: ignore[misc]
    """Celery's, at its own pace. What an event says of the time is when it happened, not when it was sent."""

    def __init__(self, *args: Any, on_send_buffered: Any = None, **options: Any) -> None:
        """As Celery's, without what has events sent at the next turn of the consumer's loop."""
        super().__init__(*args, **options | {"buffer_limit": MOST})

    def send(self, type: str, *args: Any, **fields: Any) -> None:
        """Sends an event, or keeps it for the next one about the worker itself."""
        if type.startswith(OWN) and self.enabled:
            self.flush()
        super().send(type, *args, **fields)

    def flush(self, errors: bool = True, groups: bool = True) -> None:
        """Sends what waits, if anything does."""
        waits = any(self._group_buffer.values())
        super().flush(errors, groups and waits)


class Events(events.Events):  # type: ignore[misc]
    """Celery's, with our dispatcher."""

    dispatcher_cls = "workers.events:Dispatcher"
