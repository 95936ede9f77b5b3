"""The example ACL files against a real server and the key table."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from kombu.connection import Connection

from shared.state import keys
from tests.support.redis import TestRedis, redis_server

pytestmark = [pytest.mark.integration, pytest.mark.contract]

ACL = Path(__file__).parents[3] / "ops" / "acl"

_WRITES = {
    "stream": ("XADD", "*", "f", "v"),
    "list": ("RPUSH", "v"),
    "hash": ("HSET", "f", "v"),
    "set": ("SADD", "v"),
    "zset": ("ZADD", "1", "v"),
    "string": ("SET", "v"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestRedis]:
    """A server that knows the users of `state.acl`."""
    with redis_server(tmp_path_factory.mktemp("acl")) as running:
        with running.client() as client:
            for line in (ACL / "state.acl").read_text().splitlines():
                _, user, *rules = line.split(" ")
                if user != "default":
                    client.execute_command("ACL", "SETUSER", user, *_joined(rules))
        yield running


def _joined(rules: list[str]) -> list[str]:
    """Rules with the words of each `(…)` selector put together again, as ACL SETUSER wants them."""
    return re.findall(r"\([^)]*\)|\S+", " ".join(rules))


def _allowed(server: TestRedis, user: str, *command: str) -> bool:
    with server.client() as client:
        answer: Any = client.execute_command("ACL", "DRYRUN", user, *command)
    return bool(answer == "OK" or answer == b"OK")


def _key(pattern: str) -> str:
    return keys.PREFIX + re.sub(r"<[^>]+>", "x", pattern)


def test_the_files_are_what_a_server_loads(tmp_path: Path, server: TestRedis) -> None:
    for name in ("state.acl", "broker.acl"):
        with redis_server(tmp_path / name) as fresh, fresh.client() as client:
            for line in (ACL / name).read_text().splitlines():
                kind, user, *rules = line.split(" ")
                assert kind == "user", "comments and blank lines are not allowed in an ACL file"
                client.execute_command("ACL", "SETUSER", f"try-{user}", *_joined(rules))


def _rows() -> list[Any]:
    return [
        pytest.param(row, writer, id=f"{writer}-{row.pattern}")
        for row in keys.TABLE
        for writer in re.split(r",\s*", row.writers)
        if writer in ("coordinator", "worker")
    ]


@pytest.mark.parametrize(("row", "writer"), _rows())
def test_who_writes_a_key_may(server: TestRedis, row: keys.KeyDoc, writer: str) -> None:
    command, *values = _WRITES[row.type]
    assert _allowed(server, writer, command, _key(row.pattern), *values)


def test_a_client_has_its_inbox_the_events_and_its_answers(server: TestRedis) -> None:
    assert _allowed(server, "client", "XADD", keys.inbox(), "*", "kind", "message")
    assert _allowed(server, "client", "XREAD", "STREAMS", keys.events("s"), "0")
    assert _allowed(server, "client", "BLPOP", keys.reply("r"), "1")


@pytest.mark.parametrize(
    "command",
    [
        ("XREAD", "STREAMS", keys.inbox(), "0"),
        ("XADD", keys.inbox("other"), "*", "kind", "message"),
        ("XADD", keys.events("s"), "*", "type", "text.delta"),
        ("XREAD", "STREAMS", keys.log("s"), "0"),
        ("RPUSH", keys.reply("r"), "forged"),
        ("HSET", keys.ledger("r"), "n:s", "done"),
        ("GET", keys.worker("w")),
        ("EVAL", "return 1", "0"),
        ("KEYS", "*"),
        ("FLUSHALL",),
        ("CONFIG", "GET", "*"),
    ],
)
def test_a_client_has_nothing_else(server: TestRedis, command: tuple[str, ...]) -> None:
    assert not _allowed(server, "client", *command)


@pytest.mark.parametrize(
    "command",
    [
        ("XREAD", "STREAMS", keys.inbox(), "0"),
        ("XADD", keys.inbox("other"), "*", "kind", "message"),
        ("SET", keys.coordinator("c"), "v"),
        ("ZADD", keys.RUNNABLE, "1", "s"),
        ("FLUSHALL",),
    ],
)
def test_a_worker_cannot_act_as_a_user_or_a_coordinator(server: TestRedis, command: tuple[str, ...]) -> None:
    assert not _allowed(server, "worker", *command)


def test_a_client_works_with_its_own_password(server: TestRedis) -> None:
    socket = str(server.folder / "redis.sock")
    with redis.Redis(
        unix_socket_path=socket, username="client", password="change-me-client", decode_responses=True
    ) as client:
        client.xadd(keys.inbox(), {"kind": "message"})
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.xrange(keys.inbox())


def test_celerys_user_can_carry_messages(tmp_path: Path) -> None:
    with redis_server(tmp_path / "b", kind="broker") as broker:
        with broker.client() as client:
            for line in (ACL / "broker.acl").read_text().splitlines():
                _, user, *rules = line.split(" ")
                if user != "default":
                    client.execute_command("ACL", "SETUSER", user, *rules)
        url = f"redis+socket://celery:change-me-celery@{broker.folder}/redis.sock"
        with Connection(url) as connection:  # type: ignore[no-untyped-call]
            queue = connection.SimpleQueue("q")
            queue.put({"a": 1})
            assert queue.get(timeout=5).payload == {"a": 1}
