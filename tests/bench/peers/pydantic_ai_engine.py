"""pydantic-ai."""
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.bench.peers.turn import Turn, bench_sleep, main


async def _drain(_: Any, events: AsyncIterable[Any]) -> None:
    """Reading the events is what makes the agent stream."""
    async for _event in events:
        pass


@asynccontextmanager
async def engine(url: str) -> AsyncIterator[Turn]:
    """An agent over Chat Completions."""
    agent = Agent(OpenAIChatModel("rehearsal", provider=OpenAIProvider(base_url=url, api_key="none")))
    agent.tool_plain(bench_sleep)

    async def turn(text: str) -> str:
        result = await agent.run(text, event_stream_handler=_drain)
        return str(result.output)

    yield turn


if __name__ == "__main__":
    main(engine)
