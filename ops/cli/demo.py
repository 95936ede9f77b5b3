"""`capataz demo`: a whole system in a temporary folder, one research task over shipped documents, a checked answer."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ops.cli.common import errors
from ops.exits import Exit

if TYPE_CHECKING:
    from ops.supervisor.run_file import RunInfo
    from ops.supervisor.supervisor import Supervisor
    from shared.messages import Reply
    from shared.settings import Settings

_SHIPPED = resources.files("ops") / "demo"
_WORKERS = 2
_START_S = 60.0
_ANSWER_S = 300.0
_LOG_LINES = 8


@dataclass(frozen=True)
class Outcome:
    """How the demo went. `facts` of `expected` figures were in the answer; `reason` is empty if all is well."""

    model: str
    nodes: int
    workers: int
    seconds: float
    facts: int
    expected: int
    reason: str = ""

    @property
    def line(self) -> str:
        """The last line of the demo's output."""
        if self.reason:
            return f"demo: failed {self.reason}"
        return f"demo: ok model={self.model} nodes={self.nodes} workers={self.workers} seconds={self.seconds:.1f}"


def demo(
    keep: bool = typer.Option(False, "--keep", help="Leave the folder with data, logs and workspace."),
) -> None:
    """Show the whole system at work on a research task, and check its answer."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="capataz-demo-"))
    try:
        with errors():
            outcome = asyncio.run(_demo(folder, began))
        keep = keep or bool(outcome.reason)  # somebody will want to look at the logs
    finally:
        if keep:
            typer.echo(f"data, logs and workspace are left in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    typer.echo(outcome.line)
    raise typer.Exit(int(Exit.FAILED if outcome.reason else Exit.OK))


def found_facts(answer: str, facts: list[dict[str, Any]]) -> list[str]:
    """The names of the facts that `answer` states: each has `any_of`, spellings of which one must occur."""
    return [fact["name"] for fact in facts if any(spelling in answer for spelling in fact["any_of"])]


async def _demo(folder: Path, began: float) -> Outcome:
    from ops.supervisor.report import LineReporter
    from ops.supervisor.supervisor import Options, Supervisor
    from shared.settings import load

    settings = _own_settings(load(), folder)
    _copy_documents(settings.workspace.dir)
    with open(folder / "up.log", "w", encoding="utf-8") as log:  # noqa: ASYNC230 - a local file, once
        options = Options(workers=_WORKERS, beat=False, flower=False)
        supervisor = Supervisor(settings, options, LineReporter(log), _own_environment())
        running = asyncio.create_task(supervisor.run())
        talking = asyncio.create_task(_talk(supervisor, settings, began))
        try:
            await asyncio.wait({running, talking}, return_when=asyncio.FIRST_COMPLETED)
            if not talking.done():
                talking.cancel()
                await running  # says why it ended, if by an error
                return Outcome("-", 0, 0, 0.0, 0, 0, "stopped before the end")
            return talking.result()
        finally:
            supervisor.request_stop()
            await asyncio.gather(running, talking, return_exceptions=True)


def _own_settings(settings: Settings, folder: Path) -> Settings:
    """The user's settings, with everything that the demo would leave behind moved into its folder."""
    from shared.settings import DataSettings, RedisSettings, SqlSettings, WorkspaceSettings

    return settings.model_copy(
        update={
            "data": DataSettings(dir=folder / "data"),
            "workspace": WorkspaceSettings(dir=folder / "workspace"),
            "redis": RedisSettings(),
            "sql": SqlSettings(),
        }
    )


def _own_environment() -> dict[str, str]:
    """The environment without addresses of another system."""
    ours = ("REDIS_URL", "CAPATAZ_REDIS__", "CAPATAZ_SQL__", "CAPATAZ_DATA__", "CAPATAZ_WORKSPACE__")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def _copy_documents(workspace: Path) -> None:
    workspace.mkdir(parents=True)
    for document in (_SHIPPED / "documents").iterdir():
        if document.is_file():
            (workspace / document.name).write_bytes(document.read_bytes())


async def _talk(supervisor: Supervisor, settings: Settings, began: float) -> Outcome:
    """The demo's conversation, once the system is ready."""
    from ops.cli.show import EventPrinter
    from ops.cli.talk import close, converse
    from shared.client import AsyncClient

    try:
        async with asyncio.timeout(_START_S):
            info: RunInfo = await supervisor.ready()
    except TimeoutError:
        dying = _tell_who_dies(supervisor)
        return Outcome("-", 0, 0, 0.0, 0, 0, f"not ready within {_START_S:g} s: {', '.join(dying) or 'no heartbeat'}")
    typer.echo(
        f"system     ready in {time.monotonic() - began:.1f} s: 1 coordinator, {_WORKERS} workers, strict durability"
    )
    rehearsal = supervisor.rehearsal
    typer.echo(
        f"model      {info.model}"
        + (" (a REHEARSAL: scripted, no real model; set an API key for one)" if rehearsal else "")
    )
    prompt = (_SHIPPED / "prompt.txt").read_text("utf-8").strip()
    typer.echo(
        f"workspace  {', '.join(sorted(path.name for path in settings.workspace.dir.iterdir()))}\n\n> {prompt}\n"
    )
    printer = EventPrinter(_write, sys.stdout.isatty())
    client = AsyncClient.connect(info.redis_url)
    try:
        reply = await converse(client, await client.submit(prompt), printer, _ANSWER_S)
    except TimeoutError as error:
        return Outcome(info.model, len(printer.nodes), len(printer.workers), 0.0, 0, 0, str(error))
    finally:
        await client.aclose()
    close(printer, reply)
    return _judge(reply, printer, info.model, rehearsal=rehearsal, seconds=time.monotonic() - began)


def _tell_who_dies(supervisor: Supervisor) -> list[str]:
    """The names of processes that do not stay up; prints the end of their logs."""
    dying = [child for child in supervisor.children if child.row.restarts]
    for child in dying:
        lines = child.log_file.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:]
        typer.echo("\n".join([f"-- {child.row.name}: {child.row.note or child.row.state}", *lines]))
    return [child.row.name for child in dying]


def _judge(reply: Reply, printer: Any, model: str, *, rehearsal: bool, seconds: float) -> Outcome:
    """A rehearsal must state every fact; of a real model the number is only told."""
    facts = json.loads((_SHIPPED / "facts.json").read_text("utf-8"))["facts"]
    found = found_facts(reply.answer, facts)
    typer.echo(f"\nfacts      {len(found)} of {len(facts)} figures from the documents are in the answer")
    reason = ""
    if not reply.ok:
        reason = f"the run failed: {reply.error.message if reply.error else reply.finish_reason}"
    elif bad := [node for node, state in printer.nodes.items() if state != "done"]:
        reason = f"{len(bad)} of {len(printer.nodes)} nodes did not succeed" if rehearsal else ""
    if not reason and rehearsal and len(found) < len(facts):
        lost = [fact["name"] for fact in facts if fact["name"] not in found]
        reason = f"the answer lacks {', '.join(lost)}"
    return Outcome(model, len(printer.nodes), len(printer.workers), seconds, len(found), len(facts), reason)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
