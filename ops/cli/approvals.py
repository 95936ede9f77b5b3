"""`capataz approvals`, `approve`, `deny`, `answer`: what waits for a person, and what the person says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.common import clean, client, fail, print_json, table
from ops.exits import Exit

if TYPE_CHECKING:
    from shared.entries import Waiting
    from shared.messages import Reply

_Node = Annotated[str, typer.Argument(help="The node that waits, as `capataz approvals` names it.")]


def approvals(
    session: Annotated[str | None, typer.Option("--session", "-s", help="Only of this session.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List approvals and questions that wait for a person."""
    with client() as found:
        waiting = found.waiting(session)
    if json_:
        print_json([wait.model_dump(mode="json") for wait in waiting])
        return
    table(["node", "waits for", "what", "why"], [_row(wait) for wait in waiting])


def _row(wait: Waiting) -> list[str]:
    if wait.kind == "question":
        options = "".join(f"\n{n}. {option}" for n, option in enumerate(wait.options, 1))
        return [wait.node, "an answer", clean(wait.text + options), f"recommended: {clean(wait.recommended or '-')}"]
    return [wait.node, "approval", clean(f"{wait.tool} {json.dumps(wait.args, ensure_ascii=False)}"), clean(wait.text)]


def approve(
    node: _Node,
    session: Annotated[bool, typer.Option("--session", help="Also such calls in this session.")] = False,
    always: Annotated[bool, typer.Option("--always", help="Also such calls from now on.")] = False,
) -> None:
    """Let a call run that waits for approval."""
    if session and always:
        fail("either --session or --always", Exit.USAGE)
    with client() as found:
        _said(found.approve(node, "always" if always else "session" if session else "once"), "approved")


def deny(node: _Node, reason: Annotated[str, typer.Argument(help="Told to the model.")] = "") -> None:
    """Refuse a call that waits for approval."""
    with client() as found:
        _said(found.deny(node, reason), "denied")


def answer(node: _Node, text: Annotated[str, typer.Argument(help="The answer, or the number of an option.")]) -> None:
    """Answer a question of a run."""
    with client() as found:
        _said(found.answer(node, text), "answered")


def _said(reply: Reply, done: str) -> None:
    if not reply.ok:
        fail(reply.error.message if reply.error else "not delivered")
    typer.echo(done)
