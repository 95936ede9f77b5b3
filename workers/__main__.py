"""`python -m workers --queues tools,vision --name worker-1`: one worker process."""

from __future__ import annotations

import shared.lean  # noqa: F401  # isort: skip  # before anything that would load what it keeps out
import argparse
import logging
import os
import socket
import sys
import warnings

from shared.errors import CapatazError
from shared.ids import is_name, process_id
from shared.logs import configure
from shared.names import QUEUES


def main() -> None:
    """Parses the command line and becomes a Celery worker on a pool of threads."""
    parser = argparse.ArgumentParser(prog="python -m workers", description=__doc__)
    parser.add_argument("--queues", default=",".join(QUEUES), help="comma-separated; default: all")
    parser.add_argument("--name", default="worker", help="a name for status lines; the process id is added")
    options = parser.parse_args()
    queues = [q for q in options.queues.split(",") if q]
    if unknown := [q for q in queues if q not in QUEUES]:
        parser.error(f"unknown queue {unknown[0]}; known are {', '.join(QUEUES)}")
    if not is_name(options.name):
        parser.error("--name must match [A-Za-z0-9._-]{1,128}")
    worker = process_id(options.name)
    os.environ["CAPATAZ_WORKER_ID"] = worker
    os.environ["CAPATAZ_WORKER_QUEUES"] = ",".join(queues)
    configure(options.name)
    warnings.filterwarnings("ignore", category=UserWarning, module="celery.platforms")  # root in a container is usual
    try:
        from workers.app import app, exit_code, settings
    except CapatazError as error:
        sys.exit(f"worker cannot start: {error}")
    _quieten()
    # Not by Celery's command line: its imports (prompt_toolkit, every installed plugin) cost 20 MB.
    process = app.Worker(
        hostname=f"{worker}@{socket.gethostname()}",
        pool_cls="threads",
        concurrency=settings.worker.threads,
        queues=queues,
        loglevel="WARNING",
        without_gossip=True,
        without_mingle=True,
        quiet=True,
    )
    process.start()
    sys.exit(exit_code(process.exitcode))


def _quieten() -> None:
    """Leaves out what Celery says and nobody needs when the broker goes away: that is told in one line."""
    from celery.worker.consumer import consumer

    def without_traceback(record: logging.LogRecord) -> bool:
        if record.levelno == logging.WARNING:
            record.exc_info = None
        return True

    def about_us(record: logging.LogRecord) -> bool:
        return consumer.CANCEL_TASKS_BY_DEFAULT not in record.getMessage()  # no task of ours is acknowledged late

    logging.getLogger(consumer.__name__).addFilter(without_traceback)
    logging.getLogger("py.warnings").addFilter(about_us)


if __name__ == "__main__":
    main()
