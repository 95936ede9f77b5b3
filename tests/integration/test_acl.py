"""The shipped ACL files at work: each process under its own user, and what that user cannot do."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import redis
import redis.exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from coordinator.inbox import classify
from ops.redis_server import find_server, free_port
from ops.supervisor import plan
from shared.client import Client
from shared.contract import Catalogue, Effect, NodeState, WorkerInfo
from shared.entries import Assistant, Context, RunEnded
from shared.errors import StateUnavailable
from shared.llm.model import Finish, Message, ToolCall
from shared.messages import Reply
from shared.state import keys
from shared.state.changes import Change
from shared.state.connection import connect, connect_sync
from shared.state.nodes import NodeLedger, beat_coordinator, beat_worker, forget_coordinator, forget_worker
from shared.state.pipeline import Pipeliner
from shared.state.runs import RunState
from shared.state.scripting import source
from shared.state.session import SessionState
from tests.integration.conftest import PROBE_ENV
from tests.support.model_server import ModelServer
from tests.support.processes import Proc, System
from tests.support.redis import TestRedis, redis_server
from tests.support.state import AGENTS, LIMITS, done, ended, make_node, order_of

pytestmark = pytest.mark.integration

ACL = Path(__file__).parents[2] / "ops" / "acl"
FLOWER_PASSWORD = "watch"
PEOPLE = ("client:", "alice:")


def load(server: TestRedis, name: str) -> None:
    """Makes the users of a file known to a running server; its own default user stays for the test's looks."""
    with server.client() as client:
        for line in (ACL / name).read_text("ascii").splitlines():
            _, user, *rules = line.split(" ")
            if user != "default":
                joined = re.findall(r"\([^)]*\)|\S+", " ".join(rules))
                client.execute_command("ACL", "SETUSER", user, *joined)


def url_of(server: TestRedis, user: str, scheme: str = "unix") -> str:
    """The server's URL with a user of the files and the password that stands there."""
    return f"{scheme}://{user}:change-me-{user}@{quote(str(server.folder / 'redis.sock'))}"


def denials(server: TestRedis) -> list[str]:
    """What the server has refused to the system's own processes."""
    with server.client() as client:
        rows: Any = client.acl_log()
    lines = [f"{row['username']}: {row['reason']} {row['object']} ({row['context']})" for row in rows]
    return [line for line in lines if not line.startswith(PEOPLE)]


def allowed(server: TestRedis, user: str, *command: str | bytes) -> bool:
    """Runs the command as that user; False if the server refuses it for lack of a right."""
    with connect_sync(url_of(server, user)) as client:
        try:
            client.execute_command(*command)
        except redis.exceptions.NoPermissionError:
            return False
        except redis.exceptions.ResponseError as error:
            return "ACL failure" not in str(error)
    return True


