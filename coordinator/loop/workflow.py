"""A deterministic workflow as a run: the graph was written by code, the ledger and the workers are the same.

Code and tool steps are nodes at workers; a model step is one call that sees only its filled prompt and returns only
its text, so it never chooses the flow. A run that is taken over goes on at the first step without a result.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue
from sqlalchemy import Connection

from coordinator.dispatch.collector import Collector
from coordinator.graph.dataflow import Dataflow
from coordinator.handle import Handle
from coordinator.loop.early import planned_event
from coordinator.loop.ending import Outcome
from coordinator.loop.model_call import assistant_entry, call_model
from coordinator.loop.permit import Permit, denied
from coordinator.loop.planning import QUEUE_WAIT_MS
from coordinator.loop.record import record
from coordinator.loop.services import LoopServices
from coordinator.models.route import Route
from shared.contract import Effect, NodeError, NodeResult, NodeState, StepSpec, ToolSpec, WorkflowSpec
from shared.entries import Node
from shared.errors import ConfigError
from shared.ids import node_id
from shared.llm.errors import LlmError
from shared.llm.model import Message, Request, TextBlock
from shared.messages import ErrorInfo
from shared.permissions import Grant
from shared.signing import call_hash
from shared.sql import grants
from shared.state.changes import Change

MODEL_STEP = "model:step"


class WorkflowRun:
    """One run of a workflow."""

    def __init__(self, handle: Handle, services: LoopServices, standing: Sequence[Grant]) -> None:
        self._handle = handle
        rules = services.settings.permissions
        self._permit = Permit.of(handle.message, [], rules, rules.headless, handle.session.granted)
        self._permit.standing = standing
        self._services = services
        self.collector = Collector(handle, services.publisher, services.directory)
        name = handle.message.workflow
        spec = services.directory.workflow(name)
        if spec is None:
            known = ", ".join(w.name for w in services.directory.catalogue.workflows) or "none"
            raise ConfigError(f"there is no workflow {name!r}", hint=f"live workers offer: {known}")
        self._spec: WorkflowSpec = spec
        self._steps = {s.id: s for s in spec.steps}
        self._node_of = {s.id: node_id(handle.lease.run, 0, 0, i) for i, s in enumerate(spec.steps)}

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

    async def run(self) -> Outcome:
        """Runs to an outcome. Raises RunCancelled, LeaseLost, OperatorError."""
        flow = Dataflow({s.id: s.needs for s in self._spec.steps}, ended=self._known())
        while True:
            await self._handle.take_mail(lambda mail, change: False)
            if flow.finished:
                return self._outcome(flow)
            for step_id in flow.ready():
                flow.start(step_id)
                await self._start(self._steps[step_id], flow)
            if self.collector.outstanding:
                await self._take_results(flow)

    async def _take_results(self, flow: Dataflow) -> None:
        for node in await self.collector.wait():
            step = next(s for s, n in self._node_of.items() if n == node)
            flow.end(step, self._handle.run.results[node].state)

    def _known(self) -> dict[str, NodeState]:
        results = self._handle.run.results
        return {s: results[n].state for s, n in self._node_of.items() if n in results}

    async def _start(self, step: StepSpec, flow: Dataflow) -> None:
        node = self._handle.run.nodes.get(self._node_of[step.id])
        if node is None:
            node = self._node(step, await self._inputs(step))
            change = Change(nodes=[node])
            change.event("node.planned", **planned_event(node))
            await self._handle.commit(change)
        if step.kind == "model":
            await self._ask(step, node)
            flow.end(step.id, self._handle.run.results[node.node].state)
        elif (verdict := self._permit.verdict(self._tool(step, node), node.args)).action == "allow":
            self.collector.send(node, approval=verdict.approval)
        else:
            result = denied(node.tool, verdict.reason)
            await self._handle.commit(Change(ends=[(node.node, node.tool, result)]))
            flow.end(step.id, result.state)

    def _tool(self, step: StepSpec, node: Node) -> ToolSpec:
        """What rules see of a step; a code step has no declaration of its own."""
        known = self._services.directory.tool(node.tool)
        name = f"workflow:{self._spec.name}"
        return known or ToolSpec(name=node.tool, group=name, description="", parameters={}, effect=step.effect)

    async def _inputs(self, step: StepSpec) -> dict[str, JsonValue]:
        """Outputs of the needed steps by their ids, and the message's `params`."""
        inputs: dict[str, JsonValue] = {"params": dict(self._handle.message.params)}
        for needed in step.needs:
            result = self._handle.run.results[self._node_of[needed]]
            value = result.value
            if value is None and result.artifact is not None:
                artifact = await self._services.artifacts.get(self._handle.message.principal, result.artifact)
                text = artifact.data.decode("utf-8", "replace")
                value = json.loads(text) if artifact.media_type == "application/json" else text
            inputs[needed] = value
        return inputs

    def _node(self, step: StepSpec, inputs: dict[str, JsonValue]) -> Node:
        args: dict[str, Any]
        if step.kind == "code":
            tool, args, queue, effect = step.tool, {"inputs": inputs}, step.queue, step.effect
        elif step.kind == "tool":
            spec = self._services.directory.tool(step.tool)
            if spec is None:
                raise ConfigError(f"workflow {self._spec.name}: no live worker offers the tool {step.tool}")
            tool, args, queue, effect = step.tool, dict(step.args), spec.queue, spec.effect
        else:
            tool, args, queue, effect = MODEL_STEP, {"prompt": fill(step.prompt, inputs)}, "", Effect.READ
        return Node(
            node=self._node_of[step.id],
            step=0,
            position=list(self._steps).index(step.id),
            tool=tool,
            args=args,
            args_hash=call_hash(tool, args),
            effect=effect,
            queue=queue,
            needs=tuple(self._node_of[n] for n in step.needs),
            not_after_ms=int(time.time() * 1000) + QUEUE_WAIT_MS + int(step.timeout_s * 1000),
            timeout_s=step.timeout_s,
            call=False,
        )

    async def _ask(self, step: StepSpec, node: Node) -> None:
        """One model call; its text is the step's result."""
        prompt = str(node.args["prompt"])
        request = Request(model="", messages=(Message(role="user", blocks=(TextBlock(text=prompt),)),))
        number, group = self._handle.run.steps + 1, f"workflow:{self._spec.name}"
        change = Change()
        try:
            route = Route(step.tier, self._services.tiers.chain(step.tier), "the step names its tier")
            switches = await self._services.session_state.switches(self._handle.lease.session)
            answer = await call_model(self._handle, self._services, request, route, number, group, switches=switches)
        except LlmError as error:
            problem = NodeError(code=error.code, message=error.message, hint=error.hint)
            result = NodeResult(state=NodeState.FAILED, text=str(error), error=problem)
        else:
            text, usage = answer.completion.message.text, answer.usage
            # Usage is logged with an empty message: the step's text is a node's result, not part of a conversation.
            empty = Message(role="assistant", blocks=())
            entry = assistant_entry(answer, empty, number, tier=step.tier, group=group)
            change.entries.append(entry)
            change.event("usage", step=number, model=answer.choice.name, **usage.model_dump(mode="json"))
            result = NodeResult(state=NodeState.DONE, text=text, value=text, ended_ms=int(time.time() * 1000))
        change.ends.append((node.node, node.tool, result))
        await self._handle.commit(change)

    def _outcome(self, flow: Dataflow) -> Outcome:
        wanted = self._node_of[self._spec.result]
        if flow.ended[self._spec.result] is NodeState.DONE:
            result = self._handle.run.results[wanted]
            return Outcome("ended", "stop", "" if self._spec.hidden else result.text)
        bad = next(s for s, state in flow.ended.items() if state not in (NodeState.DONE, NodeState.SKIPPED))
        result = self._handle.run.results[self._node_of[bad]]
        message = f"step {bad} of workflow {self._spec.name} {result.state}: {result.text[:500]}"
        return Outcome("failed", "step_failed", error=ErrorInfo(code="step_failed", message=message))


def fill(prompt: str, inputs: dict[str, JsonValue]) -> str:
    """The prompt with `{step}` replaced by that step's output. What is put in is never filled again."""
    out: list[str] = []
    rest = prompt
    while True:
        start = rest.find("{")
        end = rest.find("}", start)
        if start < 0 or end < 0:
            return "".join([*out, rest])
        name = rest[start + 1 : end]
        if name in inputs:
            value = inputs[name]
            out += [rest[:start], value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)]
            rest = rest[end + 1 :]
        else:
            out.append(rest[: start + 1])
            rest = rest[start + 1 :]
