"""kill -9 at each boundary of a run with five calls side by side: what has ended never runs again, a write in the
middle ends as outcome unknown, and the answer says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shared.client import Client
from shared.fold import SessionFold
from tests.chaos.check import World, answers, history_problems, leftovers
from tests.chaos.model import call
from tests.chaos.probe import (
    await_events,
    await_line,
    lines,
    open_gate,
    owner,
    states,
    until,
    worker,
    workers_by_tag,
)
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = [pytest.mark.integration, pytest.mark.chaos, pytest.mark.timeout(300)]

MakeSystem = Callable[..., System]

FIVE = ("look a", "look b", "put c", "write d", "write e")
"""What the five calls write, each once if nothing happens to them."""


def rules(
    *, first_ms: float = 0, stream_ms: float = 0, answer_ms: float = 0, last_ms: float = 0
) -> list[dict[str, Any]]:
    """Five calls in one turn: `b` and `e` are held after their effect, the others are quick."""
    calls = [
        call("chaos_look", tag="a"),
        call("chaos_look", tag="b", after="b"),
        call("chaos_put", tag="c"),
        call("chaos_write", tag="d"),
        call("chaos_write", tag="e", after="e"),
    ]
    return [
        {"when": {"step": 0}, "then": {"calls": calls, "first_token_ms": first_ms, "stream_ms": stream_ms}},
        {"then": {"text": "{{results}}", "first_token_ms": last_ms, "stream_ms": answer_ms}},
    ]


def submit(client: Client) -> Any:
    return client.submit("go", session="s", tools=("chaos",))


def run_of(client: Client) -> str:
    return await_events(client, "s", "run.started")[0].run


def finish(system: System, client: Client, submitted: Any) -> Any:
    """Opens the gates, waits for the answer, and looks for what may never be, whatever was killed."""
    open_gate(system, "b", "e")
    reply = client.wait(submitted, 90)
    assert reply.ok, reply
    with system.client() as raw:
        until(lambda: not leftovers(raw), f"the end of {leftovers(raw)}")
        assert answers(World.read(raw, system.workspace), [], raw) == []
    assert history_problems(SessionFold.of(client.history("s")).messages) == []
    assert all(lines(system)[w] <= 1 for w in FIVE if w.startswith("write"))
    return reply


def at_claim(client: Client, system: System) -> None:
    run_of(client)


def at_first_call(client: Client, system: System) -> None:
    await_events(client, "s", "step.started")


def at_stream(client: Client, system: System) -> None:
    await_events(client, "s", "node.planned")  # the first read call is sent while the model still talks


def at_plan(client: Client, system: System) -> None:
    await_events(client, "s", "usage")


def at_start(client: Client, system: System) -> None:
    await_events(client, "s", "node.started", 5)


def at_some_done(client: Client, system: System) -> None:
    await_events(client, "s", "node.finished", 3)
    await_line(system, "write e")


def at_all_done(client: Client, system: System) -> None:
    await_line(system, "write e")
    open_gate(system, "b", "e")
    await_events(client, "s", "node.finished", 5)


def at_answer(client: Client, system: System) -> None:
    at_all_done(client, system)
    await_events(client, "s", "text.delta")


@pytest.mark.parametrize(
    ("boundary", "timing"),
    [
        (at_claim, {"first_ms": 500}),
        (at_first_call, {"first_ms": 1000}),
        (at_stream, {"stream_ms": 2000}),
        (at_plan, {}),
        (at_start, {}),
        (at_some_done, {}),
        (at_all_done, {"last_ms": 1500}),
        (at_answer, {"answer_ms": 2000}),
    ],
)
def test_coordinator_killed(
    make_system: MakeSystem, model: ModelServer, boundary: Callable[[Client, System], None], timing: dict[str, float]
) -> None:
    model.script(rules(**timing))
    system = make_system(coordinators=2, workers=1)
    client = Client.connect(system.redis_url)
    submitted = submit(client)
    boundary(client, system)
    system.kill(owner(system, run_of(client)))
    reply = finish(system, client, submitted)
    assert {line: lines(system)[line] for line in FIVE} == dict.fromkeys(FIVE, 1)  # no worker died: each ran once
    assert set(states(client, "s").values()) == {"done"}
    assert all(f'"tag":"{tag}"' in reply.answer for tag in "abcde")


def test_coordinator_killed_at_the_end(make_system: MakeSystem, model: ModelServer) -> None:
    model.script(rules())
    system = make_system(coordinators=2, workers=1)
    client = Client.connect(system.redis_url)
    submitted = submit(client)
    first = owner(system, run_of(client))
    open_gate(system, "b", "e")
    await_events(client, "s", "run.finished")
    system.kill(first)
    reply = finish(system, client, submitted)  # the copy in the archive too is made by the other one
    assert all(f'"tag":"{tag}"' in reply.answer for tag in "abcde")


def test_worker_killed_before_its_effects(make_system: MakeSystem, model: ModelServer) -> None:
    held = [call("chaos_look", tag="b", before="b"), call("chaos_put", tag="c", before="c")]
    held += [call("chaos_write", tag=tag, before=tag) for tag in "de"]
    rows = [call("chaos_look", tag="a"), *held]
    model.script([{"when": {"step": 0}, "then": {"calls": rows}}, {"then": {"text": "{{results}}"}}])
    system = make_system(coordinators=1, workers=1)
    client = Client.connect(system.redis_url)
    submitted = submit(client)
    for gate in "bcde":
        await_line(system, f"waits {gate}")
    await_events(client, "s", "node.finished")
    system.kill(system.workers[0])
    system.workers[0].start()
    open_gate(system, "c", "d")
    reply = finish(system, client, submitted)
    found = states(client, "s")
    assert found == {"a": "done", "b": "done", "c": "done", "d": "outcome_unknown", "e": "outcome_unknown"}
    assert {line: lines(system)[line] for line in FIVE} == dict(zip(FIVE, (1, 1, 1, 0, 0), strict=True))
    assert reply.answer.count("Outcome unknown") == 2


def test_worker_killed_between_effect_and_result(make_system: MakeSystem, model: ModelServer) -> None:
    model.script(rules())
    system = make_system(coordinators=1, workers=2)
    client = Client.connect(system.redis_url)
    submitted = submit(client)
    at_some_done(client, system)
    await_line(system, "look b")
    took = workers_by_tag(client, "s", 5)
    victim = worker(system, took["e"])
    system.kill(victim)
    victim.start()
    reply = finish(system, client, submitted)
    assert states(client, "s") == {"a": "done", "b": "done", "c": "done", "d": "done", "e": "outcome_unknown"}
    ran = lines(system)
    again = 2 if took["b"] == took["e"] else 1  # a read that was in flight there is run again elsewhere
    assert {line: ran[line] for line in FIVE} == dict(zip(FIVE, (1, again, 1, 1, 1), strict=True))
    assert reply.answer.count("Outcome unknown") == 1


def test_worker_killed_after_its_results(make_system: MakeSystem, model: ModelServer) -> None:
    model.script(rules(last_ms=1500))
    system = make_system(coordinators=1, workers=1)
    client = Client.connect(system.redis_url)
    submitted = submit(client)
    at_all_done(client, system)
    system.kill(system.workers[0])
    reply = finish(system, client, submitted)
    assert {line: lines(system)[line] for line in FIVE} == dict.fromkeys(FIVE, 1)
    assert "unknown" not in reply.answer