@pytest.mark.parametrize("name", ["state.acl", "broker.acl"])
def test_a_server_starts_with_the_file(name: str, tmp_path: Path) -> None:
    port = free_port()
    options = ("--port", str(port), "--dir", str(tmp_path), "--save", "", "--aclfile", str(ACL / name))
    process = subprocess.Popen([find_server().path, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    retry = Retry(NoBackoff(), 0)
    try:
        with redis.Redis(port=port, username="admin", password="change-me-admin", retry=retry) as client:
            give_up = time.monotonic() + 10
            while True:
                try:
                    users: Any = client.acl_users()
                    break
                except redis.exceptions.ConnectionError:
                    assert process.poll() is None, process.communicate()[0].decode()
                    assert time.monotonic() < give_up, "the server does not answer"
        wanted = {line.split()[1] for line in (ACL / name).read_text("ascii").splitlines()}
        assert set(users) == wanted
        with redis.Redis(port=port, retry=retry) as stranger, pytest.raises(redis.exceptions.AuthenticationError):
            stranger.ping()
    finally:
        process.kill()
        process.wait()


# --- a whole system, each process as its own user ----------------------------------------------------------------


class GuardedSystem(System):
    """Processes get the URLs of their own users. `guard` the servers before the first one starts."""

    flower_port = 0

    def guard(self) -> None:
        load(self.state, "state.acl")
        load(self.broker, "broker.acl")

    def _proc(self, name: str, argv: tuple[str, ...]) -> Proc:
        role = re.split(r"-\d", name)[0]
        state = url_of(self.state, "beat" if role == "flower" else role)
        env = {
            **self.env(),
            "REDIS_URL": state,
            "CAPATAZ_REDIS__URL": state,
            "CAPATAZ_REDIS__BROKER_URL": url_of(
                self.broker, "flower" if role == "flower" else "celery", scheme="redis+socket"
            ),
        }
        if role == "flower":
            env |= {"CAPATAZ_FLOWER_PASSWORD": FLOWER_PASSWORD, "CAPATAZ_FLOWER__PORT": str(self.flower_port)}
        return Proc(name, argv, env, self.folder / f"{name}.log")

    def add_other(self, name: str, module: str) -> Proc:
        proc = self._proc(name, plan.python(module))
        self.others.append(proc)
        return proc


@contextmanager
def guarding(model_url: str, env: dict[str, str]) -> Iterator[GuardedSystem]:
    """A running system behind the rules, with one coordinator and one worker."""
    system = GuardedSystem(model_url=model_url, coordinators=0, workers=0, env=env)
    try:
        system.start()
        system.guard()
        system.add_coordinator()
        system.add_worker()
        system.wait_ready()
        yield system
    finally:
        system.stop()


@pytest.fixture(scope="module")
def guarded(model: ModelServer) -> Iterator[GuardedSystem]:
    env = {**PROBE_ENV, "CAPATAZ_PRINCIPALS": '["alice"]'}
    with guarding(model.url, env) as system:
        yield system


@pytest.fixture
def owner(guarded: GuardedSystem) -> Iterator[Client]:
    client = Client.connect(url_of(guarded.state, "client"))
    yield client
    client.close()


def _tools(model: ModelServer) -> None:
    rows: list[dict[str, Any]] = [
        {"name": "probe_read", "arguments": {"tag": "seen"}},
        {"name": "fact_set", "arguments": {"name": "colour", "value": "red"}},
        {"name": "todo_write", "arguments": {"items": [{"text": "paint"}]}},
        {"name": "find_tools", "arguments": {"query": "notes"}},
    ]
    model.script([{"when": {"step": 0}, "then": {"calls": rows}}, {"then": {"text": "done: {{results}}"}}])


def test_a_message_is_answered(guarded: GuardedSystem, owner: Client, model: ModelServer) -> None:
    _tools(model)
    reply = owner.ask("go", session="guarded", timeout=30)
    assert "seen" in reply.answer
    assert "colour is set" in reply.answer
    events = list(owner.stream("guarded", run=reply.run, timeout=10))
    assert {e.data["state"] for e in events if e.type == "node.finished"} == {"done"}
    assert [type(e.value) for e in owner.history("guarded")][-1] is RunEnded
    assert owner.last_event("guarded") == events[-1].id
    assert owner.control("cancel", run=reply.run).error is not None  # it has ended already
    assert denials(guarded.state) == denials(guarded.broker) == []


def test_a_user_is_answered_and_sees_only_its_own(guarded: GuardedSystem, owner: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "hello alice"}}])
    owner.ask("mine", session="private", timeout=20)
    alice = Client.connect(url_of(guarded.state, "alice"), principal="alice")
    try:
        reply = alice.ask("hi", session="alice.1", timeout=20)
        assert reply.answer == "hello alice"
        assert [e.type for e in alice.stream("alice.1", run=reply.run, timeout=10)][-1] == "run.finished"
        assert isinstance(alice.history("alice.1")[1].value, Context)
        assert alice.ask("hi", session="elsewhere", timeout=20).ok
        for session in ("private", "elsewhere"):
            with pytest.raises(StateUnavailable, match="refuses"):
                alice.history(session)
            with pytest.raises(StateUnavailable, match="refuses"):
                alice.last_event(session)
        assert alice.ask("mine now", session="private", timeout=20).error is not None
    finally:
        alice.close()


