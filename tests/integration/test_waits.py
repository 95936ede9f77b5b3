"""Approvals, questions and timers: a run that waits is parked in the log, and any coordinator goes on with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shared.client import Client
from shared.entries import Decided, Event, NodeEnded, Waiting
from shared.state import keys
from tests.chaos.probe import until
from tests.integration.conftest import PROBE_ENV
from tests.integration.test_messages import call, calls, of_agents
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = pytest.mark.integration

ASKING = {"CAPATAZ_PERMISSIONS__RULES": '[{"action": "ask", "tools": ["probe_write"], "reason": "it writes"}]'}


@pytest.fixture(scope="module")
def system(model: ModelServer) -> Iterator[System]:
    with System(model_url=model.url, coordinators=2, env={**PROBE_ENV, **ASKING}) as running:
        yield running


def seen(client: Client, session: str, kind: str, timeout: float = 15.0) -> Event:
    """The first event of a kind in a session."""
    return next(e for e in client.stream(session, after="0", timeout=timeout) if e.type == kind)


def parked(system: System, run: str) -> dict[str, str]:
    """The run's row, once it is parked."""
    with system.client() as raw:

        def row() -> dict[str, str] | None:
            found: Any = raw.hgetall(keys.run(run))
            return found if found.get("state") == "parked" else None

        return until(row, "the parking of the run")


def written(system: System) -> list[str]:
    path = system.workspace / "probe.log"
    return path.read_text("utf-8").splitlines() if path.exists() else []


def test_what_is_approved_runs_once_and_the_run_held_no_process(
    system: System, client: Client, model: ModelServer
) -> None:
    model.script(calls(call("probe_write", tag="approved"), call("probe_read", tag="beside")))
    sent = client.submit("go", session="ask-1")
    asked = seen(client, "ask-1", "approval.requested")
    assert asked.data["args"] == {"tag": "approved"}
    assert asked.data["path"] == ["default"]
    assert parked(system, asked.run)["owner"] == ""
    assert "write approved" not in written(system)
    assert client.approve(asked.data["node"]).ok
    reply = client.wait(sent, 20)
    assert reply.ok
    assert '"tag":"approved"' in reply.answer
    assert written(system).count("write approved") == 1
    [decided] = [e.value for e in client.history("ask-1") if isinstance(e.value, Decided)]
    assert decided.allowed
    assert decided.args_hash == asked.data["args_hash"]


def test_a_no_reaches_the_model_as_a_result(system: System, client: Client, model: ModelServer) -> None:
    model.script(calls(call("probe_write", tag="denied")))
    sent = client.submit("go", session="ask-2")
    asked = seen(client, "ask-2", "approval.requested")
    assert client.control("deny", session="ask-2", text="not today").ok
    reply = client.wait(sent, 20)
    assert reply.ok
    assert "not today" in reply.answer
    assert "write denied" not in written(system)
    [ended] = [e.value.result.state for e in client.history("ask-2") if isinstance(e.value, NodeEnded)]
    assert ended == "denied"
    assert not client.approve(asked.data["node"]).ok


def test_for_the_session_means_no_second_question(system: System, client: Client, model: ModelServer) -> None:
    model.script(
        calls(call("probe_write", tag="one"), user="first") + calls(call("probe_write", tag="two"), user="second")
    )
    sent = client.submit("first", session="ask-3")
    asked = seen(client, "ask-3", "approval.requested")
    client.approve(asked.data["node"], scope="session")
    assert client.wait(sent, 20).ok
    assert client.ask("second", session="ask-3", timeout=20).ok
    assert {"write one", "write two"} <= set(written(system))
    assert sum(isinstance(e.value, Waiting) for e in client.history("ask-3")) == 1


def test_nobody_is_asked_in_a_headless_run(system: System, client: Client, model: ModelServer) -> None:
    model.script(calls(call("probe_write", tag="headless"), call("ask_user", question="may I?")))
    reply = client.ask("go", session="ask-4", timeout=20, approvals="deny")
    assert reply.ok
    assert "nobody can be asked" in reply.answer
    assert "write headless" not in written(system)
    assert "ask_user" not in [t["function"]["name"] for t in of_agents(model)[0].body["tools"]]


def test_an_answer_to_a_question_is_its_result(system: System, client: Client, model: ModelServer) -> None:
    model.script(calls(call("ask_user", question="which one?", options=["the red", "the blue"], recommended="the red")))
    sent = client.submit("go", session="ask-5")
    asked = seen(client, "ask-5", "question.asked")
    assert asked.data["options"] == ["the red", "the blue"]
    parked(system, asked.run)
    assert client.control("answer", session="ask-5", text="2").ok
    reply = client.wait(sent, 20)
    assert "The user answered: the blue" in reply.answer


def test_a_timer_wakes_a_parked_run(system: System, client: Client, model: ModelServer) -> None:
    model.script(calls(call("wait", seconds=1.5), call("wait"), call("wait", until="soon")))
    reply = client.ask("wait a bit", session="ask-6", timeout=20)
    assert "The time is up." in reply.answer
    assert "either seconds or until" in reply.answer


def test_a_run_stays_parked_without_any_coordinator(make_system: Callable[..., System], model: ModelServer) -> None:
    system = make_system(env=ASKING)
    client = Client.connect(system.redis_url)
    model.script(calls(call("probe_write", tag="later")))
    sent = client.submit("go", session="s")
    asked = seen(client, "s", "approval.requested")
    parked(system, asked.run)
    system.kill(system.coordinators[0])
    system.state.kill()
    system.state.start()
    with system.client() as raw:
        raw.xadd(keys.inbox(), {"kind": "approve", "node": asked.data["node"], "run": asked.run})
    system.coordinators[0].start()
    reply = client.wait(sent, 30)
    assert reply.ok
    assert '"tag":"later"' in reply.answer
    client.close()


def test_who_takes_an_approved_call_over_knows_its_tool_first(
    make_system: Callable[..., System], model: ModelServer
) -> None:
    """Else it could not judge the call, and would send it without its approval."""
    system = make_system(env={**ASKING, "CAPATAZ_WORKER__LEASE_TTL_S": "2"})
    client = Client.connect(system.redis_url)
    model.script(calls(call("probe_write", tag="known")))
    sent = client.submit("go", session="s")
    asked = seen(client, "s", "approval.requested")
    parked(system, asked.run)
    system.kill(system.workers[0])
    system.kill(system.coordinators[0])
    with system.client() as raw:
        until(lambda: not list(raw.scan_iter(f"{keys.PREFIX}worker:*")), "the end of the heartbeat")
        raw.xadd(keys.inbox(), {"kind": "approve", "node": asked.data["node"]})
    system.coordinators[0].start()
    until(lambda: client.runs()[0]["state"] == "active", "the takeover")
    system.workers[0].start()
    reply = client.wait(sent, 40)
    assert '"tag":"known"' in reply.answer, reply
    client.close()
