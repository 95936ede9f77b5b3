"""The learner's node: reads a run, asks the `learner` tier what it teaches, checks that, and changes the playbook."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Annotated

from pydantic import Field, JsonValue

from shared.contract import Effect
from shared.errors import ModelError, StateConflict
from shared.llm.model import Message, Request, TextBlock
from shared.names import QUEUE_LEARNER
from shared.playbook import Add, Bullet, Scope
from shared.sql import playbook
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.learner import guard
from workers.learner.proposals import ANSWER_SCHEMA, Proposal, operation, parse
from workers.learner.trace import Trace, render

_TRIES = 5
_MAX_TOKENS = 1_500


def _system() -> str:
    return files("workers.learner").joinpath("prompt.md").read_text("utf-8")


def _question(trace: Trace, bullets: Sequence[Bullet]) -> str:
    rules = "\n".join(
        f"- {one.id} ({one.importance.value}, helped {one.helpful}, harmed {one.harmful}): {one.text}"
        + (f" [when: {one.when_to_use}]" if one.when_to_use else "")
        for one in bullets
    )
    return f"Rules there are:\n{rules or '(none)'}\n\nTrace of the run:\n{trace.text}"


async def reflect_on(ctx: ToolContext, run: str, session: str) -> dict[str, JsonValue]:
    """Learns from one run: {added, changed, refused: [reasons]}. Learning twice from a run changes nothing."""
    if not ctx.settings.playbook.enabled:
        return _outcome(0, 0, ["the playbook is switched off"])
    trace = render(await ctx.services.state.log(session), run)
    if not trace.text:
        return _outcome(0, 0, [f"the log of {session} holds nothing of run {run}"])
    scope = Scope.user(ctx.principal)
    book = await ctx.services.db.run(lambda conn: playbook.read(conn, scope))
    question = Message(role="user", blocks=(TextBlock(text=_question(trace, book.bullets)),))
    request = Request(
        model="", system=_system(), messages=(question,), max_tokens=_MAX_TOKENS, json_schema=ANSWER_SCHEMA
    )
    completion = await ctx.services.model.complete("learner", request)
    proposals, refused = parse(completion.message.text)
    accepted: list[Proposal] = []
    for proposal in proposals:
        if reason := guard.refusal(proposal, trace):
            refused.append(f"{proposal.op}: {reason}")
        else:
            accepted.append(proposal)
    if not accepted:
        return _outcome(0, 0, refused)
    applied = await _apply(ctx, scope, accepted, run, session)
    refused += [f"{change.operation.kind}: {change.refused}" for change in applied.changes if change.refused]
    done = [change for change in applied.changes if not change.refused]
    added = sum(isinstance(change.operation, Add) for change in done)
    return _outcome(added, len(done) - added, refused)


async def _apply(
    ctx: ToolContext, scope: Scope, proposals: Sequence[Proposal], run: str, session: str
) -> playbook.Applied:
    """Applies to the newest version; another learner in between only costs one more try."""
    now_ms, limit = ctx.now_ms, ctx.settings.playbook.max_bullets
    operations = [operation(proposal, scope, run, session, now_ms) for proposal in proposals]
    for _ in range(_TRIES):
        version = (await ctx.services.db.run(lambda conn: playbook.read(conn, scope))).version
        try:
            return await ctx.services.db.run(
                lambda conn, at=version: playbook.apply(  # type: ignore[misc]
                    conn, scope, operations, version=at, now_ms=now_ms, limit=limit, run=run
                )
            )
        except StateConflict:
            continue
    raise ModelError(
        "the playbook kept changing under the learner", hint="it will learn from later runs", code="conflict"
    )


def _outcome(added: int, changed: int, refused: Sequence[str]) -> dict[str, JsonValue]:
    return {"added": added, "changed": changed, "refused": [*refused]}


@tool(group="learner", name="learn:reflect", effect=Effect.IDEMPOTENT, queue=QUEUE_LEARNER, timeout_s=120.0)
async def reflect(
    ctx: ToolContext,
    run: Annotated[str, Field(description="The run to learn from")],
    session: Annotated[str, Field(description="Its session; empty: this one")] = "",
) -> ToolOutput:
    """Reflects on a finished run and updates the playbook of its user."""
    return ToolOutput(await reflect_on(ctx, run, session or ctx.session))
