"""A deterministic workflow as a run: the graph was written by code, the ledger and the workers are the same.

Code and tool steps are nodes at workers; a model step is one call that sees only its filled prompt and returns only
its text, so it never chooses the flow. Each attempt of a step is a node of its own. The definition is logged when the
run begins and holds to its end; a run that is taken over goes on at the first step without a result.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from decimal import Decimal

from sqlalchemy import Connection

from coordinator.dispatch.collector import Collector
from coordinator.graph.steps import ELSEWHERE, Fate, StepGraph, rest_ms
from coordinator.handle import Handle, Parked
from coordinator.loop.decide import Limits
from coordinator.loop.early import planned_event
from coordinator.loop.ending import Outcome
from coordinator.loop.permit import Permit, denied
from coordinator.loop.record import record
from coordinator.loop.services import LoopServices
from coordinator.loop.workflow_agents import AgentSteps
from coordinator.loop.workflow_model import ModelSteps
from coordinator.loop.workflow_steps import LATE, OUT_OF_TIME, Made, StepMaker, shown
from shared.contract import NodeResult, NodeState, StepSpec
from shared.entries import Node, WorkflowBegun
from shared.errors import ConfigError
from shared.messages import ErrorInfo
from shared.permissions import Grant
from shared.sql import grants
from shared.state.changes import Change


class WorkflowRun:
    """One run of a workflow."""

    def __init__(self, handle: Handle, services: LoopServices, standing: Sequence[Grant]) -> None:
        self._handle = handle
        rules = services.settings.permissions
        self._permit = Permit.of(handle.message, [], rules, rules.headless, handle.session.granted)
        self._permit.standing = standing
        self._services = services
        self.collector = Collector(handle, services.publisher, services.directory)
        begun = handle.run.workflow or self._begin()
        self._graph = StepGraph(begun.spec)
        limits = Limits(services.settings.budget.steps, begun.seconds, begun.tokens, Decimal(begun.dollars))
        self._seconds = begun.seconds
        self._ends_ms = handle.run.started_ms + handle.lease.waited_ms + int(begun.seconds * 1000)
        self._maker = StepMaker(handle, services, self._graph, self._ends_ms)
        self._models = ModelSteps(handle, services, begun.spec.name, limits)
        self._agents = AgentSteps(handle, services, limits)
        self._ended: dict[str, NodeState] = {}
        self._due: dict[str, int] = {}
        """When steps are tried again, in Unix milliseconds."""
        self._asking: dict[str, asyncio.Task[Change]] = {}
        self._told = set(handle.run.results)
        """Attempts whose end somebody has been told of."""

    @classmethod
    async def prepare(cls, handle: Handle, services: LoopServices) -> WorkflowRun:
        """A run whose workflow is looked up anew if it is not known yet. Raises ConfigError if nobody offers it."""

        def recorded(conn: Connection) -> list[Grant]:
            record(conn, handle, services.epoch)
            return grants.grants_of(conn, handle.message.principal)

        standing = await services.database.run(recorded)
        await handle.race(services.directory.ready())
        if services.directory.workflow(handle.message.workflow) is None:
            await services.directory.refresh()
        return cls(handle, services, standing)

    def _begin(self) -> WorkflowBegun:
        """The definition as it is now, which goes into the log with the first step. Raises ConfigError."""
        name, directory = self._handle.message.workflow, self._services.directory
        spec = directory.workflow(name)
        if spec is None:
            known = ", ".join(w.name for w in directory.catalogue.workflows) or "none"
            raise ConfigError(f"there is no workflow {name!r}", hint=f"live workers offer: {known}")
        wanted = self._handle.message.budget
        limits = Limits.of(self._services.settings.budget, wanted)
        seconds = min(filter(None, (wanted.seconds, spec.timeout_s)), default=limits.seconds)
        begun = WorkflowBegun(spec=spec, seconds=seconds, tokens=limits.tokens, dollars=str(limits.dollars))
        self._handle.carry(Change(entries=[begun]))
        return begun

    async def run(self) -> Outcome:
        """Runs to an outcome. Raises RunCancelled, LeaseLost, OperatorError."""
        try:
            while True:
                await self._handle.take_mail(lambda mail, change: False)
                await self._advance()
                if len(self._ended) == len(self._graph.steps):
                    return self._outcome()
                await self._news()
        finally:
            asking = list(self._asking.values())
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _advance(self) -> None:
        """Takes note of what has ended, and begins or skips whatever may be, until nothing changes."""
        while True:
            if (late := self._agents.late()) is not None:
                await self._handle.commit(late)
            self._take_ends()
            stop = OUT_OF_TIME if _now_ms() >= self._ends_ms else ""
            begun = {step for step in self._graph.steps if self._maker.tried(step)}
            outlook = self._graph.outlook(self._ended, begun, stop)
            again = [step for step, due in self._due.items() if due <= _now_ms()]
            room = self._services.settings.coordinator.width - len(self.collector.outstanding) - len(self._asking)
            start = [*again, *outlook.start][: max(room, 0)]
            made = [self._maker.skipped(step, why) for step, why in outlook.skip.items()]
            made += [await self._maker.make(step, self._ended) for step in start]
            for step in start:
                self._due.pop(step, None)
            if made:
                await self._log(made)
            self._hand_out()
            if not made:
                return

    def _take_ends(self) -> None:
        """Steps whose last attempt has a result end with it, or are to be tried again."""
        for step in self._graph.steps:
            if step in self._ended or step in self._due:
                continue
            tried, results = self._maker.tried(step), self._results(step)
            if tried and len(results) == len(tried):
                due = self._due_ms(step, tried[-1], results)
                if due is None or due >= self._ends_ms:
                    self._ended[step] = results[-1].state
                else:
                    self._due[step] = due
                if tried[-1] not in self._told:
                    self._told.add(tried[-1])
                    self._tell(step, results)
        if self._due and (self._graph.failed(self._ended) or _now_ms() >= self._ends_ms):
            for step in self._due:  # nothing more begins
                self._ended[step] = self._results(step)[-1].state
            self._due.clear()

    def _due_ms(self, step: str, node: str, results: Sequence[NodeResult]) -> int | None:
        """When a step is tried again, in Unix milliseconds; None if it has ended.

        It rests from when its end was seen; a worker's clock, which may be wrong, counts only after a takeover.
        """
        rest = rest_ms(self._graph.steps[step], self._handle.run.nodes[node].effect, results)
        if rest is None:
            return None
        return (min(results[-1].ended_ms, _now_ms()) if node in self._told else _now_ms()) + rest

    def _tell(self, step: str, results: Sequence[NodeResult]) -> None:
        """Tells whoever watches of a failure that is not the end of the workflow."""
        last, why = results[-1].state, results[-1].text[:300]
        if step in self._due:
            rest_s = max(0.0, (self._due[step] - _now_ms()) / 1000)
            text = f"step {step} is tried again in {rest_s:.1f} s (attempt {len(results) + 1}): {why}"
            self._handle.events.write("notice", code="step_retried", text=text, step=step)
        elif last not in (NodeState.DONE, NodeState.SKIPPED) and not self._graph.failed(self._ended):
            text = f"step {step} failed, and the workflow goes on: {why}"
            self._handle.events.write("notice", code="step_failed", text=text, step=step)

    async def _log(self, made: Sequence[Made]) -> None:
        """Plans nodes, and ends those that are not run."""
        names = list(self._graph.steps)
        change = Change()
        for one in made:
            node, step = one.node, names[one.node.position]
            change.nodes.append(node)
            change.event("node.planned", **planned_event(node), name=step)
            spec = self._graph.steps[step]
            end = one.end or self._refused(spec, node)
            if end is not None:
                change.ends.append((node.node, node.tool, end))
            elif spec.kind == "agent":
                self._agents.begin(spec, node, change)
        await self._handle.commit(change)

    def _refused(self, spec: StepSpec, node: Node) -> NodeResult | None:
        """The end of a node that rules forbid."""
        if spec.kind == "model":
            return None
        if spec.kind == "agent" and (refused := self._agents.refused(spec)) is not None:
            return refused
        verdict = self._permit.verdict(self._maker.facts(spec), node.args)
        return None if verdict.action == "allow" else denied(node.tool, verdict.reason)

    def _hand_out(self) -> None:
        """Sends planned nodes to workers and asks models, also those of a run that was taken over."""
        results, nodes = self._handle.run.results, self._handle.run.nodes
        for step, spec in self._graph.steps.items():
            tried = self._maker.tried(step)
            if not tried or tried[-1] in results or tried[-1] in self.collector.outstanding or step in self._asking:
                continue
            node = nodes[tried[-1]]
            if spec.kind == "agent":
                self.collector.watched.add(node.node)
            elif spec.kind == "model":
                left_s = max(0.0, (self._ends_ms - _now_ms()) / 1000)
                relay = step == self._graph.spec.result and spec.json_schema is None
                asked = self._models.ask(spec, node, min(node.timeout_s, left_s), relay=relay)
                self._asking[step] = asyncio.create_task(asked)
            else:
                approval = self._permit.verdict(self._maker.facts(spec), node.args).approval
                self.collector.send(node, approval=approval)

    async def _news(self) -> None:
        """Returns when an attempt has ended, or when a step is due again or somebody's time is up.

        Raises Parked when only agents are under way, which are runs of their own and may need this one's place.
        """
        collector = self.collector
        times = [*self._due.values(), *([self._ends_ms] if self._may_still_begin() else [])]
        due = min([*times, *([ms] if (ms := self._agents.next_ms) is not None else [])], default=None)
        if not (self._due or self._asking or collector.outstanding):
            if not collector.watched:
                raise AssertionError(f"workflow {self._graph.spec.name} has steps that can neither run nor end")
            raise Parked(tuple(collector.watched), due or 0, clock_stops=False)
        await self._handle.race(self._something(None if due is None else max(0.0, (due - _now_ms()) / 1000)))
        for step, task in [(s, t) for s, t in self._asking.items() if t.done()]:
            del self._asking[step]
            await self._handle.commit(task.result())

    def _may_still_begin(self) -> bool:
        return any(not self._maker.tried(step) for step in self._graph.steps) and _now_ms() < self._ends_ms

    async def _something(self, timeout: float | None) -> None:
        at_work = self.collector.outstanding or self.collector.watched
        results = asyncio.ensure_future(self.collector.results()) if at_work else None
        waiting = {*self._asking.values(), *([results] if results else [])}
        try:
            if waiting:
                await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(timeout or 0.0)
            if results is not None and results.done():
                results.result()
        finally:
            if results is not None:
                results.cancel()
                await asyncio.gather(results, return_exceptions=True)

    def _outcome(self) -> Outcome:
        spec, ended = self._graph.spec, self._ended
        if bad := self._graph.failed(ended):
            return self._failed(bad)
        if late := [s for s in self._graph.steps if any(r.error and r.error.code == LATE for r in self._results(s))]:
            text = f"workflow {spec.name} had {self._seconds:g} s, and did not come to: {', '.join(late)}"
            return Outcome("failed", "step_failed", error=ErrorInfo(code="timed_out", message=text))
        answer = ""
        if self._graph.fate(spec.result, ended) is Fate.VALUE and not spec.hidden:
            source = self._graph.source(spec.result, ended)
            answer = self._results(source.step)[-1].text if source.step else shown(source.value)
        return Outcome("ended", "stop", answer)

    def _failed(self, step: str) -> Outcome:
        """What the user is told of the step that ended the workflow."""
        name, results = self._graph.spec.name, self._results(step)
        last = results[-1]
        why = last.text[:500]
        if self._graph.steps[step].kind == "code" and last.error is not None and last.error.code in ELSEWHERE:
            why = (
                "no live worker has the code of this step. The workflow was changed or removed after this run had "
                "begun, or the worker that has it is gone"
            )
        tries = f" after {len(results)} attempts" if len(results) > 1 else ""
        text = f"step {step} of workflow {name} {last.state}{tries}: {why}"
        if last.state is NodeState.OUTCOME_UNKNOWN:
            return Outcome("failed", "step_failed", error=ErrorInfo(code="outcome_unknown", message=text))
        return Outcome("failed", "step_failed", error=ErrorInfo(code="step_failed", message=text))

    def _results(self, step: str) -> list[NodeResult]:
        return self._maker.results(step)


def _now_ms() -> int:
    return int(time.time() * 1000)
