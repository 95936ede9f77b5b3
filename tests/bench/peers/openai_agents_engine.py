"""openai-agents."""
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from tests.bench.peers.turn import Turn, bench_sleep, main


@asynccontextmanager
async def engine(url: str) -> AsyncIterator[Turn]:
    """An agent over Chat Completions, without tracing."""
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=url, api_key="none")
    model = OpenAIChatCompletionsModel(model="rehearsal", openai_client=client)
    agent = Agent(name="bench", model=model, tools=[function_tool(bench_sleep)])

    async def turn(text: str) -> str:
        result = Runner.run_streamed(agent, text)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    yield turn
    await client.close()


if __name__ == "__main__":
    main(engine)
