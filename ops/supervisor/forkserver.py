"""A process that imports once what a system's Python processes share, and becomes each of them by fork(2).

`python -P -m ops.supervisor.forkserver FD`: FD is a SOCK_SEQPACKET socket to the supervisor. For each datagram, which
carries two descriptors, an order (see `Order`) and an open log, it forks, and answers in JSON `{"pid": n}`, or
`{"stale": file}` when a file that it has imported has changed since: the two would not fit each other. The end of a
child is told as `{"pid": n, "code": n}`, a negative code being a signal. It ends when the supervisor does, and its
children with it (`shim.py`).

The pages of what is imported here are shared by all, as long as nobody writes to them. An order is read by the child
alone: keys in its environment never reach this process, whose memory later children inherit. It has one thread and
opens nothing, which is what makes the fork safe. The standard library's fork server (multiprocessing) would run the
supervisor's own main module in each child, keep a second process beside it, and skip exit handlers.
"""

from __future__ import annotations

import shared.lean  # noqa: F401  # isort: skip  # before anything that would load what it keeps out
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from ops.supervisor import shim

_PRELOADED = (
    "celery.app.base",
    "celery.worker",
    "httpx",
    "kombu.transport.redis",
    "redis.asyncio",
    "setproctitle",
    "shared.artifacts",
    "shared.broker",
    "shared.client",
    "shared.corrections",
    "shared.delivery",
    "shared.failover",
    "shared.llm.dialects.anthropic",
    "shared.llm.dialects.openai",
    "shared.llm.provider",
    "shared.logs",
    "shared.pictures",
    "shared.playbook",
    "shared.schedules",
    "shared.sql.costs",
    "shared.sql.playbook",
    "shared.sql.reminders",
    "shared.sql.runs",
    "shared.sql.sessions",
    "shared.state.gate",
    "shared.state.heartbeat",
    "shared.state.nodes",
    "shared.state.session",
    "sqlalchemy.dialects.sqlite",
    "structlog",
)
"""What at least two of coordinator, worker, beat and Flower load in any case."""


class Order(TypedDict):
    """What a child becomes: `python -m` of the first of `argv`, the others being its arguments."""

    title: str
    argv: Sequence[str]
    env: Mapping[str, str]


class _Sources:
    """The files of all modules that are loaded now, and whether they are still as they were."""

    def __init__(self) -> None:
        files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        self._seen = {file: _modified_ns(file) for file in files if file}

    def stale(self) -> str | None:
        """A file that is not what was loaded."""
        return next((file for file, seen in self._seen.items() if _modified_ns(file) != seen), None)


def _modified_ns(file: str) -> int | None:
    try:
        return os.stat(file).st_mtime_ns
    except FileNotFoundError:
        return None


def serve(supervisor: socket.socket) -> tuple[int, int] | None:
    """Forks until the supervisor's end of the socket closes, which gives None. In a child: an order and a log."""
    sources = _Sources()
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # the default, to ignore it, would wake nobody
    with selectors.DefaultSelector() as selector:
        selector.register(supervisor, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if supervisor in ready:
                message, descriptors, _, _ = socket.recv_fds(supervisor, 16, 2)
                if not message:
                    return None
                order, log = descriptors
                if file := sources.stale():
                    _tell(supervisor, {"stale": file})
                else:
                    parent = os.getpid()
                    if not (pid := os.fork()):
                        break
                    with contextlib.suppress(PermissionError, ProcessLookupError):  # the child has done it, and more
                        os.setpgid(pid, pid)
                    _tell(supervisor, {"pid": pid})
                os.close(order)
                os.close(log)
            if woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(woken, 4096)
                _tell_ended(supervisor)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.close(woken)
    os.close(wake)
    supervisor.close()
    os.setpgid(0, 0)
    if not shim.die_with(parent, signal.SIGKILL):
        os._exit(1)
    return order, log


def _tell(supervisor: socket.socket, what: Mapping[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # gone: the next read says so
        supervisor.send(json.dumps(what).encode())


def _tell_ended(supervisor: socket.socket) -> None:
    """Reports all children that have ended since."""
    with contextlib.suppress(ChildProcessError):  # no child is left
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            _tell(supervisor, {"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _become(order_fd: int, log: int) -> None:
    """Turns this child into the process that was ordered; returns when that has ended."""
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    with open(order_fd, encoding="utf-8") as file:
        order: Order = json.load(file)
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    del sys.modules["shared.lean"]  # the process imports it anew, for what it sets in the environment
    _entitle(order["title"])
    module, *args = order["argv"]
    sys.argv = [module, *args]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _entitle(title: str) -> None:
    """The name by which `ps` and `top` show this process."""
    import setproctitle

    setproctitle.setproctitle(f"capataz {title}")


def main(argv: Sequence[str]) -> None:
    """Serves on the socket that is the only argument, in this process and as what it becomes."""
    with socket.socket(fileno=int(argv[0])) as supervisor:
        os.set_inheritable(supervisor.fileno(), False)
        for name in _PRELOADED:
            importlib.import_module(name)
        _entitle("forkserver")
        gc.freeze()  # a collection in a child would write to each object's page
        ordered = serve(supervisor)
    if ordered:
        _become(*ordered)


if __name__ == "__main__":
    main(sys.argv[1:])
