"""From the calls of a turn to nodes, with what cannot run refused at once. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from shared.contract import Effect, NodeError, NodeResult, NodeState, ToolSpec
from shared.entries import Node
from shared.ids import node_id
from shared.llm.model import Block, BrokenCall, Message, ToolCall
from shared.signing import call_hash

QUEUE_WAIT_MS = 60_000


@dataclass
class Plan:
    """`message` has our ids; `nodes` are its calls; `refused` those that end before they start."""

    message: Message
    nodes: list[Node] = field(default_factory=list)
    refused: list[tuple[str, str, NodeResult]] = field(default_factory=list)


def plan_calls(
    message: Message,
    *,
    run: str,
    step: int,
    attempt: int,
    find: Callable[[str], ToolSpec | None],
    now_ms: int,
    most: int,
) -> Plan:
    """Names every call, plans it, refuses what is unknown or too many. `find` gives a tool by name."""
    blocks: list[Block] = []
    plan = Plan(message)
    position = 0
    for block in message.blocks:
        if not isinstance(block, ToolCall):
            blocks.append(block)
            continue
        node = node_id(run, step, attempt, position)
        blocks.append(block.model_copy(update={"id": node}))
        spec = find(block.name)
        plan.nodes.append(_node(block, node, step, position, spec, now_ms))
        if spec is None:
            plan.refused.append((node, block.name, unknown_tool(block.name)))
        elif position >= most:
            plan.refused.append((node, block.name, too_many(block.name, most)))
        position += 1
    plan.message = message.model_copy(update={"blocks": tuple(blocks)})
    return plan


def _node(call: ToolCall, node: str, step: int, position: int, spec: ToolSpec | None, now_ms: int) -> Node:
    timeout_s = spec.timeout_s if spec else 0.0
    return Node(
        node=node,
        step=step,
        position=position,
        tool=call.name,
        args=call.arguments,
        args_hash=call_hash(call.name, call.arguments),
        effect=spec.effect if spec else Effect.READ,
        queue=spec.queue if spec else "",
        not_after_ms=now_ms + QUEUE_WAIT_MS + int(timeout_s * 1000),
        timeout_s=timeout_s,
    )


def unknown_tool(name: str) -> NodeResult:
    """A name that no live worker offers."""
    text = f"There is no tool '{name}'. Use only the tools you were given; find_tools searches for others."
    return NodeResult(state=NodeState.REFUSED, text=text, error=NodeError(code="unknown_tool", message=text))


def too_many(name: str, most: int) -> NodeResult:
    """A call beyond the limit of one turn."""
    text = f"{name} was not run: a turn may hold {most} calls at most. Ask for the rest in the next turn."
    return NodeResult(state=NodeState.REFUSED, text=text, error=NodeError(code="too_many_calls", message=text))


def broken_text(broken: Sequence[BrokenCall]) -> str:
    """What the model is told about calls that did not arrive whole."""
    lines = [f"- {b.name or 'a call'}: {b.reason}" for b in broken]
    return (
        "These tool calls of yours did not arrive whole and were NOT run:\n"
        + "\n".join(lines)
        + "\nSend them again, complete; if the arguments are long, make them shorter."
    )
