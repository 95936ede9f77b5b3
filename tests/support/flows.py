"""Workflows for tests, loaded by workers as a user's own: every run of a step leaves a line that is counted.

A step waits behind its line while the parameter `hold` names it, until the file `gates/<step>` exists in the workspace.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, JsonValue

from shared.contract import Effect, Retries
from shared.errors import ModelError
from tests.chaos.tools import EFFECTS, GATES
from workers.context import ToolContext
from workers.declare import tool
from workers.workflows.define import (
    Inputs,
    Steps,
    agent_step,
    fallback,
    given,
    model_step,
    optional,
    ref,
    step,
    tool_step,
    workflow,
)

_POLL_S = 0.02


def line(ctx: ToolContext, text: str) -> int:
    """Appends one line, in one write; returns how many there are of its kind."""
    path = Path(ctx.settings.workspace.dir) / EFFECTS
    kind, _, tag = text.partition(" ")
    row = json.dumps({"kind": kind, "tag": tag, "key": ctx.idempotency_key, "pid": os.getpid()})
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, f"{row}\n".encode())
    finally:
        os.close(fd)
    rows = [json.loads(one) for one in path.read_text().splitlines()]
    return sum((one["kind"], one["tag"]) == (kind, tag) for one in rows)


async def at(ctx: ToolContext, inputs: Inputs, name: str) -> int:
    """The line of a step, and the wait at its gate if it is held."""
    count = line(ctx, f"step {name}")
    gate = Path(ctx.settings.workspace.dir) / GATES / name
    while name in inputs["params"].get("hold", ()) and not gate.exists():  # noqa: ASYNC110 - another process opens it
        await asyncio.sleep(_POLL_S)
    return count


class Mood(BaseModel):
    """The answer of `judge`."""

    mood: Literal["good", "bad"]
    score: int


@step()
async def fetch(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """Something to work on."""
    await at(ctx, inputs, "fetch")
    return {"count": inputs["params"].get("count", 2), "items": [{"id": 7, "name": "seven"}, {"id": 8}]}


@step(needs=["fetch"], effect=Effect.IDEMPOTENT)
async def keep(ctx: ToolContext, inputs: Inputs) -> Any:
    """Keeps it; doing it again changes nothing."""
    await at(ctx, inputs, "keep")
    return inputs["fetch"]["items"][0]["id"]


@step(needs=["keep", "judge"], effect=Effect.WRITE)
async def send(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """Sends it, which must happen once."""
    await at(ctx, inputs, "send")
    return f"sent {inputs['keep']}, {inputs['judge']['mood']}"


@tool(group="flows", effect=Effect.IDEMPOTENT, timeout_s=30)
async def flow_put(ctx: ToolContext, id: int, text: str, hold: list[str] | None = None) -> JsonValue:
    """Puts a note in its place."""
    await at(ctx, {"params": {"hold": hold or []}}, "note")
    return {"id": id, "text": text}


@workflow("chain", title="One step of each kind", result="tell")
def chain() -> Steps:
    """Code, a tool, a model, a write, and a model again."""
    put = {"id": ref("fetch.items[0].id"), "text": "n ${fetch.count}", "hold": ref("params.hold")}
    return [
        fetch,
        tool_step("note", tool="flow_put", args=put, needs=["fetch"], effect=Effect.IDEMPOTENT),
        keep,
        model_step("judge", needs=["keep", "note"], prompt="Judge {keep} and {note}", answer=Mood),
        send,
        model_step("tell", needs=["send"], prompt="Tell: {send}"),
    ]


@step(retry=Retries(attempts=3, backoff_s=0.05), effect=Effect.IDEMPOTENT)
async def shaky(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """Fails as often as the parameter says."""
    count = await at(ctx, inputs, "shaky")
    if count <= inputs["params"]["fails"]:
        raise ModelError(f"not today ({count})", code="closed")
    return f"came at last, the {count}. time"


@workflow("flaky", title="Tried again", result="shaky")
def flaky() -> Steps:
    """One step that is tried again."""
    return [shaky]


@step(retry=Retries(attempts=2, backoff_s=6.0))
async def tired(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    if await at(ctx, inputs, "tired") == 1:
        raise ModelError("in a moment")
    return "rested"


@workflow("patient", title="Rests for long", result="tired")
def patient() -> Steps:
    """One step that rests for some seconds before it is tried again."""
    return [tired]


@step()
def has_mail(ctx: ToolContext, inputs: Inputs) -> Any:
    return inputs["params"].get("mail", True)


@step(when="has_mail")
def mail(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    return "2 mails"


@step(needs=["mail"])
def answers(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    line(ctx, "step answers")
    return "answered"


@step(on_error="skip")
def weather(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    raise OSError("no clouds")


@step(on_error=fallback(step="old_news"))
def news(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    raise ModelError("no news")


@step()
def old_news(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    return "yesterday's"


@step(on_error=fallback({"quote": "none"}))
def market(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    raise ModelError("closed")


@step()
def big(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    return [{"row": i, "text": "x" * 100} for i in range(5000)]


@step(needs=["big"], when=given("big", 4999, "row", ge=4999))
def size(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    return len(inputs["big"])


@step(needs=[optional("mail"), "weather", "news", "market", "size"])
def brief(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    return {name: value for name, value in inputs.items() if name not in ("params", "has_mail")}


@workflow("branches", title="Conditions and failures", result="brief")
def branches() -> Steps:
    """Steps that are skipped, fail, and have others stand in for them."""
    last = tool_step(
        "last", tool="flow_put", args={"id": ref("big[-1].row"), "text": "t"}, needs=["big"], effect=Effect.IDEMPOTENT
    )
    return [has_mail, mail, answers, weather, news, old_news, market, big, size, last, brief]


@step()
def strange(ctx: ToolContext, inputs: Inputs) -> Any:
    return {"a set": {1, 2}}


@workflow("strange", title="No JSON", result="strange")
def strange_flow() -> Steps:
    """Returns what cannot travel."""
    return [strange]


@step()
async def boom(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    await at(ctx, inputs, "boom")
    raise ZeroDivisionError("by design")


@step()
async def beside(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    await at(ctx, inputs, "beside")
    return "well"


@step(needs=["beside"])
async def behind(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    await at(ctx, inputs, "behind")
    return "never"


@workflow("boom", title="A step that raises", result="behind")
def boom_flow() -> Steps:
    """One step raises while another is under way."""
    return [boom, beside, behind]


@step(timeout_s=30)
async def slow(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    await at(ctx, inputs, "slow")
    await asyncio.sleep(30)
    return "slept"


@workflow("slow", title="Too slow", result="after", timeout_s=2.5)
def slow_flow() -> Steps:
    """Takes longer than it may."""
    return [slow, model_step("after", needs=["slow"], prompt="after {slow}")]


@workflow("helped", title="An agent does a part", result="tell")
def helped() -> Steps:
    """An agent with one group of tools, and a model that tells what came of it."""
    return [
        fetch,
        agent_step("help", prompt="Do it with {fetch}", tools=["flows"], needs=["fetch"]),
        model_step("tell", needs=["help"], prompt="Tell: {help}"),
    ]


@workflow("idle", title="An agent that takes too long", result="help")
def idle() -> Steps:
    """The agent has no time; nobody needs it."""
    return [agent_step("help", prompt="Dawdle", tools=["flows"], timeout_s=1.5, on_error=fallback("no help"))]


@workflow("shape", title="JSON from a model", result="judge")
def shape() -> Steps:
    """One model step with a shape."""
    return [model_step("judge", prompt="Judge {params}", answer=Mood)]


async def _other(ctx: ToolContext, mine: str, other: str) -> JsonValue:
    line(ctx, f"step {mine}")
    path = Path(ctx.settings.workspace.dir) / EFFECTS
    while f'"tag": "{other}"' not in path.read_text():  # noqa: ASYNC110
        await asyncio.sleep(_POLL_S)
    return mine


@step()
async def left(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    return await _other(ctx, "left", "right")


@step()
async def right(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    return await _other(ctx, "right", "left")


@workflow("pair", title="Side by side", result="sum")
def pair() -> Steps:
    """Two steps that wait for each other, and two model calls at once."""
    return [
        left,
        right,
        model_step("one", needs=["left"], prompt="one"),
        model_step("two", needs=["right"], prompt="two"),
        model_step("sum", needs=["one", "two"], prompt="sum {one} {two}"),
    ]
