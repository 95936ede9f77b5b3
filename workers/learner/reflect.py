"""The learner's node: reads a run, asks the `learner` tier what it teaches, checks that, and changes the playbook."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Annotated

from pydantic import Field, JsonValue

from shared.contract import Effect
from shared.llm.model import Message, Request, TextBlock
from shared.names import QUEUE_LEARNER
from shared.playbook import Add, Bullet, Scope
from shared.resemblance import Vector
from shared.sql import playbook
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.learner import guard
from workers.learner.book import change, meanings
from workers.learner.proposals import (
    ANSWER_SCHEMA,
    Proposal,
    RetireRule,
    RewordRule,
    VoteRule,
    as_meant,
    operation,
    parse,
)
from workers.learner.topics import topic
from workers.learner.trace import Trace, render

_MAX_TOKENS = 1_500
_MISUSES = 3
_EXAMPLE = (
    'An example: of `photo_rotate was refused: "degrees: 45 is not one of 90, 180, 270"` you would make the rule '
    '{"op": "add", "text": "Give photo_rotate degrees of 90, 180 or 270.", "when": "photo_rotate", '
    '"importance": "medium"}.'
)
"""Not in the prompt of every run: small models repeat examples."""


def _system() -> str:
    return files("workers.learner").joinpath("prompt.md").read_text("utf-8")


def _question(trace: Trace, bullets: Sequence[Bullet]) -> str:
    rules = "\n".join(
        f"- {one.id} ({one.importance.value}, helped {one.helpful}, harmed {one.harmful}"
        + (", shown in this run" if one.id in trace.shown else "")
        + f"): {one.text}"
        + (f" [when: {one.when_to_use}]" if one.when_to_use else "")
        for one in bullets
    )
    return f"Rules there are:\n{rules or '(none)'}\n\nTrace of the run:\n{trace.text}\n\n{_task(trace)}"


def _task(trace: Trace) -> str:
    """What there is to learn from, last and in plain words: small models forget what stands far above."""
    lines = []
    if trace.taught:
        lines.append(f'The user says how it should be done: "{trace.taught}"')
        lines.append("Make a rule of these words, unless they are about this one message only.")
    for one in trace.mended[:_MISUSES]:
        lines.append(f'{one.tool} was refused: "{one.said}". Then it worked with: {", ".join(one.worked_with or ())}.')
    if trace.mended:
        lines.append("Make a rule of how to call it right: name the tool, and no values of this one call.")
        lines.append(_EXAMPLE)
    if trace.shown:
        lines.append("Rules were shown in this run: vote for those that plainly helped or harmed.")
    return "\n".join([*lines, "Answer with the JSON object."])


async def reflect_on(ctx: ToolContext, run: str, session: str) -> dict[str, JsonValue]:
    """Learns from one run: {added, changed, refused: [reasons]}. Learning twice from a run changes nothing."""
    if not ctx.settings.playbook.enabled:
        return _outcome(0, 0, ["the playbook is switched off"])
    trace = render(await ctx.services.state.log(session), run)
    if not trace.text:
        return _outcome(0, 0, [f"the log of {session} holds nothing of run {run}"])
    if not trace.teaches:
        return _outcome(
            0, 0, ["the user corrected nothing, no rule was shown, and no call with wrong arguments was made right"]
        )
    scope = Scope.user(ctx.principal)
    book = await ctx.services.db.run(lambda conn: playbook.read(conn, scope))
    question = Message(role="user", blocks=(TextBlock(text=_question(trace, book.bullets)),))
    request = Request(
        model="", system=_system(), messages=(question,), max_tokens=_MAX_TOKENS, json_schema=ANSWER_SCHEMA
    )
    completion = await ctx.services.model.complete("learner", request)
    answered, refused = parse(completion.message.text)
    vectors = await _meanings(ctx, answered, trace, book.bullets)
    rules = {bullet.id: bullet.text for bullet in book.bullets}
    proposals = [as_meant(one, rules, vectors) for one in answered]
    evidence = guard.Evidence(trace, book.bullets, vectors)
    accepted = []
    for proposal in proposals:
        if reason := guard.refusal(proposal, evidence):
            refused.append(f"{proposal.op}: {reason}")
        else:
            accepted.append(guard.with_fitting_when(proposal, evidence))
    if not accepted:
        return _outcome(0, 0, refused)
    now_ms = ctx.now_ms
    operations = [operation(proposal, scope, run, session, now_ms) for proposal in accepted]
    applied = await change(ctx, scope, operations, run, refused, vectors)
    refused += [f"{change.operation.kind}: {change.refused}" for change in applied.changes if change.refused]
    done = [change for change in applied.changes if not change.refused]
    added = sum(isinstance(change.operation, Add) for change in done)
    return _outcome(added, len(done) - added, refused)


async def _meanings(
    ctx: ToolContext, proposals: Sequence[Proposal], trace: Trace, rules: Sequence[Bullet]
) -> dict[str, Vector] | None:
    """Vectors of what the guard compares, if there is anything new to compare."""
    new = [one for one in proposals if guard.text_of(one) and not topic(guard.text_of(one))]
    if not new:
        return None
    taught, returned = guard.texts_of(trace, rules)
    worded = [one for one in new if not isinstance(one, VoteRule | RetireRule)]
    plain = [text for one in worded for text in (one.text, one.when) if text]
    reworded = {one.id for one in worded if isinstance(one, RewordRule)}
    old = [rule.text for rule in rules if rule.id in reworded]
    return await meanings(ctx, [*map(guard.text_of, new), *plain, *old, *taught, *returned])


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
