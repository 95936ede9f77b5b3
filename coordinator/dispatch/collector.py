"""Sends a run's nodes out and brings their results home, whatever happens to workers and messages in between."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import structlog

from coordinator.dispatch.directory import Directory
from coordinator.dispatch.publisher import Publisher
from coordinator.handle import Handle
from shared.contract import Effect, NodeError, NodeOrder, NodeResult, NodeState
from shared.entries import Node
from shared.state.changes import Change

log = structlog.get_logger(__name__)

REVIEW_S = 2.0
"""How often outstanding rows are looked at without a hint."""
PROMPT_S = 1.0
"""A state that takes longer than this to answer was away, and every heartbeat in it is old."""
NO_WORKER_S = 20.0
"""How long a node waits for a worker of its queue to appear."""
MOST_SENDS = 8


@dataclass
class Outstanding:
    """A node that has been handed out. Times are of the monotonic clock."""

    node: Node
    args: dict[str, Any]
    sent_at: float
    since: float
    approval: str = ""
    sends: int = 1
    unserved_since: float | None = None


@dataclass
class Collector:
    """The outstanding nodes of one run."""

    handle: Handle
    publisher: Publisher
    directory: Directory
    path: tuple[str, ...] = ()
    """The agents down to the one whose nodes these are."""
    outstanding: dict[str, Outstanding] = field(default_factory=dict)
    watched: set[str] = field(default_factory=set)
    """Nodes that no worker runs, whose ends are brought home all the same."""

    def send(self, node: Node, args: dict[str, Any] | None = None, approval: str = "") -> None:
        """Hands a planned node out; `args` are its arguments with references filled in, if it has any, `approval` is
        what lets it run if it has to be asked for."""
        now, filled = time.monotonic(), node.args if args is None else args
        item = self.outstanding[node.node] = Outstanding(node, filled, now, now, approval)
        self._publish(item)

    def _publish(self, item: Outstanding) -> None:
        node, message = item.node, self.handle.message
        order = NodeOrder(
            run=self.handle.lease.run,
            session=self.handle.lease.session,
            principal=message.principal,
            node=node.node,
            tool=node.tool,
            args=item.args,
            args_hash=node.args_hash,
            effect=node.effect,
            not_after_ms=node.not_after_ms,
            timeout_s=node.timeout_s,
            agent_path=self.path,
            approval=item.approval,
        )
        self.publisher.publish(node.queue, order)

    async def wait(self) -> dict[str, NodeResult]:
        """Results of nodes that ended, at least one. Raises RunCancelled when a cancel arrives."""
        return await self.handle.race(self.results())

    async def results(self) -> dict[str, NodeResult]:
        """The same, for whoever looks after cancels itself."""
        reviewed = time.monotonic()
        while True:
            self.handle.nodes_changed.clear()
            asked = time.monotonic()
            results = await self.handle.fetch([*self.outstanding, *self.watched])
            if results:
                for node in results:
                    self.outstanding.pop(node, None)
                    self.watched.discard(node)
                return results
            now = time.monotonic()
            if now - asked > PROMPT_S:
                reviewed = now  # workers get their time to be heard again before anybody judges them
            elif now - reviewed >= REVIEW_S:
                await self._review()
                reviewed = time.monotonic()
                continue  # what it ended are results
            with suppress(TimeoutError):
                async with asyncio.timeout(max(reviewed + REVIEW_S - time.monotonic(), 0.0)):
                    await self.handle.nodes_changed.wait()

    async def _review(self) -> None:
        """Looks for rows that nobody works on: sends them again, or ends them when that is pointless."""
        wanted = [
            (o.node.node, o.node.tool, unknown_outcome(o.node), worn_out(o.node)) for o in self.outstanding.values()
        ]
        ends = Change()
        empty: dict[str, bool] = {}
        for found in await self.handle.state.review(self.handle.lease, wanted):
            item = self.outstanding[found.node]
            if found.state == "ended":
                continue
            if found.state == "requeued":
                self.handle.events.write("notice", code="node_requeued", text=f"{item.node.tool} is sent again")
                self._resend(item)
            elif (end := await self._overdue(item, found.state, empty)) is not None:
                where = ends.unstarted if found.state == "planned" else ends.ends
                where.append((found.node, item.node.tool, end))
        if ends.ends or ends.unstarted:
            await self.handle.commit(ends)

    def _resend(self, item: Outstanding) -> None:
        item.sent_at = time.monotonic()
        if not self.publisher.failing:  # what the broker does not take has not been sent
            item.sends += 1
        self._publish(item)

    async def _overdue(self, item: Outstanding, state: str, empty: dict[str, bool]) -> NodeResult | None:
        """How a node that is not done must end now, or None to go on waiting (perhaps after sending it again).

        `empty` keeps for one review which queues are: a broker that does not answer is asked once, not for each node.
        """
        node, now = item.node, time.monotonic()
        if int(time.time() * 1000) > node.not_after_ms + 1000:
            started = state == "running"
            return unknown_outcome(node) if started and node.effect is Effect.WRITE else out_of_time(node, started)
        if state != "planned":
            return None
        if self.directory.workers_of(node.queue) == 0:
            item.unserved_since = item.unserved_since or now
            if now - item.unserved_since >= NO_WORKER_S:
                return nobody_there(node, self.directory.foreign)
            return None
        item.unserved_since = None
        if now - item.sent_at >= REVIEW_S and await self._is_empty(node.queue, empty):
            if item.sends >= MOST_SENDS:
                return never_taken(node)
            self._resend(item)
        return None

    async def _is_empty(self, queue: str, known: dict[str, bool]) -> bool:
        """True if nothing waits in a queue, or if the broker does not say."""
        if queue not in known:
            known[queue] = self.publisher.failing or await self.publisher.depth(queue) in (0, None)
        return known[queue]


def end_open(handle: Handle, why: str) -> Change:
    """The change that ends every node of a run that has not ended, whoever planned or sent it; workers that run one
    notice within a second. One that has ended meanwhile stays as it is."""
    run = handle.run
    ends = [(n.node, n.tool, cancelled(n, why)) for n in run.nodes.values() if n.node not in run.results]
    return Change(ends=ends, cancel=run.children, cancel_reason=why)


def _end(state: NodeState, code: str, text: str, *, maybe: bool = False) -> NodeResult:
    error = NodeError(code=code, message=text, may_have_had_effect=maybe)
    return NodeResult(state=state, text=text, error=error, ended_ms=int(time.time() * 1000))


def unknown_outcome(node: Node) -> NodeResult:
    """The worker of a `write` node is gone."""
    text = (
        f"Outcome unknown: the worker died while it ran {node.tool}. It may or may not have had its effect. "
        "It will not be run again by itself: check first, and tell the user."
    )
    return _end(NodeState.OUTCOME_UNKNOWN, "outcome_unknown", text, maybe=True)


def worn_out(node: Node) -> NodeResult:
    """A node whose workers died each time."""
    text = f"{node.tool} failed: its worker died every time it ran. It is not tried again."
    return _end(NodeState.FAILED, "worker_died", text, maybe=node.effect is not Effect.READ)


def out_of_time(node: Node, started: bool) -> NodeResult:
    """A node past its deadline."""
    what = "did not finish" if started else "was not started"
    text = f"{node.tool} {what} before its deadline."
    return _end(NodeState.TIMED_OUT, "timed_out", text, maybe=started and node.effect is not Effect.READ)


def nobody_there(node: Node, foreign: list[str]) -> NodeResult:
    """No live worker consumes the node's queue."""
    text = f"{node.tool} could not run: no worker is alive for the queue '{node.queue}'."
    if foreign:
        text += f" (Workers with another signing key are alive: {', '.join(foreign[:3])}; check CAPATAZ_SIGNING_KEY.)"
    return _end(NodeState.FAILED, "no_worker", text)


def never_taken(node: Node) -> NodeResult:
    """Sent again and again, claimed by nobody."""
    text = f"{node.tool} could not run: workers of the queue '{node.queue}' are alive but do not take it."
    return _end(NodeState.FAILED, "not_taken", text)


def cancelled(node: Node, why: str) -> NodeResult:
    """A node whose run was cancelled."""
    maybe = node.effect is not Effect.READ and bool(node.args_hash)  # without a fingerprint it was never sent
    text = f"{node.tool} was cancelled: {why}."
    if maybe:
        text += " It may have had its effect already."
    return _end(NodeState.CANCELLED, "cancelled", text, maybe=maybe)
