"""`python -m shared.sql`: brings the archive to this version's schema, and ends.

Every process does so at its start where it is needed; run before them, it saves each the ten megabytes of the tool for
it.
"""

from __future__ import annotations

import sys

from shared.errors import CapatazError
from shared.settings import load
from shared.sql import Database, database_url


def main() -> None:
    """Migrates the database of the settings. Exits with a message if that cannot be done now."""
    try:
        database = Database(database_url(load()))
        try:
            database.migrate()
        finally:
            database.close()
    except CapatazError as error:
        sys.exit(f"the archive's schema was not brought up to date: {error}")


if __name__ == "__main__":
    main()
