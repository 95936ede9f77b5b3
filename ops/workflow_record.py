"""What became of one run of a workflow, step by step, from the session's log alone. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from pydantic import JsonValue

from shared.contract import NodeResult, Value, WorkflowSpec
from shared.entries import Assistant, Node, NodeEnded, RunEnded, Stored, UserMessage, WorkflowBegun
from shared.errors import UserError

_MOST_OUTPUT: Final = 500


class AttemptRecord(Value):
    """One try of a step. Times are Unix milliseconds, None for what has not come yet; `state` is empty till its end."""

    node: str
    state: str = ""
    started_ms: int
    ended_ms: int | None = None
    worker: str = ""
    error: str = ""
    text: str = ""


class StepRecord(Value):
    """One step: `state` is that of its last attempt, or `running`, or `waiting` if nothing of it is logged yet, or
    `not run` if nothing ever was. `output` is its beginning; `artifact` is the handle of the whole one, if that is
    large. `cost` is US dollars, None if unknown."""

    id: str
    kind: str = ""
    state: str
    attempts: tuple[AttemptRecord, ...] = ()
    output: str = ""
    artifact: str | None = None
    tokens: int = 0
    cost: str | None = "0"

    @property
    def took_ms(self) -> int | None:
        """From the beginning of its first attempt to the end of its last."""
        if not self.attempts or self.attempts[-1].ended_ms is None:
            return None
        return self.attempts[-1].ended_ms - self.attempts[0].started_ms


class RunRecord(Value):
    """One run of a workflow. Times are Unix milliseconds; `state` is `running` until it has ended."""

    run: str
    workflow: str
    session: str
    principal: str
    state: str = "running"
    finish_reason: str = ""
    params: dict[str, JsonValue]
    received_ms: int
    started_ms: int
    ended_ms: int | None = None
    steps: tuple[StepRecord, ...] = ()
    answer: str = ""
    error: str = ""
    tokens: int = 0
    cost: str | None = "0"


def run_record(run: str, entries: Iterable[Stored]) -> RunRecord:
    """The record of a run. Raises UserError if the log does not hold it, or it is none of a workflow."""
    own = [entry for entry in entries if entry.run == run or entry.run.startswith(f"{run}.")]
    opened = next((e for e in own if isinstance(e.value, UserMessage)), None)
    if opened is None or not isinstance(opened.value, UserMessage):
        raise UserError(f"there is no run {run!r}", code="unknown_run", hint="`capataz workflow runs` lists them")
    message = opened.value
    if message.kind != "workflow":
        raise UserError(f"{run} is no run of a workflow", code="bad_request", hint="`capataz trace` shows it")
    spec = next((e.value.spec for e in own if isinstance(e.value, WorkflowBegun)), None)
    closed = next(((e, e.value) for e in own if isinstance(e.value, RunEnded)), None)
    record = RunRecord(
        run=run,
        workflow=message.workflow,
        session=message.session,
        principal=message.principal,
        params=message.params,
        received_ms=message.received_ms,
        started_ms=_ms(opened),
        steps=_steps(own, spec, over=closed is not None),
    )
    update: dict[str, object] = {
        "tokens": sum(step.tokens for step in record.steps),
        "cost": _total([step.cost for step in record.steps]),
    }
    if closed is not None:
        entry, end = closed
        update |= {"state": end.state, "finish_reason": end.finish_reason, "ended_ms": _ms(entry)}
        update |= {"answer": end.answer, "error": end.error.message if end.error else ""}
    return record.model_copy(update=update)


def _steps(entries: list[Stored], spec: WorkflowSpec | None, *, over: bool) -> tuple[StepRecord, ...]:
    planned: dict[str, tuple[int, Node]] = {}
    for entry in entries:
        if isinstance(entry.value, Node):
            planned.setdefault(entry.value.node, (_ms(entry), entry.value))
    ends: dict[str, tuple[int, NodeResult]] = {}
    for entry in entries:
        if isinstance(entry.value, NodeEnded):
            ends.setdefault(entry.value.node, (_ms(entry), entry.value.result))
    calls: dict[str, list[Assistant]] = {}
    for entry in entries:
        if isinstance(entry.value, Assistant):
            calls.setdefault(entry.value.node, []).append(entry.value)
    known = spec.steps if spec is not None else ()
    places = range(max([len(known), *(node.position + 1 for _, node in planned.values())], default=0))
    found = []
    for place in places:
        nodes = [(ms, node) for ms, node in planned.values() if node.position == place]
        step = known[place] if place < len(known) else None
        name = step.id if step else nodes[0][1].tool.rpartition("/")[2] if nodes else str(place)
        tries = tuple(_attempt(ms, node, ends.get(node.node)) for ms, node in nodes)
        last = ends[nodes[-1][1].node][1] if nodes and nodes[-1][1].node in ends else None
        asked = [call for _, node in nodes for call in calls.get(node.node, [])]
        state = last.state.value if last else "running" if nodes and not over else "waiting" if not over else "not run"
        found.append(
            StepRecord(
                id=name,
                kind=step.kind if step else "",
                state=state,
                attempts=tries,
                output=last.text[:_MOST_OUTPUT] if last else "",
                artifact=last.artifact if last else None,
                tokens=sum(call.all_usage.total for call in asked) + (last.usage.total if last and last.usage else 0),
                cost=last.cost if last and last.usage else _dollars(asked),
            )
        )
    return tuple(found)


def _attempt(planned_ms: int, node: Node, end: tuple[int, NodeResult] | None) -> AttemptRecord:
    """Of a worker's own clock only the difference of two readings counts; moments are those of the state."""
    if end is None:
        return AttemptRecord(node=node.node, started_ms=planned_ms)
    ended_ms, result = end
    took_ms = result.ended_ms - result.started_ms if result.started_ms else ended_ms - planned_ms
    return AttemptRecord(
        node=node.node,
        state=result.state.value,
        started_ms=max(planned_ms, ended_ms - took_ms),
        ended_ms=ended_ms,
        worker=result.worker,
        error=result.error.code if result.error else "",
        text=result.text[:_MOST_OUTPUT],
    )


def _dollars(calls: Iterable[Assistant]) -> str | None:
    return _total([None if (cost := call.all_cost) is None else str(cost) for call in calls])


def _total(costs: Iterable[str | None]) -> str | None:
    """Their sum; None if one of them is not known."""
    found = [None if cost is None else Decimal(cost) for cost in costs]
    known = [cost for cost in found if cost is not None]
    return format(sum(known, Decimal(0)).normalize(), "f") if len(known) == len(found) else None


def _ms(entry: Stored) -> int:
    return int(entry.id.partition("-")[0])
