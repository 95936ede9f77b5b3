"""How a workflow is written: steps are functions, the workflow lists them.

    @step()
    async def read_notes(ctx: ToolContext, inputs: Inputs) -> JsonValue: ...

    @step(needs=["read_notes"])
    def newest(ctx: ToolContext, inputs: Inputs) -> JsonValue:
        return inputs["read_notes"][:5]

    @workflow("brief", title="Brief", cron="0 7 * * *", result="summarise")
    def brief() -> Steps:
        \"\"\"What is new.\"\"\"
        return [read_notes, newest, model_step("summarise", needs=["newest"], prompt="Summarise:\\n{newest}")]

A code step is an internal tool `workflow:<workflow>/<step>` that takes one argument `inputs`: the output of each
step it needs by name, and `params`, the run's parameters. A step runs when all it needs are done, so steps that
need nothing of each other run side by side.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from inspect import getdoc, iscoroutinefunction
from typing import Any

from pydantic import JsonValue

from shared.contract import Effect, StepSpec, WorkflowSpec
from shared.errors import ConfigError
from shared.names import QUEUE_WORKFLOWS
from workers.context import Services, ToolContext
from workers.declare import Tool, ToolOutput, Workflow, place, tool

Inputs = Mapping[str, Any]
"""Outputs of the needed steps by name, and `params`."""

StepFn = Callable[[ToolContext, Inputs], Awaitable[JsonValue | ToolOutput] | JsonValue | ToolOutput]

_ID = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")


@dataclass(frozen=True)
class Step:
    """One step as declared; `fn` for a code step only. `spec.tool` of a code step is filled in by its workflow."""

    spec: StepSpec
    fn: StepFn | None = None


Steps = list[Step]


def step(
    *,
    needs: Sequence[str] = (),
    effect: Effect = Effect.READ,
    timeout_s: float = 60.0,
    queue: str = QUEUE_WORKFLOWS,
) -> Callable[[StepFn], Step]:
    """Declares a function (plain or async) over (ctx, inputs) as a code step named like it."""

    def declare(fn: StepFn) -> Step:
        name = getattr(fn, "__name__", "")
        spec = StepSpec(id=name, kind="code", needs=tuple(needs), effect=effect, timeout_s=timeout_s, queue=queue)
        return Step(spec, fn)

    return declare


def model_step(
    name: str, *, prompt: str, needs: Sequence[str] = (), tier: str = "fast", timeout_s: float = 120.0
) -> Step:
    """One model call. It sees `prompt` alone, in which `{step}` stands for a needed step's output."""
    return Step(StepSpec(id=name, kind="model", needs=tuple(needs), prompt=prompt, tier=tier, timeout_s=timeout_s))


def tool_step(
    name: str, *, tool: str, args: Mapping[str, Any], needs: Sequence[str] = (), effect: Effect, timeout_s: float = 60.0
) -> Step:
    """One call of a catalogue tool with fixed arguments."""
    return Step(
        StepSpec(
            id=name, kind="tool", tool=tool, args=dict(args), needs=tuple(needs), effect=effect, timeout_s=timeout_s
        )
    )


def prompt_file(package: str, name: str) -> str:
    """The text of a prompt that lies beside the module."""
    return files(package).joinpath(name).read_text("utf-8").strip()


def workflow(
    name: str,
    *,
    title: str,
    result: str,
    cron: str = "",
    hidden: bool = False,
    when: Callable[[Services], Awaitable[bool]] | None = None,
) -> Callable[[Callable[[], Steps]], Workflow]:
    """Declares the workflow whose steps the function returns.

    `result` names the step whose output is the run's answer; `cron` is the default schedule, and `when` whether one of
    its slots has anything to do, so that a frequent schedule leaves no runs that did nothing. Raises ConfigError,
    naming file and line, for names, needs, placeholders or cycles that cannot work.
    """

    def declare(fn: Callable[[], Steps]) -> Workflow:
        where = place(fn)
        steps = fn()
        try:
            _check(name, steps, result)
        except ValueError as error:
            raise ConfigError(f"{where}: workflow {name}: {error}") from error
        tools = {one.spec.id: _tool(name, title, one) for one in steps if one.fn is not None}
        specs = tuple(
            one.spec.model_copy(update={"tool": tools[one.spec.id].name}) if one.spec.id in tools else one.spec
            for one in steps
        )
        spec = WorkflowSpec(name=name, title=title, steps=specs, result=result, cron=cron, hidden=hidden)
        return Workflow(spec, tuple(tools.values()), where, when)

    return declare


def _tool(workflow_name: str, title: str, one: Step) -> Tool:
    """The internal tool that runs a code step."""
    fn, spec = one.fn, one.spec
    if fn is None:
        raise TypeError(f"step {spec.id} has no function")
    name = f"workflow:{workflow_name}/{spec.id}"

    async def run_async(ctx: ToolContext, inputs: dict[str, JsonValue]) -> Any:
        outcome = fn(ctx, inputs)
        return await outcome if isinstance(outcome, Awaitable) else outcome

    def run_plain(ctx: ToolContext, inputs: dict[str, JsonValue]) -> Any:
        return fn(ctx, inputs)

    run = run_async if iscoroutinefunction(fn) else run_plain
    run.__doc__ = getdoc(fn) or f"{title}: {spec.id}"
    declare = tool(group="workflows", name=name, effect=spec.effect, timeout_s=spec.timeout_s, queue=spec.queue)
    return replace(declare(run), where=place(fn))


def _check(name: str, steps: Sequence[Step], result: str) -> None:
    """Raises ValueError naming what is wrong."""
    if not _NAME.fullmatch(name):
        raise ValueError("its name must be lower case letters, digits and -")
    ids = [one.spec.id for one in steps]
    for wrong in (one for one in ids if not _ID.fullmatch(one) or one == "params"):
        raise ValueError(f"{wrong!r} is no name for a step")
    if len(set(ids)) < len(ids):
        raise ValueError(f"two steps have one name: {', '.join(ids)}")
    if result not in ids:
        raise ValueError(f"its result names no step: {result!r}")
    for one in steps:
        needs = one.spec.needs
        if missing := [needed for needed in needs if needed not in ids]:
            raise ValueError(f"step {one.spec.id} needs {missing[0]!r}, which is no step of it")
        if unknown := sorted(set(_PLACEHOLDER.findall(one.spec.prompt)) - set(needs)):
            raise ValueError(f"the prompt of {one.spec.id} speaks of {{{unknown[0]}}}, which it does not need")
    _check_order({one.spec.id: one.spec.needs for one in steps})


def _check_order(needs: Mapping[str, Sequence[str]]) -> None:
    done: set[str] = set()
    while len(done) < len(needs):
        ready = [name for name in needs if name not in done and done.issuperset(needs[name])]
        if not ready:
            raise ValueError(f"its steps need each other in a circle: {', '.join(sorted(set(needs) - done))}")
        done.update(ready)