def test_a_worker_starts_workflows(guarded: GuardedSystem, owner: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "brief"}}])
    worker = Client.connect(url_of(guarded.state, "worker"))
    submitted = worker.submit_workflow("daily-brief", session="daily")
    worker.close()
    assert owner.wait(submitted, 30).ok
    assert denials(guarded.broker) == []


def test_beat_and_flower_work(guarded: GuardedSystem) -> None:
    guarded.flower_port = free_port()
    beat, flower = guarded.add_other("beat", "workers.beat"), guarded.add_other("flower", "ops.flower")
    address = f"http://127.0.0.1:{guarded.flower_port}/api/workers?refresh=1"
    with guarded.client() as state, httpx.Client(auth=("capataz", FLOWER_PASSWORD), timeout=10) as web:
        give_up = time.monotonic() + 45
        found: dict[str, Any] = {}
        while not found or not list(state.scan_iter("capataz:beat:*lock", 1000)):
            assert time.monotonic() < give_up, f"{beat.output()[-2000:]}\n{flower.output()[-2000:]}"
            assert beat.alive, beat.output()[-2000:]
            assert flower.alive, flower.output()[-2000:]
            try:
                found = web.get(address).json()
            except (httpx.TransportError, json.JSONDecodeError):
                time.sleep(0.2)  # not listening yet, or no worker has answered
    assert len(found) == 1
    assert denials(guarded.state) == denials(guarded.broker) == []


# --- the scripts as the users that call them ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[TestRedis]:
    with redis_server() as running:
        load(running, "state.acl")
        yield running


class Sides:
    """A coordinator, a worker and a client of a server, each as its own user."""

    def __init__(self, server: TestRedis) -> None:
        self.clients = {user: connect(url_of(server, user)) for user in ("coordinator", "worker", "client")}
        self.pipes = [Pipeliner(self.clients[user]) for user in ("coordinator", "worker")]
        self.runs = RunState(self.pipes[0], "c1", LIMITS)
        self.nodes = NodeLedger(self.pipes[1], "w1", "n1", LIMITS)
        self.session = SessionState(self.pipes[1], LIMITS)

    async def submit(self, **fields: str) -> None:
        entry: dict[Any, Any] = {"kind": "message", "session": "s", **fields}
        await self.clients["client"].xadd(keys.inbox(), entry)
        entries = await self.runs.read_inbox(keys.inbox())
        decisions = [classify(i, f, "owner", LIMITS, AGENTS) for i, f in entries]
        assert await self.runs.route(keys.inbox(), "owner", decisions) == 1

    async def aclose(self) -> None:
        for pipe in self.pipes:
            await pipe.aclose()
        for client in self.clients.values():
            await client.aclose()


def play(server: TestRedis, test: Callable[[Sides], Awaitable[None]]) -> None:
    """Runs a test on an empty server with both heartbeats set by their own users."""
    info = WorkerInfo(
        id="w1", nonce="n1", catalogue="d", queues=("tools",), slots=1, key_id="k", host="h", pid=1, started_ms=1
    )

    async def run() -> None:
        sides = Sides(server)
        try:
            await test(sides)
        finally:
            await sides.aclose()

    with server.client() as admin:
        admin.flushall()
        admin.acl_log_reset()
    with connect_sync(url_of(server, "coordinator")) as one, connect_sync(url_of(server, "worker")) as other:
        beat_coordinator(one, "c1", 60)
        beat_worker(other, info, Catalogue(), 60)
        asyncio.run(run())
        forget_coordinator(one, "c1")
        forget_worker(other, "w1")
    assert denials(server) == []


