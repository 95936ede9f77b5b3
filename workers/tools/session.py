"""The session itself: its todo list, its shared facts, the full text behind a handle, and tools not yet offered."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from shared.compress import compact, snippet
from shared.contract import Effect, GroupSpec
from shared.errors import ModelError, StateConflict
from shared.state.session import Fact
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import examples_en, examples_es, words_en, words_es
from workers.tools.files import decode
from workers.tools.ranking import rank_tools

GROUP = GroupSpec(
    name="session",
    title="Plan and shared facts of this conversation",
    keywords={"es": words_es.SESSION, "en": words_en.SESSION},
    examples={"es": examples_es.SESSION, "en": examples_en.SESSION},
)

_FACT_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_FACT_CHARS = 4_000
_MARKS = {"pending": "[ ]", "doing": "[~]", "done": "[x]"}


class TodoItem(BaseModel):
    """One item of the todo list."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Field(min_length=1, max_length=500)]
    state: Literal["pending", "doing", "done"] = "pending"


def _todo_output(items: list[dict[str, JsonValue]]) -> ToolOutput:
    lines = [f"{_MARKS.get(str(item.get('state')), '[ ]')} {item.get('text', '')}" for item in items]
    return ToolOutput({"items": [*items]}, "\n".join(lines) or "The todo list is empty.")


@tool(
    group="session",
    effect=Effect.IDEMPOTENT,
    timeout_s=10.0,
    keywords={"es": ("tareas", "plan", "pasos"), "en": ("todo", "plan", "steps")},
    examples={"es": ("haz una lista de pasos",), "en": ("make a list of steps",)},
)
async def todo_write(
    ctx: ToolContext,
    items: Annotated[
        list[TodoItem], Field(description="The whole list, in order; it replaces the old one", max_length=100)
    ],
) -> ToolOutput:
    """Writes the todo list of this conversation, for work of several steps; send it whole each time."""
    plain: list[dict[str, JsonValue]] = [item.model_dump(mode="json") for item in items]
    await ctx.services.state.set_todo(ctx.session, plain)
    return _todo_output(plain)


@tool(
    group="session",
    effect=Effect.READ,
    untrusted=True,
    timeout_s=10.0,
    keywords={"es": ("qué falta", "tareas pendientes"), "en": ("what is left", "open tasks")},
    examples={"es": ("¿qué tareas quedan por hacer?",), "en": ("which tasks are still to be done?",)},
)
async def todo_read(ctx: ToolContext) -> ToolOutput:
    """Reads the todo list of this conversation."""
    return _todo_output(await ctx.services.state.todo(ctx.session))


@tool(
    group="session",
    effect=Effect.IDEMPOTENT,
    untrusted=True,
    timeout_s=10.0,
    keywords={"es": ("hecho", "dato", "ten en cuenta"), "en": ("fact", "keep in mind")},
    examples={"es": ("ten en cuenta que somos cuatro",), "en": ("keep in mind that we are four",)},
)
async def fact_set(
    ctx: ToolContext,
    name: Annotated[str, Field(description="Short name: letters, digits, . _ -")],
    value: Annotated[JsonValue, Field(description="Any JSON value")],
    expected_version: Annotated[
        int | None, Field(description="Set it only if it still has this version (0: only if it is new)", ge=0)
    ] = None,
) -> ToolOutput:
    """Shares a fact with everyone who works in this conversation, such as subagents."""
    if not _FACT_NAME.fullmatch(name):
        raise ModelError(
            f"{name[:80]!r} is no name for a fact", hint="1 to 64 of A-Z a-z 0-9 . _ -", code="bad_arguments"
        )
    if len(compact(value)) > _FACT_CHARS:
        raise ModelError(f"a fact holds at most {_FACT_CHARS} characters of JSON", hint="save a note instead")
    state = ctx.services.state
    present = (await state.facts(ctx.session)).get(name)
    if present is not None and present.by == ctx.node and present.value == value:
        version = present.version  # an earlier attempt of this very node did it
    else:
        try:
            version = await state.set_fact(ctx.session, name, value, expected_version, ctx.node)
        except StateConflict as error:
            raise await _lost(ctx, name, expected_version) from error
    return ToolOutput({"name": name, "value": value, "version": version}, f"{name} is set (version {version}).")


async def _lost(ctx: ToolContext, name: str, expected: int | None) -> ModelError:
    now = (await ctx.services.state.facts(ctx.session)).get(name)
    found = f"it has version {now.version}: {snippet(compact(now.value), 300)}" if now else "it does not exist"
    return ModelError(
        f"{name} was not set: version {expected} was expected, {found}",
        hint="decide with the present value and try again",
        code="conflict",
    )


