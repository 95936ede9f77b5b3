"""The rules once more, where the call would run: a coordinator that let it through is not the last word. Pure.

A worker knows its own installation's rules and no agent files, so it can only be stricter than the coordinator.
"""

from __future__ import annotations

from shared.contract import NodeError, NodeOrder, NodeResult, NodeState, ToolSpec
from shared.permissions import CallFacts, Policy, judge, refusal


def refused(policy: Policy, tool: ToolSpec, order: NodeOrder) -> NodeResult | None:
    """The end of a call that the rules deny, or ask about and that brings no approval; None if it may run.

    Group and effect are those of the tool that would run here, whatever the order says.
    """
    call = CallFacts(tool.name, tool.group, tool.effect, order.args, order.agent_path, order.principal)
    verdict = judge([policy], call)
    if verdict.action == "allow" or (verdict.action == "ask" and order.approval):
        return None
    text = refusal(tool.name, verdict.reason)
    return NodeResult(state=NodeState.DENIED, text=text, error=NodeError(code="denied", message=verdict.reason))
