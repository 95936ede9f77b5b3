"""When a worker counts as deaf."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any, cast

from kombu.exceptions import OperationalError

from workers.hearing import Hearing, Listener, consumes


def checks(hearing: Hearing, count: int, *, consuming: bool = True) -> list[bool]:
    return [hearing.check(consuming) for _ in range(count)]


def test_deaf_is_who_hears_nothing_so_many_times_in_a_row() -> None:
    hearing = Hearing(threads=2, misses=3)
    assert checks(hearing, 2) == [False, False]
    with hearing:
        pass
    assert checks(hearing, 1) == [False]
    assert checks(hearing, 3) == [False, False, True]


def test_who_works_with_all_threads_is_not_deaf_however_long() -> None:
    hearing = Hearing(threads=2, misses=1)
    with ExitStack() as busy:
        busy.enter_context(hearing)
        busy.enter_context(hearing)
        assert not any(checks(hearing, 100))
    assert checks(hearing, 1) == [True]


def test_one_busy_thread_is_no_excuse() -> None:
    hearing = Hearing(threads=2, misses=2)
    with hearing:
        assert checks(hearing, 3) == [False, False, True]


def test_a_queue_that_is_not_asked_for_is_missed_although_others_are_heard() -> None:
    hearing = Hearing(threads=2, misses=2)
    for deaf in (False, True):
        with hearing:
            pass
        assert hearing.check(consuming=False) is deaf


def test_a_broker_that_is_away_is_nobodys_deafness() -> None:
    hearing = Hearing(threads=2, misses=2)
    for _ in range(20):
        hearing.unreachable()
        assert not hearing.check(consuming=False)
    assert checks(hearing, 3) == [False, False, True]


class App:
    """A Celery app whose broker is there or not; counts pings."""

    def __init__(self, *, away: bool) -> None:
        self.away = away
        self.pings: list[dict[str, Any]] = []
        self.amqp = self

    def connection_for_write(self) -> Any:
        if self.away:
            raise OperationalError("away")
        return None

    def Producer(self, _connection: Any) -> object:
        return object()

    def send_task(self, name: str, **options: Any) -> None:
        self.pings.append({"name": name, **options})


def test_the_listener_pings_its_own_queue_and_tells_once() -> None:
    app, deaf = App(away=False), threading.Event()
    listener = Listener(cast(Any, app), Hearing(4, 2), "worker.w1", 0.001, lambda: True, deaf.set)
    listener.start()
    assert deaf.wait(10)
    assert [(ping["queue"], ping["args"]) for ping in app.pings] == [("worker.w1", [""])] * 2
    assert all(ping["expires"] > 0.001 and ping["retry"] is False for ping in app.pings)


def test_the_listener_waits_for_a_broker_that_is_away() -> None:
    app, deaf, checked = App(away=True), threading.Event(), threading.Event()
    rounds = iter(range(50))

    def consuming() -> bool:
        if next(rounds, None) is None:
            checked.set()
        return False

    listener = Listener(cast(Any, app), Hearing(4, 1), "worker.w1", 0.001, consuming, deaf.set)
    listener.start()
    assert checked.wait(10)
    listener.stop()
    assert not deaf.is_set()


def test_a_consumer_between_connections_consumes_nothing() -> None:
    class Tasks:
        def consuming_from(self, queue: str) -> bool:
            return queue == "tools"

    class Consumer:
        task_consumer: Any = None

    consumer = Consumer()
    assert not consumes(consumer, ["tools"])
    consumer.task_consumer = Tasks()
    assert consumes(consumer, ["tools"])
    assert not consumes(consumer, ["tools", "vision"])
