"""Tools of the benchmarks."""

from __future__ import annotations

import asyncio

from pydantic import JsonValue

from shared.contract import Effect
from workers.context import ToolContext
from workers.declare import tool


@tool(group="bench", effect=Effect.READ, timeout_s=30, keywords={"en": ("bench",)})
async def bench_sleep(ctx: ToolContext, seconds: float, tag: str = "") -> JsonValue:
    """Sleeps for the benchmark."""
    await asyncio.sleep(seconds)
    return tag or "done"
