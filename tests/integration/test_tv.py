"""The TV tools against a server that speaks Samsung's remote protocol, and one that speaks SmartThings' API."""

from __future__ import annotations

import base64
import logging
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.errors import ModelError
from tests.support.http_stub import Answer, Asked, HttpStub
from tests.support.samsung_tv import TOKEN, SamsungTvServer
from tests.unit.tools.conftest import Bench, bench, make_bench, workspace  # noqa: F401 - fixtures

pytestmark = pytest.mark.integration

DEVICE = "f1e2-11"
SECRET = "smartthings-secret"


@pytest.fixture
def samsung() -> Iterator[SamsungTvServer]:
    with SamsungTvServer() as server:
        yield server


@pytest.fixture
def home(make_bench: Callable[..., Bench], samsung: SamsungTvServer, tmp_path: Path) -> Any:  # noqa: F811
    """One Samsung TV; the remote's port is not 8002, so the protocol goes without TLS."""
    device = {
        "name": "Salón",
        "kind": "samsung",
        "host": "127.0.0.1",
        "port": samsung.port,
        "upnp_port": samsung.port,
        "token_file": str(tmp_path / "tokens" / "salon"),
        "mac": "aa:bb:cc:dd:ee:ff",
    }
    return lambda **more: make_bench(tv={"devices": [device], "timeout_s": 2.0, **more})


def test_keys_go_over_the_remotes_websocket(home: Any, samsung: SamsungTvServer) -> None:
    output = home().run("tv_keys", keys=["arriba", "OK", "canal 24", "sube el volumen"])
    assert samsung.keys == ["KEY_UP", "KEY_ENTER", "KEY_2", "KEY_4", "KEY_ENTER", "KEY_VOLUP"]
    assert output.value == {"name": "Salón", "keys": ["up", "ok", "channel 24", "volume_up"]}
    assert base64.b64decode(samsung.names[0]) == b"Capataz"


