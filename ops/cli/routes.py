"""`capataz route`: what routing chooses for a message, and how well it does on labelled ones.

Routing is the coordinator's, so each command runs one of its modules in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.common import client, errors, reachable

if TYPE_CHECKING:
    from shared.contract import Catalogue

route = typer.Typer(no_args_is_help=True, help="Tool routing.")

_Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
_WordsOnly = Annotated[bool, typer.Option("--words-only", help="Without the sentence encoder.")]


@route.command("eval", context_settings={"ignore_unknown_options": True})
def evaluate(
    args: Annotated[
        list[str] | None, typer.Argument(help="Labelled JSONL files and options of the evaluation.")
    ] = None,
) -> None:
    """Measure routing on labelled files."""
    _run("coordinator.routing", args or [])


@route.command()
def everyday(
    file: Annotated[
        Path | None, typer.Argument(help="Labelled messages as JSONL; by default those that come with the source.")
    ] = None,
    words_only: _WordsOnly = False,
    json_: _Json = False,
) -> None:
    """Measure how everyday messages are routed over all built-in tools: layers, accuracy, tokens spared."""
    options = _options(words_only, json_)
    _run("coordinator.routing.everyday", [*options, "measure", *([str(file)] if file else [])], _catalogue(whole=True))


@route.command()
def explain(
    text: Annotated[str, typer.Argument(help="The message.")],
    after: Annotated[
        list[str] | None, typer.Option("--after", help="A group that the turn before was about; may be repeated.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Over all built-in tools, configured or not.")] = False,
    words_only: _WordsOnly = False,
    json_: _Json = False,
) -> None:
    """Say which tools a message would get, and why: of live workers, or of a worker here if no system runs."""
    groups = [argument for name in after or () for argument in ("--after", name)]
    options = _options(words_only, json_)
    _run("coordinator.routing.everyday", [*options, "explain", *groups, "--", text], _catalogue(whole=all_))


def _options(words_only: bool, json_: bool) -> list[str]:
    return [*(["--words-only"] if words_only else []), *(["--json"] if json_ else [])]


def _catalogue(*, whole: bool) -> Catalogue:
    """That of live workers; without any, or as a `whole`, what a worker here would offer."""
    from ops.doctor import installed

    with errors():
        if not whole and reachable():
            with client() as found:
                return found.catalogue()
        catalogue, problems = installed(os.environ, whole=whole)
    if problems:
        typer.echo(problems, err=True)
    return catalogue


def _run(module: str, args: Sequence[str], catalogue: Catalogue | None = None) -> None:
    """Runs the module with the catalogue as its input, and ends with its exit code."""
    from ops.supervisor import plan

    # Read when numpy is imported: more threads spin on busy hosts.
    env = {**os.environ, **plan.import_path(os.environ), "OPENBLAS_NUM_THREADS": "1"}
    given = None if catalogue is None else catalogue.model_dump_json().encode()
    done = subprocess.run([*plan.python(module), *args], env=env, input=given, check=False)
    raise typer.Exit(done.returncode)
