"""Migrations run from inside the program: no ini file, one transaction, one process at a time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, text

from shared.errors import OperatorError
from shared.sql.tables import REVISION

MIGRATIONS: Final = Path(__file__).parent / "migrations"

_ADVISORY_LOCK: Final = 0x63617061_74617A  # "capataz"
_one_at_a_time = threading.Lock()  # alembic keeps the running migration in module globals


def current(conn: Connection) -> str | None:
    """The revision of the database; None if it has none yet."""
    if not inspect(conn).has_table("alembic_version"):
        return None
    revision: str | None = conn.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return revision


def upgrade(conn: Connection, where: str) -> None:
    """Brings the schema to `REVISION` inside the caller's transaction.

    That transaction excludes others: SQLite's holds the write lock already, on PostgreSQL an advisory lock is
    taken. Raises OperatorError if a newer version of the program has migrated the database.
    """
    if conn.dialect.name == "postgresql":
        conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
    if (found := current(conn)) == REVISION:
        return
    from alembic import command  # costs 10 MB and 0.2 s, needed once in the life of a database
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config(attributes={"connection": conn})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    if found is not None and found not in {
        script.revision for script in ScriptDirectory.from_config(config).walk_revisions()
    }:
        raise OperatorError(
            f"{where}: a newer version has migrated this database (revision {found})",
            hint="upgrade this process too, or restore a backup",
            code="archive_schema",
        )
    with _one_at_a_time:
        command.upgrade(config, "head")
