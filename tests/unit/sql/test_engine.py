import asyncio
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from shared.errors import ArchiveUnavailable, ConfigError, OperatorError, StateConflict
from shared.settings import DataSettings, Settings, SqlSettings
from shared.sql import Database, database_url
from shared.sql.schema import MIGRATIONS
from shared.sql.tables import REVISION


def sql(statement: str) -> Callable[[Connection], list[tuple[object, ...]]]:
    def run(conn: Connection) -> list[tuple[object, ...]]:
        result = conn.execute(text(statement))
        return [tuple(row) for row in result] if result.returns_rows else []

    return run


def test_sqlite_is_configured_for_several_processes(db: Database) -> None:
    assert db.run_sync(sql("PRAGMA journal_mode")) == [("wal",)]
    assert db.run_sync(sql("PRAGMA foreign_keys")) == [(1,)]
    assert db.run_sync(sql("PRAGMA synchronous")) == [(2,)]  # FULL
    assert db.run_sync(sql("PRAGMA busy_timeout")) == [(5000,)]


def test_file_and_folder_are_private(db: Database, tmp_path: Path) -> None:
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "data" / "archive.db").stat().st_mode) == 0o600


def test_default_url_is_a_file_in_the_data_folder_and_an_explicit_one_wins(tmp_path: Path) -> None:
    folder = tmp_path / "with space#and?marks"
    settings = Settings.model_construct(data=DataSettings(dir=folder), sql=SqlSettings())
    database = Database(database_url(settings))
    database.migrate()
    database.close()
    assert (folder / "capataz.db").exists()
    explicit = settings.model_copy(update={"sql": SqlSettings(url="postgresql://host/db")})
    assert database_url(explicit) == "postgresql://host/db"


def test_a_function_that_raises_leaves_nothing(db: Database) -> None:
    def fails(conn: Connection) -> None:
        sql("INSERT INTO installation VALUES (1, 'e', 0)")(conn)
        raise LookupError("stop")

    with pytest.raises(LookupError):
        db.run_sync(fails)
    assert db.run_sync(sql("SELECT * FROM installation")) == []


def test_run_leaves_the_event_loop_free(db: Database) -> None:
    async def scenario() -> int:
        loop = asyncio.get_running_loop()
        released = asyncio.Event()

        def waits_for_the_loop(conn: Connection) -> int:
            asyncio.run_coroutine_threadsafe(_set(released), loop).result(timeout=10)
            return 7

        return await db.run(waits_for_the_loop)

    async def _set(event: asyncio.Event) -> None:
        event.set()

    assert asyncio.run(scenario()) == 7


def test_disk_full_is_said_and_passes_when_there_is_room_again(db: Database, tmp_path: Path) -> None:
    def fill(conn: Connection) -> None:
        for number in range(1000):
            conn.execute(
                text("INSERT INTO artifacts VALUES ('p', :sha, 'text/plain', 9, 0, NULL, zeroblob(100000))"),
                {"sha": str(number)},
            )

    db.run_sync(sql("PRAGMA max_page_count = 100"))
    with pytest.raises(ArchiveUnavailable) as failure:
        db.run_sync(fill)
    assert "full" in failure.value.message
    assert str(tmp_path / "data" / "archive.db") in failure.value.message
    assert "free space" in failure.value.hint
    assert db.run_sync(sql("SELECT count(*) FROM artifacts")) == [(0,)]

    db.run_sync(sql("PRAGMA max_page_count = 1000000"))
    db.run_sync(fill)
    assert db.run_sync(sql("SELECT count(*) FROM artifacts")) == [(1000,)]


def test_a_lock_that_stays_is_an_error_and_one_that_goes_is_not(db: Database, tmp_path: Path) -> None:
    path = tmp_path / "data" / "archive.db"
    impatient = Database(f"sqlite:///{path}?timeout=0.01")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ArchiveUnavailable, match="locked"):
        impatient.run_sync(sql("SELECT 1"))
    other.execute("COMMIT")
    assert impatient.run_sync(sql("SELECT 1")) == [(1,)]
    other.close()
    impatient.close()


def test_a_transaction_that_meets_a_lock_is_run_again_whole(db: Database, tmp_path: Path) -> None:
    calls = []

    def once_busy(conn: Connection) -> int:
        calls.append(1)
        sql(f"INSERT INTO installation VALUES ({len(calls)}, 'e', 0)")(conn)
        if len(calls) == 1:
            # Another connection of the same transaction's thread cannot get the lock that it holds.
            rival = Database(f"sqlite:///{tmp_path}/data/archive.db?timeout=0.01")
            with rival._engine.begin():
                pytest.fail("two writers at once")
        return len(calls)

    assert db.run_sync(once_busy) == 2
    assert db.run_sync(sql("SELECT id FROM installation")) == [(2,)]


