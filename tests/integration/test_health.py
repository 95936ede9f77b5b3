"""The health check of containers against a real Redis: who is alive, who was, and a server that does not answer."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ops import health
from shared.state import keys
from shared.state.connection import connect_sync
from tests.support.redis import TestRedis, redis_server

pytestmark = pytest.mark.integration


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[TestRedis]:
    with redis_server() as running:
        monkeypatch.setenv("REDIS_URL", running.url)
        yield running


def test_who_is_alive_is_healthy(server: TestRedis, capsys: pytest.CaptureFixture[str]) -> None:
    now = int(time.time() * 1000)
    with connect_sync(server.url) as client:
        client.zadd(keys.COORDINATORS, {"coordinator-a-1-f": now + 60_000, "coordinator-b-2-f": now - 60_000})
        client.zadd(keys.WORKERS, {"worker-a-3-f": now + 60_000})
        client.set("capataz:beat::lock", "x")
    assert health.main(["coordinator-a-"]) == 0
    assert health.main(["worker-a-"]) == 0
    assert health.main(["--key", "capataz:beat::lock"]) == 0
    assert capsys.readouterr().err == ""
    for nobody in (["coordinator-b-"], ["worker-b-"], ["--key", "capataz:beat::other"]):
        assert health.main(nobody) == 1
        assert nobody[-1] in capsys.readouterr().err


def test_without_a_server_nothing_is_healthy(server: TestRedis, capsys: pytest.CaptureFixture[str]) -> None:
    server.kill()
    assert health.main(["worker-"]) == 1
    assert capsys.readouterr().err.startswith("unhealthy: ")
