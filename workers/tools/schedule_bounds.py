"""What an agent may have scheduled: nothing that it could not do itself, because what it schedules runs later, alone.

A scheduled prompt goes to the agent that scheduled it, so that the rules of its file hold, and with no tools besides
those that it has. A subagent, which more rules hold for than those of its own file, schedules nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from shared.contract import Catalogue, WorkflowSpec
from shared.entries import Offered, Stored, UserMessage
from shared.errors import UserError
from shared.names import WORKFLOWS_OF_COMMANDS

_CHOSEN: Final = "explicit"
"""The layer of routing that says: the tools were named by the message or by the agent's file."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Who schedules: the agent, whether another one started it, and the tools it was given; None: whatever there is."""

    agent: str
    subagent: bool = False
    tools: frozenset[str] | None = None

    def check(self) -> None:
        """Raises UserError for a subagent."""
        if self.subagent:
            hint = "say in your answer what is to be scheduled, so that the agent that asked you does it"
            raise UserError("a subagent schedules nothing", hint=hint)

    def narrowed(self, tools: Sequence[str], catalogue: Catalogue) -> tuple[str, ...]:
        """The tools and groups as they may be scheduled: groups of an agent that was given its tools become the names
        of today, so that they do not grow. Raises UserError that names what the agent lacks."""
        if self.tools is None:
            return tuple(tools)
        names = _members(tools, catalogue)
        if lacking := [name for name in names if name not in self.tools]:
            raise UserError(
                f"this agent has no tool {lacking[0]!r}, so it cannot schedule it",
                hint=f"leave it out; it has: {', '.join(sorted(self.tools))}",
            )
        return names

    def check_workflow(self, spec: WorkflowSpec, catalogue: Catalogue) -> None:
        """Raises UserError for a workflow that stands for a user's order, or whose steps call tools that the agent
        lacks, or have an agent call any."""
        if spec.name in WORKFLOWS_OF_COMMANDS:
            raise UserError(f"the workflow {spec.name} cannot be scheduled", hint="it carries out what users order")
        if self.tools is None:
            return
        for one in spec.steps:
            wanted = {"tool": (one.tool,), "agent": one.tools or ("any tool",)}.get(one.kind, ())
            if lacking := [name for name in _members(wanted, catalogue) if name not in self.tools]:
                raise UserError(f"the workflow {spec.name} uses {lacking[0]!r}, which this agent does not have")


def _members(tools: Sequence[str], catalogue: Catalogue) -> tuple[str, ...]:
    """Names of tools in the place of groups, each once."""
    members = {group: [one.name for one in catalogue.tools if one.group == group] for group in tools}
    return tuple(dict.fromkeys(name for one in tools for name in (members[one] or [one])))


def bounds_of(log: Iterable[Stored], run: str) -> Bounds:
    """The bounds of whoever makes the calls of a run, by the session's log. Raises UserError if that cannot be seen."""
    message: UserMessage | None = None
    offered: list[Offered] = []
    for entry in log:
        if entry.run != run:
            continue
        if isinstance(entry.value, UserMessage):
            message = entry.value
        elif isinstance(entry.value, Offered):
            offered.append(entry.value)
    if message is None:
        raise UserError("it cannot be seen who asks for this", hint="the log of this session lacks the message")
    subagent = bool(message.parent)
    if not offered or offered[0].layer != _CHOSEN:
        return Bounds(message.agent, subagent)
    return Bounds(message.agent, subagent, frozenset(name for one in offered for name in one.tools))
