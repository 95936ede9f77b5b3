"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_archive()
    _create_tools()
    _create_playbook()


def downgrade() -> None:
    for table in (
        "playbook_version",
        "bullet_ledger",
        "bullets",
        "reminders",
        "notes",
        "artifacts",
        "log_entries",
        "runs",
        "sessions",
        "installation",
    ):
        op.drop_table(table)


def _create_archive() -> None:
    op.create_table(
        "installation",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Text(), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_installation")),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_owner_updated_ms"), "sessions", ["owner", "updated_ms"], unique=False)
    op.create_table(
        "runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=True),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.Column("finish_reason", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("error_code", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("usage", sa.JSON(), nullable=False),
        sa.Column("cost", sa.Text(), nullable=True),
        sa.Column("seconds", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["session"], ["sessions.id"], name=op.f("fk_runs_session")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
    )
    op.create_index(op.f("ix_runs_principal_created_ms"), "runs", ["principal", "created_ms"], unique=False)
    op.create_index(op.f("ix_runs_session_created_ms"), "runs", ["session", "created_ms"], unique=False)
    op.create_index(op.f("ix_runs_state"), "runs", ["state"], unique=False)
    op.create_table(
        "log_entries",
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("entry_ms", sa.BigInteger(), nullable=False),
        sa.Column("entry_seq", sa.BigInteger(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("v", sa.Integer(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["session"], ["sessions.id"], name=op.f("fk_log_entries_session")),
        sa.PrimaryKeyConstraint("session", "entry_ms", "entry_seq", name=op.f("pk_log_entries")),
    )
    op.create_index(op.f("ix_log_entries_run"), "log_entries", ["run"], unique=False)


def _create_tools() -> None:
    op.create_table(
        "artifacts",
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=True),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "sha256", name=op.f("pk_artifacts")),
    )
    op.create_index(op.f("ix_artifacts_expires_ms"), "artifacts", ["expires_ms"], unique=False)
    op.create_table(
        "notes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("folded", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notes")),
        sa.UniqueConstraint("principal", "title", name=op.f("uq_notes_principal_title")),
    )
    op.create_index(op.f("ix_notes_principal_updated_ms"), "notes", ["principal", "updated_ms"], unique=False)
    op.create_table(
        "reminders",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("due_ms", sa.BigInteger(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reminders")),
    )
    op.create_index(op.f("ix_reminders_principal_due_ms"), "reminders", ["principal", "due_ms"], unique=False)
    op.create_index(op.f("ix_reminders_state_due_ms"), "reminders", ["state", "due_ms"], unique=False)


def _create_playbook() -> None:
    op.create_table(
        "bullets",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("scope_key", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("when_to_use", sa.Text(), nullable=False),
        sa.Column("importance", sa.Text(), nullable=False),
        sa.Column("helpful", sa.Integer(), nullable=False),
        sa.Column("harmful", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("provenance", sa.JSON(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_used_ms", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bullets")),
    )
    op.create_index(op.f("ix_bullets_scope_scope_key_state"), "bullets", ["scope", "scope_key", "state"], unique=False)
    op.create_table(
        "bullet_ledger",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("scope_key", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("op", sa.JSON(), nullable=False),
        sa.Column("before", sa.JSON(), nullable=False),
        sa.Column("after", sa.JSON(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bullet_ledger")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_bullet_ledger_run"), "bullet_ledger", ["run"], unique=False)
    op.create_index(
        op.f("ix_bullet_ledger_scope_scope_key_id"), "bullet_ledger", ["scope", "scope_key", "id"], unique=False
    )
    op.create_table(
        "playbook_version",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("scope_key", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "scope_key", name=op.f("pk_playbook_version")),
    )
