"""A call that was started while the model still talked, by a coordinator that died before the message was whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared.client import Client
from tests.chaos.check import leftovers
from tests.chaos.model import call
from tests.chaos.probe import await_events, lines, owner, until
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = [pytest.mark.integration, pytest.mark.chaos, pytest.mark.timeout(300)]


def test_another_call_of_the_next_attempt_does_not_get_its_result(
    make_system: Callable[..., System], model: ModelServer
) -> None:
    slow = [call("chaos_look", tag="old"), call("chaos_look", tag="older")]
    quick = [call("chaos_look", tag="new"), call("chaos_look", tag="newer")]
    model.script(
        [
            {"when": {"step": 0}, "times": 1, "then": {"calls": slow, "stream_ms": 4000}},
            {"when": {"step": 0}, "then": {"calls": quick, "stream_ms": 1500}},
            {"then": {"text": "{{results}}"}},
        ]
    )
    system = make_system(coordinators=2, workers=1)
    client = Client.connect(system.redis_url)
    submitted = client.submit("go", session="s", tools=("chaos",))
    first = await_events(client, "s", "node.finished")[0]
    system.kill(owner(system, first.run))
    reply = client.wait(submitted, 90)
    assert reply.ok
    assert '"tag":"new"' in reply.answer
    assert "old" not in reply.answer
    assert '"tag":"newer"' in reply.answer
    assert lines(system)["look new"] == 1
    with system.client() as raw:
        until(lambda: not leftovers(raw), "rest")