def test_integrity_errors_are_conflicts(db: Database) -> None:
    db.run_sync(sql("INSERT INTO installation VALUES (1, 'e', 0)"))
    with pytest.raises(StateConflict):
        db.run_sync(sql("INSERT INTO installation VALUES (1, 'f', 0)"))


def test_bad_sql_is_our_defect_and_not_hidden(db: Database) -> None:
    with pytest.raises(Exception, match="no such column") as failure:
        db.run_sync(sql("SELECT missing FROM runs"))
    assert not isinstance(failure.value, OperatorError)


@pytest.mark.parametrize(
    ("content", "word"), [(b"this is not a database, only text of some length " * 40, "not an SQLite database")]
)
def test_a_file_of_another_kind_is_named(tmp_path: Path, content: bytes, word: str) -> None:
    path = tmp_path / "archive.db"
    path.write_bytes(content)
    with pytest.raises(ArchiveUnavailable, match=word):
        Database(f"sqlite:///{path}").migrate()
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveUnavailable, match=r"file/archive\.db"):
        Database(f"sqlite:///{tmp_path}/file/archive.db").migrate()


def test_without_a_schema_it_says_so(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/archive.db")
    with pytest.raises(ArchiveUnavailable, match="a table is missing"):
        database.run_sync(sql("SELECT * FROM runs"))
    database.close()


@pytest.mark.parametrize(
    "url", ["", "nonsense", "sqlite://", "sqlite:///:memory:", "mysql://host/db", "sqlite+aiosqlite:///x"]
)
def test_unusable_urls_are_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        Database(url)


def test_passwords_are_not_shown() -> None:
    database = Database("postgres://user:s3cret@127.0.0.1:1/db")
    assert "s3cret" not in database.where
    with pytest.raises(ArchiveUnavailable) as failure:
        database.run_sync(sql("SELECT 1"))
    assert "127.0.0.1:1" in str(failure.value)
    assert "s3cret" not in str(failure.value)


def test_migrating_again_changes_nothing_and_a_newer_schema_is_refused(db: Database) -> None:
    db.migrate()
    db.run_sync(sql("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(OperatorError, match="newer version") as failure:
        db.migrate()
    assert failure.value.code == "archive_schema"


def test_a_migration_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/archive.db")
    database.run_sync(sql("CREATE TABLE reminders (id INTEGER)"))  # in the way of the first migration
    with pytest.raises(Exception, match="already exists"):
        database.migrate()
    assert database.run_sync(sql("SELECT name FROM sqlite_master WHERE type = 'table'")) == [("reminders",)]
    database.close()


def test_the_code_knows_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == REVISION


def test_many_processes_may_migrate_at_once_from_any_folder(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    program = (
        f"import sys; sys.path.insert(0, {str(root)!r}); from shared.sql import Database; "
        f"sys.stdin.read(1); Database('sqlite:///{tmp_path}/new/archive.db').migrate()"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for process in processes:  # all wait for their line, so that they start together
        assert process.stdin is not None
        process.stdin.write(b"x")
        process.stdin.flush()
    for process in processes:
        _, complaints = process.communicate(timeout=60)
        assert process.returncode == 0, complaints.decode()


def test_readers_wait_for_no_writer_and_cannot_write(db: Database) -> None:
    db.run_sync(sql("CREATE TABLE t (x INTEGER)"))
    asyncio.run(_read_beside_a_writer(db))


async def _read_beside_a_writer(db: Database) -> None:
    begun, end = threading.Event(), threading.Event()

    def write(conn: Connection) -> None:
        conn.execute(text("INSERT INTO t VALUES (1)"))
        begun.set()
        end.wait(10)

    writing = asyncio.ensure_future(db.run(write))
    assert await asyncio.to_thread(begun.wait, 10)
    assert await db.read(sql("SELECT * FROM t")) == []  # what is not committed is not seen
    end.set()
    await writing
    assert await db.read(sql("SELECT * FROM t")) == [(1,)]
    with pytest.raises((ArchiveUnavailable, OperationalError)):
        await db.read(sql("INSERT INTO t VALUES (2)"))
