"""A dependency graph that is being carried out: nodes become ready when all that they need has ended well.

A node ends in exactly one state. Anything but `done` reaches its dependents only: they are skipped, with the
reason. Pure: fed with events, asked what is ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shared.contract import NodeState
from shared.errors import ModelError


def find_cycle(needs: Mapping[str, Iterable[str]]) -> list[str] | None:
    """A cycle as the path along it (first node repeated at the end), or None. Unknown ids are passed over."""
    done: set[str] = set()
    for root in needs:
        path: list[str] = []
        on_path: set[str] = set()
        stack: list[tuple[str, bool]] = [(root, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                path.pop()
                on_path.discard(node)
                done.add(node)
                continue
            if node in on_path:
                return [*path[path.index(node) :], node]
            if node in done or node not in needs:
                continue
            path.append(node)
            on_path.add(node)
            stack.append((node, True))
            stack.extend((n, False) for n in needs[node])
    return None


@dataclass
class Dataflow:
    """The state of one graph. Raises ModelError at construction for unknown needs and cycles."""

    needs: dict[str, tuple[str, ...]]
    ended: dict[str, NodeState] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for node, needed in self.needs.items():
            for other in needed:
                if other not in self.needs:
                    raise ModelError(f"{node} needs {other}, which does not exist", code="unknown_node")
        if (cycle := find_cycle(self.needs)) is not None:
            raise ModelError(f"these need each other: {' -> '.join(cycle)}", code="cycle")
        self._dependents: dict[str, list[str]] = {n: [] for n in self.needs}
        for node, needed in self.needs.items():
            for other in needed:
                self._dependents[other].append(node)
        self._height = self._heights()
        known, self.ended = self.ended, {}
        for node, state in known.items():
            self.end(node, state)

    def _heights(self) -> dict[str, int]:
        """Length of the longest chain that waits for each node: the critical path goes first."""
        height: dict[str, int] = {}
        for node in reversed(self._order()):
            height[node] = 1 + max((height[d] for d in self._dependents[node]), default=0)
        return height

    def _order(self) -> list[str]:
        missing = {n: len(set(needed)) for n, needed in self.needs.items()}
        queue = [n for n, count in missing.items() if count == 0]
        for node in queue:
            for dependent in dict.fromkeys(self._dependents[node]):
                missing[dependent] -= 1
                if missing[dependent] == 0:
                    queue.append(dependent)
        return queue

    def ready(self) -> list[str]:
        """Nodes that may start now, those with the longest chain behind them first, else in given order."""
        found = [
            n
            for n, needed in self.needs.items()
            if n not in self.started
            and n not in self.ended
            and all(self.ended.get(other) is NodeState.DONE for other in needed)
        ]
        return sorted(found, key=lambda n: -self._height[n])

    def start(self, node: str) -> None:
        """Marks a node as handed out."""
        self.started.add(node)

    def end(self, node: str, state: NodeState) -> list[str]:
        """Records a node's end; the first one wins. Returns the nodes that are skipped because of it."""
        if node in self.ended:
            return []
        self.ended[node] = state
        if state is NodeState.DONE:
            return []
        skipped: list[str] = []
        frontier = [node]
        while frontier:
            for dependent in self._dependents[frontier.pop()]:
                if dependent not in self.ended:
                    self.ended[dependent] = NodeState.SKIPPED
                    skipped.append(dependent)
                    frontier.append(dependent)
        return skipped

    @property
    def finished(self) -> bool:
        """True when every node has ended."""
        return len(self.ended) == len(self.needs)