def test_the_tvs_token_is_kept_for_this_user_and_logged_nowhere(
    home: Any, samsung: SamsungTvServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        home().run("tv_keys", keys=["home"])
    token = tmp_path / "tokens" / "salon"
    assert token.read_text() == TOKEN
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert TOKEN not in caplog.text


def test_status_tells_power_volume_and_model(home: Any, samsung: SamsungTvServer) -> None:
    samsung.muted = True
    value = home().run("tv_status").value
    assert (value["on"], value["volume"], value["muted"], value["model"]) == (True, 12, True, "QE55Q7F")
    samsung.upnp = False
    output = home().run("tv_status", tv="salon")
    assert (output.value["on"], output.value["volume"]) == (True, None)
    samsung.power = "standby"
    assert home().run("tv_status").value["on"] is False
    samsung.stop()
    assert "off, or it cannot be reached" in home().run("tv_status").seen


def test_volume_goes_by_steps_or_to_a_level(home: Any, samsung: SamsungTvServer) -> None:
    bench = home()  # noqa: F811
    bench.run("tv_volume", action="up", steps=3)
    bench.run("tv_volume", action="down", steps=1)
    assert samsung.keys == ["KEY_VOLUP"] * 3 + ["KEY_VOLDOWN"]
    bench.run("tv_volume", action="set", level=30)
    bench.run("tv_volume", action="mute")
    assert (samsung.volume, samsung.muted) == (30, True)
    bench.run("tv_volume", action="unmute")
    assert samsung.muted is False
    for args in ({"action": "set"}, {"action": "up", "level": 3}, {"action": "set", "level": 101}):
        with pytest.raises(ModelError):
            bench.run("tv_volume", **args)
    samsung.upnp = False
    with pytest.raises(ModelError, match="up and down work"):
        bench.run("tv_volume", action="set", level=5)


def test_inputs_that_have_a_key(home: Any, samsung: SamsungTvServer) -> None:
    home().run("tv_source", source="HDMI 2")
    assert samsung.keys == ["KEY_HDMI2"]
    with pytest.raises(ModelError, match="hdmi1 to hdmi4"):
        home().run("tv_source", source="VGA")


def test_power_is_switched_only_if_it_is_not_so_already(home: Any, samsung: SamsungTvServer) -> None:
    assert home().run("tv_power", on=True).value["changed"] is False
    assert home().run("tv_power", on=False).value["changed"] is True
    assert (samsung.keys, samsung.power) == (["KEY_POWER"], "standby")
    assert home().run("tv_power", on=False).value["changed"] is False
    home().run("tv_power", on=True)
    assert samsung.keys == ["KEY_POWER"] * 2


def test_a_tv_that_does_not_answer_is_woken_up(home: Any, samsung: SamsungTvServer) -> None:
    samsung.stop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(10)
        bench = home(wake_address="127.0.0.1", wake_port=listener.getsockname()[1])
        assert bench.run("tv_power", on=True).value["changed"] is True
        assert listener.recv(200) == b"\xff" * 6 + bytes.fromhex("aabbccddeeff") * 16


@pytest.mark.parametrize(
    ("greet", "code", "told"),
    [
        ("unauthorized", "auth_refused", "allow Capataz on the TV's screen"),
        ("silent", "timed_out", "no key was pressed"),
        ("nonsense", "bad_response", "no key was pressed"),
    ],
)
def test_a_tv_that_does_not_let_us_in_is_told(
    home: Any, samsung: SamsungTvServer, greet: str, code: str, told: str
) -> None:
    samsung.greet = greet
    with pytest.raises(ModelError) as caught:
        home(timeout_s=0.5).run("tv_keys", keys=["ok"])
    assert caught.value.code == code
    assert told in str(caught.value)
    assert samsung.keys == []


def test_a_tv_that_hangs_up_or_is_gone_is_told(home: Any, samsung: SamsungTvServer) -> None:
    samsung.greet = "hang up"
    with pytest.raises(ModelError, match="hung up after"):
        home().run("tv_keys", keys=["up"] * 10)
    samsung.stop()
    with pytest.raises(ModelError, match="so no key was pressed"):
        home().run("tv_keys", keys=["up"])


class Cloud:
    """SmartThings' API for one TV."""

    url: str

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []
        self.health = "ONLINE"
        self.result = "ACCEPTED"
        self.main: dict[str, Any] = {
            "switch": {"switch": {"value": "on"}},
            "audioVolume": {"volume": {"value": 9, "unit": "%"}},
            "audioMute": {"mute": {"value": "unmuted"}},
            "tvChannel": {"tvChannel": {"value": "7"}},
            "samsungvd.mediaInputSource": {
                "inputSource": {"value": "HDMI1"},
                "supportedInputSourcesMap": {
                    "value": [{"id": "dtv", "name": "TV"}, {"id": "HDMI1", "name": "Consola"}]
                },
            },
        }

    def answer(self, asked: Asked) -> Answer | None:
        if asked.headers.get("authorization") != f"Bearer {SECRET}":
            return Answer({"error": {"code": "Unauthorized", "message": f"bad token {SECRET}"}}, 401)
        path = asked.path.removeprefix(f"/v1/devices/{DEVICE}")
        if (asked.method, path) == ("GET", "/status"):
            return Answer({"components": {"main": self.main}})
        if (asked.method, path) == ("GET", "/health"):
            return Answer({"deviceId": DEVICE, "state": self.health})
        if (asked.method, path) == ("POST", "/commands"):
            self.commands += asked.json()["commands"]
            return Answer({"results": [{"id": "1", "status": self.result}]})
        return None


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    cloud = Cloud()
    with HttpStub(cloud.answer) as server:
        cloud.url = f"{server.url}/v1"
        yield cloud


@pytest.fixture
def flat(make_bench: Callable[..., Bench], cloud: Any, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: F811
    monkeypatch.setenv("TEST_ST_TOKEN", SECRET)
    devices = [
        {"name": "Dormitorio", "kind": "smartthings", "device_id": DEVICE, "users": ["ana"]},
        {"name": "Cocina", "kind": "smartthings", "device_id": "other"},
    ]
    return make_bench(tv={"devices": devices, "smartthings_url": cloud.url, "smartthings_token_env": "TEST_ST_TOKEN"})


def test_smartthings_tells_the_status(flat: Any, cloud: Cloud) -> None:
    output = flat.run("tv_status", tv="dormitorio")
    assert output.value | {"model": None} == {
        "name": "Dormitorio", "on": True, "volume": 9, "muted": False, "source": "HDMI1", "sources": ["TV", "Consola"],
        "channel": "7", "model": None,
    }  # fmt: skip
    cloud.health = "OFFLINE"
    assert flat.run("tv_status", tv="Dormitorio").value["on"] is False
    cloud.main = {"switch": 3}
    assert flat.run("tv_status", tv="Dormitorio").value["volume"] is None


def test_smartthings_takes_commands(flat: Any, cloud: Cloud) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("tv_keys", {"keys": ["home", "siguiente canal", "12"]}),
        ("tv_volume", {"action": "set", "level": 20}),
        ("tv_volume", {"action": "up", "steps": 2}),
        ("tv_volume", {"action": "mute"}),
        ("tv_source", {"source": "consola"}),
        ("tv_power", {"on": False}),
    ]
    for name, args in calls:
        flat.run(name, tv="dormitorio", **args)
    assert all(command["component"] == "main" for command in cloud.commands)
    assert [(c["capability"], c["command"], c["arguments"]) for c in cloud.commands] == [
        ("samsungvd.remoteControl", "send", ["HOME", "PRESS_AND_RELEASED"]),
        ("tvChannel", "channelUp", []),
        ("tvChannel", "setTvChannel", ["12"]),
        ("audioVolume", "setVolume", [20]),
        ("audioVolume", "volumeUp", []),
        ("audioVolume", "volumeUp", []),
        ("audioMute", "mute", []),
        ("samsungvd.mediaInputSource", "setInputSource", ["HDMI1"]),
        ("switch", "off", []),
    ]


def test_smartthings_refusals_are_told(flat: Any, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="inputs are: TV, Consola"):
        flat.run("tv_source", tv="dormitorio", source="hdmi4")
    with pytest.raises(ModelError, match="so none was pressed"):
        flat.run("tv_keys", tv="dormitorio", keys=["ok", "red"])
    assert cloud.commands == []
    cloud.result = "FAILED"
    with pytest.raises(ModelError, match="did not take the command"):
        flat.run("tv_power", tv="dormitorio", on=True)
    with pytest.raises(ModelError, match="status 404"):
        flat.run("tv_status", tv="cocina")
    monkeypatch.setenv("TEST_ST_TOKEN", "another")
    with pytest.raises(ModelError) as caught:
        flat.run("tv_status", tv="dormitorio")
    assert caught.value.code == "auth_refused"


def test_which_tv_is_meant(flat: Any) -> None:
    assert [one["name"] for one in flat.run("tv_list").value["tvs"]] == ["Dormitorio", "Cocina"]
    assert [one["name"] for one in flat.run("tv_list", principal="eva").value["tvs"]] == ["Cocina"]
    with pytest.raises(ModelError, match="not clear which TV"):
        flat.run("tv_status")
    for principal, name in (("eva", "dormitorio"), ("ana", "sótano")):
        with pytest.raises(ModelError) as caught:
            flat.run("tv_status", principal=principal, tv=name)
        assert caught.value.code == "unknown_tv"
