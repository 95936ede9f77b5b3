"""From the calls of a turn to nodes: ids, the graph, what is refused before it starts. Pure.

Everything here is a function of the logged message, so that a coordinator which takes the run over plans the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator.graph.deadlines import Deadline, nested
from coordinator.graph.plan_tool import PLAN
from coordinator.graph.turn import AFTER_KEY, LABEL_KEY, TurnGraph, build, refusal
from coordinator.loop.guard import Call, LoopGuard
from shared.contract import Effect, NodeError, NodeResult, NodeState, ToolSpec
from shared.entries import Node
from shared.fold import RunFold
from shared.ids import node_id
from shared.llm.model import Block, BrokenCall, Message, ToolCall
from shared.signing import call_hash

QUEUE_WAIT_MS = 60_000
"""How long a node may wait for a worker, beyond its own time."""

PLAN_SPEC = ToolSpec(name=PLAN, group="session", description="", parameters={}, effect=Effect.READ)
"""The plan tool as a node: it runs nothing itself, its steps are nodes of their own."""

Find = Callable[[str], ToolSpec | None]


@dataclass
class Plan:
    """`message` has our ids; `nodes` are its calls; `refused` those that end before they start."""

    message: Message
    graph: TurnGraph
    nodes: list[Node] = field(default_factory=list)
    refused: list[tuple[str, str, NodeResult]] = field(default_factory=list)


def turn_graph(calls: Sequence[ToolCall], *, references: bool, most: int) -> TurnGraph:
    """The graph of a turn. A plan's arguments are a graph of their own: the turn's references stop there."""
    return build([(c.name, _opaque_plan(c)) for c in calls], references=references, most=most)


def _opaque_plan(call: ToolCall) -> dict[str, Any]:
    if call.name != PLAN:
        return call.arguments
    return {k: v for k, v in call.arguments.items() if k in (LABEL_KEY, AFTER_KEY)}


def plan_calls(
    message: Message,
    *,
    run: str,
    step: int,
    attempt: int,
    find: Find,
    now_ms: int,
    most: int,
    references: bool = False,
    known: Mapping[str, str] | None = None,
    run_ends_ms: int = 0,
    held: Callable[[ToolSpec, dict[str, Any]], bool] = lambda spec, args: False,
) -> Plan:
    """Names every call, plans it, refuses what cannot run. `find` gives a tool by name; `held` says of a call that it
    cannot simply be sent, so that its row must not be claimed yet.

    `known` maps call hashes to nodes of this step that were started while a model still streamed: an equal call
    takes such a node over, each once.
    """
    reusable = dict(known or {})
    named = []
    for position, call in enumerate(message.calls):
        node = reusable.pop(call_hash(call.name, call.arguments), None) or node_id(run, step, attempt, position)
        named.append(call.model_copy(update={"id": node}))
    graph = turn_graph(named, references=references, most=most)
    plan = Plan(_renamed(message, named), graph)
    for position, call in enumerate(named, 1):
        spec = PLAN_SPEC if call.name == PLAN else find(call.name)
        needs = tuple(named[p - 1].id for p in graph.call(position).needs)
        waits = bool(needs) or call.name == PLAN or (spec is not None and held(spec, call.arguments))
        plan.nodes.append(
            make_node(
                call.id,
                call.name,
                call.arguments,
                step,
                position - 1,
                spec,
                now_ms,
                needs,
                waits,
                run_ends_ms=run_ends_ms,
            )
        )
        if spec is None:
            plan.refused.append((call.id, call.name, unknown_tool(call.name)))
        elif (error := graph.refused.get(position)) is not None:
            plan.refused.append((call.id, call.name, refusal(error)))
    return plan


def unadopted(run: RunFold, step: int) -> dict[str, str]:
    """Call hash to node, of nodes that were started for a step whose message is not logged yet."""
    return {n.args_hash: n.node for n in run.nodes.values() if n.step == step and n.call and n.args_hash}


def stop_loops(plan: Plan, guard: LoopGuard, run: RunFold) -> None:
    """Answers in the tool's place for calls that go in circles."""
    calls = [Call.of(n.tool, n.args, n.effect, judged=not n.needs) for n in plan.nodes]
    decided = {node for node, _, _ in plan.refused} | run.nodes.keys()
    for node, verdict in zip(plan.nodes, guard.check(calls), strict=True):
        if verdict.action != "run" and node.node not in decided:
            plan.refused.append((node.node, node.tool, verdict.result))


def _renamed(message: Message, named: Sequence[ToolCall]) -> Message:
    calls = iter(named)
    blocks: list[Block] = [next(calls) if isinstance(b, ToolCall) else b for b in message.blocks]
    return message.model_copy(update={"blocks": tuple(blocks)})


def make_node(
    node: str,
    tool: str,
    arguments: dict[str, Any],
    step: int,
    position: int,
    spec: ToolSpec | None,
    now_ms: int,
    needs: tuple[str, ...] = (),
    waits: bool = False,
    call: bool = True,
    run_ends_ms: int = 0,
) -> Node:
    """A node as it is logged. One that `waits` for others gets its fingerprint and deadline when it is ready.

    `run_ends_ms` (0: never) is when the run's own time is up, which no node outlives.
    """
    timeout_s = spec.timeout_s if spec else 0.0
    bounds = Deadline(timeout_s, 0) if waits else deadline(now_ms, timeout_s, run_ends_ms)
    return Node(
        node=node,
        step=step,
        position=position,
        tool=tool,
        args=arguments,
        args_hash="" if waits else call_hash(tool, without_reserved(arguments)),
        effect=spec.effect if spec else Effect.READ,
        queue=spec.queue if spec else "",
        needs=needs,
        not_after_ms=bounds.not_after_ms,
        timeout_s=bounds.timeout_s,
        call=call,
    )


def deadline(now_ms: int, timeout_s: float, run_ends_ms: int) -> Deadline:
    """The bounds of a node that is ready now, inside those of its run (0: it has none)."""
    if not run_ends_ms:
        return Deadline(timeout_s, now_ms + QUEUE_WAIT_MS + int(timeout_s * 1000))
    # A node for which the run has no time left ends with it, and says so.
    return nested(now_ms, timeout_s, QUEUE_WAIT_MS, run_ends_ms) or Deadline(0.0, run_ends_ms)


def without_reserved(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments without the properties that only say what a call needs."""
    return {k: v for k, v in arguments.items() if k not in (LABEL_KEY, AFTER_KEY)}


def unknown_tool(name: str) -> NodeResult:
    """A name that no live worker offers."""
    text = f"There is no tool '{name}'. Use only the tools you were given; find_tools searches for others."
    return NodeResult(state=NodeState.REFUSED, text=text, error=NodeError(code="unknown_tool", message=text))


def broken_text(broken: Sequence[BrokenCall]) -> str:
    """What the model is told about calls that did not arrive whole."""
    lines = [f"- {b.name or 'a call'}: {b.reason}" for b in broken]
    return (
        "These tool calls of yours did not arrive whole and were NOT run:\n"
        + "\n".join(lines)
        + "\nSend them again, complete; if the arguments are long, make them shorter."
    )
