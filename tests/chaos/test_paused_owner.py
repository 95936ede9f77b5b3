"""Two coordinators, one of them paused for longer than its lease while the model talks to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared.client import Client
from shared.entries import Assistant, RunEnded
from tests.chaos.check import leftovers
from tests.chaos.model import call
from tests.chaos.probe import await_events, lines, owner, until
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = [pytest.mark.integration, pytest.mark.chaos, pytest.mark.timeout(300)]


def test_what_a_paused_owner_writes_late_is_refused(make_system: Callable[..., System], model: ModelServer) -> None:
    model.script(
        [
            {"when": {"step": 0}, "then": {"calls": [call("chaos_write", tag="once")]}},
            {"then": {"text": "an answer that takes its time", "stream_ms": 1500}},
        ]
    )
    system = make_system(coordinators=2, workers=1)
    client = Client.connect(system.redis_url)
    submitted = client.submit("go", session="s", tools=("chaos",))
    run = await_events(client, "s", "text.delta")[0].run
    first = owner(system, run)
    system.pause(first)  # the rest of its answer waits in its socket
    reply = client.wait(submitted, 90)
    assert owner(system, run) is not first
    system.resume(first)
    until(lambda: "its lease is gone" in first.output(), "the refusal of the late write")
    assert reply.answer == "an answer that takes its time"
    log = [e.value for e in client.history("s")]
    assert sum(isinstance(v, RunEnded) for v in log) == 1
    assert [v.step for v in log if isinstance(v, Assistant)] == [1, 2]
    assert lines(system)["write once"] == 1
    with system.client() as raw:
        assert raw.llen(f"capataz:reply:{submitted.reply_to}") == 0  # one reply, and it was taken
        until(lambda: not leftovers(raw), "rest")
    again = client.ask("go", session="after", tools=("chaos",), timeout=60)  # and it works on
    assert again.ok
    assert first.alive
