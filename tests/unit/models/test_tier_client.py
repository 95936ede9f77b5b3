"""A worker's calls by tier, against a real HTTP server: failover, images, and the bill."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from shared.llm.errors import AuthFailed
from shared.llm.model import ImageBlock, Message, Request, TextBlock
from shared.models import PAYER, Payer
from shared.settings import ModelSettings, ProviderSettings, Settings
from shared.sql.costs import Call
from shared.tier_client import TierClient
from tests.unit.llm.server import Server, reply, serve, stream
from tests.unit.llm.support import chunk, sse

COUNTS = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
HELLO = stream(sse(chunk(content="Hello"), chunk("stop"), COUNTS))
PICTURE = Message(role="user", blocks=(ImageBlock(media_type="image/png", data="AA"), TextBlock(text="what is it?")))
QUESTION = Message(role="user", blocks=(TextBlock(text="hi"),))


def settings(one: Server, two: Server, **first: Any) -> Settings:
    providers = {"one": ProviderSettings(base_url=one.url, **first), "two": ProviderSettings(base_url=two.url)}
    models = ModelSettings(providers=providers, tiers={"default": ("one/a", "two/b")}, attempts=1)
    return Settings(models=models)


def test_the_next_model_answers_and_both_are_billed() -> None:
    bills: list[Call] = []

    async def record(calls: Sequence[Call]) -> None:
        bills.extend(calls)

    async def main() -> None:
        async with serve(reply("500 Internal Server Error")) as one, serve(HELLO) as two:
            client = TierClient(settings(one, two), record=record)
            PAYER.set(Payer("ana", "s", "r1", "vision"))
            answer = await client.complete("vision", Request(model="", messages=(QUESTION,)))
            assert answer.message.text == "Hello"
            assert two.requests[0].body["model"] == "b"
            await client.aclose()

    asyncio.run(main())
    assert [(c.provider, c.outcome, c.tier, c.payer.principal, c.payer.group) for c in bills] == [
        ("one", "server_fault", "vision", "ana", "vision"),
        ("two", "ok", "vision", "ana", "vision"),
    ]
    assert len({c.id for c in bills}) == 2
    assert bills[1].usage.total == 5
    assert bills[1].cost is None, "nobody knows this provider's price"


def test_a_picture_goes_to_a_model_that_sees() -> None:
    async def main() -> None:
        async with serve(HELLO) as one, serve(HELLO) as two:
            client = TierClient(settings(one, two, switches={"images": False}))
            await client.complete("vision", Request(model="", messages=(PICTURE,)))
            await client.complete("vision", Request(model="", messages=(QUESTION,)))
            assert [len(s.requests) for s in (one, two)] == [1, 1]
            assert "image_url" in str(two.requests[0].body)
            await client.aclose()

    asyncio.run(main())


def test_failures_are_billed_when_nobody_answers() -> None:
    bills: list[Call] = []

    async def record(calls: Sequence[Call]) -> None:
        bills.extend(calls)

    async def main() -> None:
        refused = reply("401 Unauthorized", b'{"error":{"message":"bad key"}}')
        async with serve(refused) as one, serve(refused) as two:
            client = TierClient(settings(one, two), record=record)
            with pytest.raises(AuthFailed):
                await client.complete("learner", Request(model="", messages=(QUESTION,)))
            await client.aclose()

    asyncio.run(main())
    assert [c.outcome for c in bills] == ["auth_failed", "auth_failed"]
