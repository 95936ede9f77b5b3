"""An agent step: a run of its own in the session, with the step's prompt, tools and bounds, which ends the node."""

from __future__ import annotations

import time

from coordinator.handle import Handle
from coordinator.loop.decide import Limits, spent
from coordinator.loop.own_tools import AGENT
from coordinator.loop.services import LoopServices
from coordinator.loop.waits import announce
from shared.contract import NodeError, NodeResult, NodeState, StepSpec
from shared.entries import Node, Waiting
from shared.ids import run_id
from shared.messages import Budget, QueuedMessage
from shared.state.changes import Change


class AgentSteps:
    """The agents of one run of a workflow, each a run whose end is the end of the node that waits for it."""

    def __init__(self, handle: Handle, services: LoopServices, limits: Limits) -> None:
        self._handle = handle
        self._services = services
        self._limits = limits

    def refused(self, spec: StepSpec) -> NodeResult | None:
        """The end of a step whose agent there is not, or that the budget does not suffice for."""
        if spec.agent not in self._services.agents.names():
            code, text = "unknown_agent", f"there is no agent {spec.agent!r}"
        elif reason := spent(self._handle.run, self._limits, 0.0):
            code, text = "budget_spent", f"the budget of this run is used up ({reason}), so no agent is asked"
        else:
            return None
        return NodeResult(state=NodeState.FAILED, text=text, error=NodeError(code=code, message=text))

    def begin(self, spec: StepSpec, node: Node, change: Change) -> None:
        """Adds to `change` the agent's run, and that the node waits for it until its deadline."""
        now_ms, message, run = int(time.time() * 1000), self._handle.message, self._handle.run
        limits = self._limits
        dollars = float(limits.dollars - (run.cost or 0)) if limits.dollars else None
        child = QueuedMessage(
            run=run_id(now_ms),
            principal=message.principal,
            session=message.session,
            received_ms=now_ms,
            text=str(node.args["task"]),
            agent=spec.agent,
            tools=spec.tools,
            budget=Budget(
                seconds=max(1.0, node.timeout_s),
                tokens=max(1, limits.tokens - run.usage.total) if limits.tokens else None,
                dollars=max(0.000001, dollars) if dollars is not None else None,
            ),
            approvals="deny" if message.headless else "ask",
            parent=node.node,
            path=(spec.agent,),
        )
        until_ms = now_ms + int(node.timeout_s * 1000)
        wait = Waiting(node=node.node, kind="agent", tool=node.tool, text=child.text, run=child.run, until_ms=until_ms)
        change.entries.append(wait)
        change.spawn.append(child)
        announce(change, wait, child, child.path)

    def late(self) -> Change | None:
        """Ends the nodes whose agents have had their time, and those agents; None if there are none such."""
        now_ms = int(time.time() * 1000)
        waits = [w for w in self._handle.run.open_waits.values() if w.kind == "agent" and w.until_ms <= now_ms]
        if not waits:
            return None
        change = Change(cancel=[w.run for w in waits], cancel_reason="the time of the step is up")
        for wait in waits:
            text = f"the agent {wait.tool.removeprefix(AGENT)} did not end in time, and was stopped"
            error = NodeError(code="timed_out", message=text, may_have_had_effect=True)
            result = NodeResult(state=NodeState.TIMED_OUT, text=text, error=error, ended_ms=now_ms)
            change.ends.append((wait.node, wait.tool, result))
        return change

    @property
    def next_ms(self) -> int | None:
        """When the next agent's time is up, in Unix milliseconds."""
        return min((w.until_ms for w in self._handle.run.open_waits.values() if w.kind == "agent"), default=None)
