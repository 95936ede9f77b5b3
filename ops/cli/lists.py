"""Commands that list things: tools, runs, workflows, the playbook; and start a workflow."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.common import Exit, clean, client, errors, fail, in_archive, print_json, reachable, table, target

if TYPE_CHECKING:
    from shared.contract import Catalogue

_Json = Annotated[bool, typer.Option("--json", help="As JSON.")]


def tools(
    all_: Annotated[
        bool, typer.Option("--all", help="Also those that are not configured, and why; works without a system.")
    ] = False,
    json_: _Json = False,
) -> None:
    """List the tools that live workers offer; with --all and no system, those that a worker here would offer."""
    with errors():
        running = reachable()
    if running or not all_:
        with client() as found:
            catalogue = found.catalogue()
    else:
        typer.echo("no system runs; this is what a worker would offer", err=True)
        catalogue = _installed()
    missing = catalogue.missing if all_ else {}
    if json_:
        print_json({"tools": [tool.model_dump(mode="json") for tool in catalogue.tools], "missing": missing})
        return
    rows = [[tool.name, tool.group, tool.effect.value, _first_line(tool.description)] for tool in catalogue.tools]
    rows += [[name, "-", "missing", clean(why)] for name, why in sorted(missing.items())]
    if not rows:
        fail("no live worker offers tools", Exit.UNREACHABLE)
    table(["tool", "group", "effect", "what it does"], rows)


def _installed() -> Catalogue:
    """The catalogue of a worker with the present settings."""
    from ops.doctor import installed

    with errors():
        catalogue, problems = installed(os.environ)
    if problems:
        typer.echo(problems, err=True)
    return catalogue


def runs(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
    json_: _Json = False,
) -> None:
    """List recent runs, newest first."""
    with client() as found:
        recent = found.runs(limit)
    if json_:
        print_json(recent)
        return
    rows = [
        [row["run"], row["session"], row["state"], _age(row["created_ms"]), _took(row), _first_line(_answer(row))]
        for row in recent
    ]
    table(["run", "session", "state", "age", "took", "answer"], rows)


workflow = typer.Typer(no_args_is_help=True, help="Deterministic workflows.")
playbook = typer.Typer(no_args_is_help=True, help="What was learned from earlier runs.")


@workflow.command("list")
def workflow_list(json_: _Json = False) -> None:
    """List the workflows that live workers offer."""
    with client() as found:
        offered = [one for one in found.catalogue().workflows if not one.hidden]
    if json_:
        print_json([one.model_dump(mode="json") for one in offered])
        return
    rows = [[one.name, one.cron or "-", " → ".join(step.id for step in one.steps), one.title] for one in offered]
    table(["workflow", "cron", "steps", "what it does"], rows)


@workflow.command("run")
def workflow_run(
    name: Annotated[str, typer.Argument(help="The workflow's name.")],
    session: Annotated[str, typer.Option("--session", "-s", help="Where its result goes.")] = "daily",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait.")] = 600.0,
    json_: _Json = False,
) -> None:
    """Run a workflow now and show its result."""
    with client() as found:
        known = [one.name for one in found.catalogue().workflows]
        if name not in known:
            fail(f"no live worker offers the workflow {name!r}; known: {', '.join(known) or 'none'}", Exit.USAGE)
        submitted = found.submit_workflow(name, session=session)

    async def follow() -> Any:
        from ops.cli.show import EventPrinter
        from ops.cli.talk import close, converse
        from shared.client import AsyncClient
        from shared.settings import load

        printer = None if json_ else EventPrinter(lambda text: _write(text), sys.stdout.isatty())
        watcher = AsyncClient.connect(target(load()).redis_url)
        try:
            reply = await converse(watcher, submitted, printer, timeout)
        except TimeoutError as error:
            fail(str(error))
        finally:
            await watcher.aclose()
        if printer is not None:
            close(printer, reply)
        return reply

    with errors():
        reply = asyncio.run(follow())
    if json_:
        print_json(reply.model_dump(mode="json"))
    raise typer.Exit(int(Exit.OK if reply.ok else Exit.FAILED))


@playbook.command("list")
def playbook_list(
    agent: Annotated[str, typer.Option(help="Whose playbook, beside the user's and the installation's.")] = "default",
    json_: _Json = False,
) -> None:
    """List the bullets in force for the local owner."""
    from shared.names import LOCAL_PRINCIPAL
    from shared.playbook import Scope
    from shared.sql.playbook import active

    scopes = [Scope.user(LOCAL_PRINCIPAL), Scope.agent(LOCAL_PRINCIPAL, agent), Scope.everyone()]
    bullets = in_archive(lambda conn: active(conn, scopes))
    if json_:
        print_json([bullet.model_dump(mode="json") for bullet in bullets])
        return
    rows = [
        [one.id, one.scope.kind, one.importance, f"+{one.helpful} -{one.harmful}", _first_line(one.text)]
        for one in bullets
    ]
    table(["id", "scope", "importance", "votes", "text"], rows)


def _first_line(text: str) -> str:
    return clean(text.strip().split("\n", 1)[0])


def _answer(row: dict[str, Any]) -> str:
    reply = row.get("reply") or {}
    error = reply.get("error") or {}
    return str(reply.get("answer") or error.get("message") or "")


def _age(created_ms: int | None) -> str:
    from ops.supervisor.report import duration

    return duration(time.time() - created_ms / 1000) if created_ms else "-"


def _took(row: dict[str, Any]) -> str:
    started, ended = row.get("started_ms"), row.get("ended_ms")
    return f"{(ended - started) / 1000:.1f}s" if started and ended else "-"


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
