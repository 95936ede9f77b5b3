from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.sql import Database


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path}/data/archive.db")
    database.migrate()
    yield database
    database.close()
