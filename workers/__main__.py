"""`python -m workers --queues tools,vision --name worker-1`: one worker process."""

from __future__ import annotations

import argparse
import os
import sys

from shared.errors import CapatazError
from shared.ids import is_name, nonce
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
    worker = f"{options.name}-{os.getpid()}-{nonce()[:6]}"
    os.environ["CAPATAZ_WORKER_ID"] = worker
    os.environ["CAPATAZ_WORKER_QUEUES"] = ",".join(queues)
    configure(options.name)
    try:
        from workers.app import app, settings
    except CapatazError as error:
        sys.exit(f"worker cannot start: {error}")
    argv = ["--quiet", "worker", "--pool=threads", f"--concurrency={settings.worker.threads}", f"--queues={','.join(queues)}"]
    argv += [f"--hostname={worker}@%h", "--loglevel=WARNING", "--without-gossip", "--without-mingle"]
    app.worker_main(argv)


if __name__ == "__main__":
    main()
