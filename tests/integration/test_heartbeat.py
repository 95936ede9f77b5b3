"""The heartbeat in a whole system: a model is asked only where the agent may speak, and what it says is told once."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from shared.client import Client
from shared.entries import Node, RunEnded
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("probability", "answer"), [("1", "Water the plants."), ("1", "NOTHING"), ("0", "never asked")]
)
def test_the_agent_speaks_by_itself_or_not(
    make_system: Callable[..., System], model: ModelServer, probability: str, answer: str
) -> None:
    system = make_system(
        beat=True,
        env={
            "CAPATAZ_WORKFLOWS__TICK_S": "1",
            "CAPATAZ_WORKFLOWS__CRON": json.dumps({"heartbeat": "every 1s"}),
            "CAPATAZ_WORKFLOWS__HEARTBEAT__PROBABILITY": probability,
            "CAPATAZ_WORKFLOWS__HEARTBEAT__PER_DAY": "100000",
            "CAPATAZ_WORKFLOWS__HEARTBEAT__QUIET_FROM": "0",
            "CAPATAZ_WORKFLOWS__HEARTBEAT__QUIET_TO": "0",
            "CAPATAZ_WORKFLOWS__HEARTBEAT__SESSION": "plants",
        },
    )
    model.requests.clear()
    model.script([{"then": {"text": answer}}])
    client = Client.connect(system.redis_url)
    if answer == "Water the plants.":
        event = next(one for one in client.stream("plants", timeout=60) if one.type == "run.finished")
        assert event.data["answer"] == answer
    session = _session(client)
    entries = [entry.value for entry in client.history(session)]
    ended = [one for one in entries if isinstance(one, RunEnded)]
    assert {one.state for one in ended} == {"ended"}
    assert {one.answer for one in ended} == {""}  # it is hidden; what is said is a notice
    if answer != "Water the plants.":
        assert client.history("plants") == []
    assert bool(model.requests) == (probability == "1")
    assert any(isinstance(one, Node) and one.tool.endswith("/decide") for one in entries)
    client.close()


def _session(client: Client) -> str:
    """The heartbeat's own session of the day, when a run in it has ended."""
    while True:
        for row in client.runs():
            if row["session"].startswith(".heartbeat."):
                next(one for one in client.stream(row["session"], timeout=60) if one.type.startswith("run.f"))
                return str(row["session"])
