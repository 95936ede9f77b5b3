"""Tools of the benchmarks, loaded by workers as a user's own."""

from __future__ import annotations

import asyncio
import re

from pydantic import JsonValue

from shared.contract import Effect
from workers.context import ToolContext
from workers.declare import tool

_FIGURE = re.compile(r"^- (?P<name>[^:\n]+): (?P<value>.+)$", re.MULTILINE)


def spin(loops: int) -> int:
    """Pure Python work, the same for the same number: elapsed time would count what other processes took as work."""
    total = 0
    for number in range(loops):
        total = (total * 31 + number) & 0xFFFFFF
    return total


@tool(group="bench", effect=Effect.READ, timeout_s=30, keywords={"en": ("bench",)})
async def bench_sleep(ctx: ToolContext, seconds: float, tag: str = "") -> JsonValue:
    """Sleeps for the benchmark."""
    await asyncio.sleep(seconds)
    return tag or "done"


@tool(group="bench", effect=Effect.READ, timeout_s=30)
async def bench_step(ctx: ToolContext, seconds: float, tag: str, inputs: JsonValue = None) -> JsonValue:
    """Sleeps, and returns what it is called; `inputs` are what other calls returned."""
    await asyncio.sleep(seconds)
    return {"tag": tag, "inputs": len(inputs) if isinstance(inputs, list) else int(inputs is not None)}


@tool(group="bench", effect=Effect.READ, timeout_s=30)
def bench_spin(ctx: ToolContext, loops: int, tag: str = "") -> JsonValue:
    """Computes for the benchmark."""
    return {"tag": tag, "sum": spin(loops)}


@tool(group="bench", effect=Effect.READ, timeout_s=30)
def bench_report(ctx: ToolContext, title: str, documents: list[str]) -> JsonValue:
    """Gathers the figures of documents (their lines "- name: value") into a report, one row a document."""
    rows = ["; ".join(f"{m['name']}: {m['value']}" for m in _FIGURE.finditer(text)) for text in documents]
    return "\n".join([f"# {title}", *(f"- {row}" for row in rows if row)])
