"""Reminders that repeat and are told by runs; what was trained, and training plans."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_ADDED = (
    ("rule", sa.Text()),
    ("zone", sa.Text()),
    ("language", sa.Text()),
    ("claim", sa.Text()),
    ("claimed_ms", sa.BigInteger()),
    ("told_by", sa.Text()),
    ("told_due_ms", sa.BigInteger()),
)


def upgrade() -> None:
    for name, kind in _ADDED:
        op.add_column("reminders", sa.Column(name, kind, nullable=True))
    op.create_table(
        "gym_entries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("day", sa.Text(), nullable=False),
        sa.Column("exercise", sa.Text(), nullable=False),
        sa.Column("sets", sa.JSON(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gym_entries")),
    )
    op.create_index(op.f("ix_gym_entries_principal_day"), "gym_entries", ["principal", "day"], unique=False)
    op.create_table(
        "gym_routines",
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("folded", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "folded", name=op.f("pk_gym_routines")),
    )


def downgrade() -> None:
    op.drop_table("gym_routines")
    op.drop_index(op.f("ix_gym_entries_principal_day"), table_name="gym_entries")
    op.drop_table("gym_entries")
    with op.batch_alter_table("reminders") as batch:
        for name, _ in reversed(_ADDED):
            batch.drop_column(name)
