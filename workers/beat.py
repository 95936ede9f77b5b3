"""`python -m workers.beat`: Celery beat with its schedule in the state Redis (RedBeat). Any number may run."""

from __future__ import annotations

import shared.lean  # noqa: F401  # isort: skip  # before anything that would load what it keeps out
import sys
import time
from typing import Any

from celery import Celery
from celery.schedules import ParseException, crontab

from shared.broker import make_app
from shared.client import Client
from shared.contract import WorkflowSpec
from shared.errors import CapatazError, ConfigError
from shared.logs import configure
from shared.names import QUEUE_WORKFLOWS, TASK_FIRE_WORKFLOW
from shared.settings import Settings, load

LOCK_TTL_S = 25
MAX_LOOP_S = 5
POLL_S = 0.5


def _crontab(cron: str, app: Celery) -> crontab:
    try:
        minute, hour, day, month, weekday = cron.split()
        return crontab(minute=minute, hour=hour, day_of_month=day, month_of_year=month, day_of_week=weekday, app=app)
    except (ValueError, ParseException) as error:
        raise ConfigError(
            f"cron {cron!r} is not valid: {error}", hint="five fields: minute hour day month weekday"
        ) from error


def schedule(workflows: tuple[WorkflowSpec, ...], settings: Settings, app: Celery) -> dict[str, Any]:
    """Celery's beat schedule for all workflows that have a cron line."""
    return {
        w.name: {
            "task": TASK_FIRE_WORKFLOW,
            "schedule": _crontab(w.cron, app),
            "args": (w.name, "" if w.hidden else settings.workflows.session, w.cron, w.timezone),
            "options": {"queue": QUEUE_WORKFLOWS, "exchange": QUEUE_WORKFLOWS, "routing_key": QUEUE_WORKFLOWS},
        }
        for w in workflows
        if w.cron
    }


def workflows_of(settings: Settings) -> tuple[WorkflowSpec, ...]:
    """The workflows that live workers offer; waits for the first worker."""
    client = Client.connect(settings.redis.url)
    try:
        while not (found := client.catalogue().workflows):
            time.sleep(POLL_S)
        return found
    finally:
        client.close()


def main() -> None:
    """Runs beat until a signal ends it."""
    configure("beat")
    try:
        settings = load()
        app = make_app(settings)
        if not settings.redis.url:
            raise ConfigError("no state Redis is configured", hint="set REDIS_URL, or start with `capataz up`")
        app.conf.update(
            timezone=settings.workflows.timezone,
            beat_schedule=schedule(workflows_of(settings), settings, app),
            redbeat_redis_url=settings.redis.url,
            redbeat_key_prefix="capataz:beat:",
            redbeat_lock_timeout=LOCK_TTL_S,
            beat_max_loop_interval=MAX_LOOP_S,
        )
    except CapatazError as error:
        sys.exit(f"beat cannot start: {error}")
    app.Beat(loglevel="WARNING", scheduler="redbeat.RedBeatScheduler", pidfile=None, quiet=True).run()


if __name__ == "__main__":
    main()