def test_every_script_may_do_its_work(server: TestRedis) -> None:
    async def test(sides: Sides) -> None:
        runs, nodes = sides.runs, sides.nodes
        assert await runs.epoch() == await runs.epoch()
        await sides.submit(text="go", id="m1", reply_to="r1")
        [(lease, _)] = await runs.claim(1)
        rows = [make_node(name, Effect.WRITE if name == "n3" else Effect.READ) for name in ("n1", "n2", "n3")]
        orders = [order_of(lease, row) for row in rows]
        calls = tuple(ToolCall(id=row.node, name="probe", arguments=row.args) for row in rows)
        message = Message(role="assistant", blocks=calls)
        entry = Assistant(step=1, attempt=1, message=message, finish=Finish.TOOL_CALLS)
        await runs.append(lease, Change(entries=[entry], nodes=rows))
        assert await nodes.claim(orders) == [1, 1, 1]
        assert await nodes.alive()
        assert await nodes.still_mine(orders[0], 1)
        await nodes.progress(orders[0], "half way")
        assert await nodes.end(orders[0], 1, done())
        assert await nodes.give_back(orders[1], 1)
        review = [(row.node, row.tool, ended(NodeState.OUTCOME_UNKNOWN), ended(NodeState.FAILED)) for row in rows]
        assert [r.state for r in await runs.review(lease, review)] == ["ended", "planned", "running"]
        assert list(await runs.results(lease.run, ["n1", "n2"])) == ["n1"]
        assert await sides.session.set_fact("s", "a", 1, None, "n1") == 1
        await sides.session.set_todo("s", [{"text": "x"}])
        assert await sides.session.todo("s") == [{"text": "x"}]
        assert len(await sides.session.workers()) == 1
        assert await sides.session.catalogue() == Catalogue()
        assert (await sides.session.facts("s"))["a"].value == 1
        await sides.submit(text="and this", mode="steer", reply_to="r2")
        assert await runs.with_mail([lease.run]) == [lease.run]
        assert len(await runs.mail(lease.run)) == 1
        assert await runs.release(lease)
        again = await runs.take_over(lease.run, dead_owners=True)
        assert again is not None
        assert await runs.active_runs() == {lease.run}
        reply = Reply(ok=True, run=lease.run, session="s", answer="42")
        end = RunEnded(state="ended", finish_reason="stop", answer="42")
        assert await runs.finish(again, Change(entries=[end], mail_read=1), reply, force=True)
        row: Any = await sides.clients["client"].blpop([keys.reply("r2")], timeout=5)
        assert json.loads(row[1])["answer"] == "42"
        assert await runs.archive_due() == [lease.run]
        await runs.archived([lease.run])
        assert (await runs.run_row(lease.run))["state"] == "ended"
        await sides.submit(kind="cancel", run=lease.run, reply_to="r3")
        await sides.submit(kind="dance", reply_to="r4")

    play(server, test)


WORDS: dict[str, tuple[str, ...]] = {
    "stream": ("XADD", "{}", "*", "f", "v"),
    "hash": ("HSET", "{}", "f", "v"),
    "list": ("RPUSH", "{}", "v"),
    "set": ("SADD", "{}", "v"),
    "zset": ("ZADD", "{}", "1", "v"),
    "string": ("SET", "{}", "v"),
}
WRITES = {
    "client": {"inbox"},
    "alice": {"inbox:alice"},
    "beat": set[str](),
}


@pytest.mark.parametrize("user", WRITES)
@pytest.mark.parametrize("row", keys.TABLE, ids=lambda row: row.pattern)
def test_users_write_to_their_inbox_and_nowhere_else(server: TestRedis, user: str, row: keys.KeyDoc) -> None:
    for part in ("alice", "x"):
        key = re.sub(r"<[^>]+>", part, row.pattern)
        command = [word.format(keys.PREFIX + key) for word in WORDS[row.type]]
        assert allowed(server, user, *command) == (key in WRITES[user])


