"""`Database`: one transaction per function, the schema, and the seam where SQL exceptions become ours."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, TimeoutError

from shared.errors import ArchiveUnavailable, ConfigError
from shared.settings import Settings
from shared.sql.faults import is_transient, translate
from shared.sql.schema import upgrade

T = TypeVar("T")

_ATTEMPTS: Final = 3
_POSTGRES_CONNECTIONS: Final = 4

# The URL's own parameters win over these. Seconds, but for tcp_user_timeout: without them a call to a host that
# has gone away hangs for a quarter of an hour and more.
_SQLITE_ARGUMENTS: Final[dict[str, Any]] = {"timeout": 5.0}
_POSTGRES_ARGUMENTS: Final[dict[str, Any]] = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # milliseconds
    "application_name": "capataz",
}


def database_url(settings: Settings) -> str:
    """The archive's URL: the one that is set, else SQLite in the data folder."""
    file = str((settings.data.dir / "capataz.db").absolute())
    return settings.sql.url or URL.create("sqlite", database=file).render_as_string()


class Database:
    """An SQL database, SQLite or PostgreSQL by URL, safe for use by many threads.

    Use one per process, made after any fork. Every function given to `run`, `read` or `run_sync` is one transaction,
    which is run again, at most three times, when it collides with another; so it must not have effects
    elsewhere. It must not call any of them itself.
    """

    def __init__(self, url: str) -> None:
        """Connects to nothing yet. Raises ConfigError for a URL that is malformed or of another kind."""
        self._url = _parse(url)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        self.where = str(self._path) if self.is_sqlite else self._url.render_as_string(hide_password=True)
        width = 1 if self.is_sqlite else _POSTGRES_CONNECTIONS
        self._engine = self._readers = self._connect(width)
        self._threads = self._reading = ThreadPoolExecutor(width, thread_name_prefix="sql")
        if self.is_sqlite:
            event.listen(self._engine, "connect", _sqlite_connected)
            event.listen(self._engine, "begin", _sqlite_begin)
            # Readers see what is committed, and wait for no writer: neither for its disk nor for its lock.
            self._readers = self._connect(1)
            self._reading = ThreadPoolExecutor(1, thread_name_prefix="sql-read")
            event.listen(self._readers, "connect", _sqlite_reader_connected)
            event.listen(self._readers, "begin", _sqlite_begin_reading)

    def _connect(self, width: int) -> Engine:
        arguments = _SQLITE_ARGUMENTS if self.is_sqlite else _POSTGRES_ARGUMENTS
        try:
            return create_engine(
                self._url,
                pool_size=width,  # with SQLite's one connection the pool is also the queue of writers
                max_overflow=0,
                pool_pre_ping=not self.is_sqlite,
                hide_parameters=True,  # they hold what people wrote
                json_serializer=partial(json.dumps, allow_nan=False),  # PostgreSQL would refuse NaN, SQLite keep it
                connect_args={name: value for name, value in arguments.items() if name not in self._url.query},
            )
        except ModuleNotFoundError as error:
            raise ConfigError(
                "the PostgreSQL driver is not installed", hint="pip install 'capataz[postgres]'"
            ) from error

    @property
    def _path(self) -> Path:
        return Path(self._url.database or "").absolute()

    def migrate(self) -> None:
        """Brings the schema to this version's; any number of processes may do so at once.

        Raises ArchiveUnavailable, or OperatorError when a newer version has migrated the database already.
        """
        if self.is_sqlite:
            _create_private(self._path)
        self.run_sync(lambda conn: upgrade(conn, self.where))

    def run_sync(self, fn: Callable[[Connection], T]) -> T:
        """The result of `fn` in one transaction. Raises ArchiveUnavailable, StateConflict, or what `fn` raises."""
        return self._carry_out(self._engine, fn)

    def _carry_out(self, engine: Engine, fn: Callable[[Connection], T]) -> T:
        attempt = 1
        while True:
            try:
                with engine.begin() as conn:
                    return fn(conn)
            except (DBAPIError, TimeoutError) as error:
                if attempt == _ATTEMPTS or not (isinstance(error, DBAPIError) and is_transient(error)):
                    if (ours := translate(error, self.where)) is None:
                        raise
                    raise ours from error
            time.sleep(0.02 * attempt)
            attempt += 1

    async def run(self, fn: Callable[[Connection], T]) -> T:
        """Like `run_sync`, in this instance's threads. A cancelled caller does not undo what has begun."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._carry_out, self._engine, fn)

    async def read(self, fn: Callable[[Connection], T]) -> T:
        """Like `run`, for a function that only reads: it waits for no writer of this instance."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, self._carry_out, self._readers, fn)

    def close(self) -> None:
        """Waits for what is under way and closes all connections."""
        for threads in (self._reading, self._threads):
            threads.shutdown()
        for engine in (self._readers, self._engine):
            engine.dispose()


def _parse(text: str) -> URL:
    """The URL with the driver that we use."""
    try:
        url = make_url(text.replace("postgres://", "postgresql://", 1) if text.startswith("postgres://") else text)
    except ArgumentError as error:
        raise ConfigError(
            "sql.url is not an SQLAlchemy URL", hint="sqlite:////path/archive.db or postgresql://…"
        ) from error
    match url.get_backend_name():
        case "sqlite":
            if url.database in (None, "", ":memory:") or url.drivername not in ("sqlite", "sqlite+pysqlite"):
                raise ConfigError(
                    "sql.url: SQLite needs a file, which processes share", hint="sqlite:////path/archive.db"
                )
            return url
        case "postgresql":
            return url.set(drivername="postgresql+psycopg")
        case other:
            raise ConfigError(f"sql.url: {other} is not supported", hint="use sqlite or postgresql")


def _create_private(path: Path) -> None:
    """Creates the file for its owner only, and its folder; SQLite gives its side files the same mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise ArchiveUnavailable(
            f"{path}: the database file cannot be created: {error.strerror}",
            hint="check the path, free space, and this user's permission on the folder",
        ) from error


def _sqlite_connected(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # sqlite3 begins nothing by itself: `_sqlite_begin` does
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _sqlite_reader_connected(connection: Any, record: object) -> None:
    _sqlite_connected(connection, record)
    connection.execute("PRAGMA query_only=ON").close()


def _sqlite_begin_reading(conn: Connection) -> None:
    conn.exec_driver_sql("BEGIN")


def _sqlite_begin(conn: Connection) -> None:
    """A transaction that began as a reader fails at once, without waiting, when it wants to write after another."""
    conn.exec_driver_sql("BEGIN IMMEDIATE")
