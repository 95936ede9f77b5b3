"""How a run ends: its last entry, event, reply, row in SQL, and what follows it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from coordinator.handle import Handle
from coordinator.loop.claims.run import effects
from coordinator.loop.follow_ups import follow_ups
from coordinator.loop.own_tools import AGENT
from coordinator.loop.services import LoopServices
from shared.compress import cap
from shared.contract import NodeError, NodeResult, NodeState, Usage
from shared.entries import RunEnded
from shared.errors import CapatazError
from shared.llm.errors import LlmError
from shared.messages import ErrorInfo, Reply
from shared.state.changes import Change


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    state: Literal["ended", "failed", "cancelled"]
    finish_reason: str
    answer: str = ""
    error: ErrorInfo | None = None


def failed(error: CapatazError) -> Outcome:
    """A run that an error ended."""
    retry_after = error.retry_after if isinstance(error, LlmError) else None
    info = ErrorInfo(code=error.code, message=error.message, hint=error.hint, retry_after=retry_after)
    return Outcome("failed", "error", error=info)


def cancelled(why: str) -> Outcome:
    """A run that was asked to end."""
    return Outcome("cancelled", "cancelled", error=ErrorInfo(code="cancelled", message=why))


def defect() -> Outcome:
    """A run that a fault of ours ended."""
    text = "the run was ended by an internal fault; the operator's log has the details"
    return Outcome("failed", "error", error=ErrorInfo(code="internal", message=text))


async def end_run(handle: Handle, services: LoopServices, outcome: Outcome, change: Change | None = None) -> bool:
    """Ends the run with one script. False if mail arrived that must be read first; never so for forced ends."""
    run, message = handle.run, handle.message
    seconds = round(time.time() - run.started_ms / 1000, 3)
    cost = None if run.cost is None else format(run.cost.normalize(), "f")
    model = f"{run.assistants[-1].provider}/{run.assistants[-1].model}" if run.assistants else ""
    change = change or Change()
    answer = outcome.answer
    if message.kind == "workflow" and message.text and answer.strip():
        answer = f"[{message.text}]\n\n{answer}"  # such as that it comes late
    entry = RunEnded(
        state=outcome.state,
        finish_reason=outcome.finish_reason,
        answer=answer,
        usage=run.usage,
        cost=cost,
        steps=run.steps,
        seconds=seconds,
        error=outcome.error,
    )
    change.entries.append(entry)
    reply = Reply(
        ok=outcome.state == "ended",
        id=message.id,
        run=handle.lease.run,
        session=handle.lease.session,
        answer=answer,
        finish_reason=outcome.finish_reason,
        usage=run.usage.model_dump(mode="json"),
        cost=cost,
        seconds=seconds,
        model=model,
        error=outcome.error,
    )
    kind = "subagent.finished" if message.parent else "run.finished" if reply.ok else "run.failed"
    change.event(kind, **reply.model_dump(mode="json", exclude_none=True), steps=run.steps, nodes=len(run.nodes))
    up = await answer_up(handle, services, outcome, run.usage, cost) if message.parent else None
    following = follow_ups(handle, services, outcome.state, answer, outcome.error)
    return await handle.finish(change, reply, follow_ups=following, up=up, force=outcome.state != "ended")


async def answer_up(
    handle: Handle, services: LoopServices, outcome: Outcome, usage: Usage, cost: str | None
) -> tuple[str, str, NodeResult]:
    """The end of the node that waits for this run of a subagent: (node, tool, result)."""
    message = handle.message
    state = {"ended": NodeState.DONE, "cancelled": NodeState.CANCELLED, "failed": NodeState.FAILED}[outcome.state]
    text, artifact, error = outcome.answer, None, None
    if (why := outcome.error) is not None:
        error = NodeError(code=why.code, message=why.message, hint=why.hint)
        text = f"The agent {message.agent} ended without an answer ({outcome.finish_reason}): {error.message}. {text}"
    shown, cut = cap(text)
    if cut:
        artifact = await services.artifacts.put(message.principal, text.encode(), "text/plain")
        shown, _ = cap(text, handle=artifact)
    result = NodeResult(
        state=state,
        text=shown,
        value=None if cut else text,
        artifact=artifact,
        error=error,
        usage=usage,
        cost=cost,
        deeds=effects(handle.run),
        started_ms=handle.run.started_ms,
        ended_ms=int(time.time() * 1000),
    )
    return message.parent, AGENT + message.agent, result
