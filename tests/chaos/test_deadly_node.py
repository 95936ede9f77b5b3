"""A call that kills whatever runs it, and calls beside it that have done nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared.client import Client
from shared.entries import NodeEnded
from tests.chaos.model import call
from tests.chaos.probe import lines, states
from tests.support.model_server import ModelServer
from tests.support.processes import System


@pytest.mark.integration
@pytest.mark.chaos
@pytest.mark.timeout(180)
def test_a_deadly_call_takes_nobody_along_the_third_time(
    make_system: Callable[..., System], model: ModelServer
) -> None:
    rows = [call("chaos_die", tag="deadly"), call("chaos_look", tag="beside", seconds=1.5)]
    model.script([{"when": {"step": 0}, "then": {"calls": rows}}, {"then": {"text": "{{results}}"}}])
    system = make_system(workers=3, env={"CAPATAZ_WORKER__LEASE_TTL_S": "2"})
    client = Client.connect(system.redis_url)
    reply = client.wait(client.submit("go", session="s", tools=("chaos",)), 90)
    assert reply.ok
    assert sum(worker.alive for worker in system.workers) == 1
    assert lines(system)["die deadly"] == 3
    assert states(client, "s") == {"deadly": "failed", "beside": "done"}
    ends = [e.value.result for e in client.history("s") if isinstance(e.value, NodeEnded)]
    [failed] = [result for result in ends if result.state == "failed"]
    assert "SIGKILL" in failed.text
    assert failed.error is not None
    assert failed.error.code == "worker_died"
    client.close()
