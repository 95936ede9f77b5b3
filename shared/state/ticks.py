"""When somebody last looked what is due: the proof that beat, broker and a worker work together."""

from __future__ import annotations

import redis
from pydantic import BaseModel, ConfigDict

from shared.state import keys
from shared.state.connection import mapped
from shared.state.pipeline import Pipeliner

KEPT_S = 30 * 86_400


class LastTick(BaseModel):
    """The newest look: when (Unix milliseconds), and by which worker."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    at_ms: int
    worker: str


async def note_tick(pipeline: Pipeliner, tick: LastTick) -> None:
    """Notes a look. Raises StateUnavailable."""
    with mapped():
        await pipeline.execute("SET", keys.TICK, tick.model_dump_json(), "EX", KEPT_S)


def last_tick(client: redis.Redis) -> LastTick | None:
    """The newest look, None if there was none for long. Raises StateUnavailable."""
    with mapped():
        text = client.get(keys.TICK)
    return LastTick.model_validate_json(str(text)) if text else None
