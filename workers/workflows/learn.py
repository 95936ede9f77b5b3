"""Learning from a finished run, as a hidden workflow: its parameters are `run` and `session`."""

from __future__ import annotations

from pydantic import JsonValue

from shared.contract import Effect
from shared.errors import ModelError
from shared.names import QUEUE_LEARNER
from workers.context import ToolContext
from workers.learner.reflect import reflect_on
from workers.workflows.define import Inputs, Steps, step, workflow


@step(effect=Effect.IDEMPOTENT, queue=QUEUE_LEARNER, timeout_s=120.0)
async def reflect(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """Reflects on the run that the parameters name."""
    params = inputs.get("params") or {}
    run, session = params.get("run"), params.get("session") or ctx.session
    if not isinstance(run, str) or not run:
        raise ModelError("the workflow learn needs the parameter run", code="bad_arguments")
    return await reflect_on(ctx, run, str(session))


@workflow("learn", title="Learn from a run", result="reflect", hidden=True)
def learn() -> Steps:
    """One step on the learner's queue."""
    return [reflect]
