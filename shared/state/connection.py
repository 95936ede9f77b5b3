"""Connections to the state Redis, and the one seam at which its errors become ours.

The clients never repeat a command by themselves: redis-py's retries would write an XADD twice. What may be
repeated is repeated by the callers of the scripts, which are idempotent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis
import redis.asyncio
import redis.asyncio.retry
import redis.exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from shared.errors import CapatazError, LeaseLost, StateConflict, StateUnavailable

COMMAND_TIMEOUT_S = 5.0


def connect(url: str, *, blocking: bool = False, connections: int = 64) -> redis.asyncio.Redis:
    """An asyncio client. `blocking`: for XREAD and BLPOP, without a read timeout."""
    return redis.asyncio.Redis.from_url(
        url,
        decode_responses=True,
        encoding_errors="surrogateescape",  # what others wrote need not be UTF-8, and must not stop a reader
        socket_timeout=None if blocking else COMMAND_TIMEOUT_S,
        socket_connect_timeout=COMMAND_TIMEOUT_S,
        retry=redis.asyncio.retry.Retry(NoBackoff(), 0),
        max_connections=connections,
        health_check_interval=0,
    )


def connect_sync(url: str, *, blocking: bool = False) -> redis.Redis:
    """A client for threads and command lines."""
    return redis.Redis.from_url(
        url,
        decode_responses=True,
        encoding_errors="surrogateescape",  # what others wrote need not be UTF-8, and must not stop a reader
        socket_timeout=None if blocking else COMMAND_TIMEOUT_S,
        socket_connect_timeout=COMMAND_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


def map_error(error: redis.exceptions.RedisError | OSError) -> CapatazError:
    """Our error for one of redis-py's."""
    text = str(error)
    if text.startswith("LEASE"):
        return LeaseLost(f"the lease is gone: {text.removeprefix('LEASE').strip()}")
    if text.startswith(("CONFLICT", "SEQUENCE")):
        return StateConflict(text)
    if isinstance(error, redis.exceptions.OutOfMemoryError):
        return StateUnavailable("the state Redis is full", hint="raise redis.max_memory_mb or shorten retention")
    if isinstance(error, redis.exceptions.AuthenticationError | redis.exceptions.NoPermissionError):
        return StateUnavailable(f"the state Redis refuses us: {text}", hint="check user and password in REDIS_URL")
    return StateUnavailable(f"the state Redis does not answer: {text}", hint="is it running? see `capataz doctor`")


@contextmanager
def mapped() -> Iterator[None]:
    """Maps redis-py's errors inside the block."""
    try:
        yield
    except redis.exceptions.RedisError as error:
        raise map_error(error) from error
    except OSError as error:
        raise StateUnavailable(f"the state Redis cannot be reached: {error}", hint="see `capataz doctor`") from error
