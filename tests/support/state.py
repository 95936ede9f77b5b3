"""The state's scripts driven directly, without processes: what coordinators and workers do to Redis, step by step."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import redis.asyncio

from coordinator.inbox import classify
from shared.contract import Effect, NodeOrder, NodeResult, NodeState
from shared.entries import Assistant, Node
from shared.llm.model import Finish, Message, ToolCall
from shared.names import LOCAL_PRINCIPAL
from shared.settings import LimitSettings
from shared.signing import call_hash
from shared.state import keys
from shared.state.changes import Change
from shared.state.connection import connect
from shared.state.nodes import NodeLedger
from shared.state.pipeline import Pipeliner
from shared.state.runs import Lease, RunState
from tests.support.redis import stream_entry

LIMITS = LimitSettings()
AGENTS = {"default"}


class Rig:
    """One client with coordinators `c1`, `c2` and workers `w1`, `w2` whose heartbeats the test sets."""

    def __init__(self, client: redis.asyncio.Redis, limits: LimitSettings = LIMITS) -> None:
        self.redis = client
        self.limits = limits
        self.pipe = Pipeliner(client)
        self.c1 = RunState(self.pipe, "c1", limits)
        self.c2 = RunState(self.pipe, "c2", limits)
        self.w1 = NodeLedger(self.pipe, "w1", "n1", limits)
        self.w2 = NodeLedger(self.pipe, "w2", "n2", limits)

    async def beat(self, *ids: str) -> None:
        """Heartbeats that do not expire during the test."""
        for name in ids:
            if name.startswith("c"):
                await self.redis.set(keys.coordinator(name), "1")
            else:
                await self.redis.set(keys.worker(name), json.dumps({"nonce": name.replace("w", "n")}))

    async def dead(self, *ids: str) -> None:
        """Heartbeats that are gone."""
        for name in ids:
            await self.redis.delete(keys.coordinator(name), keys.worker(name))

    async def submit(self, principal: str = LOCAL_PRINCIPAL, **fields: str) -> str:
        """Adds an inbox entry; `kind` is message unless given."""
        return str(await self.redis.xadd(keys.inbox(principal), stream_entry({"kind": "message", **fields})))

    async def route(self, state: RunState | None = None, principal: str = LOCAL_PRINCIPAL) -> int:
        """Reads, classifies and routes what is in an inbox."""
        state = state or self.c1
        inbox = keys.inbox(principal)
        entries = await state.read_inbox(inbox)
        decisions = [classify(i, f, principal, self.limits, AGENTS) for i, f in entries]
        return await state.route(inbox, principal, decisions)

    async def started(self, session: str = "s", text: str = "hi", **fields: str) -> Lease:
        """A run that c1 has claimed."""
        await self.submit(session=session, text=text, **fields)
        await self.route()
        [(lease, _)] = await self.c1.claim(1)
        return lease

    async def planned(self, lease: Lease, *nodes: str, effect: Effect = Effect.READ) -> list[NodeOrder]:
        """Logs an assistant message that calls `probe` once per node, and plans the nodes."""
        calls = tuple(ToolCall(id=n, name="probe", arguments={"n": n}) for n in nodes)
        message = Message(role="assistant", blocks=calls)
        rows = [make_node(n, effect) for n in nodes]
        entry = Assistant(step=1, attempt=1, message=message, finish=Finish.TOOL_CALLS)
        await self.c1.append(lease, Change(entries=[entry], nodes=rows))
        return [order_of(lease, row) for row in rows]

    async def reply(self, name: str) -> dict[str, Any] | None:
        """The next reply on a list, None if there is none."""
        row = await self.redis.lpop(keys.reply(name))
        return json.loads(str(row)) if row is not None else None

    async def events(self, session: str = "s") -> list[str]:
        """Types of the session's events, in order."""
        return [fields["type"] for fields in await self.entries(keys.events(session))]

    async def entries(self, stream: str) -> list[dict[str, str]]:
        """The fields of what a stream holds, in order."""
        rows = await self.redis.xrange(stream) or ()
        return [{str(name): str(value) for name, value in (fields or {}).items()} for _, fields in rows]


def make_node(node: str, effect: Effect = Effect.READ) -> Node:
    """A planned node of the tool `probe`."""
    args = {"n": node}
    return Node(
        node=node,
        step=1,
        position=0,
        tool="probe",
        args=args,
        args_hash=call_hash("probe", args),
        effect=effect,
        queue="tools",
        not_after_ms=int(time.time() * 1000) + 60_000,
        timeout_s=10,
    )


def order_of(lease: Lease, node: Node) -> NodeOrder:
    """The order that the run's owner would send for a node."""
    return NodeOrder(
        run=lease.run,
        session=lease.session,
        principal=lease.principal,
        node=node.node,
        tool=node.tool,
        args=node.args,
        args_hash=node.args_hash,
        effect=node.effect,
        not_after_ms=node.not_after_ms,
        timeout_s=node.timeout_s,
    )


def done(text: str = "ok") -> NodeResult:
    """A result of a node that went well."""
    return NodeResult(state=NodeState.DONE, text=text, value=text)


def ended(state: NodeState) -> NodeResult:
    """A result in another terminal state."""
    return NodeResult(state=state, text=state.value)


async def with_rig(url: str, test: Callable[[Rig], Awaitable[None]], limits: LimitSettings = LIMITS) -> None:
    """Runs `test` with a rig on an empty database."""
    client = connect(url)
    try:
        await client.flushall()
        rig = Rig(client, limits)
        await rig.beat("c1", "c2", "w1", "w2")
        await test(rig)
        await rig.pipe.aclose()
    finally:
        await client.aclose()
