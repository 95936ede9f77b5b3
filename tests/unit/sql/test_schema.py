from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect

from shared.sql import Database
from shared.sql.tables import metadata


def test_migrations_build_exactly_the_tables_that_the_code_uses(db: Database) -> None:
    def differences(conn: Connection) -> list[object]:
        context = MigrationContext.configure(conn, opts={"compare_type": True, "compare_server_default": True})
        return list(compare_metadata(context, metadata))

    assert db.run_sync(differences) == []


def test_the_whole_schema_can_be_taken_down_again(db: Database) -> None:
    from alembic import command
    from alembic.config import Config

    from shared.sql.schema import MIGRATIONS

    def downgrade(conn: Connection) -> list[str]:
        config = Config(attributes={"connection": conn})
        config.set_main_option("script_location", str(MIGRATIONS))
        command.downgrade(config, "base")
        return inspect(conn).get_table_names()

    assert db.run_sync(downgrade) == ["alembic_version"]
    db.migrate()
