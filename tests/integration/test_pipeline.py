"""The pipeliner on a real server: who gets which reply, and what a broken connection does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
import redis.asyncio
import redis.exceptions

from shared.state import pipeline
from shared.state.connection import connect
from shared.state.pipeline import Pipeliner
from tests.support.redis import TestRedis, redis_server

pytestmark = pytest.mark.integration


@pytest.fixture
def state() -> Iterator[TestRedis]:
    with redis_server() as running:
        yield running


def play(state: TestRedis, scene: Callable[[Pipeliner, redis.asyncio.Redis], Awaitable[None]]) -> None:
    async def main() -> None:
        client = connect(state.url)
        pipe = Pipeliner(client)
        try:
            await scene(pipe, client)
        finally:
            await pipe.aclose()
            await client.aclose()

    asyncio.run(main())


def test_everybody_gets_the_reply_to_their_own_command(state: TestRedis) -> None:
    async def scene(pipe: Pipeliner, client: redis.asyncio.Redis) -> None:
        await asyncio.gather(*(pipe.execute("SET", f"k{n}", n) for n in range(1200)))
        assert await asyncio.gather(*(pipe.execute("GET", f"k{n}") for n in range(1200))) == [
            str(n) for n in range(1200)
        ]

    play(state, scene)


def test_replies_have_the_shape_of_direct_calls(state: TestRedis) -> None:
    async def scene(pipe: Pipeliner, client: redis.asyncio.Redis) -> None:
        await client.xadd("x", {"a": "1"})
        await client.hset("h", mapping={"f": "1", "g": "2"})
        direct: dict[tuple[str, ...], Awaitable[object]] = {
            ("XRANGE", "x", "-", "+"): client.xrange("x"),
            ("HGETALL", "h"): client.hgetall("h"),
            ("SMEMBERS", "s"): client.smembers("s"),
            ("TIME",): client.time(),
            ("GET", "none"): client.get("none"),
        }
        for command, call in direct.items():
            ours, theirs = await pipe.execute(*command), await call
            assert type(ours) is type(theirs)
            assert command == ("TIME",) or ours == theirs

    play(state, scene)


def test_a_wrong_command_fails_alone(state: TestRedis) -> None:
    async def scene(pipe: Pipeliner, client: redis.asyncio.Redis) -> None:
        await pipe.execute("SET", "text", "x")
        found = await asyncio.gather(
            pipe.execute("GET", "text"),
            pipe.execute("LPOP", "text"),
            pipe.execute("GET", "text"),
            return_exceptions=True,
        )
        assert [found[0], found[2]] == ["x", "x"]
        assert isinstance(found[1], redis.exceptions.ResponseError)
        with pytest.raises(redis.exceptions.DataError):
            await pipe.execute("SET", "text", None)
        assert await pipe.execute("GET", "text") == "x"

    play(state, scene)


def test_bytes_that_are_no_text_come_back_as_they_were(state: TestRedis) -> None:
    async def scene(pipe: Pipeliner, client: redis.asyncio.Redis) -> None:
        await pipe.execute("SET", "bytes", b"\xff\x00")
        text = await pipe.execute("GET", "bytes")
        await pipe.execute("SET", "again", text)
        assert await pipe.execute("STRLEN", "again") == 2

    play(state, scene)


def test_a_connection_that_was_closed_at_rest_is_opened_anew(state: TestRedis) -> None:
    async def scene(pipe: Pipeliner, client: redis.asyncio.Redis) -> None:
        await pipe.execute("SET", "a", "1")
        for one in await client.client_list():
            if one["id"] != str(await client.client_id()):
                await client.client_kill_filter(_id=one["id"])
        assert await pipe.execute("GET", "a") == "1"

    play(state, scene)


def test_a_server_that_is_away_fails_all_and_is_found_again(state: TestRedis) -> None:
    async def scene(pipe: Pipeliner, client: redis.asyncio.Redis) -> None:
        await pipe.execute("SET", "a", "1")
        state.kill()
        failed = await asyncio.gather(*(pipe.execute("GET", "a") for _ in range(3)), return_exceptions=True)
        assert all(isinstance(e, redis.exceptions.ConnectionError) for e in failed)
        state.start()
        assert await pipe.execute("GET", "a") == "1"

    play(state, scene)


def test_a_caller_that_gives_up_disturbs_nobody(state: TestRedis) -> None:
    async def scene(pipe: Pipeliner, client: redis.asyncio.Redis) -> None:
        tasks = [asyncio.ensure_future(pipe.execute("INCR", "n")) for _ in range(10)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [n for n in found if isinstance(n, int)] == [1, 2, 3, 5, 6, 7, 8, 9, 10]

    play(state, scene)


def test_a_silent_server_is_waited_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "PATIENCE_S", 0.05)

    async def main() -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = connect(f"redis://127.0.0.1:{port}/0")
        pipe = Pipeliner(client)
        with pytest.raises(redis.exceptions.TimeoutError):
            await pipe.execute("PING")
        await pipe.aclose()
        await client.aclose()
        server.close()

    asyncio.run(main())


def test_closing_leaves_no_connection(state: TestRedis) -> None:
    async def scene(pipe: Pipeliner, client: redis.asyncio.Redis) -> None:
        await asyncio.gather(*(pipe.execute("GET", "a") for _ in range(600)))
        before = len(await client.client_list())
        await pipe.aclose()
        while len(await client.client_list()) >= before > 1:  # noqa: ASYNC110 - the server hears of it when it does
            await asyncio.sleep(0.01)
        assert len(await client.client_list()) == 1

    play(state, scene)
