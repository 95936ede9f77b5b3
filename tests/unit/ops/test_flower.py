from pathlib import Path

import pytest

from ops.flower import flower_env, password
from shared.errors import ConfigError
from shared.settings import DataSettings, FlowerSettings, Settings


def _settings(tmp_path: Path, user: str = "capataz") -> Settings:
    return Settings.model_construct(data=DataSettings(dir=tmp_path), flower=FlowerSettings(user=user, port=5555))


def test_it_always_asks_for_a_password_that_is_made_once(tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    made = password(settings, {})
    assert len(made) == 24
    assert password(settings, {}) == made
    env = flower_env(settings, made)
    assert env["FLOWER_BASIC_AUTH"] == f"capataz:{made}"
    assert env["FLOWER_PERSISTENT"] == "true"
    assert Path(env["FLOWER_DB"]).parent == tmp_path


def test_the_environments_password_wins(tmp_path: Path) -> None:
    assert password(_settings(tmp_path), {"CAPATAZ_FLOWER_PASSWORD": "mine"}) == "mine"
    assert not list(tmp_path.iterdir())


def test_what_flower_would_misread_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="comma"):
        password(_settings(tmp_path), {"CAPATAZ_FLOWER_PASSWORD": "a,b"})
    with pytest.raises(ConfigError, match="user"):
        flower_env(_settings(tmp_path, user="a:b"), "pw")
