"""`python -m workers.beat`: Celery beat with its schedule in the state Redis (RedBeat). Any number may run."""

from __future__ import annotations

import sys
from typing import Any

from celery import Celery
from celery.schedules import ParseException, crontab

from shared.broker import make_app
from shared.contract import WorkflowSpec
from shared.errors import CapatazError, ConfigError
from shared.logs import configure
from shared.names import QUEUE_WORKFLOWS, TASK_FIRE_WORKFLOW
from shared.settings import Settings, load
from workers.declare import Registry

LOCK_TTL_S = 25
MAX_LOOP_S = 5


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
            "args": (w.name, settings.workflows.session, w.cron, w.timezone),
            "options": {"queue": QUEUE_WORKFLOWS, "exchange": QUEUE_WORKFLOWS, "routing_key": QUEUE_WORKFLOWS},
        }
        for w in workflows
        if w.cron
    }


def main() -> None:
    """Runs beat until a signal ends it."""
    configure("beat")
    try:
        settings = load()
        app = make_app(settings)
        if not settings.redis.url:
            raise ConfigError("no state Redis is configured", hint="set REDIS_URL, or start with `capataz up`")
        registry = Registry()
        registry.load_builtin()
        registry.load_user(settings.worker.tool_modules)
        app.conf.update(
            timezone=settings.workflows.timezone,
            beat_schedule=schedule(registry.catalogue(settings).workflows, settings, app),
            redbeat_redis_url=settings.redis.url,
            redbeat_key_prefix="capataz:beat:",
            redbeat_lock_timeout=LOCK_TTL_S,
            beat_max_loop_interval=MAX_LOOP_S,
        )
    except CapatazError as error:
        sys.exit(f"beat cannot start: {error}")
    app.Beat(loglevel="WARNING", scheduler="redbeat.RedBeatScheduler", pidfile=None).run()


if __name__ == "__main__":
    main()
