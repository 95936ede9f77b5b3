"""The floor: a loop of httpx and asyncio that does nothing for durability, validation or errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from tests.bench.overhead import bare_turn
from tests.bench.peers.turn import Turn, bench_sleep, main


@asynccontextmanager
async def engine(url: str) -> AsyncIterator[Turn]:
    """A loop with one client."""
    async with httpx.AsyncClient() as client:

        async def turn(text: str) -> str:
            return await bare_turn(client, url, text, bench_sleep)

        yield turn


if __name__ == "__main__":
    main(engine)
