"""Commands of one moment travel together: one write, one read, one fsync at the server for all of them.

Many runs share one event loop; each awaits its own command. A lane takes whatever has been asked for since its
last round trip and sends it as one pipeline. A caller that is cancelled leaves the connection alone, so no reply
is ever read by somebody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import redis.asyncio
import redis.exceptions

MOST_PER_TRIP = 500


class Pipeliner:
    """Shares a client among all tasks of a loop. `lanes` round trips may be under way at once."""

    def __init__(self, client: redis.asyncio.Redis, lanes: int = 2) -> None:
        self._client = client
        self._waiting: deque[tuple[tuple[Any, ...], asyncio.Future[Any]]] = deque()
        self._idle = lanes
        self._tasks: set[asyncio.Task[None]] = set()

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
        try:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_PER_TRIP))]
                await self._trip(batch)
        finally:
            self._idle += 1

    async def _trip(self, batch: list[tuple[tuple[Any, ...], asyncio.Future[Any]]]) -> None:
        try:
            if len(batch) == 1:
                replies = [await self._client.execute_command(*batch[0][0])]
            else:
                pipe = self._client.pipeline(transaction=False)
                for command, _ in batch:
                    pipe.execute_command(*command)
                replies = await pipe.execute(raise_on_error=False)
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

    async def aclose(self) -> None:
        """Ends the lanes; commands still waiting are cancelled."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
