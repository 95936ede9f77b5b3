"""Whether a node may run: the rules in force for one run, and what its user has said yes to. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from coordinator.context.agent import Agent
from shared.contract import Effect, NodeError, NodeResult, NodeState, ToolSpec
from shared.entries import Decided
from shared.messages import QueuedMessage
from shared.permissions import CallFacts, Grant, Policy, Verdict, judge, refusal, unattended


@dataclass
class Permit:
    """The one place that every node passes before it is sent.

    `layers`: the policy of the installation, then of each agent from the root of the run's path down. `standing` are
    grants that outlive sessions, `granted` the approvals of this session. Where nobody can be asked (`headless`), an
    `ask` becomes what `unattended` says.
    """

    layers: Sequence[Policy]
    principal: str
    path: tuple[str, ...]
    headless: bool
    unattended: Literal["deny", "allow"]
    granted: list[Decided]
    standing: Sequence[Grant] = field(default=())
    _unruled: Verdict | None = field(init=False, default=None, repr=False)
    """The verdict on every call, where no layer has rules and nothing is forbidden by default."""

    def __post_init__(self) -> None:
        """Looks whether there is anything to judge by."""
        if all(not layer.rules and layer.default == "allow" for layer in self.layers):
            whatever = CallFacts("", "", Effect.READ, {}, self.path, self.principal)
            self._unruled = judge(self.layers, whatever)

    @classmethod
    def of(
        cls,
        message: QueuedMessage,
        agents: Sequence[Agent],
        policy: Policy,
        becomes: Literal["deny", "allow"],
        granted: list[Decided],
    ) -> Permit:
        """What a run of `agents` (the root first) may do; none of them for a workflow."""
        layers = [policy, *(agent.permissions for agent in agents)]
        path = tuple(agent.name for agent in agents)
        return cls(layers, message.principal, path, message.headless, becomes, granted)

    def verdict(
        self, spec: ToolSpec, args: dict[str, Any], args_hash: str = "", decided: Decided | None = None
    ) -> Verdict:
        """The decision on a call with these arguments. `decided` is what was said of this very node: it counts if
        `args_hash` is what it was said about."""
        if self._unruled is not None:
            return self._unruled
        call = CallFacts(spec.name, spec.group, spec.effect, args, self.path, self.principal)
        verdict = judge(self.layers, call, self._grants())
        if verdict.action != "ask":
            return verdict
        if decided is not None and decided.allowed and decided.args_hash == args_hash:
            return replace(verdict, action="allow", asking=(), approval=decided.node)
        return unattended(verdict, self.unattended) if self.headless else verdict

    def _grants(self) -> list[Grant]:
        return [*self.standing, *(g for d in self.granted for g in grants_of(d, self.principal))]


def grants_of(decided: Decided, principal: str) -> list[Grant]:
    """What an approval that reaches further than its own call permits: one grant for each rule that had asked."""
    return [
        Grant(
            id=f"{decided.node}.{rule}",
            tool=decided.tool,
            rule_id=rule,
            agent=decided.agent,
            principal=principal,
            scope=decided.scope,
            args_hash=decided.args_hash if decided.scope == "once" else "",
            by_text=decided.text,
        )
        for rule in decided.rules
        if decided.allowed
    ]


def denied(tool: str, reason: str, code: str = "denied") -> NodeResult:
    """The result of a node that may not run."""
    text = refusal(tool, reason)
    return NodeResult(state=NodeState.DENIED, text=text, error=NodeError(code=code, message=text))
