"""`capataz ask`: one message, its events as they come, its answer."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.common import clean, client, errors, fail, print_json, target
from ops.cli.prompts import Prompts
from ops.exits import Exit

if TYPE_CHECKING:
    from ops.cli.show import EventPrinter
    from shared.client import AsyncClient, Submitted
    from shared.messages import Reply

_LAST_EVENT_S = 2.0


def ask(
    text: Annotated[str, typer.Argument(help="What to ask; `-` reads standard input.")],
    session: Annotated[str | None, typer.Option("--session", "-s", help="Go on in this session.")] = None,
    agent: Annotated[str | None, typer.Option(help="The agent that answers.")] = None,
    model: Annotated[str | None, typer.Option(help="Force this model (provider/model).")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait; the run goes on after that.")] = 900.0,
    json_: Annotated[bool, typer.Option("--json", help="Print only the reply, as JSON.")] = False,
) -> None:
    """Ask something and watch the answer come."""
    fields = {"agent": agent, "model": model}
    with client() as found:
        if not found.coordinators():
            typer.echo("capataz: no coordinator is alive; the message waits until one is", err=True)
    with errors():
        reply = asyncio.run(_ask(sys.stdin.read() if text == "-" else text, session, fields, timeout, quiet=json_))
    if json_:
        print_json(reply.model_dump(mode="json"))
    raise typer.Exit(int(Exit.OK if reply.ok else Exit.FAILED))


def cancel(
    session: Annotated[str | None, typer.Option("--session", "-s", help="Cancel what runs in this session.")] = None,
    run: Annotated[str | None, typer.Option(help="Cancel this run.")] = None,
) -> None:
    """Cancel a run."""
    if not (session or run):
        fail("name --session or --run", Exit.USAGE)
    with client() as found:
        reply = found.cancel(session=session, run=run)
    if not reply.ok:
        fail(reply.error.message if reply.error else "not cancelled")
    typer.echo("cancelled")


async def _ask(text: str, session: str | None, fields: dict[str, Any], timeout: float, *, quiet: bool) -> Reply:
    from pydantic import ValidationError

    from ops.cli.show import EventPrinter
    from shared.client import AsyncClient
    from shared.settings import load

    printer = None
    if not quiet:
        colour = sys.stdout.isatty()
        printer = EventPrinter(_write, colour)
    found = AsyncClient.connect(target(load()).redis_url)
    try:
        submitted = await found.submit(text, session=session, **fields)
        reply = await converse(found, submitted, printer, timeout)
    except ValidationError as error:
        fail(f"{error.errors()[0]['loc']}: {error.errors()[0]['msg']}", Exit.USAGE)
    except TimeoutError as error:
        fail(str(error))
    finally:
        await found.aclose()
    if printer is not None:
        close(printer, reply)
    return reply


async def converse(
    found: AsyncClient, submitted: Submitted, printer: EventPrinter | None, timeout: float = 900.0
) -> Reply:
    """Waits for the reply while `printer` shows the events of the submission's run. Raises TimeoutError."""
    watching = asyncio.create_task(_watch(found, submitted, printer)) if printer is not None else None
    try:
        reply = await found.wait(submitted, timeout)
        if watching is not None and reply.run:
            # The reply and the last event are written together, but they are read on two connections.
            await asyncio.wait({watching}, timeout=_LAST_EVENT_S)
        return reply
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


async def _watch(found: AsyncClient, submitted: Submitted, printer: EventPrinter) -> None:
    """Shows the events of the run that this submission became, to its end."""
    run, agents = "", set[str]()
    prompts = Prompts(found, printer) if sys.stdin.isatty() and sys.stdout.isatty() else None
    try:
        async for event in found.stream(submitted.session, after=_just_before(submitted.entry)):
            if event.type == "message.accepted" and event.data.get("id") == submitted.id:
                run = event.run
            if event.type == "subagent.started" and event.run in (run, *agents):
                agents.add(str(event.data.get("run")))
            if run and event.run in (run, *agents):
                printer.show(event)
                if prompts is not None:
                    prompts.see(event)
                if event.run == run and event.type in ("run.finished", "run.failed"):
                    return
    finally:
        if prompts is not None:
            prompts.close()


def _just_before(entry: str) -> str:
    """A stream id that is older than everything that followed the inbox entry `entry`: same server, same clock."""
    milliseconds, _, _ = entry.partition("-")
    return f"{max(0, int(milliseconds) - 1)}-0"


def close(printer: EventPrinter, reply: Reply) -> None:
    """Prints the answer, where it was not streamed, and the line of figures at the end."""
    if not reply.ok:
        error = reply.error
        printer.line(f"failed: {error.message if error else reply.finish_reason}")
        if error and error.hint:
            printer.line(error.hint)
    elif reply.answer.strip() != printer.streamed.strip():
        printer.line(reply.answer)
    tokens = sum(value for value in reply.usage.values() if isinstance(value, int) and not isinstance(value, bool))
    cost = f" · ${reply.cost}" if reply.cost is not None else ""
    parts = [reply.finish_reason, clean(reply.model), f"{reply.seconds:.1f} s", f"{tokens} tokens{cost}"]
    printer.line("-- " + " · ".join(part for part in parts if part) + f" · session {reply.session}", dim=True)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
