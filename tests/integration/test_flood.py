"""Ten thousand messages at once through real processes: each is answered once, and nobody else has to wait for them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from shared.client import Client
from shared.errors import StateUnavailable
from shared.state import keys
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = pytest.mark.integration

COUNT = 10_000
SESSIONS = 3
RUNNING = 2
USERS = tuple(f"user{n:02}" for n in range(20))
NOBODY = {"CAPATAZ_COORDINATOR__WAIT_FOR_WORKERS_S": "0"}
LIMITS = {
    "CAPATAZ_PRINCIPALS": json.dumps([*USERS, "visitor"]),
    "CAPATAZ_LIMITS__WAITING": "3",
    "CAPATAZ_LIMITS__RUNNING": str(RUNNING),
    "CAPATAZ_LIMITS__RATE_PER_MINUTE": "0",
}
REFUSED = {"busy"}


@pytest.fixture(scope="module")
def system(model: ModelServer) -> Iterator[System]:
    running = System(model_url=model.url, workers=0, env={"CAPATAZ_ROUTING__ENCODER": "off", **NOBODY, **LIMITS})
    try:
        yield running.start()
    finally:
        running.stop()


def flood(client: redis.Redis, users: tuple[str, ...], list_name: str) -> set[str]:
    """Throws all messages in at once, each with the same reply list; returns their ids."""
    pipe = client.pipeline(transaction=False)
    ids = set()
    for n in range(COUNT):
        user = users[n % len(users)]
        session = f"{list_name}.{user}.{n // len(users) % SESSIONS}"
        fields: dict[Any, Any] = {"kind": "message", "session": session, "text": "go", "id": f"{list_name}-{n}"}
        pipe.xadd(keys.inbox(user), {**fields, "reply_to": list_name})
        ids.add(f"{list_name}-{n}")
    pipe.execute()
    return ids


def replies(client: redis.Redis, list_name: str) -> list[dict[str, Any]]:
    """As many replies as there were messages; fails if none comes for 30 s."""
    found: list[dict[str, Any]] = []
    while len(found) < COUNT:
        row: Any = client.blpop([keys.reply(list_name)], timeout=30)
        assert row is not None, f"{COUNT - len(found)} messages have no answer"
        rest: Any = client.lpop(keys.reply(list_name), COUNT) or []
        found += [json.loads(text) for text in (row[1], *rest)]
    return found


def started(client: redis.Redis, prefix: str, users: tuple[str, ...]) -> list[tuple[int, int]]:
    """When runs of these users began, as ids of events."""
    names = [f"{prefix}.{user}.{n}" for user in users for n in range(SESSIONS)]
    return sorted(at for name in names for kind, at in events(client, name) if kind == "run.started")


def events(client: redis.Redis, session: str) -> list[tuple[str, tuple[int, int]]]:
    rows: Any = client.xrange(keys.events(session))
    return [(fields["type"], _number(entry)) for entry, fields in rows]


def _number(entry: str) -> tuple[int, int]:
    ms, _, seq = entry.partition("-")
    return int(ms), int(seq)


@pytest.mark.parametrize("users", [USERS[:1], USERS], ids=["one user", "twenty users"])
def test_ten_thousand_messages_are_each_answered_once(
    system: System, model: ModelServer, users: tuple[str, ...]
) -> None:
    model.script([{"then": {"text": "done"}}])
    name = f"flood{len(users)}"
    visitor = Client.connect(system.redis_url, "visitor")
    with system.state.client(socket_timeout=None) as client:
        ids = flood(client, users, name)
        assert visitor.ask("and me?", session=f"visitor.{name}", timeout=30).answer == "done"
        left = sum(client.xlen(keys.inbox(u)) + client.zcard(keys.waiting(u)) for u in users)
        assert left > 0, "the flood was over before the visitor was answered: this test shows nothing"
        found = replies(client, name)
        assert {r["id"] for r in found if not r["ok"]} | _answered(client, found) == ids
        codes = Counter(r["error"]["code"] for r in found if not r["ok"])
        assert set(codes) == REFUSED
        assert all(r["error"]["retry_after"] > 0 for r in found if not r["ok"])
        visit = dict(events(client, f"visitor.{name}"))
        others = [at for at in started(client, name, users) if visit["message.accepted"] < at < visit["run.started"]]
        assert len(others) <= RUNNING * len(users), "the visitor was next, but for runs that were being claimed"
        assert [client.exists(keys.inbox(u), keys.waiting(u), keys.active_of(u)) for u in users] == [1] * len(users)
        assert client.scard(keys.ACTIVE) == sum(client.xlen(keys.inbox(u)) for u in users) == 0
        assert not client.exists(keys.reply(name)), "all is done, and somebody got two answers"
    visitor.close()


def _answered(client: redis.Redis, found: list[dict[str, Any]]) -> set[str]:
    """Ids of messages that ran, from the log of their sessions: a reply names its run."""
    runs = {r["run"]: r["session"] for r in found if r["ok"]}
    ids = set()
    for session in set(runs.values()):
        rows: Any = client.xrange(keys.log(session))
        opened = [json.loads(f["d"]) for _, f in rows if f["t"] == "user.message"]
        ids |= {m["id"] for m in opened if m["run"] in runs}
    assert len(ids) == len(runs)
    return ids


def test_a_full_redis_loses_nothing(make_system: Callable[..., System], model: ModelServer) -> None:
    model.script(
        [
            {"when": {"user": "slow"}, "then": {"text": "there you are", "first_token_ms": 1500}},
            {"then": {"text": "done"}},
        ]
    )
    system = make_system(workers=0, env=NOBODY)
    asker = Client.connect(system.redis_url)
    with system.client() as client:
        submitted = asker.submit("slow", session="under-way")
        model.wait_for_requests(1)
        most = client.config_get("maxmemory")["maxmemory"]
        client.config_set("maxmemory", 512 * 1024)
        with pytest.raises(StateUnavailable, match="full"):
            asker.submit("now?", session="later")
        assert asker.wait(submitted, 30).answer == "there you are"
        used = client.info("memory")["used_memory"]
        client.config_set("maxmemory", int(used * 1.08))
        refused = asker.ask("and now?", session="later", id="same", timeout=30)
        assert refused.error is not None
        assert (refused.error.code, refused.error.retry_after) == ("memory_full", 60)
        client.config_set("maxmemory", most)
        assert asker.ask("and now?", session="later", id="same", timeout=30).answer == "done"
        assert len(model.requests) == 2, "no call was made twice"
    asker.close()
