"""From a step of a workflow that may start to its node: inputs, condition, arguments, where it goes, until when."""

from __future__ import annotations

import json
import random
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import JsonValue

from coordinator.graph.references import parse, substitute
from coordinator.graph.steps import INVALID, StepGraph, unmet
from coordinator.handle import Handle
from coordinator.loop.own_tools import AGENT
from coordinator.loop.planning import deadline
from coordinator.loop.services import LoopServices
from shared.compress import as_data
from shared.contract import NodeError, NodeResult, NodeState, StepSpec, ToolSpec
from shared.entries import Node
from shared.errors import ModelError
from shared.ids import node_id
from shared.names import QUEUE_COORDINATOR
from shared.signing import call_hash

MODEL_STEP: Final = "model:step"
PARAMS: Final = "params"
OUT_OF_TIME: Final = "the time of the workflow was up"
LATE: Final = "out_of_time"
MOST_PROMPT: Final = 400_000
"""Characters that a prompt may have with the outputs put in: far more is an oversight, and a large bill."""


@dataclass(frozen=True)
class Made:
    """A step's node; `end` is set if it ends before it starts."""

    node: Node
    end: NodeResult | None = None


@dataclass
class Inputs:
    """Outputs of needed steps and `params` by name; `stored` has handles in place of outputs too large to travel."""

    values: dict[str, JsonValue]
    stored: dict[str, str] = field(default_factory=dict)


