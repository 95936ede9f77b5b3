"""Workers that live and beat: one that the broker's messages no longer reach ends, one that is busy goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared.broker import make_app
from shared.client import Client
from shared.names import EXIT_DEAF, QUEUES, worker_queue
from shared.settings import RedisSettings, Settings
from tests.integration.test_messages import call, calls
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

MakeSystem = Callable[..., System]
QUICK = {"CAPATAZ_WORKER__PING_S": "0.5", "CAPATAZ_WORKER__PING_MISSES": "2"}


def cancel(system: System, queues: tuple[str, ...]) -> None:
    """Takes the queues from the consumer of every worker, by Celery's remote control."""
    app = make_app(Settings(redis=RedisSettings(broker_url=system.broker.broker_url)))
    with app.connection_for_write() as connection:
        while not app.control.ping(timeout=0.5, connection=connection):  # its heartbeat comes before its consumer
            assert system.workers[0].alive
        for queue in queues:
            app.control.cancel_consumer(queue, connection=connection)


@pytest.mark.parametrize("which", ["all", "tools"])
def test_a_worker_whose_consumer_was_cancelled_ends_to_be_started_anew(
    make_system: MakeSystem, model: ModelServer, which: str
) -> None:
    system = make_system(coordinators=0, env=QUICK)
    client = Client.connect(system.redis_url)
    [worker] = system.workers
    [info] = client.workers()
    cancel(system, (*QUEUES, worker_queue(info.id)) if which == "all" else ("tools",))
    assert worker.popen.wait(60) == EXIT_DEAF
    assert "no longer gets the broker's messages" in worker.output()
    assert client.workers() == [], "it takes its heartbeat along"


def test_a_busy_worker_is_left_alone(make_system: MakeSystem, model: ModelServer) -> None:
    """All its threads are at work for many intervals: pings wait, and so they may."""
    system = make_system(env={**QUICK, "CAPATAZ_WORKER__THREADS": "1"})
    client = Client.connect(system.redis_url)
    model.script(calls(call("probe_write", tag="long", seconds=8.0)))
    reply = client.ask("go", session="busy", timeout=40)
    assert reply.ok
    assert '"tag":"long"' in reply.answer
    [worker] = system.workers
    assert worker.alive
    assert "no longer gets" not in worker.output()
    model.script(calls(call("probe_read", tag="after")))
    assert '"tag":"after"' in client.ask("go", session="busy", timeout=40).answer
