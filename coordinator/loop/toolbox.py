"""The tools of one run: what is offered in a step, how the model sees it, and what a name stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import structlog

from coordinator.context.agent import Agent, Agents
from coordinator.dispatch.directory import Directory
from coordinator.graph.plan_tool import DESCRIPTION as PLAN_DESCRIPTION
from coordinator.graph.plan_tool import PLAN
from coordinator.graph.plan_tool import SCHEMA as PLAN_SCHEMA
from coordinator.graph.turn import reserved_properties
from coordinator.handle import Handle
from coordinator.loop.own_tools import ASK_USER, subagent_specs
from coordinator.models.picker import bill_group, groups_of
from shared.contract import NodeResult, ToolSpec
from shared.llm.model import ToolCall, ToolDefinition

log = structlog.get_logger(__name__)

FIND_TOOLS = "find_tools"


@dataclass(frozen=True)
class Toolbox:
    """What live workers offer this run, and the tools that start its agent's subagents (`own`)."""

    handle: Handle
    directory: Directory
    own: dict[str, ToolSpec]

    @classmethod
    def of(cls, handle: Handle, directory: Directory, agent: Agent, agents: Agents) -> Toolbox:
        """The toolbox of an agent. A subagent that has no file is told to the operator."""
        names = agents.names()
        for name in set(agent.subagents) - names:
            log.error("a subagent has no file", agent=agent.name, subagent=name)
        known = [agents.get(name) for name in agent.subagents if name in names]
        return cls(handle, directory, {spec.name: spec for spec in subagent_specs(known)})

    def find(self, name: str) -> ToolSpec | None:
        """The tool of that name, offered or not."""
        return self.own.get(name) or self.directory.tool(name)

    def offered(self) -> list[ToolSpec]:
        """Tools of this step in catalogue order: what was chosen for the session before stays."""
        thread, run, headless = self.handle.thread, self.handle.run, self.handle.message.headless
        chosen = [
            t
            for t in self.directory.catalogue.tools
            if t.always or t.name in run.offered or t.name in thread.offered_tools or t.group in thread.offered_groups
        ]
        return [*(t for t in chosen if not (headless and t.name == ASK_USER)), *self.own.values()]

    def definitions(self, calls: Literal["references", "plan", "flat"]) -> tuple[ToolDefinition, ...]:
        """The offered tools as the model sees them, in the form that this run's calls have."""
        with_graph = calls == "references"
        found = [
            ToolDefinition(
                name=t.name,
                description=t.description,
                parameters=reserved_properties(t.parameters) if with_graph else t.parameters,
            )
            for t in self.offered()
        ]
        if calls == "plan":
            found.append(ToolDefinition(name=PLAN, description=PLAN_DESCRIPTION, parameters=PLAN_SCHEMA))
        return tuple(found)

    def bill(self) -> str:
        """What the run's calls are billed under: the groups of the tools that were chosen for it."""
        chosen = self.handle.run.offered
        return bill_group(groups_of([t for t in self.directory.catalogue.tools if t.name in chosen]))

    def found(self, calls: Sequence[ToolCall]) -> tuple[str, ...]:
        """Tools that these calls to find_tools named and that are not offered yet."""
        names: list[str] = []
        for call in calls:
            result: NodeResult | None = self.handle.run.results.get(call.id)
            if call.name == FIND_TOOLS and result is not None and isinstance(result.value, dict):
                tools = result.value.get("tools")
                names.extend(n for n in tools if isinstance(n, str)) if isinstance(tools, list) else None
        return tuple(n for n in dict.fromkeys(names) if n not in self.handle.thread.offered_tools)
