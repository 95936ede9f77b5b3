"""The nodes of a run with their times, from its log and events. Pure."""

from __future__ import annotations

from ops.trace.logged import Logged
from ops.trace.observed import Claim, Observed
from ops.trace.values import HEAD, NodeBar
from shared.contract import NodeResult, NodeState


def nodes_of(logged: Logged, seen: Observed) -> tuple[NodeBar, ...]:
    """All nodes in order of their calls, a plan's steps behind it."""
    owners = {name: owner for name in logged.nodes if (owner := _owner(name)) in logged.nodes}
    held: dict[str, list[str]] = {}
    for name, owner in owners.items():
        held.setdefault(owner, []).append(name)
    answered = {answer.entry.step for answer in logged.answers}
    called = {call.id for answer in logged.answers for call in answer.entry.message.calls}
    bars = []
    for name, node in logged.nodes.items():
        lost = node.call and name not in called and node.step in answered
        bars.append(_bar(name, logged, seen, owners.get(name, ""), tuple(held.get(name, ())), adopted=not lost))
    place = {bar.id: bar.position for bar in bars}
    return tuple(sorted(bars, key=lambda b: (b.step, place.get(b.owner, b.position), b.owner != "", b.position, b.id)))


def _owner(name: str) -> str:
    """The node id that a plan's step begins with; the caller looks whether there is such a node."""
    return name.rpartition(".")[0]


def _bar(name: str, logged: Logged, seen: Observed, owner: str, holds: tuple[str, ...], *, adopted: bool) -> NodeBar:
    node, planned = logged.nodes[name], logged.planned[name]
    ended_ms, result = logged.results.get(name, (None, None))
    claim = seen.claims.get(name)
    ready = max([planned, *(logged.results[n][0] for n in node.needs if n in logged.results)])
    ready = ready if ended_ms is None else min(ready, ended_ms)
    started = ready if holds else _started(claim, result, ready, ended_ms)
    error = result.error if result else None
    return NodeBar(
        id=name,
        step=node.step,
        position=node.position,
        owner=owner,
        holds=holds,
        adopted=adopted,
        elided=name in logged.elided,
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
