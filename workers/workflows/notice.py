"""A notice: something that the user is told in a session, and on the channels that its message names, by no model."""

from __future__ import annotations

from shared.errors import ModelError
from shared.messages import Message
from shared.names import WORKFLOW_NOTICE
from workers.context import ToolContext
from workers.declare import ToolOutput
from workers.workflows.define import Inputs, Steps, step, workflow

MAX_CHARS = 20_000


def notice_message(text: str, *, session: str, id: str, deliver: tuple[str, ...] = ()) -> Message:
    """The message that has a text told; the same one however often it is sent."""
    return Message(
        kind="workflow",
        workflow=WORKFLOW_NOTICE,
        session=session,
        id=id,
        params={"text": text[:MAX_CHARS]},
        deliver=deliver,
    )


@step(timeout_s=30.0)
def tell(ctx: ToolContext, inputs: Inputs) -> ToolOutput:
    """Says the text."""
    text = (inputs.get("params") or {}).get("text")
    if not isinstance(text, str) or not text.strip():
        raise ModelError("the workflow notice needs the parameter text", code="bad_arguments")
    return ToolOutput(text, text)


@workflow(WORKFLOW_NOTICE, title="A notice", result="tell")
def notice() -> Steps:
    """One step that says its parameter."""
    return [tell]
