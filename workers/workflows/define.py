"""How a workflow is written: steps are functions, the workflow lists them.

    @step(retry=3)
    async def fetch(ctx: ToolContext, inputs: Inputs) -> JsonValue: ...

    @step(needs=["fetch"], when=given("fetch", "count", gt=0))
    def newest(ctx: ToolContext, inputs: Inputs) -> JsonValue:
        return inputs["fetch"]["items"][:5]

    @workflow("brief", title="Brief", cron="0 7 * * *", result="summarise")
    def brief() -> Steps:
        \"\"\"What is new.\"\"\"
        return [fetch, newest, model_step("summarise", needs=["newest"], prompt="Summarise:\\n{newest}")]

A code step is an internal tool `workflow:<workflow>/<step>` that takes one argument `inputs`: the output of each
step it needs by name, and `params`, the run's parameters. A step runs when all it needs are there, so steps that
need nothing of each other run side by side.

What all kinds of steps take:

- `needs`: names of steps. One whose condition was false is skipped, and so are those that need it, unless they need it
  as `optional("name")`, which gives them None.
- `when`: runs if the comparison holds (`given`), or if a step that it names returned true. Those steps are needed.
- `retry`: attempts in all, or `Retries`. Never for a `write` step: nobody can know that it had no effect.
- `on_error`: `"fail"` ends the workflow; `"skip"` gives those that need the step None; `fallback(value)` gives them
  the value, `fallback(step="other")` the output of a step that runs in this case alone.
- `timeout_s`: of one attempt.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from inspect import getdoc, iscoroutinefunction
from typing import Any, Literal

from pydantic import BaseModel, JsonValue

from shared.contract import Condition, Effect, OnError, Retries, StepSpec, WorkflowSpec
from shared.errors import ConfigError
from shared.json_schema import check_schema
from shared.names import QUEUE_WORKFLOWS
from workers.context import Services, ToolContext
from workers.declare import Tool, ToolOutput, Workflow, place, tool
from workers.workflows.checks import check_workflow

__all__ = ["Inputs", "Retries", "Step", "Steps", "agent_step", "fallback", "given", "model_step", "optional"]
__all__ += ["prompt_file", "ref", "step", "tool_step", "workflow"]

Inputs = Mapping[str, Any]
"""Outputs of the needed steps by name, and `params`."""

StepFn = Callable[[ToolContext, Inputs], Awaitable[JsonValue | ToolOutput] | JsonValue | ToolOutput]
Given = tuple[Condition, ...]
When = str | Given | Sequence[str | Given]

_PART = r"""\.(?:[^\W\d][\w-]*|[0-9]+)|\[(?:-?[0-9]+|"(?:[^"\\]|\\.)*"|'[^']*')\]"""
_REF = re.compile(rf"(?P<step>[a-z][a-z0-9_]*)(?:{_PART})*")
_MOST_ATTEMPTS = 20


@dataclass(frozen=True)
class Step:
    """One step as declared; `fn` for a code step only. `spec.tool` of a code step is filled in by its workflow.
    `where` is the file and line of the declaration."""

    spec: StepSpec
    fn: StepFn | None = None
    where: str = ""


Steps = list[Step]


class optional(str):
    """The name of a needed step that may have been skipped: then its output is None."""

    __slots__ = ()


