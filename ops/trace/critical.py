"""The critical path of a run, by the critical path method (Kelley and Walker, 1959). Pure.

The run is replayed with its measured durations, but with workers without end and no time lost between things: a
step begins when all nodes of earlier steps have ended, a node as soon as its call was complete and its needs have
ended. What decides the end of that replay is the critical path.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ops.trace.values import NodeBar, Step


@dataclass
class _Replay:
    """Ideal ends in ms from the run's start, and what each item waited for longest."""

    ends: dict[str, int] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)

    def add(self, item: str, duration: int, waits_for: Iterable[tuple[str, int]]) -> None:
        """`waits_for` are items with the moment from which each lets this one go on."""
        last = max(waits_for, key=lambda w: w[1], default=("", 0))
        self.ends[item] = last[1] + duration
        if last[0]:
            self.before[item] = last[0]

    def known(self, items: Iterable[str]) -> list[tuple[str, int]]:
        return [(item, self.ends[item]) for item in items if item in self.ends]

    def path(self) -> tuple[int, tuple[str, ...]]:
        """Length and items from first to last."""
        if not self.ends:
            return 0, ()
        item = max(self.ends, key=lambda i: self.ends[i])
        length, found = self.ends[item], [item]
        while (item := self.before.get(item, "")) and item not in found:
            found.append(item)
        return length, tuple(reversed(found))


def critical_path(steps: Sequence[Step], nodes: Sequence[NodeBar], end_ms: int) -> tuple[int, tuple[str, ...]]:
    """Length in ms and the items (`step:1`, node ids) from first to last.

    Nodes whose step is not among `steps` (those of a workflow) depend on their needs only. Open ends are `end_ms`.
    """
    replay = _Replay()
    # A need ends before its dependent begins, so the order of real beginnings is a topological one.
    waited_for = [n for n in nodes if n.adopted]
    ordered = sorted(waited_for, key=lambda n: (_begin(n, end_ms), n.ended_ms or end_ms, n.position))
    turns: dict[int, list[NodeBar]] = {}
    for node in ordered:
        turns.setdefault(node.step, []).append(node)
    known_steps = {step.number for step in steps}
    _add_nodes(replay, [n for n in ordered if n.step not in known_steps], None, end_ms)
    gate: list[str] = []  # what the next step waits for
    for step in sorted(steps, key=lambda s: s.number):
        replay.add(step.id, _length(step, end_ms), replay.known(gate))
        turn = turns.get(step.number, [])
        _add_nodes(replay, turn, step, end_ms)
        gate = [step.id, *(n.id for n in turn)]
    return replay.path()


def _add_nodes(replay: _Replay, nodes: Iterable[NodeBar], step: Step | None, end_ms: int) -> None:
    nodes = tuple(nodes)
    needs = {node.id: node.needs for node in nodes}
    for node in nodes:
        waits_for = replay.known((*(node.needs or needs.get(node.owner, ())), *node.holds))
        if step is not None:
            length = _length(step, end_ms)
            # A call that was complete early lets its node go before the stream has ended.
            lead = min(max(node.planned_ms - step.started_ms, 0), length)
            waits_for.append((step.id, replay.ends[step.id] - length + lead))
        replay.add(node.id, 0 if node.holds else node.run_ms(end_ms), waits_for)


def _begin(node: NodeBar, end_ms: int) -> int:
    if node.started_ms is not None and not node.holds:
        return node.started_ms
    return end_ms if node.ended_ms is None else node.ended_ms


def _length(step: Step, end_ms: int) -> int:
    return max(0, (end_ms if step.ended_ms is None else step.ended_ms) - step.started_ms)
