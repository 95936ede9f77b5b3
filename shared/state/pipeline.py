"""Commands of one moment travel together: one write, one read, one fsync at the server for all of them.

Many runs share one event loop; each awaits its own command. A lane takes whatever has been asked for since its
last round trip and sends it as one pipeline. A caller that is cancelled leaves the connection alone, so no reply
is ever read by somebody else.

Each lane has a connection of its own and speaks over it directly: taking one from redis-py's pool and giving it back,
its retries and its measurements cost more than twice as much CPU as the command itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import hiredis
import redis.asyncio
import redis.exceptions

MOST_PER_TRIP: Final = 500
PATIENCE_S: Final = 5.0
"""How long a round trip may take, connecting included."""

_Command = tuple[Any, ...]


class Pipeliner:
    """Shares a client among all tasks of a loop. `lanes` round trips may be under way at once."""

    def __init__(self, client: redis.asyncio.Redis, lanes: int = 2) -> None:
        self._client = client
        self._waiting: deque[tuple[_Command, asyncio.Future[Any]]] = deque()
        self._idle = lanes
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: list[Any] = []  # redis.asyncio.Connection or its kin; of lanes that rest

    async def execute(self, *command: Any) -> Any:
        """One command's reply. Raises redis-py's exceptions as a direct call would."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, future))
        if self._idle > 0:
            self._idle -= 1
            task = asyncio.create_task(self._lane())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _lane(self) -> None:
        connection = self._connections.pop() if self._connections else self._new_connection()
        try:
            await _discard_dead(connection)
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_PER_TRIP))]
                await self._trip(connection, batch)
        finally:
            self._connections.append(connection)
            self._idle += 1

    def _new_connection(self) -> Any:
        pool = self._client.connection_pool
        # Without a time limit of its own for each write and each reply: the trip has one.
        return pool.connection_class(**pool.connection_kwargs | {"socket_timeout": None})

    async def _trip(self, connection: Any, batch: list[tuple[_Command, asyncio.Future[Any]]]) -> None:
        try:
            replies = await self._exchange(connection, [command for command, _ in batch])
        except (redis.exceptions.RedisError, OSError) as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        except BaseException as error:  # nobody may wait for ever, whatever this was
            for _, future in batch:
                if not future.done():
                    future.set_exception(RuntimeError(f"the pipeline broke: {error!r}"))
            raise
        for (_, future), reply in zip(batch, replies, strict=True):
            if future.done():
                continue
            if isinstance(reply, Exception):
                future.set_exception(reply)
            else:
                future.set_result(reply)

    async def _exchange(self, connection: Any, commands: Sequence[_Command]) -> list[Any]:
        """The replies, errors of single commands among them. However it fails, the connection is closed then."""
        replies: list[Any] = []
        try:
            async with asyncio.timeout(PATIENCE_S):
                await connection.send_packed_command(_packed(connection, commands))  # connects if need be
                for command in commands:
                    try:
                        replies.append(await self._client.parse_response(connection, command[0]))
                    except redis.exceptions.ResponseError as error:
                        replies.append(error)
        except TimeoutError as error:
            await connection.disconnect(nowait=True)
            raise redis.exceptions.TimeoutError(f"no answer within {PATIENCE_S:.0f} s") from error
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return replies

    async def aclose(self) -> None:
        """Ends the lanes and their connections; commands still waiting are cancelled."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in self._connections:
            await connection.disconnect(nowait=True)
        self._connections.clear()


def _packed(connection: Any, commands: Sequence[_Command]) -> list[bytes]:
    try:
        return [hiredis.pack_command(command) for command in commands]
    except (UnicodeEncodeError, TypeError):  # bytes of others that are no text, or what redis-py has a better word for
        return list(connection.pack_commands(commands))


async def _discard_dead(connection: Any) -> None:
    """Closes a connection that the server has closed while it rested, so that the next command opens it anew."""
    try:
        if connection.is_connected and await connection.can_read():
            await connection.disconnect(nowait=True)
    except redis.exceptions.ConnectionError:
        pass  # that has closed it
