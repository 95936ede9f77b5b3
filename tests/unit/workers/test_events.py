"""When Celery's task events are sent: in company, and none of them never."""

from __future__ import annotations

from typing import Any

from celery import Celery

from workers.events import MOST, Dispatcher


class Told(Dispatcher):
    """Takes down what is published instead of publishing it."""

    def __init__(self) -> None:
        self.published: list[Any] = []
        app = Celery("t", broker="memory://", set_as_current=False)
        super().__init__(app.connection_for_write(), app=app, buffer_group=["task"], on_send_buffered=self.hurry)

    def hurry(self) -> None:
        raise AssertionError("nobody is to be in a hurry")

    def _publish(self, event: Any, producer: Any, routing_key: str, **_: Any) -> None:
        types = [one["type"] for one in event] if isinstance(event, list) else event["type"]
        self.published.append((routing_key, types))


def test_task_events_go_before_the_next_word_about_the_worker() -> None:
    told = Told()
    told.send("task-received", uuid="1")
    told.send("task-succeeded", uuid="1")
    assert told.published == []
    told.send("worker-heartbeat")
    assert told.published == [
        ("task.multi", ["task-received", "task-succeeded"]),
        ("worker.heartbeat", "worker-heartbeat"),
    ]
    told.send("worker-offline")
    assert told.published[2:] == [("worker.offline", "worker-offline")]


def test_many_do_not_wait() -> None:
    told = Told()
    for number in range(MOST):
        told.send("task-received", uuid=str(number))
    assert [(key, len(types)) for key, types in told.published] == [("task.multi", MOST)]


def test_a_dispatcher_that_is_switched_off_says_nothing() -> None:
    told = Told()
    told.enabled = False
    told.send("task-received", uuid="1")
    told.send("worker-heartbeat")
    assert told.published == []
