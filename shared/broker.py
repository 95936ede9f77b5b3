"""Celery's configuration, the same for who sends and who works: queues, transport, no results, no retries.

Delivery is at most once by intent (early acknowledgement); what gets lost is found by the run's owner in the ledger.
"""

from __future__ import annotations

from typing import Any, Final

from celery import Celery
from kombu.entity import Exchange, Queue
from kombu.transport import TRANSPORT_ALIASES

from shared.errors import ConfigError
from shared.names import QUEUES
from shared.settings import Settings

# By name, since kombu takes the transport of a socket's URL from nowhere else; loaded when something connects.
TRANSPORT_ALIASES["redis"] = TRANSPORT_ALIASES["rediss"] = "shared.transport:Transport"

_TRANSPORT_OPTIONS: Final[dict[str, Any]] = {
    "socket_timeout": 3,
    "socket_connect_timeout": 3,
    # What a worker has taken is not written down a second time: acknowledged early, it is the ledger's from then on,
    # and a message that dies with its worker before that is sent again like any other that was lost.
    "ack_emulation": False,
    "priority_steps": [0],  # one list a queue instead of four: nothing of ours has a priority
}


def broker_url(settings: Settings) -> str:
    """The broker's URL as Celery wants it; a Unix socket of Redis has another scheme there."""
    url = settings.redis.broker_url
    if not url:
        raise ConfigError("no broker is configured", hint="set CAPATAZ_REDIS__BROKER_URL, or start with `capataz up`")
    return "redis+socket" + url.removeprefix("unix") if url.startswith("unix://") else url


def declare(name: str, *, own: bool = False) -> Queue:
    """A queue with an exchange and key of its own; a bare Queue shares the default exchange. `own`: one worker's."""
    return Queue(name, Exchange(name), routing_key=name, durable=not own, auto_delete=own)


def make_app(settings: Settings, *, events: str | None = None) -> Celery:
    """A Celery app with our configuration. `events` names a class in the place of Celery's `app.events`."""
    app = Celery("capataz", broker=broker_url(settings), backend=None, events=events, set_as_current=False)
    app.conf.update(configuration(settings))
    return app


def configuration(settings: Settings) -> dict[str, Any]:
    """Celery's settings."""
    return {
        "task_serializer": "json",
        "accept_content": ["json"],
        "result_serializer": "json",
        "task_ignore_result": True,
        "task_store_errors_even_if_ignored": False,
        "task_queues": [declare(q) for q in QUEUES],
        "task_default_queue": QUEUES[0],
        "task_default_exchange": QUEUES[0],
        "task_default_routing_key": QUEUES[0],
        "task_create_missing_queues": True,
        "task_acks_late": False,
        "task_publish_retry": False,
        "worker_prefetch_multiplier": 1,
        "worker_send_task_events": settings.worker.task_events,
        "task_send_sent_event": False,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_connection_timeout": 3,
        "broker_transport_options": dict(_TRANSPORT_OPTIONS),
        "timezone": "UTC",
        "enable_utc": True,
    }
