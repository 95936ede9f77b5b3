"""Early start: a call that is whole is sent to a worker while the model still talks.

Only calls without effect that need nothing of their turn. Their nodes are in the log before the message that adopts
them; if the stream fails they belong to nobody, and an equal call of the next attempt may take them over.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from coordinator.dispatch.collector import Collector
from coordinator.graph.turn import AFTER_KEY, LABEL_KEY
from coordinator.handle import Handle
from coordinator.loop.guard import Call, LoopGuard
from coordinator.loop.planning import Find, make_node, unadopted
from shared.contract import Effect, ToolSpec
from shared.entries import Node
from shared.ids import node_id
from shared.llm.model import ToolCall
from shared.state.changes import Change

GATHER_S = 0.015
"""How long calls gather after some were sent: a change and a message cost more than a node does."""
_MAYBE = re.compile(r"\$\{?[0-9a-z_]")


class EarlyStart:
    """Takes whole calls of one attempt as they come."""

    def __init__(
        self,
        handle: Handle,
        collector: Collector,
        guard: LoopGuard,
        find: Find,
        held: Callable[[ToolSpec, dict[str, Any]], bool],
        *,
        step: int,
        attempt: int,
        width: int,
    ) -> None:
        self._handle = handle
        self._collector = collector
        self._guard = guard
        self._find = find
        self._held = held
        self._step = step
        self._attempt = attempt
        self._width = width
        # Attempts are counted anew after a takeover: what the log has of this step already keeps its ids.
        self._count = sum(1 for n in handle.run.nodes.values() if n.step == step and n.call)
        self._waiting: deque[Node] = deque()
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def offer(self, call: ToolCall) -> None:
        """Starts the call if that may be; returns at once."""
        spec = self._find(call.name)
        if spec is None or spec.effect is not Effect.READ or may_need_others(call.arguments):
            return
        if self._held(spec, call.arguments):
            return
        if len(self._collector.outstanding) + len(self._waiting) >= self._width:
            return
        judged = Call.of(call.name, call.arguments)
        if judged.key in unadopted(self._handle.run, self._step):
            return  # an earlier attempt has started an equal one
        if self._guard.check([judged])[0].action != "run":
            return
        node = f"{node_id(self._handle.lease.run, self._step, self._attempt, self._count)}e"
        now_ms = int(time.time() * 1000)
        self._waiting.append(make_node(node, call.name, call.arguments, self._step, self._count, spec, now_ms))
        self._count += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._start())

    async def _start(self) -> None:
        while self._waiting:
            change = Change(nodes=list(self._waiting))
            self._waiting.clear()
            for node in change.nodes:
                change.event("node.planned", **planned_event(node), early=True)
            await self._handle.commit(change)
            for node in change.nodes:
                self._collector.send(node)
            # The first call goes at once; those that follow closely share a change and a message.
            with suppress(TimeoutError):
                async with asyncio.timeout(GATHER_S):
                    await self._over.wait()

    async def settle(self) -> None:
        """The stream is over: returns when what was begun is logged and sent. Raises what logging raised.

        What has not begun goes with the message, all at once.
        """
        self._waiting.clear()
        self._over.set()
        if self._task is not None:
            await asyncio.shield(self._task)


def may_need_others(arguments: dict[str, Any]) -> bool:
    """True if a call's arguments could hold a reference, which cannot be known before the turn is whole."""
    return AFTER_KEY in arguments or LABEL_KEY in arguments or _may_refer(arguments)


def _may_refer(value: Any) -> bool:
    if isinstance(value, str):
        return _MAYBE.search(value) is not None
    if isinstance(value, dict):
        return any(_may_refer(v) for v in value.values())
    return isinstance(value, list) and any(_may_refer(v) for v in value)


def planned_event(node: Node) -> dict[str, Any]:
    """The data of a node.planned event."""
    return {
        "node": node.node,
        "step": node.step,
        "position": node.position,
        "tool": node.tool,
        "args": node.args,
        "effect": node.effect,
        "needs": node.needs,
    }
