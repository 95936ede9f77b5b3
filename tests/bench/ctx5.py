"""CTX5: what compressing the outputs of tools saves, over recorded answers, pages, mails and logs.

Each record in `tests/data/outputs` goes through the tool that would have got it, then through that tool's compressor
and the cap, as in a worker. `before` is what a tool without them would show: the JSON that a service sent, without
blanks; the visible text of a page; the text of a mail with all that it quotes; a file as it is. Tokens are estimated
as for budgets. `facts` counts what a record is needed for and is still there; the measurement fails if any is lost.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from aiohttp import web
from pydantic import BaseModel, ConfigDict

from shared.artifacts import SqlArtifacts, content_handle
from shared.compress import cap, compact
from shared.llm.usage import estimate_text
from shared.settings import Settings
from shared.sql.engine import Database
from tests.bench.report import line
from workers.context import Services, ToolContext
from workers.declare import Registry, Tool
from workers.tools import mail
from workers.tools.mail_box import Fetched
from workers.tools.mail_text import parse

FOLDER = Path(__file__).parents[1] / "data" / "outputs"
_MEDIA = {".json": "application/json", ".html": "text/html", ".log": "text/plain"}


class Record(BaseModel):
    """One line of `records.yaml`: the file, the call that it stands for, and the texts that must be left."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    file: str
    tool: str
    args: dict[str, Any] = {}
    needed: tuple[str, ...]

    @property
    def data(self) -> bytes:
        """What came from outside."""
        return (FOLDER / self.file).read_bytes()


@dataclass(frozen=True)
class Measured:
    """A record's tokens without and with compression, and the needed texts that got lost."""

    record: Record
    before: int
    after: int
    lost: tuple[str, ...]


def records() -> list[Record]:
    """All records."""
    rows = yaml.safe_load((FOLDER / "records.yaml").read_text("utf-8"))
    return [Record.model_validate(row) for row in rows]


def visible(html: str) -> str:
    """All text of a page that is not code, a line for each piece."""
    from lxml import html as markup  # type: ignore[import-untyped]  # late: large

    tree: Any = markup.fromstring(html)
    for node in tree.xpath("//script|//style|//head"):
        node.drop_tree()
    return "\n".join(text.strip() for text in tree.itertext() if text.strip())


def uncompressed(record: Record) -> str:
    """What a model would read of a record if nobody shortened it."""
    text = record.data.decode()
    kinds: Mapping[str, Callable[[], str]] = {
        ".json": lambda: compact(json.loads(text)),
        ".html": lambda: visible(text),
        ".eml": lambda: parse(record.data).text,
    }
    return kinds.get(Path(record.file).suffix, lambda: text)()


def shown(tool: Tool, output: str) -> str:
    """What a worker would show of a tool's output."""
    text = tool.compress(output) if tool.compress is not None else output
    return cap(text, handle=content_handle(output.encode()))[0]


@asynccontextmanager
async def _site() -> AsyncIterator[str]:
    """The records on a local web server; `/search` answers as a search server does."""

    async def serve(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        file = FOLDER / ("search.json" if name == "search" else name)
        return web.Response(body=file.read_bytes(), headers={"Content-Type": _MEDIA[file.suffix]})

    app = web.Application()
    app.router.add_get("/{name}", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _context(url: str, database: Database) -> ToolContext:
    settings = Settings.model_validate(
        {
            "web": {"allow_private": ["127.0.0.1"], "search": "searxng", "searxng_url": url},
            "workspace": {"dir": FOLDER},
            "workflows": {"timezone": "Europe/Madrid"},
        }
    )
    nothing: Any = None  # neither session state nor model: none of the tools asks them
    services = Services(database, SqlArtifacts(database, clock=time.time), nothing, nothing)
    deadline_ms = int((time.time() + 60) * 1000)
    return ToolContext("bench", "s", "r", "r.0.0.0", "r.0.0.0", deadline_ms, settings, services)


async def _measured(record: Record, tool: Tool, ctx: ToolContext, url: str) -> Measured:
    where = {"web_fetch": {"url": f"{url}/{record.file}"}, "file_read": {"path": record.file}}

    async def from_disk(*_: object) -> tuple[Fetched, Any]:
        return Fetched(uid=1, size=len(record.data), flags=frozenset(), data=record.data), parse(record.data)

    with mock.patch.object(mail, "read_one", from_disk):  # what the mailbox gives; the rest is the tool's own
        output = await tool.call(ctx, {**where.get(record.tool, {}), **record.args})
    text = shown(tool, output.seen)
    lost = tuple(fact for fact in record.needed if fact not in text)
    return Measured(record, estimate_text(uncompressed(record)), estimate_text(text), lost)


async def measured() -> list[Measured]:
    """All records through their tools."""
    registry = Registry()
    registry.load_builtin()
    found = []
    with tempfile.TemporaryDirectory(prefix="cpz-") as folder:
        database = Database(f"sqlite:///{folder}/archive.db")
        database.migrate()
        try:
            async with _site() as url:
                for record in records():
                    tool = registry.get(record.tool)
                    if tool is None:
                        raise RuntimeError(f"there is no tool {record.tool}; correct records.yaml")
                    found.append(await _measured(record, tool, _context(url, database), url))
        finally:
            database.close()
    return found


def _print(kind: str, found: list[Measured]) -> None:
    before, after = sum(one.before for one in found), sum(one.after for one in found)
    needed = sum(len(one.record.needed) for one in found)
    left = needed - sum(len(one.lost) for one in found)
    line("CTX5", kind=kind, before=before, after=after, saved=1 - after / before, facts=f"{left}/{needed}")


def measure() -> None:
    """Prints a line for each kind and one for all. Raises RuntimeError if a fact is lost."""
    found = asyncio.run(measured())
    for kind in dict.fromkeys(one.record.kind for one in found):
        _print(kind, [one for one in found if one.record.kind == kind])
    _print("all", found)
    if lost := [f"{one.record.file}: {fact}" for one in found for fact in one.lost]:
        raise RuntimeError("compression lost what is needed: " + "; ".join(lost))
