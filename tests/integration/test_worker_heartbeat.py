"""A worker's heartbeat in Redis."""

from __future__ import annotations

import pytest
import redis

from shared.contract import Catalogue, WorkerInfo
from shared.errors import StateUnavailable
from shared.state import keys
from shared.state.nodes import beat_worker
from tests.support.redis import TestRedis, redis_server

pytestmark = pytest.mark.integration


class Failing(redis.Redis):
    """A client that cannot store a catalogue."""

    def set(self, name: str, *values: object, **options: object) -> None:  # type: ignore[override]
        raise redis.exceptions.ConnectionError("gone")


def test_whoever_sees_a_heartbeat_finds_its_catalogue() -> None:
    info = WorkerInfo(
        id="w", nonce="n", catalogue="d", queues=("tools",), slots=1, key_id="k", host="h", pid=1, started_ms=1
    )
    with redis_server() as server:
        with pytest.raises(StateUnavailable), Failing.from_url(_url(server)) as client:
            beat_worker(client, info, Catalogue(), 5.0)
        with server.client() as client:
            assert not client.exists(keys.worker("w"))
            beat_worker(client, info, Catalogue(), 5.0)
            assert client.exists(keys.worker("w"), keys.catalogue("d")) == 2


def _url(server: TestRedis) -> str:
    return server.url
