"""A model step: one call that sees its filled prompt alone, and whose text, or JSON of a given shape, is all of it."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any, Final

from pydantic import JsonValue

from coordinator.graph.steps import INVALID
from coordinator.handle import Handle
from coordinator.loop.decide import Limits, spent
from coordinator.loop.model_call import Answer, assistant_entry, call_model
from coordinator.loop.services import LoopServices
from coordinator.models.route import Route
from shared.contract import NodeError, NodeResult, NodeState, StepSpec
from shared.entries import Node
from shared.json_schema import complaint
from shared.llm.errors import LlmError
from shared.llm.model import Finish, Message, Request, TextBlock
from shared.state.changes import Change

_FENCED: Final = re.compile(r"\s*```\w*\n(.*?)\n?```\s*", re.DOTALL)
_MOST_SHOWN: Final = 8000


class ModelSteps:
    """The model calls of one run. Several may be under way at once; the change that each makes is its caller's."""

    def __init__(self, handle: Handle, services: LoopServices, workflow: str, limits: Limits) -> None:
        self._handle = handle
        self._services = services
        self._group = f"workflow:{workflow}"
        self._limits = limits
        self._calls = 0

    async def ask(self, step: StepSpec, node: Node, seconds: float, *, relay: bool) -> Change:
        """The change that ends the step's node with what the model said. With `relay` its text is shown as it comes.

        Raises RunCancelled, ConfigError if there is no model.
        """
        run = self._handle.run
        if reason := spent(run, self._limits, 0.0):
            text = f"the budget of this run is used up ({reason}), so no model is asked"
            return _end(node, _problem(NodeState.FAILED, "budget_spent", text))
        self._calls = number = max(self._calls, run.steps) + 1
        route = Route(step.tier, self._services.tiers.chain(step.tier), "the step names its tier")
        switches = await self._services.session_state.switches(self._handle.lease.session)
        try:
            async with asyncio.timeout(seconds):
                answer = await call_model(
                    self._handle,
                    self._services,
                    request_of(step, node.args),
                    route,
                    number,
                    self._group,
                    switches=switches,
                    relay=relay,
                )
        except TimeoutError:
            text = f"the model did not answer within {seconds:g} s"
            return _end(node, _problem(NodeState.TIMED_OUT, "timed_out", text))
        except LlmError as error:
            return _end(node, _problem(NodeState.FAILED, error.code, error.message, error.hint))
        change = _end(node, judged(answer, step.json_schema))
        # Usage is logged with an empty message: the step's text is a node's result, not part of a conversation.
        entry = assistant_entry(answer, Message(role="assistant", blocks=()), number, tier=step.tier, group=self._group)
        change.entries.append(entry.model_copy(update={"node": node.node}))
        usage = answer.usage
        change.event("usage", step=number, model=answer.choice.name, cost=entry.cost, **usage.model_dump(mode="json"))
        return change


def request_of(step: StepSpec, args: dict[str, Any]) -> Request:
    """What the model is asked: the prompt, and if its last answer had not the right shape, that one and why."""
    said = [("user", str(args["prompt"]))]
    if "complaint" in args:
        again = f"That is not valid: {args['complaint']}. Answer again, with the JSON alone."
        said += [("assistant", str(args["answer"])), ("user", again)]
    messages = tuple(Message(role=role, blocks=(TextBlock(text=text),)) for role, text in said)  # type: ignore[arg-type]
    return Request(model="", messages=messages, json_schema=step.json_schema)


def judged(answer: Answer, schema: dict[str, Any] | None) -> NodeResult:
    """What an answer comes to: its text, or the JSON in it if that has the shape that was asked for. Pure."""
    text, finish = answer.completion.message.text, answer.completion.finish
    if schema is None:
        return NodeResult(state=NodeState.DONE, text=text, value=text, ended_ms=_now_ms())
    value, wrong = read_json(text, schema)
    if wrong:
        cut = "; it was cut at the output limit" if finish is Finish.LENGTH else ""
        result = _problem(NodeState.FAILED, INVALID, f"{wrong}{cut}")
        return result.model_copy(update={"value": text[:_MOST_SHOWN]})
    shown = json.dumps(value, ensure_ascii=False)
    return NodeResult(state=NodeState.DONE, text=shown, value=value, ended_ms=_now_ms())


def read_json(text: str, schema: dict[str, Any]) -> tuple[JsonValue, str]:
    """The JSON that a text is, or holds in its one fence, and what is wrong with it (empty: nothing). Pure."""
    fenced = _FENCED.fullmatch(text)
    try:
        value: JsonValue = json.loads(fenced[1] if fenced else text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        return None, f"the answer is not JSON: {error}"
    return value, complaint(value, schema)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def _problem(state: NodeState, code: str, text: str, hint: str = "") -> NodeResult:
    error = NodeError(code=code, message=text, hint=hint)
    return NodeResult(state=state, text=f"{text} ({hint})" if hint else text, error=error, ended_ms=_now_ms())


def _end(node: Node, result: NodeResult) -> Change:
    return Change(ends=[(node.node, node.tool, result)])


def _now_ms() -> int:
    return int(time.time() * 1000)
