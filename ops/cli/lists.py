"""Commands that list things: tools and runs."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.common import clean, client, errors, fail, print_json, reachable, table
from ops.exits import Exit

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
