"""When to try a model call again: exponential backoff with full jitter, honouring Retry-After. Pure."""

from __future__ import annotations

import random

from shared.llm.errors import LlmError

BASE_S = 0.5
CAP_S = 20.0
PATIENCE_S = 60.0
"""A provider that asks for more than this is better left for the next one in the chain."""


def next_delay(attempt: int, error: LlmError, rng: random.Random, *, attempts: int = 3) -> float | None:
    """Seconds to wait before the next attempt, or None to give up on this provider.

    `attempt` counts from 1 and is the one that just failed with `error`; `attempts` is how many there may be.
    Without Retry-After the delay is uniform in [0, min(CAP_S, BASE_S * 2^(attempt-1))] ("full jitter"); with it,
    the delay is never below what was asked, plus up to a tenth and BASE_S so that waiting clients spread.
    """
    if attempt >= attempts or not error.retryable:
        return None
    if error.retry_after is not None:
        if error.retry_after > PATIENCE_S:
            return None
        return error.retry_after + rng.uniform(0, BASE_S + error.retry_after / 10)
    ceiling = min(CAP_S, BASE_S * 2.0 ** min(attempt - 1, 30))
    return rng.uniform(0, ceiling)
