"""Vectors of bullets' meanings, kept so that a duplicate is found without encoding everything again."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("bullets", sa.Column("vector", sa.LargeBinary(), nullable=True))
    op.add_column("bullets", sa.Column("vector_of", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("bullets", "vector_of")
    op.drop_column("bullets", "vector")
