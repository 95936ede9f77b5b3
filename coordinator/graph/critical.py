"""Where the time of a graph went: makespan, critical path, and for every node its wait against its run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from coordinator.graph.order import dependents, topological


@dataclass(frozen=True, slots=True)
class Timing:
    """When things happened to one node: Unix milliseconds, 0 for what never happened."""

    node: str
    needs: tuple[str, ...]
    planned_ms: int
    started_ms: int = 0
    ended_ms: int = 0


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """One node's times. `ready_ms`: when it was planned and all that it needs had ended.

    `wait_ms` is from there to its start, `run_ms` from start to end, `slack_ms` how much longer it could have run
    without making the critical path longer.
    """

    node: str
    needs: tuple[str, ...]
    planned_ms: int
    ready_ms: int
    started_ms: int
    ended_ms: int
    wait_ms: int
    run_ms: int
    slack_ms: int
    critical: bool


@dataclass(frozen=True, slots=True)
class GraphTimes:
    """A graph's times. `critical_path_ms` is the run time along `critical_path`, the longest chain of nodes.

    It is the bound that no number of workers gets below; `makespan_ms` is from the first plan to the last end.
    """

    makespan_ms: int
    critical_path_ms: int
    critical_path: tuple[str, ...]
    work_ms: int
    nodes: tuple[NodeTimes, ...]

    @property
    def ratio(self) -> float | None:
        """Makespan over critical path; None if nothing ran."""
        return self.makespan_ms / self.critical_path_ms if self.critical_path_ms else None

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON-ready dictionaries and lists."""
        return {**asdict(self), "ratio": self.ratio}


def analyse(timings: Sequence[Timing]) -> GraphTimes:
    """The times of a graph without cycles. Needs outside of `timings` are passed over.

    Clocks of several hosts differ by a little, so a wait that would be negative counts as none.
    """
    by_name = {t.node: t for t in timings}
    needs = {t.node: [n for n in t.needs if n in by_name] for t in timings}
    order = topological(needs)
    run = {t.node: _run_ms(t) for t in timings}
    until: dict[str, int] = {}  # run time of the longest chain that ends with each node
    for node in order:
        until[node] = run[node] + max((until[n] for n in needs[node]), default=0)
    turned = dependents(needs)
    beyond: dict[str, int] = {}  # of the longest that begins behind it
    for node in reversed(order):
        beyond[node] = max((run[d] + beyond[d] for d in turned[node]), default=0)
    longest = max(until.values(), default=0)
    path = _path(order, needs, run, until)
    on_path = set(path)
    nodes = []
    for t in timings:
        ready = max([t.planned_ms, *(by_name[n].ended_ms for n in needs[t.node])])
        nodes.append(
            NodeTimes(
                node=t.node,
                needs=tuple(needs[t.node]),
                planned_ms=t.planned_ms,
                ready_ms=ready,
                started_ms=t.started_ms,
                ended_ms=t.ended_ms,
                wait_ms=max(0, t.started_ms - ready) if t.started_ms else 0,
                run_ms=run[t.node],
                slack_ms=longest - until[t.node] - beyond[t.node],
                critical=t.node in on_path,
            )
        )
    first = min((t.planned_ms for t in timings), default=0)
    makespan = max(0, max((t.ended_ms for t in timings), default=0) - first)
    return GraphTimes(makespan, longest, path, sum(run.values()), tuple(nodes))


def _run_ms(timing: Timing) -> int:
    return max(0, timing.ended_ms - timing.started_ms) if timing.started_ms else 0


def _path(
    order: Sequence[str], needs: dict[str, list[str]], run: dict[str, int], until: dict[str, int]
) -> tuple[str, ...]:
    """The longest chain, from its first node; empty if nothing ran. The earlier node where two are equal."""
    if not any(run.values()):
        return ()
    node = max(order, key=lambda n: until[n])
    path = [node]
    while until[node] > run[node]:
        node = max(needs[node], key=lambda n: until[n])
        path.append(node)
    return tuple(reversed(path))