@pytest.mark.parametrize("user", ["client", "alice"])
@pytest.mark.parametrize(
    "command",
    [
        ("EVAL", "return redis.call('HSET', 'capataz:run:r:ledger', 'n:s', 'done')", "0"),
        ("EVAL", source("end_node"), "0", "w/n", "r", "n", "1", "done", "{}", "{}", "{}", "{}"),
        ("EVAL", "return 1", "0"),
        ("FCALL", "f", "0"),
        ("FUNCTION", "LIST"),
        ("SCRIPT", "FLUSH"),
        ("FLUSHALL",),
        ("FLUSHDB",),
        ("CONFIG", "GET", "*"),
        ("KEYS", "*"),
        ("SCAN", "0"),
        ("RANDOMKEY",),
        ("CLIENT", "LIST"),
        ("CLIENT", "PAUSE", "1"),
        ("CLIENT", "KILL", "TYPE", "normal"),
        ("ACL", "LIST"),
        ("SHUTDOWN",),
        ("MONITOR",),
        ("PUBLISH", "c", "m"),
        ("XRANGE", keys.inbox(), "-", "+"),
        ("XDEL", keys.inbox(), "1-1"),
        ("XRANGE", keys.inbox("alice"), "-", "+"),
        ("XADD", keys.inbox("bob"), "*", "kind", "message"),
        ("RPUSH", keys.reply("c-0123456789abcdef"), "forged"),
        ("BLPOP", keys.queue("s"), "1"),
        ("HGETALL", keys.run("r")),
        ("GET", keys.worker("w")),
    ],
    ids=lambda command: " ".join(command)[:40],
)
def test_users_cannot(server: TestRedis, user: str, command: tuple[str, ...]) -> None:
    assert not allowed(server, user, *command)


@pytest.mark.parametrize(
    ("user", "command"),
    [
        ("alice", ("XADD", keys.inbox(), "*", "kind", "message")),
        ("client", ("XADD", keys.inbox("alice"), "*", "kind", "message")),
        ("alice", ("XREAD", "STREAMS", keys.events("bob.1"), "0")),
        ("alice", ("XREAD", "STREAMS", keys.events("alice.1"), keys.events("bob.1"), "0", "0")),
        ("alice", ("LPOP", keys.reply("bob.1"))),
        ("worker", ("XADD", keys.inbox("bob"), "*", "kind", "message")),
        ("worker", ("DEL", keys.inbox("alice"))),
        ("worker", ("LPOP", keys.reply("alice.1"))),
        ("worker", ("XRANGE", keys.inbox(), "-", "+")),
        ("worker", ("SET", keys.coordinator("c"), "1")),
        ("worker", ("HSET", keys.run("r"), "owner", "me")),
        ("worker", ("ZADD", keys.RUNNABLE, "1", "s")),
        ("worker", ("HSET", keys.session("s"), "owner", "me")),
        ("worker", ("EVAL", source("route"), "0", keys.inbox(), "owner", '[{"entry":"1-1"}]', "{}")),
        ("coordinator", ("XADD", keys.inbox("alice"), "*", "kind", "message")),
        ("coordinator", ("SET", keys.worker("w"), "1")),
        ("coordinator", ("BLPOP", keys.reply("r"), "1")),
        ("coordinator", ("FLUSHALL",)),
        ("coordinator", ("SCRIPT", "FLUSH")),
        ("worker", ("SCRIPT", "FLUSH")),
        ("worker", ("KEYS", "*")),
        ("beat", ("XADD", keys.inbox(), "*", "kind", "workflow")),
    ],
    ids=lambda part: part if isinstance(part, str) else " ".join(part)[:40],
)
def test_processes_cannot(server: TestRedis, user: str, command: tuple[str, ...]) -> None:
    assert not allowed(server, user, *command)


def test_flower_cannot_send_tasks() -> None:
    with redis_server(kind="broker") as broker:
        load(broker, "broker.acl")
        assert not allowed(broker, "flower", "LPUSH", "tools", "{}")
        assert not allowed(broker, "flower", "BRPOP", "tools", "1")
        assert allowed(broker, "flower", "LLEN", "tools")
        assert allowed(broker, "celery", "LPUSH", "tools", "{}")
