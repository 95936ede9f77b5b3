"""The execution envelope: what happens around every tool call, whatever the tool.

check the signature -> claim the ledger row -> judge by the rules -> validate -> run before the deadline -> compress,
cap and mark as data -> end the row.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from shared.artifacts import content_handle
from shared.compress import as_data, cap
from shared.contract import VERSION, Effect, NodeError, NodeOrder, NodeResult, NodeState
from shared.errors import CapatazError, StateUnavailable
from shared.ids import effect_key
from shared.models import PAYER, Payer
from shared.settings import Settings
from shared.signing import canonical_json, verified
from shared.state.nodes import NodeLedger
from workers.billing import TAB, Tab
from workers.context import Services, ToolContext
from workers.declare import Registry, Tool, ToolOutput
from workers.envelope import gate, results
from workers.envelope.alone import Died, run_alone

log = structlog.get_logger(__name__)


LARGE_CHARS = 50_000
"""A larger text is compressed in the executor."""

ALONE_FROM = 3
"""The attempt that is made in a child process: the two before it took their workers down."""


@dataclass(frozen=True, eq=False)
class Claim:
    """A ledger row that this worker is running."""

    order: NodeOrder
    attempt: int


class Envelope:
    """Runs batches. One per process, on its event loop."""

    def __init__(self, registry: Registry, ledger: NodeLedger, services: Services, settings: Settings, key: bytes):
        self._registry = registry
        self._ledger = ledger
        self._services = services
        self._settings = settings
        self._key = key
        self._slots = asyncio.Semaphore(settings.worker.slots)
        self.running: dict[Claim, asyncio.Task[None]] = {}
        self.stopping = False

    async def run_batch(self, wire: Sequence[Mapping[str, Any]]) -> int:
        """Claims and runs signed orders side by side; returns how many were claimed.

        Nodes that are forged, already taken or out of time are left alone: their owner knows what to do.
        """
        genuine = [order for one in wire if (order := self._genuine(one)) is not None]
        if self.stopping or not genuine:
            return 0
        async with self._slots:  # do not claim what cannot start soon
            claims = await self._claim(genuine)
        tasks = []
        for claim in claims:
            task = asyncio.create_task(self._run(claim))
            self.running[claim] = task
            task.add_done_callback(lambda _, c=claim: self.running.pop(c, None))  # type: ignore[misc]
            tasks.append(task)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for claim, outcome in zip(claims, outcomes, strict=True):
            if isinstance(outcome, StateUnavailable):
                log.error("result could not be stored; its owner will see to it", node=claim.order.node)
            elif isinstance(outcome, Exception):
                log.error("envelope failed", node=claim.order.node, exc_info=outcome)
        return len(claims)

    def _genuine(self, wire: Mapping[str, Any]) -> NodeOrder | None:
        order = verified(wire, self._key)
        if order is None:
            log.error(
                "node refused: its signature is wrong",
                node=str(wire.get("node"))[:100],
                tool=str(wire.get("tool"))[:100],
                hint="a forged message, or a coordinator with another CAPATAZ_SIGNING_KEY",
            )
        elif order.v > VERSION:
            log.error("node of a newer version left alone; upgrade this worker", version=order.v)
            return None
        return order

    async def _claim(self, orders: Sequence[NodeOrder]) -> list[Claim]:
        answers = await self._ledger.claim(orders)
        claims = []
        for order, answer in zip(orders, answers, strict=True):
            if isinstance(answer, int):
                claims.append(Claim(order, answer))
            else:
                log.info("node not claimed", node=order.node, reason=answer)
        return claims

    async def _run(self, claim: Claim) -> None:
        order = claim.order
        started = int(time.time() * 1000)
        async with self._slots:
            try:
                result = await self.result(claim)
            except asyncio.CancelledError:
                # Stopping, or the row was ended by its owner. Only what had no effect goes to another worker.
                if order.effect is not Effect.WRITE:
                    await self._ledger.give_back(order, claim.attempt)
                raise
        result = result.model_copy(
            update={"started_ms": started, "ended_ms": int(time.time() * 1000), "worker": self._ledger.worker}
        )
        if not await self._ledger.end(order, claim.attempt, result):
            log.warning("result came too late", node=order.node, state=result.state)

    async def result(self, claim: Claim) -> NodeResult:
        """Judges, validates and runs a claimed order, and shapes what comes of it."""
        order = claim.order
        tool = self._registry.get(order.tool)
        if tool is None:
            return results.unknown_tool(order.tool)
        if (refused := gate.refused(self._settings.permissions, tool.spec, order)) is not None:
            log.warning(
                "call denied by the rules of this worker's settings, which its coordinator let through",
                node=order.node,
                tool=order.tool,
                told=refused.text,
            )
            return refused
        if tool.spec.effect is Effect.WRITE and not await self._ledger.may_start(order, claim.attempt):
            raise asyncio.CancelledError
        now_ms = int(time.time() * 1000)
        seconds = min(order.timeout_s, tool.spec.timeout_s, (order.not_after_ms - now_ms) / 1000)
        if seconds <= 0:  # it has waited for too long, and has done nothing
            return results.timeout(order.tool, 0.0, Effect.READ)
        PAYER.set(Payer(order.principal, order.session, order.run, tool.spec.group))  # this task is the call's alone
        TAB.set(tab := Tab())
        ctx = self._context(order, now_ms + int(seconds * 1000))
        return tab.put_on(await self._outcome(claim, tool, ctx, seconds))

    async def _outcome(self, claim: Claim, tool: Tool, ctx: ToolContext, seconds: float) -> NodeResult:
        """Runs the tool, and makes a result of whatever comes of it."""
        order = claim.order
        try:
            if claim.attempt >= ALONE_FROM:
                log.warning("workers have died of this call; it is run in a process of its own", node=order.node)
                return await run_alone(order, seconds)
            async with asyncio.timeout(seconds):
                output = await tool.call(ctx, order.args)
            return self._marked(tool, await self._shape(tool, order, output))
        except Died as death:
            return results.died(order.tool, death.how)
        except TimeoutError:
            return results.timeout(order.tool, seconds, tool.spec.effect)
        except CapatazError as error:
            return self._marked(tool, results.failure(order.tool, error))
        except Exception as error:
            log.warning("tool raised", tool=order.tool, node=order.node, exc_info=error)
            return self._marked(tool, results.crash(order.tool, error, tool.spec.effect))

    def _marked(self, tool: Tool, result: NodeResult) -> NodeResult:
        """The result as the model may read it: what others may have written is between marks, errors included.

        References and code get the value as it is.
        """
        ours = result.error is not None and result.error.code == "bad_arguments"
        if not tool.spec.untrusted or ours:
            return result
        return result.model_copy(update={"text": as_data(tool.name, result.text, self._key)})

    def _context(self, order: NodeOrder, deadline_ms: int) -> ToolContext:
        async def report(text: str) -> None:
            await self._ledger.progress(order, text)

        return ToolContext(
            principal=order.principal,
            session=order.session,
            run=order.run,
            node=order.node,
            idempotency_key=effect_key(order.node),
            deadline_ms=deadline_ms,
            settings=self._settings,
            services=self._services,
            report=report,
        )

    async def _shape(self, tool: Tool, order: NodeOrder, output: ToolOutput) -> NodeResult:
        """Compresses and caps what the model reads; keeps aside what is too large to travel."""
        full = output.seen
        text = await self._compressed(tool, full)
        capped, cut = cap(text)
        small = results.fits(output.value)
        artifact: str | None = None
        whole = full.encode("utf-8", "replace")
        named = text != full and content_handle(whole) in text  # the compressor says where the rest is
        if cut or named or not small:
            # A value that is too large to travel is kept as JSON, for references and code; else the model's text is.
            put = self._services.artifacts.put
            try:
                if small or named:
                    artifact = await put(order.principal, whole, "text/plain")
                if not small:
                    artifact = await put(order.principal, canonical_json(output.value).encode(), "application/json")
            except CapatazError as error:
                note = NodeError(code=error.code, message=error.message, hint=error.hint)
                capped += f"\n[the full output could not be kept: {error.message}]"
                return NodeResult(state=NodeState.DONE, text=capped, error=note)
            if cut:
                capped, _ = cap(text, handle=artifact or "")
        return NodeResult(state=NodeState.DONE, text=capped, value=output.value if small else None, artifact=artifact)

    async def _compressed(self, tool: Tool, full: str) -> str:
        """What the tool's compressor leaves of a text. Other calls do not wait for a large one."""
        if tool.compress is None:
            return full
        if len(full) <= LARGE_CHARS:
            return tool.compress(full)
        return await asyncio.get_running_loop().run_in_executor(self._services.blocking, tool.compress, full)

    async def watch(self) -> None:
        """Cancels what its owner has ended meanwhile (a cancelled run, a passed deadline)."""
        for claim, task in list(self.running.items()):
            if not await self._ledger.still_mine(claim.order, claim.attempt):
                log.info("node stopped: its row has ended", node=claim.order.node)
                task.cancel()

    async def drain(self, grace_s: float) -> None:
        """Stops claiming, gives `read` and `idempotent` nodes back, lets `write` finish within `grace_s` seconds."""
        self.stopping = True
        writes = []
        for claim, task in list(self.running.items()):
            if claim.order.effect is Effect.WRITE:
                writes.append(task)
            else:
                task.cancel()
        if writes:
            await asyncio.wait(writes, timeout=grace_s)
