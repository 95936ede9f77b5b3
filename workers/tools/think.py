"""A second model, which thinks about one task that it is given whole."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from shared.contract import Effect, GroupSpec
from shared.errors import ModelError
from shared.llm.model import Finish, Message, Request, TextBlock
from shared.settings import Settings
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import examples_en, examples_es, words_en, words_es

GROUP = GroupSpec(
    name="think",
    title="Think it over with a second model",
    keywords={"es": words_es.THINK, "en": words_en.THINK},
    examples={"es": examples_es.THINK, "en": examples_en.THINK},
)

TIERS = ("think", "long")
"""The tier that is asked: the first of these with a chain of its own, else the default one."""

_MAX_TOKENS = 8_000
_SYSTEM = (
    "You are asked by another program to think about one task. You see nothing but what it sends. Work it out step by"
    " step, look for mistakes and for what speaks against your result, and answer in the language of the task: first"
    " the result, then the reasons, shortly. Say what you are not sure of, and what is missing to be sure."
)


def _no_model(settings: Settings) -> str | None:
    tiers = settings.models.tiers
    if not tiers or any(tiers.get(name) for name in (*TIERS, "default")):  # no tier at all: the rehearsal answers
        return None
    return "no model is there to think: set models.tiers.think"


def _tier(settings: Settings) -> str:
    return next((name for name in TIERS if settings.models.tiers.get(name)), "default")


@tool(
    group="think",
    effect=Effect.READ,
    untrusted=True,
    timeout_s=300.0,
    requires=_no_model,
    keywords={"es": ("piénsalo bien", "segunda opinión"), "en": ("think hard", "second opinion")},
    examples={"es": ("piénsalo bien",), "en": ("think it through",)},
)
async def think_hard(
    ctx: ToolContext,
    task: Annotated[
        str, Field(description="The whole question; it sees nothing else", min_length=1, max_length=20_000)
    ],
    context: Annotated[str, Field(description="Facts, texts and results that it needs", max_length=200_000)] = "",
) -> ToolOutput:
    """Gives a hard task to a second model, which thinks longer, and returns its answer; for what must not be wrong."""
    tier = _tier(ctx.settings)
    blocks = [TextBlock(text=f"<context>\n{context}\n</context>")] if context else []
    message = Message(role="user", blocks=(*blocks, TextBlock(text=task)))
    request = Request(model="", system=_SYSTEM, messages=(message,), max_tokens=_MAX_TOKENS)
    completion = await ctx.services.model.complete(tier, request)
    answer = completion.message.text.strip()
    if not answer:
        raise ModelError("the second model gave no answer", hint="ask it something narrower", code="no_answer")
    cut = completion.finish is Finish.LENGTH
    value: dict[str, JsonValue] = {"answer": answer, "model": completion.model, "complete": not cut}
    return ToolOutput(value, f"{answer}\n[the answer was cut for its length]" if cut else answer)