class StepMaker:
    """Makes the nodes of one run. `ends_ms` (Unix) is when the run's time is up."""

    def __init__(self, handle: Handle, services: LoopServices, graph: StepGraph, ends_ms: int) -> None:
        self._handle = handle
        self._services = services
        self._graph = graph
        self._ends_ms = ends_ms
        self._places = {step: i for i, step in enumerate(graph.steps)}

    def tried(self, step: str) -> list[str]:
        """The nodes of a step so far, one for each attempt."""
        found: list[str] = []
        while (name := self._name(step, len(found))) in self._handle.run.nodes:
            found.append(name)
        return found

    def results(self, step: str) -> list[NodeResult]:
        """The results of a step's attempts so far."""
        results = self._handle.run.results
        return [results[node] for node in self.tried(step) if node in results]

    def _name(self, step: str, attempt: int) -> str:
        return node_id(self._handle.lease.run, 0, attempt, self._places[step])

    def skipped(self, step: str, why: str) -> Made:
        """A step that is not run. Of those that the time did not suffice for, the error says so."""
        late = NodeError(code=LATE, message=why) if why == OUT_OF_TIME else None
        return _ended(self._node(self._graph.steps[step], {}, {}), not_run(why).model_copy(update={"error": late}))

    async def make(self, step: str, ended: Mapping[str, NodeState]) -> Made:
        """The node of a step's next attempt. One that cannot be made ends at once, and says why."""
        spec = self._graph.steps[step]
        try:
            inputs = await self._inputs(spec, ended)
            if why := unmet(spec.when, await self._whole(inputs, {c.step for c in spec.when})):
                return _ended(self._node(spec, {}, ended), not_run(why))
            args = await self._arguments(spec, inputs)
        except ModelError as error:
            return _ended(self._node(spec, {}, ended), _failed(error.code, f"step {step} cannot run: {error}"))
        node = self._node(spec, args, ended)
        if spec.kind == "agent":  # no worker runs it
            return Made(node.model_copy(update={"args_hash": ""}))
        return Made(node) if spec.kind != "tool" or (end := self._no_such_tool(spec)) is None else _ended(node, end)

    def _no_such_tool(self, spec: StepSpec) -> NodeResult | None:
        """The end of a step whose tool no worker runs."""
        known = self._services.directory.tool(spec.tool)
        if known is None:
            return _failed("unknown_tool", f"no live worker offers the tool {spec.tool}")
        if known.queue == QUEUE_COORDINATOR:
            return _failed("bad_arguments", f"{spec.tool} is for agents: a workflow cannot call it")
        return None

    def facts(self, spec: StepSpec) -> ToolSpec:
        """What rules see of a step; a code step has no declaration of its own."""
        if spec.kind == "agent":
            name = AGENT + spec.agent
            return ToolSpec(
                name=name, group="agents", description="", parameters={}, effect=spec.effect, queue=QUEUE_COORDINATOR
            )
        known = self._services.directory.tool(spec.tool) if spec.kind == "tool" else None
        group = f"workflow:{self._graph.spec.name}"
        tool = spec.tool or MODEL_STEP
        return known or ToolSpec(
            name=tool, group=group, description="", parameters={}, effect=spec.effect, queue=spec.queue
        )

    def _node(self, spec: StepSpec, args: dict[str, Any], ended: Mapping[str, NodeState]) -> Node:
        facts = self.facts(spec)
        bounds = deadline(_now_ms(), spec.timeout_s, self._ends_ms)
        sources = [self._graph.source(n, ended).step for n in spec.needs if n in ended]
        return Node(
            node=self._name(spec.id, len(self.tried(spec.id))),
            step=0,
            position=self._places[spec.id],
            tool=facts.name,
            args=args,
            args_hash=call_hash(facts.name, args),
            effect=facts.effect,
            queue="" if spec.kind == "model" else self._queue(spec, facts.queue),
            needs=tuple(self.tried(source)[-1] for source in sources if source),
            not_after_ms=bounds.not_after_ms,
            timeout_s=bounds.timeout_s,
            call=False,
        )

    def _queue(self, spec: StepSpec, queue: str) -> str:
        """The step's queue; or, if some of its workers lack the code of the step, that of one which has it."""
        if queue == QUEUE_COORDINATOR:
            return queue
        having, without = self._services.directory.holders(queue, spec.tool)
        return f"worker.{random.choice(having)}" if having and without else queue

    async def _inputs(self, spec: StepSpec, ended: Mapping[str, NodeState]) -> Inputs:
        inputs = Inputs({PARAMS: dict(self._handle.message.params)})
        for need in spec.needs:
            source = self._graph.source(need, ended)
            result = self.results(source.step)[-1] if source.step else None
            if result is not None and result.value is None and result.artifact is not None:
                inputs.stored[need] = result.artifact
            else:
                inputs.values[need] = source.value if result is None else result.value
        return inputs

    async def _whole(self, inputs: Inputs, wanted: set[str]) -> dict[str, JsonValue]:
        """All outputs; of those that were put aside, the wanted ones."""
        values = dict(inputs.values)
        for name in wanted & inputs.stored.keys():
            artifact = await self._services.artifacts.get(self._handle.message.principal, inputs.stored[name])
            text = artifact.data.decode("utf-8", "replace")
            values[name] = json.loads(text) if artifact.media_type == "application/json" else text
        return values

    async def _arguments(self, spec: StepSpec, inputs: Inputs) -> dict[str, Any]:
        """Raises ModelError for references that lead nowhere, and for prompts that are too long."""
        if spec.kind == "code":
            return {"inputs": inputs.values} | ({"stored": inputs.stored} if inputs.stored else {})
        if spec.kind == "tool":
            names = {name: i for i, name in enumerate([PARAMS, *spec.needs], 1)}
            parsed = parse(spec.args, names)
            values = await self._whole(inputs, {n for n, i in names.items() if i in parsed.targets})
            return substitute(spec.args, parsed, {i: values[n] for n, i in names.items() if i in parsed.targets})
        values = await self._whole(inputs, set(spec.needs))
        if spec.kind == "agent":  # which has tools, and may be told things by what it reads
            values |= {name: as_data(name, shown(values[name]), secrets.token_bytes(16)) for name in spec.needs}
        prompt = fill(spec.prompt, values)
        if len(prompt) > MOST_PROMPT:
            text = f"its prompt would have {len(prompt)} characters, {MOST_PROMPT} are possible"
            raise ModelError(text, code="too_long", hint="let a code step pick what the model needs")
        return {"task": prompt} if spec.kind == "agent" else {"prompt": prompt} | _complained(self.results(spec.id))


def _complained(results: Sequence[NodeResult]) -> dict[str, Any]:
    """What the model is shown of an answer that had not the shape that was asked for."""
    last = results[-1] if results else None
    if last is None or last.error is None or last.error.code != INVALID:
        return {}
    return {"answer": last.value, "complaint": last.error.message}


def _ended(node: Node, result: NodeResult) -> Made:
    return Made(node.model_copy(update={"args_hash": "", "not_after_ms": 0}), result)


def _failed(code: str, text: str) -> NodeResult:
    error = NodeError(code=code, message=text)
    return NodeResult(state=NodeState.FAILED, text=text, error=error, ended_ms=_now_ms())


def not_run(why: str) -> NodeResult:
    """The result of a step that is skipped."""
    return NodeResult(state=NodeState.SKIPPED, text=f"Skipped: {why}.", ended_ms=_now_ms())


def _now_ms() -> int:
    return int(time.time() * 1000)


def shown(value: JsonValue) -> str:
    """An output as it stands in a prompt: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def fill(prompt: str, inputs: Mapping[str, JsonValue]) -> str:
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
            out += [rest[:start], shown(inputs[name])]
            rest = rest[end + 1 :]
        else:
            out.append(rest[: start + 1])
            rest = rest[start + 1 :]
