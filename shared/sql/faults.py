"""Foreign SQL exceptions as errors of our tree: what happened at which database, and what to do about it.

SQLite result codes: https://www.sqlite.org/rescode.html. PostgreSQL: https://www.postgresql.org/docs/current/errcodes-appendix.html.
"""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, IntegrityError, TimeoutError

from shared.errors import ArchiveUnavailable, CapatazError, StateConflict

_SQLITE: dict[int, tuple[str, str]] = {
    sqlite3.SQLITE_FULL: ("the disk or the database is full", "free space there; writing goes on by itself"),
    sqlite3.SQLITE_BUSY: ("the database stays locked by another process", "look for a stuck process or a backup"),
    sqlite3.SQLITE_LOCKED: ("the database stays locked", "look for a stuck process or a backup"),
    sqlite3.SQLITE_READONLY: (
        "the database is read-only",
        "give this user write permission on the file and its folder",
    ),
    sqlite3.SQLITE_CANTOPEN: ("the database file cannot be opened", "check that its folder exists and is accessible"),
    sqlite3.SQLITE_PERM: (
        "access to the database file is denied",
        "give this user permission on the file and its folder",
    ),
    sqlite3.SQLITE_AUTH: (
        "access to the database file is denied",
        "give this user permission on the file and its folder",
    ),
    sqlite3.SQLITE_IOERR: ("the disk reports an error", "check free space and the health of the disk"),
    sqlite3.SQLITE_CORRUPT: ("the database file is damaged", "stop everything and restore a backup"),
    sqlite3.SQLITE_NOTADB: ("the file is not an SQLite database", "check the path, or move the file away"),
    sqlite3.SQLITE_NOMEM: ("out of memory", "free memory on this host"),
}

_POSTGRES: dict[str, tuple[str, str]] = {
    "08": ("the connection failed", "check that the server runs and can be reached"),
    "25006": ("the database is read-only", "point the URL at the primary"),
    "28": ("the server refuses this user", "check user and password in the URL"),
    "3D": ("the database does not exist", "create it, or correct its name in the URL"),
    "40": ("transactions kept colliding", "try again"),
    "42501": ("this user lacks a permission", "grant it the rights on schema and tables"),
    "42P01": ("a table is missing", "let a current process migrate the database"),
    "53100": ("the server's disk is full", "free space there; writing goes on by itself"),
    "53300": ("the server has no connection left", "raise max_connections or run fewer processes"),
    "53": ("the server lacks resources", "look at its log"),
    "55": ("an object is locked or not ready", "look for a stuck session"),
    "57": ("the server is shutting down or cancelled the statement", "check that it runs again"),
    "58": ("the server reports a system error", "look at its log and its disk"),
    "XX": ("the server reports damaged data or an internal error", "look at its log"),
}


def is_transient(error: DBAPIError) -> bool:
    """True if the transaction was rolled back because of another one, so that running it again may succeed."""
    code = _sqlite_code(error)
    if code is not None:
        return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return _sqlstate(error) in ("40001", "40P01")


def translate(error: DBAPIError | TimeoutError, where: str) -> CapatazError | None:
    """The error of our tree for a failure at the database `where`; None when it is a defect of ours (bad SQL)."""
    if isinstance(error, TimeoutError):
        return ArchiveUnavailable(
            f"no free connection to {where}", hint="it is slow or overloaded: check disk and server"
        )
    if isinstance(error, IntegrityError):
        return StateConflict(f"{where}: another writer was first: {error.orig}", hint="read again and decide anew")
    reason = _sqlite_reason(error) if _sqlite_code(error) is not None else _postgres_reason(error)
    if reason is None:
        return None
    return ArchiveUnavailable(f"{where}: {reason[0]}: {_first_line(error)}", hint=reason[1])


def _sqlite_code(error: DBAPIError) -> int | None:
    """The primary result code; the extended one keeps it in its low byte."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def _sqlstate(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlstate", None) or "")


def _sqlite_reason(error: DBAPIError) -> tuple[str, str] | None:
    if _sqlite_code(error) == sqlite3.SQLITE_ERROR and "no such table" in str(error.orig):
        return _POSTGRES["42P01"]
    return _SQLITE.get(_sqlite_code(error) or 0)


def _postgres_reason(error: DBAPIError) -> tuple[str, str] | None:
    state = _sqlstate(error)
    if not state:  # the client library's own errors: no server was there to give a state
        known = error.connection_invalidated or type(error.orig).__name__ in ("OperationalError", "ConnectionTimeout")
        return _POSTGRES["08"] if known else None
    return _POSTGRES.get(state) or _POSTGRES.get(state[:2])


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0]
