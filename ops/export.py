"""Reads what an export needs: from the state Redis, or from the archive when it has expired there."""

from __future__ import annotations

import asyncio
import json
import time

from shared import export
from shared.artifacts import SqlArtifacts
from shared.client import Client
from shared.errors import ModelError, UserError
from shared.export import Blob, Export, Header, Line
from shared.sql import archive, runs, sessions
from shared.sql.engine import Database


def read(client: Client, database: Database, name: str) -> Export:
    """The export of the session or run called `name`. Raises UserError if there is neither, or it holds nothing."""
    run = _run(client, database, name)
    session = name if run is None else run
    lines, owner = read_log(client, database, session)
    if run is not None:
        lines = export.of_run(lines, name)
    if not lines:
        raise UserError(f"there is no session or run {name!r}", code="unknown", hint="`capataz sessions` lists them")
    header = Header(session=session, run="" if run is None else name, principal=owner, made_ms=int(time.time() * 1000))
    artifacts = asyncio.run(_artifacts(database, owner, export.handles(lines)))
    return Export(header, export.sealed(lines), artifacts)


def read_log(client: Client, database: Database, session: str) -> tuple[list[Line], str]:
    """A session's log and its owner; no lines if nobody knows it."""
    found = [
        Line(entry_id, fields["t"], int(fields.get("v", 1)), fields.get("run", ""), json.loads(fields["d"]))
        for entry_id, fields in client.log(session)
    ]
    if found:
        return found, client.owner(session)
    known = database.run_sync(lambda conn: sessions.get(conn, session, None))
    kept = database.run_sync(lambda conn: archive.entries(conn, session, None))
    return [Line(e.entry_id, e.type, e.v, e.run, e.data) for e in kept], known.owner if known else ""


def _run(client: Client, database: Database, name: str) -> str | None:
    """The session of the run called `name`; None if there is no such run."""
    if session := client.session_of(name):
        return session
    row = database.run_sync(lambda conn: runs.get_run(conn, name, None))
    return row.session if row else None


async def _artifacts(database: Database, owner: str, handles: list[str]) -> dict[str, Blob]:
    """Those of the artifacts that are still kept."""
    store, found = SqlArtifacts(database), {}
    for handle in handles:
        try:
            artifact = await store.get(owner, handle)
        except ModelError:
            continue  # expired, or a text that only looks like a handle
        found[handle] = Blob(artifact.data, artifact.media_type)
    return found
