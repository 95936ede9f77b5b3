"""Models that fail in the middle of a run, with real processes: the run goes on at the next link of its chain."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from shared.client import Client
from shared.entries import Assistant, Event
from shared.settings import DataSettings, Settings
from shared.sql import Database, costs, database_url
from tests.integration.test_messages import call, threading_wait
from tests.integration.test_tiers import PNG
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

MakeSystem = Callable[..., System]

CUT = {"text": "I was about to say something", "cut": 9}
TOO_MANY = {"error": {"status": 429}}


@pytest.fixture
def servers() -> Iterator[list[ModelServer]]:
    """Three scripted providers: `one`, `two`, `three`."""
    with ExitStack() as stack:
        yield [stack.enter_context(ModelServer(rules=[{"then": {"text": "idle"}}])) for _ in range(3)]


def chain_env(servers: list[ModelServer], **models: Any) -> dict[str, str]:
    """Settings of a default tier over all servers, in order."""
    names = ("one", "two", "three")
    providers = {n: {"preset": "rehearsal", "base_url": s.url} for n, s in zip(names, servers, strict=True)}
    env = {
        "CAPATAZ_MODELS__PROVIDERS": json.dumps(providers),
        "CAPATAZ_MODELS__TIERS": json.dumps({"default": [f"{n}/rehearsal" for n in names]}),
        "CAPATAZ_PLAYBOOK__ENABLED": "false",  # the learner would call models too
    }
    return env | {f"CAPATAZ_MODELS__{key.upper()}": json.dumps(value) for key, value in models.items()}


def events_of(client: Client, session: str, run: str) -> list[Event]:
    return list(client.stream(session, run=run, timeout=10))


def probe_lines(system: System) -> list[str]:
    path = system.workspace / "probe.log"
    return path.read_text().splitlines() if path.exists() else []


def owner_of(client: Client, system: System, run: str) -> Any:
    """The coordinator that had a run."""
    with system.client() as raw:
        owner = str(raw.hget(f"capataz:run:{run}", "owner"))
    return next(c for c in system.coordinators if f"-{c.pid}-" in owner)


def database_of(system: System) -> Database:
    return Database(database_url(Settings.model_construct(data=DataSettings(dir=system.folder / "data"))))


def test_a_run_goes_on_with_the_third_model_and_the_other_coordinator_knows(
    make_system: MakeSystem, servers: list[ModelServer]
) -> None:
    one, two, three = servers
    system = make_system(coordinators=2, env=chain_env(servers, breaker={"cooldown_s": 120}))
    client = Client.connect(system.redis_url)
    # A thought of the first provider's is in the history when the others take over.
    ran = {"thinking": "a write and a read", "calls": [call("probe_write", tag="once"), call("probe_read", tag="r")]}
    one.script([{"when": {"step": 0}, "then": ran}, {"then": CUT}])
    two.script([{"then": TOO_MANY}])
    three.script([{"then": {"text": "the third says: {{results}}"}}])

    reply = client.ask("go", session="s", timeout=60)
    assert reply.ok, reply.error
    assert reply.answer.startswith("the third says:")
    assert '"tag":"once"' in reply.answer
    assert reply.model == "three/rehearsal"
    assert sorted(probe_lines(system)) == ["read r", "write once"], "each tool ran once"
    assert [len(s.requests) for s in servers] == [4, 3, 1], "one step answered, three attempts each, then the third"

    sent = three.requests[0].body["messages"]
    assert [m["role"] for m in sent] == ["system", "user", "assistant", "tool", "tool"]
    assert "a write and a read" not in json.dumps(sent), "what the first provider thought is its own"
    assert [m["tool_call_id"] for m in sent[3:]] == [c["id"] for c in sent[2]["tool_calls"]]

    events = events_of(client, "s", reply.run)
    assert [e.data["model"] for e in events if e.type == "step.restarted"] == [
        *["one/rehearsal"] * 2,
        *["two/rehearsal"] * 3,
        "three/rehearsal",
    ]
    said = "".join(e.data["text"] for e in events if e.type == "text.delta" and e.data["attempt"] == 7)
    assert said == reply.answer, "what cut attempts said is told apart by the attempt"

    system.kill(owner_of(client, system, reply.run))
    three.script([{"then": {"text": "still here"}}])
    again = client.ask("and now?", session="other", timeout=30)
    assert again.answer == "still here"
    assert [len(s.requests) for s in servers[:2]] == [4, 3], "the second coordinator asked neither"
    passed = [e.data["model"] for e in events_of(client, "other", again.run) if e.data.get("code") == "passed_over"]
    assert passed == ["one/rehearsal", "two/rehearsal"]


def test_what_failed_attempts_cost_is_in_the_log_and_in_the_archive(
    make_system: MakeSystem, servers: list[ModelServer]
) -> None:
    one, two, _ = servers
    system = make_system(env=chain_env(servers, attempts=1))
    client = Client.connect(system.redis_url)
    one.script([{"then": CUT}])
    two.script([{"then": {"text": "fine", "usage": {"input": 100, "output": 7, "cached": 40}}}])
    reply = client.ask("hi", session="s", timeout=30)
    assert reply.answer == "fine"
    [entry] = [e.value for e in client.history("s") if isinstance(e.value, Assistant)]
    assert (entry.usage.input, entry.usage.cache_read, entry.usage.output) == (60, 40, 7)
    assert [(r.provider, r.code, r.usage.estimated) for r in entry.retries] == [("one", "cut_stream", True)]
    assert reply.usage["input"] == 60 + entry.retries[0].usage.input
    database = database_of(system)
    try:
        threading_wait(lambda: _ended(database, reply.run))
        rows = {row.key: row for row in database.run_sync(lambda conn: costs.sums(conn, "model"))}
    finally:
        database.close()
    assert (rows["one/rehearsal"].calls, rows["one/rehearsal"].failed) == (1, 1)
    assert (rows["two/rehearsal"].calls, rows["two/rehearsal"].failed) == (1, 0)
    assert rows["two/rehearsal"].cache_read == 40
    assert rows["two/rehearsal"].first_ms is not None


def _ended(database: Database, run: str) -> Any:
    from shared.sql import runs

    return database.run_sync(lambda conn: runs.get_run(conn, run, None))


def test_when_no_model_answers_the_run_says_so_and_the_next_waits_its_turn(
    make_system: MakeSystem, servers: list[ModelServer]
) -> None:
    system = make_system(env=chain_env(servers, attempts=1, patience_s=0, breaker={"failures": 1, "cooldown_s": 60}))
    client = Client.connect(system.redis_url)
    for server in servers:
        server.script([{"then": {"error": {"status": 503, "body": "no capacity"}}}])
    first = client.ask("hi", session="s", timeout=30)
    assert first.error is not None
    assert first.error.code == "overloaded"
    second = client.ask("hi", session="s", timeout=30)
    assert second.error is not None
    assert second.error.code == "models_resting"
    assert second.error.retry_after is not None
    assert 0 < second.error.retry_after <= 60
    assert [len(s.requests) for s in servers] == [1, 1, 1]


def test_a_workers_calls_find_the_breaker_of_the_coordinators(
    make_system: MakeSystem, servers: list[ModelServer]
) -> None:
    one, two, three = servers
    env = chain_env(servers, attempts=1, breaker={"failures": 1, "cooldown_s": 60})
    tiers = {"default": ["one/rehearsal", "two/rehearsal"], "vision": ["one/rehearsal", "three/rehearsal"]}
    system = make_system(env={**env, "CAPATAZ_MODELS__TIERS": json.dumps(tiers)})
    client = Client.connect(system.redis_url)
    (system.workspace / "dot.png").write_bytes(PNG)
    one.script([{"then": TOO_MANY}])
    two.script(
        [
            {"when": {"step": 0}, "then": {"calls": [call("image_describe", path="dot.png")]}},
            {"then": {"text": "I see: {{result.1}}"}},
        ]
    )
    three.script([{"when": {"has_image": True}, "then": {"text": "a dot"}}])
    reply = client.ask("what is in the picture dot.png?", session="s", timeout=30)
    assert "a dot" in reply.answer
    assert len(one.requests) == 1, "asked by the coordinator once, and by the worker not at all"


def test_slots_of_a_provider_are_shared_by_all_processes(make_system: MakeSystem, servers: list[ModelServer]) -> None:
    one = servers[0]
    env = chain_env(servers, tiers={"default": ["one/rehearsal"]})
    provider = {"one": {"preset": "rehearsal", "base_url": one.url, "concurrency": 1}}
    system = make_system(coordinators=2, env={**env, "CAPATAZ_MODELS__PROVIDERS": json.dumps(provider)})
    client = Client.connect(system.redis_url)
    one.script([{"then": {"text": "answer", "stream_ms": 300}}])
    submitted = [client.submit("hi", session=f"s{n}") for n in range(4)]
    replies = [client.wait(s, 40) for s in submitted]
    assert all(r.ok for r in replies)
    began = sorted(r.at for r in one.requests)
    gaps = [later - earlier for earlier, later in itertools.pairwise(began)]
    assert min(gaps) >= 0.2, "no two calls were under way at once"
