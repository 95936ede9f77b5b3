"""Answers on reply lists, for who does not wait for them but looks now and then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis.asyncio

from shared.messages import Reply
from shared.state import keys
from shared.state.connection import mapped


async def peek(client: redis.asyncio.Redis, names: Sequence[str]) -> list[Reply | None]:
    """The oldest answer on each of the lists, which stays there; None where there is none. Raises StateUnavailable."""
    with mapped():
        async with client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.lindex(keys.reply(name), 0)
            found: list[Any] = await pipe.execute()
    return [None if text is None else Reply.model_validate_json(text) for text in found]


async def drop(client: redis.asyncio.Redis, name: str) -> None:
    """Takes the oldest answer off a list. Raises StateUnavailable."""
    with mapped():
        await client.lpop(keys.reply(name))
