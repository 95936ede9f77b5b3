"""Commands for sessions: list them, read one, take a turn back, fork, switch, export, replay."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.common import archive, clean, client, errors, fail, print_json, table
from ops.exits import Exit

if TYPE_CHECKING:
    from shared.client import Client
    from shared.entries import Stored
    from shared.messages import Reply

_Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
_Session = Annotated[str, typer.Argument(help="The session.")]
_MOST_TEXT = 300
_WRONG_INPUT = ("bad_field", "missing_field", "unknown_field", "too_large")


def sessions(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
    user: Annotated[str, typer.Option(help="Whose; empty: everybody's.")] = "owner",
    all_: Annotated[bool, typer.Option("--all", help="Also those of the system's own workflows.")] = False,
    json_: _Json = False,
) -> None:
    """List sessions, the last used first."""
    with archive() as database:
        from shared.names import SYSTEM_SESSION
        from shared.sql.sessions import overview

        own = () if all_ else (SYSTEM_SESSION,)
        found = database.run_sync(lambda conn: overview(conn, user or None, limit, without=own))
    if json_:
        print_json([one._asdict() for one in found])
        return
    rows = [[one.session, one.owner, _age(one.updated_ms), str(one.runs), _line(one.begins)] for one in found]
    table(["session", "user", "last used", "runs", "begins with"], rows)


def history(session: _Session, json_: _Json = False) -> None:
    """Show what happened in a session, with the ids that `fork --at` takes."""
    with client() as found, archive() as database:
        from ops.export import read_log

        lines, _ = read_log(found, database, session)
    if not lines:
        fail(f"there is no session {session!r}")
    if json_:
        rows = [{"id": line.id, "run": line.run, "type": line.t, "value": dict(line.d)} for line in lines]
        print_json(rows)
        return
    with errors():
        entries = [line.stored() for line in lines]
    undone = {str(line.d.get("run")) for line in lines if line.t == "undone"}
    for entry in entries:
        if text := told(entry):
            typer.echo(f"{entry.id}  {'(taken back) ' if entry.run in undone else ''}{clean(text)}")


def told(entry: Stored) -> str:
    """One log entry in a line; empty for what is of no interest to people."""
    from shared import entries as e

    match entry.value:
        case e.UserMessage(kind="workflow", workflow=name):
            return f"[workflow {name}]"
        case e.UserMessage(text=text, parent=parent):
            return f"{'subagent' if parent else 'user'}: {_cut(text)}"
        case e.Steer(text=text):
            return f"user, joining: {_cut(text)}"
        case e.Assistant(message=message):
            calls = "".join(
                f" → {call.name} {json.dumps(call.arguments, ensure_ascii=False)}" for call in message.calls
            )
            return f"assistant: {_cut((message.text + calls).strip())}"
        case e.NodeEnded(node=node, result=result):
            return f"{node} {result.state}: {_cut(result.text)}"
        case e.Nudge(reason=reason):
            return f"loop: {reason}"
        case e.FactSet(name=name, row=row):
            return f"fact {name} = {_cut(json.dumps(row.get('value'), ensure_ascii=False))}"
        case e.RunEnded(finish_reason=reason):
            return f"-- {entry.run} {reason}"
        case e.Undone(run=run):
            return f"-- {run} taken back"
        case _:
            return ""


def undo(session: _Session) -> None:
    """Take the last turn of a session back. What it did stays done, and facts stay as they are."""
    with client() as found:
        reply = _done(found, lambda: found.undo(session))
    typer.echo(f"taken back: {reply.run}")


def fork(
    session: _Session,
    new: Annotated[str, typer.Argument(help="The name of the copy.")],
    at: Annotated[str, typer.Option(help="The log entry to end with; a run is never cut.")] = "",
) -> None:
    """Copy a session to a new one, to go on from there in another way."""
    with client() as found:
        reply = _done(found, lambda: found.fork(session, new, at=at))
    typer.echo(f"{new} holds {session} up to the run {reply.run}")


def switch(
    session: _Session,
    model: Annotated[str | None, typer.Option(help="A tier or provider/model; empty: the default again.")] = None,
    thinking: Annotated[str | None, typer.Option(help="show or hide the model's thinking.")] = None,
    debug: Annotated[str | None, typer.Option(help="on or off: events with the exact requests to models.")] = None,
) -> None:
    """Change how a session goes on, from its next step on."""
    with client() as found:
        _done(found, lambda: found.set(session, model=model, thinking=thinking, debug=debug))
    typer.echo("done")


def export(
    name: Annotated[str, typer.Argument(metavar="SESSION|RUN", help="What to export.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
) -> None:
    """Write a session, or one run of it, to one file: its log, and the artifacts that it names."""
    with client() as found, archive() as database:
        from ops.export import read
        from shared.export import written

        lines = list(written(read(found, database, name)))
    text = "\n".join(lines) + "\n"
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}")
    typer.echo(f"written to {output}", err=True)


def replay(
    file: Annotated[Path, typer.Argument(help="What `capataz export` has written.")], json_: _Json = False
) -> None:
    """Make the decisions of an export again, without model and tools; exit code 1 if any is another one now."""
    from ops.supervisor import plan

    done = subprocess.run(
        [*plan.python("coordinator.replay"), str(file), *(["--json"] if json_ else [])],
        env={**os.environ, **plan.import_path(os.environ)},
        check=False,
    )
    raise typer.Exit(done.returncode)


def _done(found: Client, send: Any) -> Reply:
    """The answer to a command that was carried out; says why and exits if it was not."""
    from pydantic import ValidationError

    if not found.coordinators():
        fail("no coordinator is alive to do it", Exit.UNREACHABLE)
    try:
        reply: Reply = send()
    except ValidationError as error:
        fail(f"{'.'.join(map(str, error.errors()[0]['loc']))}: {error.errors()[0]['msg']}", Exit.USAGE)
    except TimeoutError:
        fail("no answer in time; it may still be done", Exit.UNREACHABLE)
    if (why := reply.error) is not None:
        fail(why.message, Exit.USAGE if why.code in _WRONG_INPUT else Exit.FAILED)
    return reply


def _line(text: str) -> str:
    return clean(text.strip().split("\n", 1)[0])


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MOST_TEXT else flat[: _MOST_TEXT - 1] + "…"


def _age(at_ms: int) -> str:
    from ops.supervisor.report import duration

    return duration(time.time() - at_ms / 1000)
