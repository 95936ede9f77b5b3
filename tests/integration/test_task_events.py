"""Those who watch the queues see every message that a worker took and finished, at the latest with its heartbeat."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from shared.broker import make_app
from shared.client import Client
from shared.names import TASK_RUN_NODES
from shared.settings import RedisSettings, Settings
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = pytest.mark.integration

LIFE = ["task-received", "task-started", "task-succeeded"]


class Watcher:
    """Takes down the events of tasks; `hears` is set when the first event has come, `done` with the last one of the
    call."""

    def __init__(self) -> None:
        self.hears, self.done = threading.Event(), threading.Event()
        self.life: dict[str, list[str]] = {}
        self.asked: list[str] = []
        """Tasks that run the call."""

    def take(self, event: dict[str, Any]) -> None:
        self.hears.set()
        if not event["type"].startswith("task-"):
            return
        task = event["uuid"]
        self.life.setdefault(task, []).append(event["type"])
        if event["type"] == LIFE[0] and event["name"] == TASK_RUN_NODES and event["args"].startswith("[time_now r"):
            self.asked.append(task)
        if event["type"] == LIFE[-1] and task in self.asked:
            self.done.set()


def test_flower_sees_what_workers_do(model: ModelServer, make_system: Callable[..., System]) -> None:
    model.script(
        [
            {"when": {"step": 0}, "then": {"calls": [{"name": "time_now", "arguments": {}}]}},
            {"then": {"text": "it is late"}},
        ]
    )
    system = make_system()
    urls = RedisSettings(url=system.redis_url, broker_url=system.broker.broker_url)
    app, watcher = make_app(Settings.model_construct(redis=urls)), Watcher()

    def watch() -> None:
        with app.connection_for_read() as connection:
            receiver = app.events.Receiver(connection, handlers={"*": watcher.take})
            for _ in receiver.itercapture(timeout=30, wakeup=False):
                if watcher.done.is_set():
                    return

    thread = threading.Thread(target=watch)
    thread.start()
    assert watcher.hears.wait(30)
    assert Client.connect(system.redis_url).ask("what time is it?", session="s", tools=["time"], timeout=60).ok
    assert watcher.done.wait(30)
    thread.join(30)
    [task] = watcher.asked
    assert watcher.life[task] == LIFE
