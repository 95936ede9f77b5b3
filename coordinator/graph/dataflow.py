"""A dependency graph that is being carried out: nodes become ready when all that they need has ended well.

A node ends in exactly one state. Anything but `done` reaches its dependents only: they are skipped, with the
reason. Pure: fed with events (a node started, ended), asked what is ready; it never waits.

A whole run costs O((nodes + edges) log nodes): every node counts what it still misses, and those that miss nothing
wait in one heap per tool.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from coordinator.graph.order import dependents, find_cycle, topological
from shared.contract import NodeState
from shared.errors import ModelError

__all__ = ["Dataflow", "find_cycle"]

_Entry = tuple[int, int, str]
"""Place in a heap: longest chain first, else given order."""


@dataclass
class Dataflow:
    """The state of one graph. Raises ModelError at construction for unknown needs and cycles.

    `ended` and `started` are what is known when a graph is taken over. `tools` (node -> tool) is what bounds per tool
    count by. `groups` are nodes that do nothing themselves but end with others, such as a plan with its steps: while
    they are open they take nobody's place.
    """

    needs: dict[str, tuple[str, ...]]
    ended: dict[str, NodeState] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    tools: Mapping[str, str] = field(default_factory=dict)
    groups: Collection[str] = ()

    def __post_init__(self) -> None:
        for node, needed in self.needs.items():
            for other in needed:
                if other not in self.needs:
                    raise ModelError(f"{node} needs {other}, which does not exist", code="unknown_node")
        if (cycle := find_cycle(self.needs)) is not None:
            raise ModelError(f"these need each other: {' -> '.join(cycle)}", code="cycle")
        self._dependents = dependents(self.needs)
        self._missing = {node: len(set(needed)) for node, needed in self.needs.items()}
        self._place = {node: i for i, node in enumerate(self.needs)}
        self._height = self._heights()
        self._heaps: dict[str, list[_Entry]] = defaultdict(list)
        self._running: Counter[str] = Counter()
        self.open: set[str] = set()
        """Nodes that have started and not ended, groups among them."""
        for node, count in self._missing.items():
            if count == 0:
                self._offer(node)
        started, self.started = self.started, set()
        known, self.ended = self.ended, {}
        for node in started:
            self.start(node)
        for node, state in known.items():
            self.end(node, state)

    def _heights(self) -> dict[str, int]:
        """The length of the longest chain from each node to an end of the graph: the critical path goes first."""
        height: dict[str, int] = {}
        for node in reversed(topological(self.needs)):
            height[node] = 1 + max((height[d] for d in self._dependents[node]), default=0)
        return height

    def _tool(self, node: str) -> str:
        return self.tools.get(node, "")

    def _offer(self, node: str) -> None:
        heapq.heappush(self._heaps[self._tool(node)], (-self._height[node], self._place[node], node))

    def ready(self, limit: int | None = None, per_tool: Mapping[str, int] | None = None) -> list[str]:
        """Nodes that may start now, those with the longest chain behind them first, else in given order.

        If all of them are started, at most `limit` nodes run at once, and of each tool named in `per_tool` at most
        that many. Asking changes nothing.
        """
        room = len(self.needs) if limit is None else limit - self.running
        bounds = per_tool or {}
        left = {t: bounds[t] - self._running[t] if t in bounds else room for t in self._heaps}
        found: list[_Entry] = []
        heads = [entry for tool in self._heaps if left[tool] > 0 for entry in self._head(tool)]
        heapq.heapify(heads)
        while heads and len(found) < room:
            entry = heapq.heappop(heads)
            tool = self._tool(entry[2])
            found.append(heapq.heappop(self._heaps[tool]))
            left[tool] -= 1
            if left[tool] > 0:
                for following in self._head(tool):
                    heapq.heappush(heads, following)
        for entry in found:
            heapq.heappush(self._heaps[self._tool(entry[2])], entry)
        return [node for _, _, node in found]

    def _head(self, tool: str) -> Iterator[_Entry]:
        """The first waiting node of a tool, if any; those that have started or ended since are thrown away."""
        heap = self._heaps[tool]
        while heap and (heap[0][2] in self.started or heap[0][2] in self.ended):
            heapq.heappop(heap)
        yield from heap[:1]

    def start(self, node: str) -> None:
        """Marks a node as handed out; doing it twice changes nothing."""
        if node in self.started or node in self.ended:
            return
        self.started.add(node)
        self.open.add(node)
        if node not in self.groups:
            self._running[self._tool(node)] += 1

    def end(self, node: str, state: NodeState) -> list[str]:
        """Records a node's end; the first one wins. Returns the nodes that are skipped because of it."""
        if node in self.ended:
            return []
        self._close(node, state)
        if state is NodeState.DONE:
            for dependent in self._dependents[node]:
                self._missing[dependent] -= 1
                if self._missing[dependent] == 0 and dependent not in self.ended:
                    self._offer(dependent)
            return []
        skipped: list[str] = []
        frontier = [node]
        while frontier:
            for dependent in self._dependents[frontier.pop()]:
                if dependent not in self.ended:
                    self._close(dependent, NodeState.SKIPPED)
                    skipped.append(dependent)
                    frontier.append(dependent)
        return skipped

    def _close(self, node: str, state: NodeState) -> None:
        if node in self.started and node not in self.groups:
            self._running[self._tool(node)] -= 1
        self.ended[node] = state
        self.open.discard(node)

    @property
    def running(self) -> int:
        """How many nodes have started and not ended, groups left out."""
        return self._running.total()

    @property
    def finished(self) -> bool:
        """True when every node has ended."""
        return len(self.ended) == len(self.needs)

    @property
    def stalled(self) -> bool:
        """True if nothing runs, nothing is ready, and yet not all has ended: a defect, for a caller to fail on."""
        return not self.finished and self.running == 0 and not self.ready(1)
