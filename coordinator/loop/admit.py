"""What happens with a node that is ready: it goes to a worker, it waits, or it ends before it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from coordinator.context.agent import Agents
from coordinator.graph.turn import refusal
from coordinator.loop.own_tools import AGENT, ASK_USER, Pause, Question, Task, parsed
from coordinator.loop.permit import Permit, denied
from shared.contract import NodeResult, ToolSpec
from shared.entries import Waiting
from shared.errors import ModelError
from shared.fold import RunFold
from shared.ids import run_id
from shared.messages import Budget, QueuedMessage
from shared.names import QUEUE_COORDINATOR


@dataclass(frozen=True)
class Go:
    """It may be sent; `approval` is what lets it, if rules ask about it."""

    approval: str = ""


@dataclass(frozen=True)
class Hold:
    """It waits; `child` is the run of a subagent that it waits for, and that begins now."""

    wait: Waiting
    child: QueuedMessage | None = None


@dataclass(frozen=True)
class Admission:
    """Decides for the nodes of one run. `path`: its agents, the root first. `budget`: what a subagent may use of what
    the run has left, asked for when one starts."""

    message: QueuedMessage
    path: tuple[str, ...]
    permit: Permit
    agents: Agents
    budget: Callable[[], Budget]
    depth: int
    expiry_s: float
    zone: tzinfo

    def admit(
        self, node: str, spec: ToolSpec, args: dict[str, Any], args_hash: str, run: RunFold, now_ms: int
    ) -> Go | Hold | NodeResult:
        """The decision on a node with its references filled in. After a takeover it is the same again: what waits goes
        on waiting, what was approved goes."""
        if (wait := run.open_waits.get(node)) is not None:
            return Hold(wait)
        verdict = self.permit.verdict(spec, args, args_hash, run.decided.get(node))
        if verdict.action == "deny":
            return denied(spec.name, verdict.reason)
        if verdict.action == "ask":
            wait = Waiting(
                node=node,
                kind="approval",
                tool=spec.name,
                until_ms=now_ms + int(self.expiry_s * 1000),
                args=args,
                args_hash=args_hash,
                rules=verdict.asking,
                text=verdict.reason,
            )
            return Hold(wait)
        if spec.queue != QUEUE_COORDINATOR:
            return Go(verdict.approval)
        try:
            return self._own(node, spec, args, now_ms)
        except ModelError as error:
            return refusal(error)

    def _own(self, node: str, spec: ToolSpec, args: dict[str, Any], now_ms: int) -> Hold | NodeResult:
        if spec.name.startswith(AGENT):
            return self._subagent(node, spec, parsed(Task, spec.name, args).task, now_ms)
        if spec.name == ASK_USER:
            asked = parsed(Question, spec.name, args)
            if self.message.headless:
                raise ModelError("nobody can be asked here", code="headless", hint="go on without, and say so")
            until_ms = now_ms + int(self.expiry_s * 1000)
            return Hold(
                Waiting(
                    node=node,
                    kind="question",
                    tool=spec.name,
                    until_ms=until_ms,
                    text=asked.question,
                    options=asked.options,
                    recommended=asked.recommended,
                )
            )
        end_ms = parsed(Pause, spec.name, args).until_ms(now_ms, self.zone)
        return Hold(Waiting(node=node, kind="timer", tool=spec.name, until_ms=max(end_ms, now_ms + 1)))

    def _subagent(self, node: str, spec: ToolSpec, task: str, now_ms: int) -> Hold:
        name = spec.name.removeprefix(AGENT)
        if len(self.path) > self.depth:
            chain = " > ".join(self.path)
            raise ModelError(f"{chain} is as deep as subagents may go", code="too_deep", hint="do it yourself")
        if name not in self.agents.names():
            raise ModelError(f"there is no agent {name!r} any more", code="unknown_agent")
        child = QueuedMessage(
            run=run_id(now_ms),
            principal=self.message.principal,
            session=self.message.session,
            received_ms=now_ms,
            text=task,
            agent=name,
            budget=self.budget(),
            approvals="deny" if self.message.headless else "ask",
            parent=node,
            path=(*self.path, name),
        )
        return Hold(Waiting(node=node, kind="agent", tool=spec.name, text=task, run=child.run), child)
