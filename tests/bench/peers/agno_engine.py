"""agno."""
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agno.agent import Agent
from agno.models.openai.like import OpenAILike
from agno.run.agent import RunContentEvent

from tests.bench.peers.turn import Turn, bench_sleep, main


@asynccontextmanager
async def engine(url: str) -> AsyncIterator[Turn]:
    """An agent without memory or telemetry."""
    model = OpenAILike(id="rehearsal", base_url=url, api_key="none")
    agent = Agent(model=model, tools=[bench_sleep], telemetry=False)

    async def turn(text: str) -> str:
        said = [e.content async for e in agent.arun(text, stream=True) if isinstance(e, RunContentEvent)]
        return "".join(str(part) for part in said if part)

    yield turn


if __name__ == "__main__":
    main(engine)
