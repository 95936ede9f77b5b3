"""Deliveries of results to the channels of users, the channels that a schedule names, and when a slot was sent."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("schedules", sa.Column("deliver", sa.JSON(), nullable=True))
    op.add_column("schedule_firings", sa.Column("sent_ms", sa.BigInteger(), nullable=True))
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_ms", sa.BigInteger(), nullable=False),
        sa.Column("claim", sa.Text(), nullable=True),
        sa.Column("claimed_ms", sa.BigInteger(), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
    )
    op.create_index(op.f("ix_deliveries_state_due_ms"), "deliveries", ["state", "due_ms"], unique=False)
    op.create_index(op.f("ix_deliveries_created_ms"), "deliveries", ["created_ms"], unique=False)


def downgrade() -> None:
    op.drop_table("deliveries")
    op.drop_column("schedule_firings", "sent_ms")
    op.drop_column("schedules", "deliver")
