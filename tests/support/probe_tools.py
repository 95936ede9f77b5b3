"""Tools for tests, loaded by workers as a user's own: they sleep, fail, hang, and append to a file that is counted."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue

from shared.contract import Effect
from workers.context import ToolContext
from workers.declare import tool

Tag = Annotated[str, Field(description="What to call this run")]


def _note(ctx: ToolContext, line: str) -> None:
    """Appends a line to the workspace's probe file, in one write."""
    fd = os.open(Path(ctx.settings.workspace.dir) / "probe.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, f"{line}\n".encode())
    finally:
        os.close(fd)


@tool(group="probe", effect=Effect.READ, timeout_s=30)
async def probe_read(ctx: ToolContext, tag: Tag, seconds: float = 0.0) -> JsonValue:
    """Sleeps and returns its tag."""
    _note(ctx, f"read {tag}")
    await asyncio.sleep(seconds)
    return {"tag": tag}


@tool(group="probe", effect=Effect.WRITE, timeout_s=30)
async def probe_write(ctx: ToolContext, tag: Tag, seconds: float = 0.0) -> JsonValue:
    """Writes its tag, then sleeps."""
    _note(ctx, f"write {tag}")
    await asyncio.sleep(seconds)
    return {"tag": tag}


@tool(group="probe", effect=Effect.READ, timeout_s=30)
async def probe_fail(ctx: ToolContext, tag: Tag) -> JsonValue:
    """Raises."""
    raise RuntimeError(f"no luck with {tag}")


@tool(group="probe", effect=Effect.READ, timeout_s=1)
async def probe_hang(ctx: ToolContext, tag: Tag) -> JsonValue:
    """Never returns."""
    await asyncio.Event().wait()
    return tag


@tool(group="probe", effect=Effect.READ, timeout_s=1)
def probe_block(ctx: ToolContext, tag: Tag) -> JsonValue:
    """Blocks its thread for longer than it may."""
    time.sleep(3)
    return tag


@tool(group="probe", effect=Effect.READ, timeout_s=30)
async def probe_large(ctx: ToolContext, size: int) -> JsonValue:
    """Returns a text of that many characters."""
    return "head " + "x" * size + " tail"
