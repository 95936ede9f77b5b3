"""Schedules of users, and their slots that wait to be sent."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("cron", sa.Text(), nullable=False),
        sa.Column("every", sa.Text(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=True),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("workflow", sa.Text(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("tools", sa.JSON(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("next_ms", sa.BigInteger(), nullable=True),
        sa.Column("last_ms", sa.BigInteger(), nullable=True),
        sa.Column("missed", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedules")),
    )
    op.create_index(op.f("ix_schedules_state_next_ms"), "schedules", ["state", "next_ms"], unique=False)
    op.create_index(op.f("ix_schedules_principal_next_ms"), "schedules", ["principal", "next_ms"], unique=False)
    op.create_table(
        "schedule_firings",
        sa.Column("schedule", sa.Text(), nullable=False),
        sa.Column("slot_ms", sa.BigInteger(), nullable=False),
        sa.Column("passed", sa.BigInteger(), nullable=False),
        sa.Column("claim", sa.Text(), nullable=True),
        sa.Column("claimed_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("schedule", "slot_ms", name=op.f("pk_schedule_firings")),
    )


def downgrade() -> None:
    op.drop_table("schedule_firings")
    op.drop_index(op.f("ix_schedules_principal_next_ms"), table_name="schedules")
    op.drop_index(op.f("ix_schedules_state_next_ms"), table_name="schedules")
    op.drop_table("schedules")
