"""PERF4: the first token at a Redis reader, against raw httpx. Both count from the request's arrival at the model."""

from __future__ import annotations

import asyncio
import time

import httpx

from shared.client import Client
from tests.bench.report import line, median_ms, p95_ms
from tests.support.model_server import ModelServer
from tests.support.processes import System

ROUNDS = 30
RULES = [{"then": {"text": "a first token and then some more text", "first_token_ms": 40, "stream_ms": 100}}]


async def _raw(model: ModelServer) -> list[float]:
    seconds = []
    async with httpx.AsyncClient() as client:
        for _ in range(ROUNDS):
            model.script(RULES)
            body = {"model": "rehearsal", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
            async with client.stream("POST", f"{model.url}/chat/completions", json=body) as response:
                async for text in response.aiter_lines():
                    if '"content":"a' in text.replace(" ", "").replace('"content":"a', '"content":"a'):
                        seconds.append(time.monotonic() - model.requests[-1].at)
                        break
    return seconds


def _relayed(client: Client, model: ModelServer) -> list[float]:
    seconds = []
    for i in range(ROUNDS):
        model.script(RULES)
        session = f"t{i}"
        submitted = client.submit("hello", session=session)
        for event in client.stream(session, timeout=10):
            if event.type == "text.delta":
                seconds.append(time.monotonic() - model.requests[-1].at)
                break
        client.wait(submitted, 10)
    return seconds


def measure() -> None:
    """Prints one line."""
    with ModelServer(rules=RULES) as model:
        system = System(model_url=model.url)
        try:
            system.start()
            client = Client.connect(system.redis_url)
            client.ask("hello", session="warm", timeout=30)
            raw = asyncio.run(_raw(model))
            relayed = _relayed(client, model)
        finally:
            system.stop()
    line("PERF4", added_ms=median_ms(relayed) - median_ms(raw), p95_ms=p95_ms(relayed) - median_ms(raw))
