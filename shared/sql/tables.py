"""All tables. Times are Unix milliseconds. `migrations/versions` builds them; a test compares both."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.dialects import sqlite

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

REVISION: Final = "0008"
"""The newest migration. Lets a process see that there is nothing to migrate without loading alembic."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class CleanText(TypeDecorator[str]):
    """Text from people and models. NUL and lone surrogates, which databases refuse, become U+FFFD."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """The text as it is stored."""
        return None if value is None else _UNSTORABLE.sub("\ufffd", value)


class Money(TypeDecorator[Decimal]):
    """An exact amount, stored as text: SQLite has no exact decimal type."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> str | None:
        """The amount as it is stored."""
        return None if value is None else str(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Decimal | None:
        """The amount as it was given."""
        return None if value is None else Decimal(value)


def insert(conn: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT of this connection's dialect, with its ON CONFLICT clauses.

    What runs with every message keeps the statement that it builds (a cached function of the dialect's name), and gives
    values as parameters: SQLAlchemy takes longer to build and to look up a statement than SQLite to carry it out.
    """
    return insert_into(conn.dialect.name, table)


def insert_into(dialect: str, table: Table) -> sqlite.Insert | postgresql.Insert:
    """The same, by the name of the dialect."""
    if dialect != "postgresql":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # three megabytes a process, for those who use it

    return postgresql.insert(table)


def _json(name: str) -> Column[Any]:
    return Column(name, JSON(none_as_null=True), nullable=False)


def _text(name: str) -> Column[str]:
    return Column(name, CleanText, nullable=False)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

installation = Table(
    "installation",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # always 1
    Column("epoch", Text, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    _text("title"),
    Index(None, "owner", "updated_ms"),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session", Text, ForeignKey("sessions.id"), nullable=False),
    Column("principal", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("parent", Text),
    Column("state", Text, nullable=False),
    Column("epoch", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("started_ms", BigInteger),
    Column("ended_ms", BigInteger),
    _text("finish_reason"),
    _text("question"),
    _text("answer"),
    _text("error_code"),
    _text("error"),
    _text("model"),
    Column("steps", Integer, nullable=False),
    _json("usage"),
    Column("cost", Money),
    Column("seconds", Float),
    Column("replies", JSON(none_as_null=True)),
    Index(None, "session", "created_ms"),
    Index(None, "principal", "created_ms"),
    Index(None, "state"),
    Index(None, "ended_ms"),
)

# A Redis Stream id "ms-seq" is kept as its two numbers, which sort as the stream does; the text would not.
log_entries = Table(
    "log_entries",
    metadata,
    Column("session", Text, ForeignKey("sessions.id"), nullable=False),
    Column("entry_ms", BigInteger, nullable=False),
    Column("entry_seq", BigInteger, nullable=False),
    Column("run", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("v", Integer, nullable=False),
    _json("data"),
    PrimaryKeyConstraint("session", "entry_ms", "entry_seq"),
    Index(None, "run"),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("principal", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("media_type", CleanText, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger),
    Column("content", LargeBinary, nullable=False),
    PrimaryKeyConstraint("principal", "sha256"),
    Index(None, "expires_ms"),
)

# `folded` is title, text and tags without case and accents: what a search looks in.
notes = Table(
    "notes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("principal", Text, nullable=False),
    _text("title"),
    _text("text"),
    _json("tags"),
    _text("folded"),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    UniqueConstraint("principal", "title"),
    Index(None, "principal", "updated_ms"),
)

reminders = Table(
    "reminders",
    metadata,
    Column("id", Text, primary_key=True),
    Column("principal", Text, nullable=False),
    _text("text"),
    Column("due_ms", BigInteger, nullable=False),
    Column("session", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("rule", Text),
    Column("zone", Text),
    Column("language", Text),
    Column("claim", Text),
    Column("claimed_ms", BigInteger),
    Column("told_by", Text),
    Column("told_due_ms", BigInteger),
    Index(None, "state", "due_ms"),
    Index(None, "principal", "due_ms"),
)

# `day` is an ISO date. `sets` is what `workers/tools/workout.py` makes of a line.
gym_entries = Table(
    "gym_entries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("principal", Text, nullable=False),
    Column("day", Text, nullable=False),
    _text("exercise"),
    _json("sets"),
    _text("note"),
    Column("created_ms", BigInteger, nullable=False),
    Index(None, "principal", "day"),
)

gym_routines = Table(
    "gym_routines",
    metadata,
    Column("principal", Text, nullable=False),
    _text("folded"),
    _text("name"),
    _json("plan"),
    Column("updated_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("principal", "folded"),
)

bullets = Table(
    "bullets",
    metadata,
    Column("id", Text, primary_key=True),
    Column("scope", Text, nullable=False),
    Column("scope_key", Text, nullable=False),
    _text("text"),
    _text("when_to_use"),
    Column("importance", Text, nullable=False),
    Column("helpful", Integer, nullable=False),
    Column("harmful", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("pinned", Boolean, nullable=False),
    _json("provenance"),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    Column("last_used_ms", BigInteger),
    Column("version", Integer, nullable=False),
    Column("vector", LargeBinary),
    Column("vector_of", Text),
    Index(None, "scope", "scope_key", "state"),
)

bullet_ledger = Table(
    "bullet_ledger",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("scope", Text, nullable=False),
    Column("scope_key", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    _json("op"),
    _json("before"),
    _json("after"),
    Column("run", Text, nullable=False),
    Index(None, "scope", "scope_key", "id"),
    Index(None, "run"),
    sqlite_autoincrement=True,  # an id that named one change never names another
)

playbook_version = Table(
    "playbook_version",
    metadata,
    Column("scope", Text, nullable=False),
    Column("scope_key", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    PrimaryKeyConstraint("scope", "scope_key"),
)

# `id` is run, step and attempt where there is a step, so that copying twice counts once. Money is whole picodollars.
model_calls = Table(
    "model_calls",
    metadata,
    Column("id", Text, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("day", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("tier", Text, nullable=False),
    Column("tool_group", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("model", CleanText, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("input", BigInteger, nullable=False),
    Column("cache_write", BigInteger, nullable=False),
    Column("cache_read", BigInteger, nullable=False),
    Column("output", BigInteger, nullable=False),
    Column("reasoning", BigInteger, nullable=False),
    Column("estimated", Boolean, nullable=False),
    Column("cost_pico", BigInteger),
    Column("took_ms", BigInteger, nullable=False),
    Column("first_ms", BigInteger),
    Index(None, "day"),
    Index(None, "principal", "day"),
    Index(None, "run"),
)

# What a user has allowed for good; the unique columns are also the index by user.
grants = Table(
    "grants",
    metadata,
    Column("id", Text, primary_key=True),
    Column("principal", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("rule_id", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    _text("by_text"),
    UniqueConstraint("principal", "agent", "tool", "rule_id"),
)

# What users have scheduled (`shared/schedules.py`), and without a principal what workflows bring along. `missed` counts
# slots that were passed over.
schedules = Table(
    "schedules",
    metadata,
    Column("id", Text, primary_key=True),
    Column("principal", Text, nullable=False),
    _text("name"),
    Column("zone", Text, nullable=False),
    Column("start_ms", BigInteger, nullable=False),
    Column("cron", Text, nullable=False),
    Column("every", Text, nullable=False),
    Column("until_ms", BigInteger),
    Column("session", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("policy", Text, nullable=False),
    Column("workflow", Text, nullable=False),
    _json("params"),
    _text("prompt"),
    _json("tools"),
    Column("agent", Text, nullable=False),
    Column("next_ms", BigInteger),
    Column("last_ms", BigInteger),
    Column("missed", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("deliver", JSON(none_as_null=True)),
    Index(None, "state", "next_ms"),
    Index(None, "principal", "next_ms"),
)

# Slots that were taken: their messages are not sent yet, or were at `sent_ms` and may be refused.
schedule_firings = Table(
    "schedule_firings",
    metadata,
    Column("schedule", Text, nullable=False),
    Column("slot_ms", BigInteger, nullable=False),
    Column("passed", BigInteger, nullable=False),
    Column("claim", Text),
    Column("claimed_ms", BigInteger),
    Column("sent_ms", BigInteger),
    PrimaryKeyConstraint("schedule", "slot_ms"),
)

# Results on their way to the channels of users, and for a while those that have arrived or failed.
deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("principal", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("run", Text, nullable=False),
    _text("title"),
    _text("text"),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_ms", BigInteger, nullable=False),
    Column("claim", Text),
    Column("claimed_ms", BigInteger),
    Column("created_ms", BigInteger, nullable=False),
    _text("error"),
    Index(None, "state", "due_ms"),
    Index(None, "created_ms"),
)
