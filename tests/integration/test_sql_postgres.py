"""The SQL side on a real PostgreSQL server: the tests of SQLite once more, and what only a server can do wrong."""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from sqlalchemy import Connection, text

from shared.errors import ArchiveUnavailable, OperatorError, StateConflict
from shared.sql import Database, archive
from shared.sql.archive import ArchivedEntry
from shared.sql.schema import current
from shared.sql.tables import REVISION
from tests.unit.sql import (
    test_archive,
    test_artifacts,
    test_deliveries,
    test_gym,
    test_metrics,
    test_notes,
    test_playbook,
    test_reminders,
    test_retention,
    test_runs,
    test_schedules,
    test_schema,
)

pytestmark = pytest.mark.integration

_MODULES = (
    test_archive,
    test_artifacts,
    test_deliveries,
    test_gym,
    test_metrics,
    test_notes,
    test_playbook,
    test_reminders,
    test_retention,
    test_runs,
    test_schedules,
    test_schema,
)
for _module in _MODULES:
    for _name, _value in vars(_module).items():
        if _name.startswith("test_") and "db" in inspect.signature(_value).parameters:  # they get this module's `db`
            globals()[f"{_module.__name__.rpartition('.')[2]}_{_name}"] = _value


class Server(NamedTuple):
    bin: Path
    data: Path
    port: int

    def control(self, *arguments: str) -> None:
        run_unprivileged(self.bin / "pg_ctl", "-D", self.data, "-w", *arguments)

    def start(self) -> None:
        options = f"-p {self.port} -h 127.0.0.1 -k {self.data} -c fsync=off"
        self.control("-l", str(self.data / "log"), "-o", options, "start")

    def stop(self) -> None:
        self.control("-m", "immediate", "stop")

    def url(self, database: str) -> str:
        return f"postgresql://capataz@127.0.0.1:{self.port}/{database}"


def binaries() -> Path:
    """The folder of initdb and pg_ctl. Without one the tests are skipped, but not in CI."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in folders:
        if all(os.access(folder / name, os.X_OK) for name in ("initdb", "pg_ctl")):
            return (folder / "initdb").resolve().parent
    reason = "no initdb and pg_ctl under PATH or /usr/lib/postgresql/*/bin"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def run_unprivileged(*command: str | Path) -> None:
    """PostgreSQL refuses to run as root."""
    become = ["runuser", "-u", "nobody", "--"] if os.geteuid() == 0 else []
    done = subprocess.run([*become, *map(str, command)], capture_output=True, text=True, cwd="/", timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    bin = binaries()
    folder = Path(tempfile.mkdtemp(prefix="capataz-pg-"))
    server = Server(bin, folder / "data", free_port())
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
        encoding = ("-E", "UTF8", "--locale=C.UTF-8")
        run_unprivileged(server.bin / "initdb", "-D", server.data, "-U", "capataz", "-A", "trust", "-N", *encoding)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    """A new database, gone afterwards."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE test")
    yield server.url("test")
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE test WITH (FORCE)")


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    database = Database(url)
    database.migrate()
    yield database
    database.close()


def test_many_may_migrate_at_once(url: str) -> None:
    databases = [Database(url) for _ in range(4)]
    together = threading.Barrier(len(databases))

    def migrate(database: Database) -> None:
        together.wait(timeout=30)
        database.migrate()

    with ThreadPoolExecutor(len(databases)) as threads:
        list(threads.map(migrate, databases))
    for database in databases:
        assert database.run_sync(current) == REVISION
        database.close()


def test_a_newer_schema_is_refused(db: Database) -> None:
    db.run_sync(lambda c: c.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    with pytest.raises(OperatorError, match="newer version"):
        db.migrate()


def test_transactions_of_one_process_run_side_by_side(db: Database) -> None:
    together = threading.Barrier(4)

    def meet(conn: Connection) -> int:
        conn.execute(text("SELECT 1"))
        return together.wait(timeout=30)

    async def scenario() -> list[int]:
        return await asyncio.gather(*(db.run(meet) for _ in range(4)))

    assert sorted(asyncio.run(scenario())) == [0, 1, 2, 3]


def test_a_deadlock_is_resolved_by_running_the_loser_again(db: Database) -> None:
    db.run_sync(lambda c: c.execute(text("INSERT INTO installation VALUES (1, 'a', 0), (2, 'a', 0)")))
    together = threading.Barrier(2)
    calls = []

    def update(first: int, second: int) -> None:
        waited = False

        def both(conn: Connection) -> None:
            nonlocal waited
            calls.append(first)
            conn.execute(text("UPDATE installation SET updated_ms = updated_ms + 1 WHERE id = :id"), {"id": first})
            if not waited:
                waited = True
                together.wait(timeout=30)
            conn.execute(text("UPDATE installation SET updated_ms = updated_ms + 1 WHERE id = :id"), {"id": second})

        db.run_sync(both)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(update, (1, 2), (2, 1)))
    rows = db.run_sync(lambda c: [tuple(row) for row in c.execute(text("SELECT id, updated_ms FROM installation"))])
    assert sorted(rows) == [(1, 2), (2, 2)]
    assert len(calls) == 3


def test_a_collision_that_never_ends_is_an_error_after_few_attempts(db: Database) -> None:
    calls = []

    def collides(conn: Connection) -> None:
        calls.append(1)
        conn.execute(text("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$"))

    with pytest.raises(ArchiveUnavailable, match="colliding"):
        db.run_sync(collides)
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("state", "words"),
    [("53100", "disk is full"), ("25006", "read-only"), ("57P01", "shutting down"), ("42501", "permission")],
)
def test_what_the_server_reports_is_said_with_what_to_do(db: Database, state: str, words: str) -> None:
    with pytest.raises(ArchiveUnavailable, match=words) as failure:
        db.run_sync(lambda c: c.execute(text(f"DO $$ BEGIN RAISE SQLSTATE '{state}'; END $$")))
    assert failure.value.hint


def test_a_read_only_server_is_an_error_of_the_operator(db: Database) -> None:
    def write(conn: Connection) -> None:
        conn.execute(text("SET TRANSACTION READ ONLY"))
        conn.execute(text("INSERT INTO installation VALUES (1, 'a', 0)"))

    with pytest.raises(ArchiveUnavailable, match="read-only"):
        db.run_sync(write)


def test_integrity_errors_are_conflicts(db: Database) -> None:
    with pytest.raises(StateConflict):
        db.run_sync(lambda c: c.execute(text("INSERT INTO installation VALUES (1, 'a', 0), (1, 'a', 0)")))


def test_a_missing_database_and_bad_sql_are_told_apart(server: Server, db: Database) -> None:
    missing = Database(server.url("nowhere"))
    with pytest.raises(ArchiveUnavailable, match="nowhere"):
        missing.migrate()
    missing.close()
    with pytest.raises(Exception, match="syntax error") as failure:
        db.run_sync(lambda c: c.execute(text("SELEC 1")))
    assert not isinstance(failure.value, OperatorError)


def test_a_server_that_restarts_is_an_error_while_it_is_away_and_then_works_again(server: Server, db: Database) -> None:
    batch = [ArchivedEntry("1-0", "r", "steer", 1, {"text": "\ud800 \x00"})]
    db.run_sync(lambda c: archive.append_entries(c, "s", "ana", batch, 1))
    server.stop()
    try:
        with pytest.raises(ArchiveUnavailable, match=f"127.0.0.1:{server.port}"):
            db.run_sync(lambda c: archive.entries(c, "s", "ana"))
    finally:
        server.start()
    assert db.run_sync(lambda c: archive.entries(c, "s", "ana")) == batch
