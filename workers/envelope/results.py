"""How a call's outcome becomes a node's result: what the model reads, what references see, what is kept aside. Pure."""

from __future__ import annotations

from shared.contract import Effect, NodeError, NodeResult, NodeState
from shared.errors import CapatazError, ModelError
from shared.signing import canonical_json

VALUE_BYTES = 32_000
"""A larger value goes to the artifact store instead of the ledger and the log."""


def fits(value: object) -> bool:
    """True if a JSON value may travel in the ledger."""
    return len(canonical_json(value).encode()) <= VALUE_BYTES


def failure(tool: str, error: CapatazError) -> NodeResult:
    """A call that the tool, or the check of its arguments, refused."""
    code = error.code if isinstance(error, ModelError) else "tool_error"
    problem = NodeError(code=code, message=error.message, hint=error.hint)
    return NodeResult(state=NodeState.FAILED, text=f"Error in {tool}: {error}", error=problem)


def crash(tool: str, error: Exception, effect: Effect) -> NodeResult:
    """A call that raised something nobody expected."""
    maybe = effect is Effect.WRITE
    message = f"{type(error).__name__}: {error}"[:1000]
    text = f"Error in {tool}: {message}"
    if maybe:
        text += "\nIt may have had its effect before it failed: check before you try again."
    problem = NodeError(code="tool_crashed", message=message, may_have_had_effect=maybe)
    return NodeResult(state=NodeState.FAILED, text=text, error=problem)


def died(tool: str, how: str) -> NodeResult:
    """A call that ended the process that ran it, for the third time."""
    text = f"{tool} failed: the process that ran it died ({how}), as two workers before. It is not tried again."
    problem = NodeError(code="worker_died", message=text)
    return NodeResult(state=NodeState.FAILED, text=text, error=problem)


def timeout(tool: str, seconds: float, effect: Effect) -> NodeResult:
    """A call that was not done by its deadline."""
    maybe = effect is Effect.WRITE
    text = f"{tool} did not finish within {seconds:g} s and was stopped."
    if maybe:
        text += " It may have had its effect: check before you try again."
    problem = NodeError(code="timed_out", message=text, may_have_had_effect=maybe)
    return NodeResult(state=NodeState.TIMED_OUT, text=text, error=problem)


def unknown_tool(tool: str) -> NodeResult:
    """A name that this worker has no tool for."""
    text = f"There is no tool {tool} on this worker. Use find_tools to see what exists."
    return NodeResult(state=NodeState.FAILED, text=text, error=NodeError(code="unknown_tool", message=text))
