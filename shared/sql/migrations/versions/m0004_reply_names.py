"""Where the answer of a run is waited for, and an index by the end of runs, for those whose time has passed."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("replies", sa.JSON(), nullable=True))
    op.create_index(op.f("ix_runs_ended_ms"), "runs", ["ended_ms"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_runs_ended_ms"), table_name="runs")
    op.drop_column("runs", "replies")
