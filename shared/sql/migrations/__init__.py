"""Alembic migrations of the archive, in order. `shared.sql.schema` runs them."""
