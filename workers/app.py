"""The Celery app of the workers, its tasks, and how Celery's life cycle drives the runtime.

Flower and beat import this module too: nothing is connected before a worker process is ready.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

import structlog
from celery import Celery, signals

from shared.broker import declare, make_app
from shared.errors import CapatazError, ConfigError
from shared.names import EXIT_DEAF, QUEUES, TASK_PING, TASK_RUN_NODES, TASK_TICK, worker_queue
from shared.settings import load
from shared.state.connection import connect_sync, mapped
from shared.state.keys import reply
from workers.hearing import Hearing, Listener, consumes
from workers.runtime import Runtime

log = structlog.get_logger(__name__)

WORKER_ENV = "CAPATAZ_WORKER_ID"
QUEUES_ENV = "CAPATAZ_WORKER_QUEUES"
HARD_END_S = 5.0
"""How long a deaf worker may take over its end beyond `worker.drain_s`."""

settings = load()
app: Celery = make_app(settings, events="workers.events:Events")
_runtime: Runtime | None = None
_hearing = Hearing(settings.worker.threads, settings.worker.ping_misses)
_listener: Listener | None = None
_deaf = threading.Event()


def exit_code(code: int | None) -> int | None:
    """The exit code of this process: Celery's `code`, unless it ends because it was deaf."""
    return EXIT_DEAF if _deaf.is_set() else code


def own_queues() -> tuple[str, ...]:
    """The queues of this process: those it was started for."""
    return tuple(q for q in os.environ.get(QUEUES_ENV, ",".join(QUEUES)).split(",") if q)


@app.task(name=TASK_RUN_NODES)  # type: ignore[untyped-decorator]
def run_nodes(orders: list[dict[str, Any]]) -> int:
    """Runs a batch of nodes; returns how many this worker claimed."""
    if _runtime is None:
        raise CapatazError("this process is not a worker")
    with _hearing:
        return _runtime.run(orders)


@app.task(name=TASK_TICK, send_events=False)  # type: ignore[untyped-decorator]
def tick() -> int:
    """Puts into inboxes what is due by now; returns how many messages that were."""
    with _hearing:
        return 0 if _runtime is None else _runtime.tick()


@app.task(name=TASK_PING)  # type: ignore[untyped-decorator]
def ping(name: str) -> None:
    """The liveness round trip: has been heard, and answers on the reply list `name`, if any, with this worker's id."""
    with _hearing:
        if name:
            _answer(name)


def _answer(name: str) -> None:
    with mapped(), connect_sync(settings.redis.url) as client:
        client.rpush(reply(name), _runtime.worker if _runtime else "")
        client.expire(reply(name), 60)


@signals.worker_init.connect  # type: ignore[untyped-decorator]
def _start(sender: Any = None, **_: Any) -> None:
    """Before the worker consumes: everything that its tasks need."""
    global _runtime
    try:
        if not settings.redis.url:
            raise ConfigError("no state Redis is configured", hint="set REDIS_URL, or start with `capataz up`")
        _runtime = Runtime(settings, own_queues(), os.environ.get(WORKER_ENV, ""))
        _runtime.start()
    except (CapatazError, TimeoutError) as error:
        # Celery only logs what a signal's handler raises: this process would take messages and run nothing.
        sys.exit(f"worker cannot start: {error}")


@signals.celeryd_after_setup.connect  # type: ignore[untyped-decorator]
def _own_queue(instance: Any = None, **_: Any) -> None:
    """Each worker has a queue of its own, for tools that live in one process."""
    if _runtime is not None and instance is not None:
        instance.app.amqp.queues.select_add(declare(worker_queue(_runtime.worker), own=True))


@signals.worker_ready.connect  # type: ignore[untyped-decorator]
def _listen(sender: Any = None, **_: Any) -> None:
    """When the consumer (`sender`) is ready: from now on it has to hear."""
    global _listener
    if _runtime is None or not settings.worker.ping_s:
        return
    own = worker_queue(_runtime.worker)
    queues = (*own_queues(), own)
    _listener = Listener(app, _hearing, own, settings.worker.ping_s, lambda: consumes(sender, queues), _end_deaf)
    _listener.start()


def _end_deaf() -> None:
    """Ends this process as SIGTERM does, and hard if it is too sick for that; whoever keeps it up starts it anew."""
    log.error("this worker no longer gets the broker's messages; it ends, to be started anew")
    _deaf.set()
    os.kill(os.getpid(), signal.SIGTERM)
    hard = threading.Timer(settings.worker.drain_s + HARD_END_S, os._exit, (EXIT_DEAF,))
    hard.daemon = True
    hard.start()


@signals.worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _drain(**_: Any) -> None:
    """At SIGTERM: in a thread, because signal handlers must not wait."""
    if _listener is not None:
        _listener.stop()
    if _runtime is not None:
        threading.Thread(target=_runtime.drain, name="drain", daemon=True).start()


@signals.worker_shutdown.connect  # type: ignore[untyped-decorator]
def _stop(**_: Any) -> None:
    """When no task is running any more."""
    if _runtime is not None:
        _runtime.stop()
