"""What all commands share: exit codes, finding the running system, output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from ops.exits import Exit, code_of
from shared.errors import CapatazError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from shared.client import Client
    from shared.settings import Settings
    from shared.sql import Database

T = TypeVar("T")


@dataclass(frozen=True)
class Target:
    """The system that commands talk to. `origin` says how it was found."""

    redis_url: str
    origin: str


def fail(message: str, code: Exit = Exit.FAILED) -> NoReturn:
    """Says why on standard error and exits."""
    typer.echo(f"capataz: {message}", err=True)
    raise typer.Exit(int(code))


@contextmanager
def errors() -> Iterator[None]:
    """Turns our errors into a message and an exit code."""
    try:
        yield
    except CapatazError as error:
        fail(str(error), code_of(error))


def target(settings: Settings) -> Target:
    """The system in question: REDIS_URL, else the one that `capataz up` runs on the data folder.

    Raises OperatorError when there is neither.
    """
    from ops.supervisor import run_file
    from shared.errors import OperatorError

    if settings.redis.url:
        return Target(settings.redis.url, "REDIS_URL")
    data = settings.data.dir.absolute()
    if (info := run_file.read(data)) is not None:
        return Target(info.redis_url, f"{data}/run.json")
    raise OperatorError(f"no system runs on {data}", hint="start one with `capataz up`, or set REDIS_URL")


@contextmanager
def archive() -> Iterator[Database]:
    """The SQL archive that the settings name, up to date. Errors become a message and an exit code."""
    with errors():
        from shared.settings import load
        from shared.sql import Database, database_url

        found = Database(database_url(load()))
        try:
            found.migrate()
            yield found
        finally:
            found.close()


def in_archive(work: Callable[[Connection], T]) -> T:
    """What `work` returns, done in one transaction on the SQL archive."""
    with archive() as database:
        return database.run_sync(work)


def reachable() -> bool:
    """True if there is a system to talk to, and its state Redis answers. Raises ConfigError for bad settings."""
    from shared.client import Client
    from shared.errors import ConfigError, OperatorError
    from shared.settings import load

    try:
        found = Client.connect(target(load()).redis_url)
        try:
            found.ping()
        finally:
            found.close()
    except ConfigError:
        raise
    except OperatorError:
        return False
    return True


@contextmanager
def client() -> Iterator[Client]:
    """A client of the running system, which answers. Errors become exit codes."""
    with errors():
        from shared.client import Client
        from shared.settings import load

        found = Client.connect(target(load()).redis_url)
        try:
            found.ping()
            yield found
        finally:
            found.close()


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def clean(text: str) -> str:
    """`text` without control characters, which models and tools could use to rewrite a terminal."""
    return "".join(char if char in "\n\t" or (char.isprintable() or char == " ") else "�" for char in text)


def table(head: list[str], rows: list[list[str]]) -> None:
    """Aligned columns; the last one is cut to the terminal's width."""
    import shutil

    if not rows:
        return
    widths = [max(len(line[i]) for line in [head, *rows]) for i in range(len(head))]
    room = shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else 10_000
    for line in [head, *rows]:
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        typer.echo(text if len(text) <= room else text[: room - 1] + "…")