def _fact_line(name: str, fact: Fact) -> str:
    return f"{name} (version {fact.version}): {compact(fact.value)}"


@tool(
    group="session",
    effect=Effect.READ,
    untrusted=True,
    timeout_s=10.0,
    keywords={"es": ("datos compartidos", "qué sabemos"), "en": ("shared facts", "what do we know")},
    examples={"es": ("¿qué datos compartidos hay?",), "en": ("which facts are shared?",)},
)
async def fact_get(
    ctx: ToolContext, name: Annotated[str | None, Field(description="One fact; leave out for all")] = None
) -> ToolOutput:
    """Reads the facts shared in this conversation, with their versions."""
    facts = await ctx.services.state.facts(ctx.session)
    if name is not None:
        if (fact := facts.get(name)) is None:
            known = ", ".join(sorted(facts)[:30]) or "none"
            raise ModelError(f"there is no fact {name}", hint=f"known: {known}", code="not_found")
        return ToolOutput({"value": fact.value, "version": fact.version}, _fact_line(name, fact))
    ordered = sorted(facts.items())
    value: dict[str, JsonValue] = {key: {"value": fact.value, "version": fact.version} for key, fact in ordered}
    return ToolOutput({"facts": value}, "\n".join(_fact_line(*pair) for pair in ordered) or "No facts are shared yet.")


@tool(
    group="session",
    effect=Effect.READ,
    timeout_s=10.0,
    always=True,
    keywords={"es": ("herramientas", "qué puedes hacer"), "en": ("tools", "what can you do", "capabilities")},
    examples={"es": ("¿tienes alguna herramienta para esto?",), "en": ("is there a tool for this?",)},
)
async def find_tools(
    ctx: ToolContext,
    query: Annotated[str, Field(description="What you need to do, in a few words")],
    limit: Annotated[int, Field(description="How many at most", ge=1, le=30)] = 10,
) -> ToolOutput:
    """Finds tools that are not offered yet; the ones it names can be called from the next step on."""
    catalogue = await ctx.services.state.catalogue()
    found = rank_tools(query, catalogue, limit)
    lines = [f"- {spec.name}: {snippet(spec.description, 200)}" for spec in found]
    if not found:
        groups = ", ".join(f"{group.name} ({group.title})" for group in catalogue.groups)
        lines = [f"No tool fits {query[:100]!r}. Groups that exist: {groups or 'none'}."]
    return ToolOutput({"tools": [spec.name for spec in found]}, "\n".join(lines))


@tool(
    group="session",
    effect=Effect.READ,
    untrusted=True,
    always=True,
    keywords={"es": ("el resto del resultado",), "en": ("the rest of the result",)},
    examples={"es": ("enséñame el resto del resultado",), "en": ("show me the rest of the result",)},
)
async def read_artifact(
    ctx: ToolContext,
    handle: Annotated[str, Field(description="As a shortened result named it: a:…")],
    offset: Annotated[int, Field(description="First character", ge=0)] = 0,
    limit: Annotated[int, Field(description="How many characters", ge=1, le=6_000)] = 4_000,
    search: Annotated[
        str | None, Field(description="Instead show the lines that hold these words", min_length=1)
    ] = None,
) -> ToolOutput:
    """Reads on in a result that was too long to show whole, or searches it."""
    stored = await ctx.services.artifacts.get(ctx.principal, handle)
    text = decode(stored.data)
    if text is None:
        raise ModelError(
            f"{handle} is {stored.media_type}, not text", hint="image_describe looks at images", code="binary"
        )
    if search is not None:
        return _search(text, search, limit)
    part = text[offset : offset + limit]
    last = offset + len(part)
    value: dict[str, JsonValue] = {"text": part, "offset": offset, "total": len(text), "more": last < len(text)}
    return ToolOutput(value, f"{part}\n[characters {offset} to {last} of {len(text)}]")


def _search(text: str, wanted: str, limit: int) -> ToolOutput:
    needle = wanted.casefold()
    hits: list[JsonValue] = []
    lines: list[str] = []
    used = offset = 0
    for line in text.splitlines(keepends=True):
        at = line.casefold().find(needle)
        if at >= 0:
            start = max(0, at - 200)
            shown = f"{offset + start}: {line[start : start + 400].strip()}"
            used += len(shown) + 1
            if used > limit:
                lines.append("[more lines match]")
                break
            hits.append({"offset": offset + start, "text": line[start : start + 400].strip()})
            lines.append(shown)
        offset += len(line)
    return ToolOutput({"matches": hits}, "\n".join(lines) or f"Nothing in it matches {wanted[:100]!r}.")
