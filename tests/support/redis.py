"""Real Redis servers for tests, each in its own folder, never on somebody else's port."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import redis
from redis.typing import EncodableT, FieldT

from ops.redis_server import Durability, Kind, RedisServer, ServerBinary, find_server


@lru_cache(maxsize=1)
def _binary() -> ServerBinary:
    return find_server()


def stream_entry(fields: Mapping[str, str]) -> dict[FieldT, EncodableT]:
    """A map of strings as redis-py wants it for XADD: a dict of exactly its own wide types."""
    entry: dict[FieldT, EncodableT] = {}
    entry.update(fields.items())
    return entry


class TestRedis:
    """A server that tests may hurt. `url` stays the same over `restart`."""

    __test__ = False  # not a test class

    def __init__(
        self,
        folder: Path,
        *,
        kind: Kind = "state",
        durability: Durability = "strict",
        max_memory_mb: int = 256,
    ) -> None:
        self._server = RedisServer(kind, folder, durability, max_memory_mb=max_memory_mb, binary=_binary())
        self._paused = False

    @property
    def url(self) -> str:
        """URL for redis-py."""
        return self._server.url

    @property
    def broker_url(self) -> str:
        """URL for Celery."""
        return self._server.broker_url

    @property
    def folder(self) -> Path:
        """Where it keeps its data."""
        return self._server.folder

    @property
    def pid(self) -> int | None:
        """Process id, None when it is dead."""
        return self._server.pid

    def client(self, **options: Any) -> redis.Redis:
        """A new sync client (text answers, 5 s timeout) unless `options` say otherwise."""
        return redis.Redis.from_url(self.url, **{"decode_responses": True, "socket_timeout": 5.0, **options})

    def start(self) -> TestRedis:
        """Starts it; returns when it answers."""
        self._server.start()
        return self

    def kill(self) -> None:
        """SIGKILL, also while paused; returns when it is dead."""
        self._server.kill()
        self._paused = False

    def stop(self) -> None:
        """Clean SHUTDOWN."""
        self.resume()
        self._server.stop()

    def restart(self) -> None:
        """Starts it again over the same data, at the same URL; stops it cleanly before if it runs."""
        self.resume()
        self._server.restart()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing answers."""
        self._server.signal(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """SIGCONT."""
        if self._paused and self.pid is not None:
            self._server.signal(signal.SIGCONT)
        self._paused = False


@contextmanager
def redis_server(
    folder: Path | None = None,
    *,
    kind: Kind = "state",
    durability: Durability = "strict",
    max_memory_mb: int = 256,
) -> Iterator[TestRedis]:
    """A running server for a `with` block or a fixture.

    Without `folder` it lives in a short-lived folder directly under the temporary directory (short paths give
    Unix sockets), which is removed at the end.
    """
    own = Path(tempfile.mkdtemp(prefix="cpz-")) if folder is None else None
    server = TestRedis(folder or own or Path(), kind=kind, durability=durability, max_memory_mb=max_memory_mb)
    try:
        yield server.start()
    finally:
        server.kill()
        if own is not None:
            shutil.rmtree(own, ignore_errors=True)
