"""The entry point of `capataz`. Commands import what they need when they run, so that `--help` is quick."""

from __future__ import annotations

import sys
from importlib import metadata

import typer

from ops.cli import (
    approvals,
    costs,
    demo,
    lists,
    permissions,
    playbook,
    routes,
    schedules,
    sessions,
    system,
    talk,
    trace,
    workflows,
)

app = typer.Typer(
    name="capataz",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A distributed, durable system for AI agents. Exit codes: 0 ok, 1 failed, 2 usage, 3 system not reachable.",
)

app.command()(system.up)
app.command()(system.down)
app.command()(talk.ask)
app.command()(talk.cancel)
app.command()(approvals.approvals)
app.command()(approvals.approve)
app.command()(approvals.deny)
app.command()(approvals.answer)
app.command()(lists.tools)
app.command()(lists.runs)
app.command()(sessions.sessions)
app.command()(sessions.history)
app.command()(sessions.undo)
app.command()(sessions.fork)
app.command("set")(sessions.switch)
app.command()(sessions.export)
app.command()(sessions.replay)
app.command()(trace.trace)
app.command()(costs.costs)
app.command()(system.doctor)
app.command()(demo.demo)
app.add_typer(workflows.workflow, name="workflow")
app.add_typer(playbook.playbook, name="playbook")
app.add_typer(permissions.permissions, name="permissions")
app.add_typer(schedules.schedules, name="schedules")
app.add_typer(routes.route, name="route")


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(installed_version())


def installed_version() -> str:
    """Our version; of a checkout that is not installed, that it is none."""
    try:
        return metadata.version("capataz")
    except metadata.PackageNotFoundError:
        return "not installed"


def main() -> None:
    """The console script."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
