"""From a session's log and public events to the time line of one run. Pure.

The log alone suffices; events add when streams began, first tokens, broken attempts and claims. Moments are stream
ids, which the state Redis gives; of a worker's own clock only the difference of two readings is used, so a host
whose clock is wrong does not shift its bars.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from ops.trace.critical import critical_path
from ops.trace.observed import Claim, Observed, moment
from ops.trace.values import Attempt, Figures, Mark, NodeBar, Step, Timeline
from shared.contract import NodeResult, NodeState
from shared.entries import Assistant, Event, FactSet, Node, NodeEnded, Nudge, RunEnded, Steer, Stored, UserMessage
from shared.errors import UserError
from shared.llm.model import ThinkingBlock

HEAD = 500
"""Characters kept of results, answers' thinking and texts of steps."""


@dataclass
class _Logged:
    """What the log says of one run."""

    message: UserMessage | None = None
    started_ms: int = 0
    last_ms: int = 0
    assistants: list[tuple[int, Assistant, int]] = field(default_factory=list)
    """(moment, entry, when its stream can have begun at the earliest)"""
    nodes: dict[str, tuple[int, Node]] = field(default_factory=dict)
    results: dict[str, tuple[int, NodeResult]] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    ended: tuple[int, RunEnded] | None = None

    def take(self, entry: Stored) -> None:
        """Takes the run's next entry. Types that say nothing about time are passed over."""
        ms, value = moment(entry.id), entry.value
        match value:
            case UserMessage():
                self.message, self.started_ms = value, ms
            case Assistant():
                self.assistants.append((ms, value, self._earliest(value.step)))
            case Node():
                self.nodes[value.node] = (ms, value)
            case NodeEnded():
                self.results.setdefault(value.node, (ms, value.result))
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
        ends = [ms for node, (ms, _) in self.results.items() if node in self.nodes and self.nodes[node][1].step < step]
        return max([self.started_ms, *ends, *(ms for ms, _, _ in self.assistants)])


def timeline(run: str, entries: Iterable[Stored], events: Iterable[Event] = (), *, now_ms: int = 0) -> Timeline:
    """The time line of `run`. A run that has not ended reaches to `now_ms`, or to the last thing that is known.

    Raises UserError if the log has nothing of the run.
    """
    logged = _Logged()
    for entry in entries:
        if entry.run == run:
            logged.take(entry)
    if logged.message is None:
        raise UserError(f"the log has no run {run}", code="unknown_run", hint="a queued run appears when it starts")
    seen = Observed.of(run, events)
    end_ms = logged.ended[0] if logged.ended else max(logged.last_ms, seen.last_ms, now_ms)
    steps = _steps(logged, seen)
    nodes = _nodes(logged, seen)
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


def _steps(logged: _Logged, seen: Observed) -> tuple[Step, ...]:
    steps = {number: _unanswered(number, tries, logged.ended) for number, tries in seen.attempts.items()}
    for ms, entry, earliest in logged.assistants:
        steps[entry.step] = _answered(ms, entry, earliest, seen.attempts.get(entry.step, []))
    return tuple(steps[number] for number in sorted(steps))


def _answered(ms: int, entry: Assistant, earliest: int, tries: list[Attempt]) -> Step:
    attempts = [a for a in tries if a.started_ms <= ms]
    exact = bool(attempts)
    if not attempts:
        attempts = [
            Attempt(number=entry.attempt, model=f"{entry.provider}/{entry.model}", started_ms=min(earliest, ms))
        ]
    attempts[-1] = attempts[-1].model_copy(update={"ended_ms": ms, "failed": ""})
    thinking = "\n".join(b.text for b in entry.message.blocks if isinstance(b, ThinkingBlock))
    usage = entry.usage
    return Step(
        number=entry.step,
        attempts=tuple(attempts),
        model=f"{entry.provider}/{entry.model}",
        finish=entry.raw_finish or entry.finish,
        text=entry.message.text[:HEAD],
        thinking=thinking[:HEAD],
        calls=len(entry.message.calls),
        tokens_in=usage.input + usage.cache_read + usage.cache_write,
        tokens_out=usage.output + usage.reasoning,
        cost=entry.cost,
        exact=exact,
    )


def _unanswered(number: int, tries: list[Attempt], ended: tuple[int, RunEnded] | None) -> Step:
    """A step without an assistant message: it streams still, or its run ended first."""
    attempts = list(tries)
    if ended is not None and attempts[-1].ended_ms is None:
        attempts[-1] = attempts[-1].model_copy(update={"ended_ms": ended[0], "failed": "the run ended first"})
    return Step(number=number, attempts=tuple(attempts), model=attempts[-1].model)


def _nodes(logged: _Logged, seen: Observed) -> tuple[NodeBar, ...]:
    ends = {node: ms for node, (ms, _) in logged.results.items()}
    bars = []
    for name, (planned, node) in logged.nodes.items():
        ended_ms, result = logged.results.get(name, (None, None))
        claim = seen.claims.get(name)
        ready = max([planned, *(ends[n] for n in node.needs if n in ends)])
        ready = ready if ended_ms is None else min(ready, ended_ms)
        started = _started(claim, result, ready, ended_ms)
        error = result.error if result else None
        bars.append(
            NodeBar(
                id=name,
                step=node.step,
                position=node.position,
                tool=node.tool,
                args=node.args,
                effect=node.effect,
                needs=node.needs,
                state=result.state if result else NodeState.PLANNED if started is None else NodeState.RUNNING,
                worker=(result.worker if result else "") or (claim.worker if claim else ""),
                claims=claim.number if claim else int(started is not None),
                planned_ms=planned,
                ready_ms=ready,
                started_ms=started,
                ended_ms=ended_ms,
                text=result.text[:HEAD] if result else "",
                error=f"{error.code}: {error.message}" if error else "",
                artifact=result.artifact if result else None,
            )
        )
    return tuple(sorted(bars, key=lambda b: (b.step, b.position)))


def _started(claim: Claim | None, result: NodeResult | None, ready_ms: int, ended_ms: int | None) -> int | None:
    """When the node began to run: the claim that was seen, else its measured length back from its end."""
    if claim is not None:
        started = claim.ms
    elif result is None or ended_ms is None:
        return None
    elif result.started_ms:
        started = ended_ms - max(0, result.ended_ms - result.started_ms)
    elif result.state is NodeState.DONE:
        return ready_ms  # no worker claimed it: the coordinator itself did it
    else:
        return None
    return max(ready_ms, started) if ended_ms is None else min(max(ready_ms, started), ended_ms)


def _by_start(node: NodeBar) -> tuple[int, int, int]:
    return (node.started_ms or node.planned_ms, node.step, node.position)


def _figures(
    logged: _Logged, steps: tuple[Step, ...], nodes: tuple[NodeBar, ...], critical_ms: int, end_ms: int
) -> Figures:
    states: dict[str, int] = {}
    for node in nodes:
        states[node.state] = states.get(node.state, 0) + 1
    run_ms = sum(n.run_ms(end_ms) for n in nodes)
    busy = covered([(n.planned_ms, end_ms if n.ended_ms is None else n.ended_ms) for n in nodes])
    return Figures(
        seconds=(end_ms - logged.started_ms) / 1000,
        steps=len(steps),
        nodes=len(nodes),
        states=states,
        workers=len({n.worker for n in nodes if n.worker}),
        model_ms=covered([(s.started_ms, end_ms if s.ended_ms is None else s.ended_ms) for s in steps]),
        run_ms=run_ms,
        wait_ms=sum(n.wait_ms(end_ms) for n in nodes),
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
