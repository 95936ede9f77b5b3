"""From a session's log and public events to the time line of one run. Pure.

The log alone suffices; events add when streams began, first tokens, broken attempts and claims. Moments are stream
ids, which the state Redis gives; of a worker's own clock only the difference of two readings is used, so a host
whose clock is wrong does not shift its bars.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from ops.trace.critical import critical_path
from ops.trace.logged import Logged
from ops.trace.nodes import nodes_of
from ops.trace.observed import Observed
from ops.trace.steps import steps_of
from ops.trace.values import Figures, NodeBar, Step, Timeline
from shared.entries import Event, Stored
from shared.errors import UserError


def timeline(run: str, entries: Iterable[Stored], events: Iterable[Event] = (), *, now_ms: int = 0) -> Timeline:
    """The time line of `run`. A run that has not ended reaches to `now_ms`, or to the last thing that is known.

    Raises UserError if the log has nothing of the run.
    """
    logged = Logged()
    for entry in entries:
        if entry.run == run:
            logged.take(entry)
    if logged.message is None:
        raise UserError(f"the log has no run {run}", code="unknown_run", hint="a queued run appears when it starts")
    seen = Observed.of(run, events)
    end_ms = logged.ended[0] if logged.ended else max(logged.last_ms, seen.last_ms, now_ms)
    steps = steps_of(logged, seen)
    nodes = nodes_of(logged, seen)
    of_turns = () if logged.message.kind == "workflow" else steps  # a workflow's model steps are nodes as well
    critical_ms, path = critical_path(of_turns, nodes, end_ms)
    workers = tuple(dict.fromkeys(n.worker for n in sorted(nodes, key=_by_start) if n.worker))
    told = {(m.kind, m.text) for m in logged.marks}
    marks = [*logged.marks, *(m for m in seen.marks if (m.kind, m.text) not in told)]
    ended = logged.ended[1] if logged.ended else None
    return Timeline(
        run=run,
        session=logged.message.session,
        kind=logged.message.kind,
        title=logged.message.text or logged.message.workflow,
        state=ended.state if ended else "running",
        finish_reason=ended.finish_reason if ended else "",
        answer=ended.answer if ended else "",
        error=ended.error.message if ended and ended.error else "",
        received_ms=min(logged.message.received_ms, logged.started_ms),
        started_ms=logged.started_ms,
        ended_ms=logged.ended[0] if logged.ended else None,
        end_ms=end_ms,
        steps=steps,
        nodes=nodes,
        marks=tuple(sorted(marks, key=lambda m: m.ms)),
        workers=workers,
        critical=path,
        events=seen.complete,
        figures=_figures(logged, steps, nodes, critical_ms, end_ms),
    )


def _by_start(node: NodeBar) -> tuple[int, int, int]:
    return (node.started_ms or node.planned_ms, node.step, node.position)


def _figures(
    logged: Logged, steps: tuple[Step, ...], nodes: tuple[NodeBar, ...], critical_ms: int, end_ms: int
) -> Figures:
    states: dict[str, int] = {}
    for node in nodes:
        states[node.state] = states.get(node.state, 0) + 1
    run_ms = sum(n.run_ms(end_ms) for n in nodes if not n.holds)  # a plan's time is that of its steps
    busy = covered([(n.planned_ms, end_ms if n.ended_ms is None else n.ended_ms) for n in nodes])
    return Figures(
        seconds=(end_ms - logged.started_ms) / 1000,
        steps=len(steps),
        nodes=len(nodes),
        states=states,
        workers=len({n.worker for n in nodes if n.worker}),
        model_ms=covered([(s.started_ms, end_ms if s.ended_ms is None else s.ended_ms) for s in steps]),
        run_ms=run_ms,
        wait_ms=sum(n.wait_ms(end_ms) for n in nodes if not n.holds),
        busy_ms=busy,
        speed_up=round(run_ms / busy, 2) if busy else None,
        critical_ms=critical_ms,
        tokens=sum(s.tokens_in + s.tokens_out for s in steps),
        cost=logged.ended[1].cost if logged.ended else _cost(steps),
    )


def _cost(steps: tuple[Step, ...]) -> str | None:
    known = [Decimal(s.cost) for s in steps if s.cost is not None]
    return format(sum(known, Decimal(0)), "f") if known else None


def covered(intervals: Iterable[tuple[int, int]]) -> int:
    """The length of the union of intervals."""
    total, reached = 0, None
    for start, end in sorted(intervals):
        from_ = start if reached is None else max(start, reached)
        total += max(0, end - from_)
        reached = end if reached is None else max(reached, end)
    return total
