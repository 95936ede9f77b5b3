"""Loads the Lua scripts and calls them. All of them are idempotent, so a call is repeated over a lost connection."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.resources
from functools import cache
from typing import Any

import redis.exceptions

from shared.state.connection import map_error
from shared.state.pipeline import Pipeliner

RETRY_DELAYS_S = (0.05, 0.2, 0.5, 1.0, 2.0)

SCRIPTS = (
    "route",
    "claim_runs",
    "append",
    "finish",
    "take_over",
    "release",
    "park",
    "wake_due",
    "claim_nodes",
    "end_node",
    "review_nodes",
    "give_back",
    "set_fact",
    "tell",
    "restore_page",
    "restore_session",
    "gate_enter",
    "gate_leave",
    "beat",
)

_TRANSIENT = (
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.BusyLoadingError,
    OSError,
)


@cache
def source(name: str) -> str:
    """The text of a script with the library in front; flags (the `#!lua` line) stay on top."""
    folder = importlib.resources.files("shared.state") / "lua"
    library = (folder / "lib.lua").read_text("utf-8")
    body = (folder / f"{name}.lua").read_text("utf-8")
    if body.startswith("#!"):
        flags, body = body.split("\n", 1)
        return f"{flags}\n{library}\n{body}"
    return f"{library}\n{body}"


@cache
def digest(name: str) -> str:
    """SHA-1 of the script's text, as EVALSHA wants it."""
    return hashlib.sha1(source(name).encode(), usedforsecurity=False).hexdigest()


class Scripts:
    """Calls scripts through one pipeliner."""

    def __init__(self, pipeline: Pipeliner) -> None:
        self._pipeline = pipeline

    async def call(self, name: str, *args: str | int | float, retry: bool = True) -> Any:
        """Runs script `name`. Raises LeaseLost, StateConflict, or StateUnavailable after the last repeat."""
        for delay in (*(RETRY_DELAYS_S if retry else ()), None):
            try:
                return await self._once(name, args)
            except _TRANSIENT as error:
                if delay is None:
                    raise map_error(error) from error
                await asyncio.sleep(delay)
            except redis.exceptions.RedisError as error:
                raise map_error(error) from error
        raise AssertionError("unreachable")

    async def _once(self, name: str, args: tuple[str | int | float, ...]) -> Any:
        try:
            return await self._pipeline.execute("EVALSHA", digest(name), 0, *args)
        except redis.exceptions.NoScriptError:
            return await self._pipeline.execute("EVAL", source(name), 0, *args)
