"""Alembic's entry point. The caller gives a connection, in whose transaction all migrations run."""

from alembic import context

from shared.sql.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,  # true for SQLite as well, since our transactions begin explicitly
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
