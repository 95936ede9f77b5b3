"""Tools for the chaos suite, loaded by workers as a user's own: every run of one leaves a line that is counted.

A call can be held before or after its effect: it goes on once the file `gates/<name>` exists in the workspace.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue

from shared.contract import Effect
from shared.errors import ModelError, StateConflict
from workers.context import ToolContext
from workers.declare import tool
from workers.workflows.define import Inputs, Steps, step, workflow

EFFECTS = "effects.log"
GATES = "gates"
ORDERS = "orders.db"
TOTAL = "total"
"""The fact that `chaos_add` counts up."""

Tag = Annotated[str, Field(description="What to call this run")]
Gate = Annotated[str, Field(description="Go on once this gate is open")]

_POLL_S = 0.02


async def _held(ctx: ToolContext, gate: str, kind: str) -> None:
    """Announces that the call has come to the gate, and waits there for another process to open it."""
    if gate:
        _line(ctx, kind, gate)
        while not (Path(ctx.settings.workspace.dir) / GATES / gate).exists():  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)


def _line(ctx: ToolContext, kind: str, tag: str) -> None:
    """Appends one line, in one write."""
    row = json.dumps({"kind": kind, "tag": tag, "node": ctx.node, "pid": os.getpid()})
    fd = os.open(Path(ctx.settings.workspace.dir) / EFFECTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, f"{row}\n".encode())
    finally:
        os.close(fd)


@tool(group="chaos", effect=Effect.READ, timeout_s=30)
async def chaos_look(
    ctx: ToolContext, tag: Tag, seconds: float = 0.0, before: Gate = "", after: Gate = ""
) -> JsonValue:
    """Looks at something."""
    await _held(ctx, before, "waits")
    _line(ctx, "look", tag)
    await asyncio.sleep(seconds)
    await _held(ctx, after, "waits")
    return {"tag": tag}


@tool(group="chaos", effect=Effect.IDEMPOTENT, timeout_s=30)
async def chaos_put(
    ctx: ToolContext, tag: Tag, value: str = "", seconds: float = 0.0, before: Gate = "", after: Gate = ""
) -> JsonValue:
    """Puts a value in its place; doing it again changes nothing."""
    await _held(ctx, before, "waits")
    _line(ctx, "put", tag)
    await asyncio.sleep(seconds)
    await _held(ctx, after, "waits")
    return {"tag": tag, "value": value}


@tool(group="chaos", effect=Effect.WRITE, timeout_s=30)
async def chaos_write(
    ctx: ToolContext, tag: Tag, value: str = "", seconds: float = 0.0, before: Gate = "", after: Gate = ""
) -> JsonValue:
    """Writes a line; doing it again would write another."""
    await _held(ctx, before, "waits")
    _line(ctx, "write", tag)
    await asyncio.sleep(seconds)
    await _held(ctx, after, "waits")
    return {"tag": tag, "value": value}


@tool(group="chaos", effect=Effect.WRITE, timeout_s=30)
async def chaos_ask(ctx: ToolContext, tag: Tag, seconds: float = 0.0) -> JsonValue:
    """Writes a line, and is only allowed after asking."""
    _line(ctx, "write", tag)
    await asyncio.sleep(seconds)
    return {"tag": tag}


@tool(group="chaos", effect=Effect.WRITE, timeout_s=30)
async def chaos_add(ctx: ToolContext, tag: Tag) -> JsonValue:
    """Adds one to a fact that all agents of the session share, by compare-and-set."""
    state = ctx.services.state
    while True:
        fact = (await state.facts(ctx.session)).get(TOTAL)
        value, version = (fact.value, fact.version) if fact else (0, 0)
        assert isinstance(value, int)
        await asyncio.sleep(0)
        try:
            await state.set_fact(ctx.session, TOTAL, value + 1, version, ctx.node)
        except StateConflict:
            continue
        _line(ctx, "add", tag)
        return {"tag": tag, "total": value + 1}


@tool(group="chaos", effect=Effect.READ, timeout_s=30)
async def chaos_die(ctx: ToolContext, tag: Tag) -> JsonValue:
    """Kills the process that runs it."""
    _line(ctx, "die", tag)
    os.kill(os.getpid(), signal.SIGKILL)
    return tag


def _orders(ctx: ToolContext) -> sqlite3.Connection:
    connection = sqlite3.connect(Path(ctx.settings.workspace.dir) / ORDERS, timeout=20, isolation_level=None)
    connection.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, item TEXT, state TEXT, paid INTEGER)")
    return connection


@tool(group="orders", effect=Effect.WRITE, timeout_s=30)
def order_create(ctx: ToolContext, order: str, item: str, seconds: float = 0.1) -> JsonValue:
    """Creates an order. An order that exists already is an error."""
    with closing(_orders(ctx)) as db:
        try:
            db.execute("INSERT INTO orders VALUES (?, ?, 'open', 0)", (order, item))
        except sqlite3.IntegrityError as error:
            raise ModelError(f"the order {order} exists already") from error
    time.sleep(seconds)
    return {"order": order, "item": item}


@tool(group="orders", effect=Effect.WRITE, timeout_s=30)
def order_pay(ctx: ToolContext, order: str, amount: int, seconds: float = 0.1) -> JsonValue:
    """Pays an amount; paying again pays again."""
    with closing(_orders(ctx)) as db:
        found = db.execute("UPDATE orders SET paid = paid + ? WHERE id = ?", (amount, order)).rowcount
    if not found:
        raise ModelError(f"there is no order {order}")
    time.sleep(seconds)
    return {"order": order, "amount": amount}


@tool(group="orders", effect=Effect.WRITE, timeout_s=30)
def order_cancel(ctx: ToolContext, order: str, seconds: float = 0.1) -> JsonValue:
    """Cancels an open order. One that is not open is an error."""
    with closing(_orders(ctx)) as db:
        change = "UPDATE orders SET state = 'cancelled' WHERE id = ? AND state = 'open'"
        found = db.execute(change, (order,)).rowcount
    if not found:
        raise ModelError(f"there is no open order {order}")
    time.sleep(seconds)
    return {"order": order}


@step()
async def beat(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """One beat of the schedule."""
    _line(ctx, "beat", ctx.run)
    return ctx.run


@workflow("chaos-beat", title="Chaos beat", cron="* * * * *", result="beat")
def chaos_beat() -> Steps:
    """Once a minute, whatever happens to beat."""
    return [beat]
