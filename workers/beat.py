"""`python -m workers.beat`: Celery beat, which says every few seconds that it is time to look. Any number may run.

RedBeat's lock in the state Redis lets one of them tick. One that has lost it, because it was paused or somebody took
it away, ends, to be started anew. Two that tick all the same do no harm: `workers/schedule.py` takes a slot once.
"""

from __future__ import annotations

import shared.lean  # noqa: F401  # isort: skip  # before anything that would load what it keeps out
import sys
from typing import Any

import celery.schedules
from redbeat.schedulers import RedBeatScheduler
from redis.exceptions import LockError

from shared.broker import make_app
from shared.errors import CapatazError, ConfigError
from shared.logs import configure
from shared.names import QUEUE_WORKFLOWS, TASK_TICK
from shared.settings import Settings, load
from shared.state.connection import connect_sync, mapped

LOCK_TTL_S = 15
MAX_LOOP_S = 2
KEPT_S = 60
"""A tick that no worker has taken for so long is dropped, since later ones serve what it would have. Not less, because
clocks of two hosts may differ by some seconds."""


class LockLost(CapatazError):
    """Somebody else may hold the lock now."""

    code = "lock_lost"


class Scheduler(RedBeatScheduler):  # type: ignore[misc]
    """RedBeat that ends when it does not hold its lock. RedBeat itself goes on without one that it could not take."""

    lock: Any

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """One round; returns seconds until the next. Raises LockLost."""
        if self.lock is None:
            raise LockLost("the lock could not be taken")
        try:
            return float(super().tick(*args, **kwargs))
        except LockError as error:
            self.lock = None
            raise LockLost("the lock was lost") from error


def schedule(settings: Settings) -> dict[str, Any]:
    """Celery's beat schedule: the tick."""
    every = settings.workflows.tick_s
    queue = {"queue": QUEUE_WORKFLOWS, "exchange": QUEUE_WORKFLOWS, "routing_key": QUEUE_WORKFLOWS}
    return {
        "tick": {
            "task": TASK_TICK,
            "schedule": celery.schedules.schedule(every),
            "options": {**queue, "expires": KEPT_S},
        }
    }


def service(settings: Settings) -> Any:
    """Celery's beat with our settings. Raises ConfigError."""
    app = make_app(settings)
    app.conf.update(
        beat_schedule=schedule(settings),
        redbeat_redis_url=settings.redis.url,
        redbeat_key_prefix="capataz:beat:",
        redbeat_lock_timeout=LOCK_TTL_S,
        beat_max_loop_interval=MAX_LOOP_S,
    )
    return app.Beat(loglevel="ERROR", scheduler="workers.beat:Scheduler", pidfile=None, quiet=True)


def main() -> None:
    """Runs beat until a signal ends it, or its lock is lost."""
    configure("beat")
    try:
        settings = load()
        if not settings.redis.url:
            raise ConfigError("no state Redis is configured", hint="set REDIS_URL, or start with `capataz up`")
        with mapped(), connect_sync(settings.redis.url) as client:
            client.ping()
        beat = service(settings)
    except CapatazError as error:
        sys.exit(f"beat cannot start: {error}")
    try:
        with mapped():
            beat.run()
    except CapatazError as error:
        sys.exit(f"beat ends, to be started anew: {error}")


if __name__ == "__main__":
    main()
