"""`capataz up`, `down` and `doctor`: the local system as a whole."""

from __future__ import annotations

import json
import os
import signal
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ops.cli.common import errors, fail, print_json
from ops.exits import Exit


class Profile(StrEnum):
    """How many processes to start."""

    SMALL = "small"
    FULL = "full"


def up(
    profile: Annotated[
        Profile, typer.Option(help="small: one worker for all queues; full: two for tools, one for the rest.")
    ] = Profile.SMALL,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes (for tools, in the full profile).")
    ] = None,
    scenario: Annotated[
        list[Path] | None, typer.Option(exists=True, dir_okay=False, help="Scenario file for the rehearsal model.")
    ] = None,
) -> None:
    """Start a whole system here and keep it up until Ctrl-C or `capataz down`."""
    from ops.supervisor import plan

    options = {"profile": profile, "workers": workers, "scenarios": [str(path.absolute()) for path in scenario or ()]}
    command = plan.python("ops.supervisor", json.dumps(options))
    os.execve(command[0], command, {**os.environ, **plan.import_path(os.environ)})


def down(
    timeout: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for the end.")] = 60.0,
) -> None:
    """Stop the system that runs on the data folder."""
    with errors():
        from ops.supervisor import run_file
        from shared.settings import load

        data = load().data.dir.absolute()
    pid = run_file.owner(data)
    if pid is None:
        fail(f"no system runs on {data}", Exit.UNREACHABLE)
    os.kill(pid, signal.SIGTERM)
    give_up = time.monotonic() + timeout
    while run_file.owner(data) == pid:
        if time.monotonic() > give_up:
            fail(f"the system (pid {pid}) has not stopped within {timeout:g} s")
        time.sleep(0.1)
    typer.echo("stopped")


def doctor(json_: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """Say what was found, from where, and what is missing."""
    from ops.doctor import examine, render

    report = examine(dict(os.environ))
    if json_:
        print_json(report.as_dict())
    else:
        typer.echo(render(report))
    raise typer.Exit(int(Exit.OK if report.ok else Exit.FAILED))
