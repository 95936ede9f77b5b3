"""How Celery speaks to a broker: our transport for Redis by every form of its URL, with one client a channel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.dispatch.publisher import PICTURED, _picture
from shared import transport
from shared.broker import make_app
from shared.settings import RedisSettings, Settings
from tests.support.redis import TestRedis


def settings(url: str) -> Settings:
    return Settings.model_construct(redis=RedisSettings(broker_url=url))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TestRedis]:
    server = TestRedis(tmp_path, kind="broker")
    server.start()
    yield server
    server.kill()


@pytest.mark.parametrize("url", ["redis://h:1/0", "rediss://h:1/0", "unix:///tmp/x.sock?db=0"])
def test_redis_is_spoken_to_by_our_transport(url: str) -> None:
    with make_app(settings(url)).connection_for_write() as connection:
        assert connection.get_transport_cls() is transport.Transport


def test_other_brokers_keep_theirs() -> None:
    with make_app(settings("amqp://h//")).connection_for_write() as connection:
        assert not issubclass(connection.get_transport_cls(), transport.Transport)


@pytest.mark.integration
def test_a_channel_keeps_its_client_until_it_has_another_pool(broker: TestRedis) -> None:
    app = make_app(settings(broker.broker_url))
    with app.connection_for_write() as connection:
        channel: Any = connection.default_channel
        with channel.conn_or_acquire() as first, channel.conn_or_acquire() as second:
            assert first is second
        channel._disconnect_pools()
        with channel.conn_or_acquire() as third:
            assert third is not first
            assert third.ping()


@pytest.mark.integration
def test_a_message_that_is_taken_leaves_nothing_behind(broker: TestRedis) -> None:
    app = make_app(settings(broker.broker_url))
    with app.connection_for_write() as connection:
        queue = connection.SimpleQueue("q")
        queue.put({"n": 1})
        with broker.client() as client:
            assert client.llen("q") == 1
            message = queue.get(timeout=5)
            assert message.payload == {"n": 1}
            message.ack()
            assert not client.keys("unacked*")
            assert client.llen("q") == 0
        queue.close()


def test_a_batch_is_pictured_in_a_line() -> None:
    orders = [{"tool": "file_read", "node": f"r.1.1.{n}", "args": {"path": "secret"}} for n in range(PICTURED + 2)]
    assert _picture(orders[:1]) == "[file_read r.1.1.0]"
    assert _picture(orders) == "[file_read r.1.1.0, file_read r.1.1.1, file_read r.1.1.2, … 5 in all]"
