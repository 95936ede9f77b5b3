"""What the log of a session says of one run. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from ops.trace.observed import moment
from ops.trace.values import Mark
from shared.contract import NodeResult
from shared.entries import (
    Assistant,
    Elided,
    FactSet,
    Node,
    NodeEnded,
    Nudge,
    RunEnded,
    Steer,
    Stored,
    UserMessage,
)


@dataclass(frozen=True)
class Answered:
    """An assistant message: when it was logged, and when its step can have begun at the earliest."""

    ms: int
    entry: Assistant
    earliest: int


@dataclass
class Logged:
    """The run's entries by what they are about; moments in Unix milliseconds."""

    message: UserMessage | None = None
    started_ms: int = 0
    last_ms: int = 0
    answers: list[Answered] = field(default_factory=list)
    planned: dict[str, int] = field(default_factory=dict)
    """When each node was first logged."""
    nodes: dict[str, Node] = field(default_factory=dict)
    """Each node as it was logged last."""
    results: dict[str, tuple[int, NodeResult]] = field(default_factory=dict)
    elided: set[str] = field(default_factory=set)
    marks: list[Mark] = field(default_factory=list)
    ended: tuple[int, RunEnded] | None = None

    def take(self, entry: Stored) -> None:
        """Takes the run's next entry. Types that say nothing about time are passed over."""
        ms, value = moment(entry.id), entry.value
        match value:
            case UserMessage():
                self.message, self.started_ms = value, ms
            case Assistant():
                self.answers.append(Answered(ms, value, self._earliest(value.step)))
            case Node():
                self.planned.setdefault(value.node, ms)
                self.nodes[value.node] = value
            case NodeEnded():
                self.results.setdefault(value.node, (ms, value.result))
            case Elided():
                self.elided.update(value.lines)
            case Nudge():
                self.marks.append(Mark(ms=ms, kind=value.reason, text=value.text))
            case Steer():
                self.marks.append(Mark(ms=ms, kind="steer", text=value.text))
            case FactSet():
                self.marks.append(Mark(ms=ms, kind="fact", text=f"{value.name} (version {value.version})"))
            case RunEnded():
                self.ended = (ms, value)
        self.last_ms = max(self.last_ms, ms)

    def _earliest(self, step: int) -> int:
        """The newest moment at which something ended that the step had to wait for."""
        ends = [ms for node, (ms, _) in self.results.items() if node in self.nodes and self.nodes[node].step < step]
        return max([self.started_ms, *ends, *(answer.ms for answer in self.answers)])
