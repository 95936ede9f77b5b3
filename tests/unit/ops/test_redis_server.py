import os
import stat
from pathlib import Path

import pytest
import redis
from kombu.connection import Connection

from ops import redis_server as module
from ops.redis_server import RedisServer, config_text, find_server, secret_file
from shared.errors import ConfigError, OperatorError
from tests.support.redis import redis_server

pytestmark = pytest.mark.integration


def _fake(folder: Path, name: str, words: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{words}'\n")
    program.chmod(0o755)


def test_a_new_enough_server_on_the_path_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    _fake(tmp_path, "redis-server", "Redis server v=6.2.14 sha=0")
    assert find_server().source == "package", "too old"
    _fake(tmp_path, "valkey-server", "Valkey server v=8.1.0 sha=0")
    assert find_server().path == str(tmp_path / "valkey-server")
    _fake(tmp_path, "redis-server", "Redis server v=7.2.4 sha=0")
    assert (find_server().path, find_server().version) == (str(tmp_path / "redis-server"), "7.2.4")


def test_no_server_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(module, "_version", lambda _path: "")
    with pytest.raises(ConfigError, match="REDIS_URL"):
        find_server()


def test_configuration_holds_the_promises() -> None:
    strict = config_text("state", Path("/d"), "pw", durability="strict", max_memory_mb=64, endpoint=Path("/d/s"))
    assert "appendonly yes" in strict
    assert "appendfsync always" in strict
    assert "maxmemory-policy noeviction" in strict
    relaxed = config_text("state", Path("/d"), "pw", durability="relaxed", max_memory_mb=64, endpoint=1)
    assert "appendfsync everysec" in relaxed
    broker = config_text("broker", Path("/d"), "pw", durability="strict", max_memory_mb=64, endpoint=1)
    assert "appendonly no" in broker


@pytest.mark.parametrize("name", ["plain", "with space", 'quote"and\\slash', "ñandú"])
def test_starts_in_any_folder_and_keeps_acknowledged_writes_over_a_kill(tmp_path: Path, name: str) -> None:
    with redis_server(tmp_path / name) as server:
        with server.client() as client:
            assert client.config_get("appendfsync")["appendfsync"] == "always"
            client.xadd("s", {"a": "1"})
        server.kill()
        server.restart()
        with server.client() as client:
            assert client.xlen("s") == 1


def test_it_asks_for_its_password_and_its_files_are_private(tmp_path: Path) -> None:
    with redis_server(tmp_path / "r"):
        with (
            pytest.raises(redis.AuthenticationError),
            redis.Redis(unix_socket_path=str(tmp_path / "r/redis.sock")) as anyone,
        ):
            anyone.ping()
        for private in ("password", "redis.conf"):
            assert stat.S_IMODE((tmp_path / "r" / private).stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "r").stat().st_mode) == 0o700


def test_a_long_path_falls_back_to_a_port_of_this_machine(tmp_path: Path) -> None:
    with redis_server(tmp_path / ("x" * 120), kind="broker") as server:
        assert server.url.startswith("redis://:")
        assert "@127.0.0.1:" in server.url
        assert server.broker_url == server.url
        with server.client() as client:
            assert client.ping()


def test_celery_reaches_the_broker_by_its_own_kind_of_url(tmp_path: Path) -> None:
    with redis_server(tmp_path / "b c", kind="broker") as server:
        assert server.broker_url.startswith("redis+socket://")
        with Connection(server.broker_url) as connection:  # type: ignore[no-untyped-call]
            queue = connection.SimpleQueue("q")
            queue.put({"a": 1})
            assert queue.get(timeout=5).payload == {"a": 1}


def test_pause_resume_stop_restart(tmp_path: Path) -> None:
    with redis_server(tmp_path / "r") as server:
        server.pause()
        with server.client(socket_timeout=0.2, retry=None) as client, pytest.raises(redis.TimeoutError):
            client.ping()
        server.resume()
        with server.client() as client:
            client.set("k", "v")
        server.stop()
        assert server.pid is None
        server.restart()
        with server.client() as client:
            assert client.get("k") == "v"


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    server = RedisServer("state", tmp_path / "r")
    (tmp_path / "r" / "appendonlydir").write_text("in the way")
    with pytest.raises(OperatorError, match="ended with"):
        server.start()


def test_a_secret_is_made_once_even_by_many_at_the_same_time(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        seen = set(pool.map(lambda _: secret_file(tmp_path / "s"), range(32)))
    assert len(seen) == 1
    assert len(seen.pop()) == 32
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
