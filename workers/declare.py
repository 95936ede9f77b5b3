"""One declaration per tool: a typed function with a docstring gives its schema, its validator and its catalogue entry.

    @tool(group="notes", effect=Effect.IDEMPOTENT)
    async def note_save(ctx: ToolContext, title: Annotated[str, Field(description="Short name")]) -> JsonValue:
        \"\"\"Saves a note.\"\"\"

Names that hold a `:` are internal: workers run them, no model is ever offered them.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import importlib
import importlib.util
import inspect
import json
import re
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, JsonValue

from shared.contract import Catalogue, Effect, GroupSpec, ToolSpec, WorkflowSpec
from shared.errors import CapatazError, ConfigError
from shared.settings import Settings
from shared.timing import OFF
from workers.tools import schema as schemas

if TYPE_CHECKING:
    from shared.llm.model import ImageBlock
    from workers.context import Services, ToolContext

Words = Mapping[str, tuple[str, ...]]
Requires = Callable[[Settings], str | None]
Compressor = Callable[[str], str]

_MODEL_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_INTERNAL_NAME = re.compile(r"[a-z][a-z0-9_-]*:[a-z0-9_/-]{1,120}")

BUILTIN_MODULES = (
    "workers.tools.notes",
    "workers.tools.files",
    "workers.tools.file_changes",
    "workers.tools.shell",
    "workers.tools.web",
    "workers.tools.search",
    "workers.tools.weather",
    "workers.tools.feeds",
    "workers.tools.reddit",
    "workers.tools.utility",
    "workers.tools.session",
    "workers.tools.reminders",
    "workers.tools.gym",
    "workers.tools.storage",
    "workers.tools.media",
    "workers.tools.tv",
    "workers.tools.think",
    "workers.tools.mail",
    "workers.tools.mail_out",
    "workers.tools.calendar",
    "workers.tools.schedules",
    "workers.vision.describe",
    "workers.learner.reflect",
    "workers.workflows.learn",
    "workers.workflows.playbook",
    "workers.workflows.playbook_upkeep",
    "workers.workflows.daily_brief",
    "workers.workflows.reminders",
    "workers.workflows.notice",
    "workers.workflows.deliver",
    "workers.workflows.schedule",
    "workers.workflows.weekly_metrics",
    "workers.workflows.gym_week",
    "workers.workflows.heartbeat",
    "workers.workflows.session_archive",
)


@dataclass(frozen=True)
class ToolOutput:
    """What a tool returns: `value` (JSON) for references and code, `text` for the model, `images` beside it."""

    value: JsonValue
    text: str = ""
    images: tuple[ImageBlock, ...] = ()

    @property
    def seen(self) -> str:
        """What the model sees: the text, or the value as it is when a string, or as compact JSON."""
        if self.text:
            return self.text
        if isinstance(self.value, str):
            return self.value
        return json.dumps(self.value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class Tool:
    """A declared tool. `where` is the file and line of its function.

    `arguments` makes the model of the arguments at its first call: a process uses few of its tools.
    """

    spec: ToolSpec
    fn: Callable[..., Any]
    arguments: Callable[[], type[BaseModel]]
    where: str
    compress: Compressor | None = None
    requires: Requires | None = None

    @property
    def name(self) -> str:
        """The name in the catalogue and in node orders."""
        return self.spec.name

    @property
    def internal(self) -> bool:
        """True for what workers run but models are never offered."""
        return ":" in self.spec.name

    def validate(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments for the function. Raises ModelError that says what is wrong and what was expected."""
        return schemas.validate(self.arguments(), self.spec.parameters, self.name, args)

    async def call(self, ctx: ToolContext, args: Mapping[str, Any]) -> ToolOutput:
        """Validates and runs; a plain function runs in the worker's bounded executor.

        Raises ModelError for wrong arguments, whatever the function raises, and CapatazError when its result is
        not JSON.
        """
        args, ignored = self._without_unknown(args)
        if not self.internal:
            schemas.refuse_halves(self.name, args)
        kwargs = self.validate(args)
        if inspect.iscoroutinefunction(self.fn):
            result = await self.fn(ctx, **kwargs)
        else:
            work = functools.partial(contextvars.copy_context().run, functools.partial(self.fn, ctx, **kwargs))
            result = await asyncio.get_running_loop().run_in_executor(ctx.services.blocking, work)
        output = result if isinstance(result, ToolOutput) else ToolOutput(result)
        try:
            json.dumps(output.value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise CapatazError(f"{self.name} returned a value that is not JSON: {error}", hint=self.where) from error
        if ignored:
            output = replace(output, text=f"{output.seen}\n[ignored, there is no such argument: {', '.join(ignored)}]")
        return output

    def _without_unknown(self, args: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
        """The arguments without those that do not exist, and their names; only where a call has no effect.

        Small models fill in words of the schema ("required") as arguments, and repeat them when refused. Nor are half
        characters a reason to refuse what only reads.
        """
        if self.spec.effect is not Effect.READ:
            return args, []
        known = self.spec.parameters.get("properties", {})
        ignored = [name for name in args if name not in known]
        return {name: schemas.whole(value) for name, value in args.items() if name not in ignored}, ignored


@dataclass(frozen=True)
class Workflow:
    """A workflow and the internal tools that run its code steps.

    `when` is asked before a slot of its schedule fires; False: there is nothing to do.
    """

    spec: WorkflowSpec
    tools: tuple[Tool, ...]
    where: str
    when: Callable[[Services], Awaitable[bool]] | None = None


def place(fn: Callable[..., Any]) -> str:
    """File and line of a function, for messages."""
    code = inspect.unwrap(fn).__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def _summary(fn: Callable[..., Any]) -> str:
    first = (inspect.getdoc(fn) or "").split("\n\n", 1)[0]
    return " ".join(first.split())


def tool(
    *,
    group: str,
    effect: Effect,
    name: str = "",
    timeout_s: float = 30.0,
    queue: str = "tools",
    parallel: int = 0,
    keywords: Words | None = None,
    examples: Words | None = None,
    compress: Compressor | None = None,
    always: bool = False,
    untrusted: bool = False,
    requires: Requires | None = None,
) -> Callable[[Callable[..., Awaitable[Any] | Any]], Tool]:
    """Declares the function below as a tool; its first docstring paragraph is the description.

    `untrusted` is for tools whose output holds what others wrote, such as pages, mail or files: the model gets it
    marked as data. `requires` returns what is missing in the settings, or None. Raises ConfigError naming file and line
    when the function cannot be one.
    """

    def declare(fn: Callable[..., Any]) -> Tool:
        chosen = name or fn.__name__
        try:
            if not (_MODEL_NAME.fullmatch(chosen) or _INTERNAL_NAME.fullmatch(chosen)):
                raise TypeError("its name must be lower case letters, digits and _, 64 at most")
            if not (description := _summary(fn)):
                raise TypeError("it has no docstring, which is what a model chooses by")
            arguments = functools.partial(schemas.arguments_model, fn, chosen)
            spec = ToolSpec(
                name=chosen,
                group=group,
                description=description,
                parameters=schemas.json_schema(arguments()),
                effect=effect,
                timeout_s=timeout_s,
                queue=queue,
                parallel=parallel,
                keywords=dict(keywords or {}),
                examples=dict(examples or {}),
                always=always,
                untrusted=untrusted,
            )
        except (TypeError, NameError) as error:
            raise ConfigError(f"{place(fn)}: {chosen} cannot be a tool: {error}") from error
        return Tool(spec, fn, functools.cache(arguments), place(fn), compress, requires)

    return declare


def _derived_group(name: str, tools: Iterable[ToolSpec]) -> GroupSpec:
    """A group that nobody described is what its tools say."""

    def union(pick: Callable[[ToolSpec], Words]) -> dict[str, tuple[str, ...]]:
        out: dict[str, dict[str, None]] = {}
        for spec in tools:
            for language, words in pick(spec).items():
                out.setdefault(language, {}).update(dict.fromkeys(words))
        return {language: tuple(words) for language, words in out.items()}

    tools = tuple(tools)
    return GroupSpec(
        name=name, title=name, keywords=union(lambda spec: spec.keywords), examples=union(lambda spec: spec.examples)
    )


@dataclass
class Registry:
    """All tools, groups and workflows of one worker process, by name. `problems` says what could not be loaded."""

    tools: dict[str, Tool] = field(default_factory=dict)
    groups: dict[str, GroupSpec] = field(default_factory=dict)
    workflows: dict[str, Workflow] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def get(self, name: str) -> Tool | None:
        """The tool of that name, internal ones included."""
        return self.tools.get(name)

    def add(self, *items: Tool | GroupSpec | Workflow) -> None:
        """Adds all items or none. Raises ConfigError naming both places when a name is taken."""
        grown = replace(self, tools=dict(self.tools), groups=dict(self.groups), workflows=dict(self.workflows))
        for item in items:
            grown._put(item)
        self.tools, self.groups, self.workflows = grown.tools, grown.groups, grown.workflows

    def _put(self, item: Tool | GroupSpec | Workflow) -> None:
        if isinstance(item, GroupSpec):
            if self.groups.setdefault(item.name, item) is not item:
                raise ConfigError(f"group {item.name} is declared twice", hint="give one of them another name")
        elif isinstance(item, Tool):
            if (known := self.tools.setdefault(item.name, item)) is not item:
                raise ConfigError(
                    f"tool {item.name} is declared twice: {known.where} and {item.where}",
                    hint="give one of them another name",
                )
        else:
            if (other := self.workflows.setdefault(item.spec.name, item)) is not item:
                raise ConfigError(f"workflow {item.spec.name} is declared twice: {other.where} and {item.where}")
            for step in item.tools:
                self._put(step)

    def add_module(self, module: ModuleType) -> None:
        """Adds every tool, group and workflow that is a global of the module (imported ones only once)."""
        found = {id(item): item for item in vars(module).values() if isinstance(item, Tool | GroupSpec | Workflow)}
        known = {id(item) for item in (*self.tools.values(), *self.groups.values(), *self.workflows.values())}
        self.add(*(item for key, item in found.items() if key not in known))

    def load_builtin(self) -> None:
        """Adds all that ships with the package."""
        for module in BUILTIN_MODULES:
            self.add_module(importlib.import_module(module))

    def load_user(self, modules: tuple[str, ...]) -> tuple[str, ...]:
        """Adds users' own Python files (`path/to/tools.py`) or importable modules.

        One that fails is reported (file, line, reason) in the result and in `problems`; the others still load.
        """
        found = []
        for name in modules:
            try:
                self.add_module(_import_user(name))
            except Exception as error:  # noqa: BLE001 - a user's module may raise anything; it is reported
                found.append(_load_problem(name, error))
        self.problems.extend(found)
        return tuple(found)

    def catalogue(self, settings: Settings) -> Catalogue:
        """What this worker offers under these settings; `missing` says why a tool is not offered."""
        offered: list[ToolSpec] = []
        missing: dict[str, str] = {}
        for item in self.tools.values():
            if item.internal:
                continue
            if item.requires is not None and (reason := item.requires(settings)):
                missing[item.name] = reason
            else:
                offered.append(item.spec)
        names = dict.fromkeys(spec.group for spec in offered)
        groups = tuple(
            self.groups.get(name) or _derived_group(name, [spec for spec in offered if spec.group == name])
            for name in names
        )
        workflows = tuple(_scheduled(item.spec, settings) for item in self.workflows.values())
        return Catalogue(tools=tuple(offered), groups=groups, workflows=workflows, missing=missing)


def _scheduled(spec: WorkflowSpec, settings: Settings) -> WorkflowSpec:
    """The workflow with the operator's schedule and time zone in place of its own."""
    cron = settings.workflows.cron.get(spec.name, spec.cron)
    cron = "" if cron.strip() == OFF else cron
    return spec.model_copy(update={"cron": cron, "timezone": settings.workflows.timezone})


def _import_user(name: str) -> ModuleType:
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = Path(name).expanduser().resolve()
    module_name = "capataz_user_" + re.sub(r"\W", "_", str(path))
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pydantic look their module up while it runs
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module


def _load_problem(name: str, error: Exception) -> str:
    if isinstance(error, ConfigError):
        return f"{name}: {error}"
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    inside = [frame for frame in frames if frame.filename != __file__]
    where = f"{inside[-1].filename}:{inside[-1].lineno}" if inside else name
    return f"{where}: {type(error).__name__}: {error}"
