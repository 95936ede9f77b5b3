"""A message that comes before any worker has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared.client import Client
from tests.integration.test_messages import call, calls
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = pytest.mark.integration


def test_it_waits_for_the_first_worker_and_has_its_tools(
    make_system: Callable[..., System], model: ModelServer
) -> None:
    system = make_system(workers=0, env={"CAPATAZ_COORDINATOR__WAIT_FOR_WORKERS_S": "60"})
    client = Client.connect(system.redis_url)
    model.script(calls(call("probe_read", tag="late")))
    sent = client.submit("go", session="s")
    next(e for e in client.stream("s", timeout=20) if e.type == "run.started")
    system.add_worker()
    reply = client.wait(sent, 60)
    assert '"tag":"late"' in reply.answer
    client.close()


def test_without_workers_it_is_answered_without_tools(make_system: Callable[..., System], model: ModelServer) -> None:
    system = make_system(workers=0, env={"CAPATAZ_COORDINATOR__WAIT_FOR_WORKERS_S": "1"})
    client = Client.connect(system.redis_url)
    model.script([{"then": {"text": "no tools"}}])
    assert client.ask("go", session="s", timeout=30).answer == "no tools"
    client.close()
