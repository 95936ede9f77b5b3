"""The signing key: from the environment, else from the data folder, where it is made once and for its owner alone."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from shared import keyring
from shared.errors import ConfigError

KEY = "k" * keyring.MIN_CHARS


def test_the_environment_wins_and_nothing_is_written(tmp_path: Path) -> None:
    assert keyring.ensure_key(tmp_path / "data", {keyring.ENV: KEY}) == KEY.encode()
    assert not (tmp_path / "data").exists()
    keyring.ensure_key(tmp_path, {})
    assert keyring.load_key(tmp_path, {keyring.ENV: KEY}) == KEY.encode()


def test_a_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    first = keyring.ensure_key(tmp_path / "a", {})
    assert len(first) >= keyring.MIN_CHARS
    assert keyring.ensure_key(tmp_path / "a", {}) == first == keyring.load_key(tmp_path / "a", {})
    assert keyring.ensure_key(tmp_path / "b", {}) != first
    assert stat.S_IMODE((tmp_path / "a" / keyring.FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("env", [{}, {keyring.ENV: ""}, {keyring.ENV: KEY[1:]}], ids=["none", "empty", "short"])
def test_without_a_good_key_nothing_starts(tmp_path: Path, env: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as error:
        keyring.load_key(tmp_path, env)
    assert error.value.hint
    assert KEY[1:] not in str(error.value)