def given(
    name: str,
    *path: str | int,
    eq: Any = ...,
    ne: Any = ...,
    lt: Any = ...,
    le: Any = ...,
    gt: Any = ...,
    ge: Any = ...,
    within: Any = ...,
    contains: Any = ...,
    exists: Any = ...,
) -> Given:
    """A condition for `when`: what is at `path` (keys and indices) in the output of the step `name`, or in `params`,
    compares so; with several comparisons all hold. Without any it is true itself.

    What is not there (null is nothing) fulfils `exists=False` alone. Numbers compare with numbers and texts with
    texts; anything else ends the step as failed.
    """
    asked = {"eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge}
    asked |= {"within": within, "contains": contains, "exists": exists}
    found = {op: value for op, value in asked.items() if value is not ...} or {"holds": True}
    if exists is not ... and not isinstance(exists, bool):
        raise ConfigError(f"{_caller()}: given({name!r}, exists=…) takes True or False")
    rows = [{"step": name, "path": path, "op": op, "value": _plain(value)} for op, value in found.items()]
    return tuple(Condition.model_validate(row) for row in rows)


def _plain(value: Any) -> Any:
    """A declared value as JSON. Raises ConfigError if it is none."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{_caller()}: {value!r:.80} is not JSON: {error}") from error


def fallback(value: Any = None, *, step: str = "") -> OnError:
    """For `on_error`: what takes the place of the output of a step that failed, a value (JSON) or another step's."""
    if step and value is not None:
        raise ConfigError(f"{_caller()}: fallback takes a value or a step, not both")
    return OnError(do="step", step=step) if step else OnError(do="value", value=_plain(value))


def ref(path: str) -> str:
    """An argument of a tool step that is taken from an output with its type: `ref("fetch.items[0].id")`.

    Inside a longer text write `${fetch.title}`. Raises ConfigError for a path that is none.
    """
    if not _REF.fullmatch(path):
        raise ConfigError(f"{_caller()}: ref({path!r}) is no path", hint='for example ref("fetch.items[0].id")')
    return "${" + path + "}"


def step(
    *,
    needs: Sequence[str] = (),
    when: When = (),
    retry: Retries | int = 1,
    on_error: Literal["fail", "skip"] | OnError = "fail",
    effect: Effect = Effect.READ,
    timeout_s: float = 60.0,
    queue: str = QUEUE_WORKFLOWS,
) -> Callable[[StepFn], Step]:
    """Declares a function (plain or async) over (ctx, inputs) as a code step named like it."""

    def declare(fn: StepFn) -> Step:
        where = place(fn)
        name = getattr(fn, "__name__", "")
        if len(inspect.signature(fn).parameters) != 2:
            raise ConfigError(f"{where}: step {name} must take two arguments, ctx and inputs")
        common = _common(where, name, needs, when, retry, on_error, effect, timeout_s)
        return Step(StepSpec(id=name, kind="code", effect=effect, queue=queue, **common), fn, where)

    return declare


def model_step(
    name: str,
    *,
    prompt: str,
    answer: type[BaseModel] | Mapping[str, Any] | None = None,
    needs: Sequence[str] = (),
    when: When = (),
    retry: Retries | int = 1,
    on_error: Literal["fail", "skip"] | OnError = "fail",
    tier: str = "fast",
    timeout_s: float = 120.0,
) -> Step:
    """One model call. It sees `prompt` alone, in which `{step}` stands for a needed step's output.

    Its output is the text of the answer; with `answer`, a pydantic model or a JSON Schema, JSON of that shape. An
    answer that has it not is shown to the model once, with what is wrong with it. What a model says never chooses which
    steps run, unless a condition looks at it.
    """
    where = _caller()
    schema = answer.model_json_schema() if isinstance(answer, type) else answer
    if schema is not None:
        try:
            check_schema(schema)
        except (ValueError, re.error) as error:
            raise ConfigError(f"{where}: step {name}: {error}") from error
    common = _common(where, name, needs, when, retry, on_error, Effect.READ, timeout_s)
    shape = None if schema is None else dict(schema)
    return Step(StepSpec(id=name, kind="model", prompt=prompt, json_schema=shape, tier=tier, **common), where=where)


def agent_step(
    name: str,
    *,
    prompt: str,
    tools: Sequence[str],
    agent: str = "default",
    needs: Sequence[str] = (),
    when: When = (),
    on_error: Literal["fail", "skip"] | OnError = "fail",
    timeout_s: float = 600.0,
) -> Step:
    """A run of an agent with `prompt`, in which `{step}` stands for a needed step's output, between marks that say that
    it is data; its answer is the output.

    It may call the named tools or groups and no others (none named: those that the agent's file names). What it does is
    its own choice, so this is for what cannot be written down as steps; it is never retried by itself.
    """
    where = _caller()
    common = _common(where, name, needs, when, 1, on_error, Effect.WRITE, timeout_s)
    spec = StepSpec(
        id=name, kind="agent", prompt=prompt, agent=agent, tools=tuple(tools), effect=Effect.WRITE, **common
    )
    return Step(spec, where=where)


def tool_step(
    name: str,
    *,
    tool: str,
    args: Mapping[str, Any],
    effect: Effect,
    needs: Sequence[str] = (),
    when: When = (),
    retry: Retries | int = 1,
    on_error: Literal["fail", "skip"] | OnError = "fail",
    timeout_s: float = 60.0,
) -> Step:
    """One call of a catalogue tool. Its arguments are fixed but for references to outputs (`ref`) and to `params`;
    a dollar that shall stay one before such a name is written twice."""
    where = _caller()
    common = _common(where, name, needs, when, retry, on_error, effect, timeout_s)
    return Step(
        StepSpec(id=name, kind="tool", tool=tool, args=_plain(dict(args)), effect=effect, **common), where=where
    )


def _caller() -> str:
    """File and line of the first caller outside this module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _common(
    where: str,
    name: str,
    needs: Sequence[str],
    when: When,
    retry: Retries | int,
    on_error: Literal["fail", "skip"] | OnError,
    effect: Effect,
    timeout_s: float,
) -> dict[str, Any]:
    """The fields that all kinds of steps have. Raises ConfigError for what cannot work."""
    conditions = _conditions(when)
    retries = Retries(attempts=retry) if isinstance(retry, int) else retry
    wrong = ""
    if isinstance(needs, str):
        wrong = "needs is a list of names"
    elif not 1 <= retries.attempts <= _MOST_ATTEMPTS or retries.backoff_s < 0:
        wrong = f"1 to {_MOST_ATTEMPTS} attempts are possible, with no less than 0 seconds between them"
    elif effect is Effect.WRITE and retries.attempts > 1:
        wrong = (
            "a write is never retried by itself, since nobody can know that it had no effect: leave retry out, or "
            "make the step idempotent with ctx.idempotency_key and say so"
        )
    elif timeout_s <= 0:
        wrong = "timeout_s must be more than 0"
    elif not isinstance(on_error, OnError) and on_error not in ("fail", "skip"):
        wrong = f"on_error is 'fail', 'skip' or fallback(…), not {on_error!r}"
    if wrong:
        raise ConfigError(f"{where}: step {name}: {wrong}")
    asked = [c.step for c in conditions if c.step != "params"]
    return {
        "needs": tuple(dict.fromkeys(map(str, [*needs, *asked]))),
        "optional": tuple(str(need) for need in needs if isinstance(need, optional)),
        "when": conditions,
        "retry": retries,
        "on_error": on_error if isinstance(on_error, OnError) else OnError(do=on_error),
        "timeout_s": timeout_s,
    }


def _conditions(when: When) -> Given:
    if isinstance(when, str):
        return given(when)
    found: list[Condition] = []
    for one in when:
        found.extend([one] if isinstance(one, Condition) else _conditions(one))
    return tuple(found)


def prompt_file(package: str, name: str) -> str:
    """The text of a prompt that lies beside the module. `package` is that of the module (`__package__`), or the path of
    a module that belongs to none (`__file__`)."""
    if package.endswith(".py"):
        from pathlib import Path

        return Path(package).with_name(name).read_text("utf-8").strip()
    return files(package).joinpath(name).read_text("utf-8").strip()


def workflow(
    name: str,
    *,
    title: str,
    result: str,
    cron: str = "",
    hidden: bool = False,
    timeout_s: float = 0.0,
    when: Callable[[Services], Awaitable[bool]] | None = None,
) -> Callable[[Callable[[], Steps]], Workflow]:
    """Declares the workflow whose steps the function returns.

    `result` names the step whose output is the run's answer; `cron` is the default schedule, and `when` whether one of
    its slots has anything to do, so that a frequent schedule leaves no runs that did nothing. `timeout_s` bounds a
    whole run (0: the budget of runs does). Raises ConfigError, naming file and line, for names, needs, placeholders,
    references or cycles that cannot work.
    """

    def declare(fn: Callable[[], Steps]) -> Workflow:
        where = place(fn)
        steps = fn()
        try:
            if odd := [one for one in steps if not isinstance(one, Step)]:
                raise ValueError(f"{getattr(odd[0], '__name__', odd[0])!r} is no step: declare it with @step()")
            check_workflow(name, [(one.spec, one.where) for one in steps], result)
            if timeout_s < 0:
                raise ValueError("its timeout_s must not be negative")
        except ValueError as error:
            raise ConfigError(f"{where}: workflow {name}: {error}") from error
        tools = {one.spec.id: _tool(name, title, one) for one in steps if one.fn is not None}
        specs = tuple(
            one.spec.model_copy(update={"tool": tools[one.spec.id].name}) if one.spec.id in tools else one.spec
            for one in steps
        )
        spec = WorkflowSpec(
            name=name, title=title, steps=specs, result=result, cron=cron, hidden=hidden, timeout_s=timeout_s
        )
        return Workflow(spec, tuple(tools.values()), where, when)

    return declare


def _tool(workflow_name: str, title: str, one: Step) -> Tool:
    """The internal tool that runs a code step. Outputs that are too large to travel come as handles, in `stored`."""
    fn, spec = one.fn, one.spec
    if fn is None:
        raise TypeError(f"step {spec.id} has no function")

    async def run(ctx: ToolContext, inputs: dict[str, JsonValue], stored: dict[str, str] | None = None) -> Any:
        whole = inputs | {name: await _stored(ctx, handle) for name, handle in (stored or {}).items()}
        if iscoroutinefunction(fn):
            return await fn(ctx, whole)
        work = functools.partial(contextvars.copy_context().run, fn, ctx, whole)
        outcome = await asyncio.get_running_loop().run_in_executor(ctx.services.blocking, work)
        return await outcome if inspect.isawaitable(outcome) else outcome

    run.__doc__ = getdoc(fn) or f"{title}: {spec.id}"
    name = f"workflow:{workflow_name}/{spec.id}"
    declare = tool(group="workflows", name=name, effect=spec.effect, timeout_s=spec.timeout_s, queue=spec.queue)
    return replace(declare(run), where=place(fn))


async def _stored(ctx: ToolContext, handle: str) -> JsonValue:
    """An output that was put aside as a whole: JSON, or text."""
    artifact = await ctx.services.artifacts.get(ctx.principal, handle)
    text = artifact.data.decode("utf-8", "replace")
    value: JsonValue = json.loads(text) if artifact.media_type == "application/json" else text
    return value
