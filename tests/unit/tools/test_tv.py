"""What keys are called, and what the TV tools lack."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from shared.errors import ModelError
from shared.settings import Settings
from workers.declare import Registry
from workers.tools.tv_keys import NAMES, find_key

SAMSUNG = {"name": "Salón", "kind": "samsung", "host": "192.168.1.20"}
CLOUD = {"name": "Dormitorio", "kind": "smartthings", "device_id": "1"}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("volume_up", "volume_up"),
        ("Sube el volumen", "volume_up"),
        ("más volumen", "volume_up"),
        ("KEY_HOME", "home"),
        ("pulsa el botón atrás", "back"),
        ("press the ok button", "unknown"),
        ("la flecha arriba", "up"),
        ("canal siguiente", "channel_up"),
        ("siguiente canal", "channel_up"),
        ("next channel", "channel_up"),
        ("pausa", "pause"),
        ("canal 5", "channel 5"),
        ("105", "channel 105"),
        ("12345", "unknown"),
        ("", "unknown"),
    ],
)
def test_keys_by_what_people_call_them(text: str, name: str) -> None:
    if name == "unknown":
        with pytest.raises(ModelError, match="keys are: up, down"):
            find_key(text)
    else:
        assert find_key(text).name == name


def test_every_name_is_a_key_of_its_own() -> None:
    assert [find_key(name).name for name in NAMES] == list(NAMES)
    codes = [find_key(name).samsung for name in NAMES]
    assert len(set(codes)) == len(codes)


@pytest.mark.property
@given(st.text(max_size=40))
def test_any_text_is_a_key_or_refused(text: str) -> None:
    try:
        key = find_key(text)
    except ModelError:
        return
    assert key.samsung
    assert find_key(key.name).samsung == key.samsung


def test_the_tools_say_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry()
    registry.load_builtin()

    def reason(*devices: dict[str, Any]) -> str:
        settings = Settings.model_validate({"tv": {"devices": devices, "smartthings_token_env": "TEST_ST_TOKEN"}})
        return registry.catalogue(settings).missing.get("tv_keys", "")

    assert "tv.devices" in reason()
    monkeypatch.delenv("TEST_ST_TOKEN", raising=False)
    assert "TEST_ST_TOKEN" in reason(CLOUD)
    assert reason(SAMSUNG) == reason(SAMSUNG, CLOUD) == ""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'capataz[tv]'" in reason(SAMSUNG)
    monkeypatch.setenv("TEST_ST_TOKEN", "x")
    assert reason(SAMSUNG, CLOUD) == ""


@pytest.mark.parametrize(
    "devices",
    [
        [{"name": "x", "kind": "samsung"}],
        [{"name": "x", "kind": "smartthings", "host": "h"}],
        [{**SAMSUNG, "mac": "aa:bb"}],
        [SAMSUNG, {**SAMSUNG, "name": "SALÓN"}],
    ],
)
def test_tvs_that_cannot_work_are_refused_as_settings(devices: list[dict[str, Any]]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"tv": {"devices": devices}})
