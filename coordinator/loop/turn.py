"""One turn's graph, carried out: every node starts the moment its inputs exist, wherever there is a worker.

A turn is the calls of one message, and the steps of the plans among them. It is rebuilt from the log alone, so a
coordinator that takes the run over goes on with what has no result yet.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from coordinator.dispatch.collector import Collector
from coordinator.graph.dataflow import Dataflow
from coordinator.graph.elide import elidable, elide, stand_in
from coordinator.graph.plan_tool import PLAN, parse_plan, report
from coordinator.graph.turn import TurnGraph, refusal, skipped, skipped_step
from coordinator.handle import Handle, Parked
from coordinator.loop.admit import Admission, Go, Hold
from coordinator.loop.planning import Find, deadline, make_node, turn_graph, unknown_tool
from coordinator.loop.services import LoopServices
from coordinator.loop.waits import announce, expired, next_ms, only_people
from shared.compress import cap
from shared.contract import Effect, NodeError, NodeResult, NodeState
from shared.entries import Assistant, Elided, Node, Nudge
from shared.errors import ModelError
from shared.signing import call_hash
from shared.state.changes import Change

MOST_READY = 200
"""How many nodes are made ready by one change."""


@dataclass(frozen=True)
class Part:
    """A graph and the node ids of its positions. `owner` is the plan call whose steps they are, else empty."""

    graph: TurnGraph
    ids: tuple[str, ...]
    owner: str = ""

    def needs(self, position: int) -> tuple[str, ...]:
        """Ids of the nodes that a position waits for."""
        return tuple(self.ids[p - 1] for p in self.graph.call(position).needs)


class Turn:
    """The graph of a message's calls on its way."""

    def __init__(
        self,
        handle: Handle,
        services: LoopServices,
        collector: Collector,
        message: Assistant,
        *,
        references: bool,
        find: Find,
        admission: Admission,
        take_mail: Callable[[], Awaitable[None]],
        run_ends_ms: int = 0,
    ) -> None:
        self._handle = handle
        self._services = services
        self._collector = collector
        self._find = find
        self._admission = admission
        self._take_mail = take_mail
        self._held: dict[str, dict[str, Any]] = {}
        """Nodes that wait, with their arguments."""
        self._step = message.step
        self._run_ends_ms = run_ends_ms
        calls = message.message.calls
        most = services.settings.coordinator.calls_per_turn
        graph = turn_graph(calls, references=references, most=most)
        self._main = Part(graph, tuple(c.id for c in calls))
        self._parts = {"": self._main}
        self._bad_plans: dict[str, ModelError] = {}
        for call in calls:
            if call.name == PLAN and call.id not in handle.run.results:
                self._read_plan(call.id, call.arguments, most)
        self._where = {n: (part, i) for part in self._parts.values() for i, n in enumerate(part.ids, 1)}
        self._flow = self._dataflow()
        specs = (find(name) for name in {p.graph.call(i).name for p, i in self._where.values()})
        self._per_tool = {s.name: s.parallel for s in specs if s is not None and s.parallel}

    def _read_plan(self, node: str, arguments: dict[str, Any], most: int) -> None:
        try:
            graph = parse_plan(arguments, lambda name: self._find(name) is not None, most=most)
        except ModelError as error:
            self._bad_plans[node] = error
            return
        self._parts[node] = Part(graph, tuple(f"{node}.{i}" for i in range(1, len(graph.calls) + 1)), node)

    def _dataflow(self) -> Dataflow:
        needs: dict[str, tuple[str, ...]] = {}
        for part in self._parts.values():
            before = self._where[part.owner][0].needs(self._where[part.owner][1]) if part.owner else ()
            for position, node in enumerate(part.ids, 1):
                needs[node] = part.needs(position) or before
        results = self._handle.run.results
        tools = {n: part.graph.call(i).name for n, (part, i) in self._where.items()}
        return Dataflow(
            needs,
            ended={n: results[n].state for n in needs if n in results},
            tools=tools,
            groups={o for o in self._parts if o},
        )

    async def run(self) -> None:
        """Returns when every call of the turn has its result. Raises Parked when all that is left waits for people,
        times or subagents; RunCancelled, LeaseLost, OperatorError."""
        width = self._services.settings.coordinator.width
        await self._log_skipped()
        while not self._flow.finished:
            ready = self._flow.ready(width, self._per_tool)[:MOST_READY]
            if ready:
                await self._start(ready)
            await self._end_plans()
            if ready and self._flow.ready(width, self._per_tool):
                continue
            if self._collector.outstanding or self._held:
                await self._news()
                await self._log_skipped()
            elif self._flow.stalled:
                raise AssertionError(f"turn {self._step} has nodes that can neither run nor end")
        await self._conclude()

    async def _news(self) -> None:
        """Waits until a node has ended or was decided about, and takes note of it."""
        handle, run = self._handle, self._handle.run
        if not await self._over():
            if not self._collector.outstanding:
                raise Parked(tuple(self._held), next_ms(run), clock_stops=only_people(run))
            await handle.race(self._something())
            await self._over()
        if handle.answers.is_set():
            await self._take_mail()
        for node in [n for n in self._flow.open if n in run.results]:
            self._flow.end(node, run.results[node].state)
            self._held.pop(node, None)
            self._collector.watched.discard(node)
        if go := [n for n in self._held if n in run.decided]:
            await self._start(go)

    async def _something(self) -> None:
        """Returns when a node has ended, mail is to be read, or a wait is over."""
        first = [asyncio.ensure_future(self._collector.results()), asyncio.ensure_future(self._handle.answers.wait())]
        due = next_ms(self._handle.run)
        try:
            timeout = max(due / 1000 - time.time(), 0.0) if due else None
            done, _ = await asyncio.wait(first, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in first:
                task.cancel()
            await asyncio.gather(*first, return_exceptions=True)

    async def _over(self) -> bool:
        """Ends waits whose time has come; True if there were any."""
        ends = expired(self._handle.run, int(time.time() * 1000))
        if ends:
            await self._handle.commit(Change(ends=ends))
        return bool(ends)

    async def _start(self, ready: Sequence[str]) -> None:
        """Fills in the references of nodes that are ready, logs them as such, and hands them out or lets them wait."""
        change = Change()
        sends: list[tuple[Node, dict[str, Any], str]] = []
        for node_id in ready:
            part, position = self._where[node_id]
            call = part.graph.call(position)
            self._flow.start(node_id)
            if call.name == PLAN:
                if node_id in self._bad_plans:
                    change.ends.append((node_id, PLAN, refusal(self._bad_plans[node_id])))
                continue
            if node_id in self._collector.outstanding:
                continue  # started while the model still streamed
            try:
                args = part.graph.arguments(position, await self._values(part, position))
            except ModelError as error:
                change.ends.append((node_id, call.name, _bad_reference(call.name, error)))
                continue
            self._admit(self._ready_node(part, position, args), args, change, sends)
        if change.nodes or change.ends or change.entries:
            await self._handle.commit(change)
        for node_id, _, result in change.ends:
            self._flow.end(node_id, result.state)
        for node, args, approval in sends:
            self._held.pop(node.node, None)
            self._collector.send(node, args, approval)

    def _admit(
        self, node: Node, args: dict[str, Any], change: Change, sends: list[tuple[Node, dict[str, Any], str]]
    ) -> None:
        """Adds to `change` and `sends` what becomes of a node that is ready."""
        run, now_ms = self._handle.run, int(time.time() * 1000)
        if (spec := self._find(node.tool)) is None:  # its workers have gone since; nobody can judge it
            decision: Go | Hold | NodeResult = unknown_tool(node.tool)
        else:
            decision = self._admission.admit(node.node, spec, args, node.args_hash, run, now_ms)
        known = run.nodes.get(node.node)
        match decision:
            case Go(approval):
                if node != known:
                    change.nodes.append(node)
                sends.append((node, args, approval))
            case Hold(wait, child):
                if known is None:  # a plan's step, logged when it starts; it cannot be claimed before it may go
                    change.nodes.append(node.model_copy(update={"args_hash": "", "not_after_ms": 0}))
                if node.node not in run.open_waits:
                    change.entries.append(wait)
                    announce(change, wait, child, self._admission.path)
                    change.spawn.extend([child] if child is not None else [])
                self._held[node.node] = args
                self._collector.watched.add(node.node)
            case NodeResult():
                if known is None:
                    change.nodes.append(node.model_copy(update={"args_hash": "", "not_after_ms": 0}))
                change.ends.append((node.node, node.tool, decision))

    def _ready_node(self, part: Part, position: int, args: dict[str, Any]) -> Node:
        """The node with its fingerprint and deadline; the logged one if that has them."""
        node_id, call = part.ids[position - 1], part.graph.call(position)
        node = self._handle.run.nodes.get(node_id)
        if node is not None and node.args_hash:
            return node
        spec = self._find(call.name)
        if node is None:  # a plan's step: logged when it starts
            node = make_node(
                node_id, call.name, call.arguments, self._step, position - 1, spec, 0, part.needs(position), True, False
            )
        bounds = deadline(int(time.time() * 1000), node.timeout_s, self._run_ends_ms)
        return node.model_copy(
            update={
                "args_hash": call_hash(call.name, args),
                "not_after_ms": bounds.not_after_ms,
                "timeout_s": bounds.timeout_s,
            }
        )

    async def _values(self, part: Part, position: int) -> dict[int, JsonValue]:
        """Outputs of the calls that a call refers to, by position."""
        values: dict[int, JsonValue] = {}
        for source in part.graph.call(position).sources:
            values[source] = await self._value(self._handle.run.results[part.ids[source - 1]])
        return values

    async def _value(self, result: NodeResult) -> JsonValue:
        if result.value is not None or result.artifact is None:
            return result.value
        artifact = await self._services.artifacts.get(self._handle.message.principal, result.artifact)
        text = artifact.data.decode("utf-8", "replace")
        value: JsonValue = json.loads(text) if artifact.media_type == "application/json" else text
        return value

    async def _log_skipped(self) -> None:
        """Every node that ended by another's end gets its result, with the reason."""
        change = Change()
        for node, state in self._flow.ended.items():
            if node in self._handle.run.results or state is not NodeState.SKIPPED:
                continue
            part, position = self._where[node]
            call = part.graph.call(position)
            ended = self._flow.ended
            culprit = next((p for p in call.needs if ended.get(part.ids[p - 1]) not in (None, NodeState.DONE)), None)
            if culprit is None:  # the plan as a whole waited for something that did not end well
                result = skipped_step()
            else:
                result = skipped(culprit, part.graph.call(culprit).name, ended[part.ids[culprit - 1]])
            if node not in self._handle.run.nodes:
                spec = self._find(call.name)
                change.nodes.append(
                    make_node(
                        node,
                        call.name,
                        call.arguments,
                        self._step,
                        position - 1,
                        spec,
                        0,
                        part.needs(position),
                        True,
                        False,
                    )
                )
            change.ends.append((node, call.name, result))
        if change.ends:
            await self._handle.commit(change)

    async def _end_plans(self) -> None:
        """A plan ends when all its steps have."""
        change = Change()
        for owner, part in self._parts.items():
            if owner and owner not in self._flow.ended and all(n in self._flow.ended for n in part.ids):
                change.ends.append((owner, PLAN, await self._plan_result(part)))
        if change.ends:
            await self._handle.commit(change)
            for node, _, result in change.ends:
                self._flow.end(node, result.state)

    async def _plan_result(self, part: Part) -> NodeResult:
        """What the model reads of a plan: each step's state and output, without those that only fed others."""
        results = {p: self._handle.run.results[n] for p, n in enumerate(part.ids, 1)}
        handles = {p: await self._handle_of(results[p]) for p in elidable(part.graph.sources, results)}
        lines = elide(part.graph.sources, results, handles)
        whole = report(part.graph, results, lines)
        text, cut = cap(whole)
        artifact = None
        if cut:
            artifact = await self._services.artifacts.put(self._handle.message.principal, whole.encode(), "text/plain")
            text, _ = cap(whole, handle=artifact)
        value: JsonValue = {
            part.graph.call(p).label: {"state": r.state, "node": part.ids[p - 1]} for p, r in results.items()
        }
        return NodeResult(
            state=NodeState.DONE, text=text, value=value, artifact=artifact, ended_ms=int(time.time() * 1000)
        )

    async def _handle_of(self, result: NodeResult) -> str:
        """A handle under which the whole output can be read."""
        if result.artifact is not None:
            return result.artifact
        return await self._services.artifacts.put(self._handle.message.principal, result.text.encode(), "text/plain")

    async def _conclude(self) -> None:
        """Replaces outputs that only fed others, and tells the model what its references did not find."""
        graph, ids, run = self._main.graph, self._main.ids, self._handle.run
        change = Change()
        results = {p: run.results[n] for p, n in enumerate(ids, 1)}
        keep = [p for p, n in enumerate(ids, 1) if n in run.nodes and run.nodes[n].effect is not Effect.READ]
        found = [p for p in elidable(graph.sources, results, keep=keep) if ids[p - 1] not in run.elided]
        if found:
            users = _users(graph)
            lines = {
                ids[p - 1]: stand_in(users[p], len(results[p].text), await self._handle_of(results[p])) for p in found
            }
            change.entries.append(Elided(lines=lines))
            change.event(
                "notice", code="results_elided", text=f"{len(lines)} outputs fed other calls and are not repeated"
            )
        notes = [f"Call {p}: {text}" for p, texts in sorted(graph.notices.items()) for text in texts]
        if notes and not any(n.reason == f"references_{self._step}" for n in run.nudges):
            text = "<context>\nAbout your references:\n" + "\n".join(notes) + "\n</context>"
            change.entries.append(Nudge(reason=f"references_{self._step}", text=text))
        if change.entries:
            await self._handle.commit(change)


def _users(graph: TurnGraph) -> dict[int, list[str]]:
    """For each position the numbers of the calls that took its output."""
    users: dict[int, list[str]] = {c.position: [] for c in graph.calls}
    for call in graph.calls:
        for source in call.sources:
            users[source].append(str(call.position))
    return users


def _bad_reference(tool: str, error: ModelError) -> NodeResult:
    text = f"{tool} was not run: {error}"
    problem = NodeError(code=error.code, message=error.message, hint=error.hint)
    return NodeResult(state=NodeState.FAILED, text=text, error=problem)
