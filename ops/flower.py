"""Runs Flower, the monitor of Celery's tasks: behind a password, its history in the data folder.

`python -m ops.flower`. Flower's pages can send and revoke tasks, so it never runs without authentication. What
it is told goes through its environment variables inside this process: a password on a command line would show
in the process list. It needs the broker and its queues but none of the tasks' code, which saves their memory.
"""

from __future__ import annotations

import shared.lean  # noqa: F401  # isort: skip  # before anything that would load what it keeps out
import os
import sys
from collections.abc import Mapping
from types import SimpleNamespace

from celery import Celery

from ops.redis_server import secret_file
from shared.broker import make_app
from shared.errors import CapatazError, ConfigError
from shared.settings import Settings, load

_MAX_TASKS = 5_000
_SAVE_EVERY_MS = 60_000


def password(settings: Settings, environ: Mapping[str, str]) -> str:
    """CAPATAZ_FLOWER_PASSWORD, else the one kept in the data folder, made at first use.

    Raises ConfigError for one that Flower would cut in two.
    """
    chosen = environ.get("CAPATAZ_FLOWER_PASSWORD") or secret_file(
        settings.data.dir.absolute() / "flower-password", digits=24
    )
    if "," in chosen:
        raise ConfigError("CAPATAZ_FLOWER_PASSWORD contains a comma", hint="Flower separates credentials by commas")
    return chosen


def flower_env(settings: Settings, secret: str) -> dict[str, str]:
    """Flower's options as its environment variables."""
    if any(mark in settings.flower.user for mark in ":,"):
        raise ConfigError("flower.user contains a colon or a comma", hint="choose a plain name")
    return {
        "FLOWER_ADDRESS": settings.flower.host,
        "FLOWER_PORT": str(settings.flower.port),
        "FLOWER_BASIC_AUTH": f"{settings.flower.user}:{secret}",
        "FLOWER_PERSISTENT": "true",
        "FLOWER_DB": str(settings.data.dir.absolute() / "flower.db"),
        "FLOWER_STATE_SAVE_INTERVAL": str(_SAVE_EVERY_MS),
        "FLOWER_MAX_TASKS": str(_MAX_TASKS),
        "FLOWER_ENABLE_EVENTS": str(settings.worker.task_events).lower(),
        "FLOWER_PURGE_OFFLINE_WORKERS": "3600",
    }


def main() -> int:
    """Runs until SIGTERM. The address is in its first log lines; port 0 takes a free one."""
    try:
        settings = load()
        settings.data.dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        environment = flower_env(settings, password(settings, os.environ))
        app = make_app(settings)
    except CapatazError as error:
        print(f"flower: {error}", file=sys.stderr)
        return 2
    for name in [name for name in os.environ if name.startswith("FLOWER_")]:
        del os.environ[name]  # only the settings of this installation decide
    os.environ.update(environment)
    _run(app)
    return 0


def _run(app: Celery) -> None:
    """Flower's own command under a parent of ours: Celery's whole command line costs 8 MB more."""
    import click
    from flower.command import flower

    @click.group()
    @click.pass_context
    def parent(context: click.Context) -> None:
        context.obj = SimpleNamespace(app=app, quiet=True)

    parent.add_command(flower)
    parent.main(["flower"], standalone_mode=False)


if __name__ == "__main__":
    sys.exit(main())
