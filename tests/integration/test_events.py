"""Events that are not part of the log, in a real Redis."""

from __future__ import annotations

import asyncio
import json

import pytest

from coordinator.events import EventWriter
from shared.settings import LimitSettings
from shared.state import keys
from shared.state.connection import connect
from shared.state.pipeline import Pipeliner
from tests.support.redis import TestRedis, redis_server

LIMITS = LimitSettings(events_kept=100)
pytestmark = pytest.mark.integration


def _events(server: TestRedis, session: str) -> list[tuple[str, str, object]]:
    with server.client() as client:
        return [(f["type"], f["run"], json.loads(f["data"])) for _, f in client.xrange(keys.events(session))]


async def _say(server: TestRedis, words: dict[str, list[str]]) -> None:
    """What each session says, one event each, at once."""
    client = connect(server.url)
    pipe = Pipeliner(client)
    try:
        writers = {session: EventWriter(pipe, session, f"r-{session}", LIMITS) for session in words}
        for session, texts in words.items():
            for text in texts:
                writers[session].write("notice", code="x", text=text)
        await asyncio.gather(*(writer.flush() for writer in writers.values()))
    finally:
        await pipe.aclose()
        await client.aclose()


def test_events_of_many_sessions_arrive_and_are_trimmed() -> None:
    words = {f"s{n}": [f"\x00ñ\"'{n} {k}" for k in range(3)] for n in range(20)} | {"long": ["x"] * 1000}
    with redis_server() as server:
        asyncio.run(_say(server, words))
        for n in range(20):
            expected = [("notice", f"r-s{n}", {"code": "x", "text": text}) for text in words[f"s{n}"]]
            assert _events(server, f"s{n}") == expected
        assert 100 <= len(_events(server, "long")) < 300  # trimmed by whole nodes


def test_a_redis_that_forgot_the_script_gets_it_again() -> None:
    with redis_server() as server:
        asyncio.run(_say(server, {"s": ["one"]}))
        with server.client() as client:
            client.script_flush()
        asyncio.run(_say(server, {"s": ["two"]}))
        assert [data for _, _, data in _events(server, "s")] == [{"code": "x", "text": t} for t in ("one", "two")]


def test_nobody_waits_for_a_redis_that_is_away() -> None:
    with redis_server() as server:
        asyncio.run(_say(server, {"s": ["before"]}))
        server.kill()
        asyncio.run(_say(server, {"s": ["lost"]}))
        server.start()
        asyncio.run(_say(server, {"s": ["after"]}))
        assert [data for _, _, data in _events(server, "s")] == [{"code": "x", "text": t} for t in ("before", "after")]
