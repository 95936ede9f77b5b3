"""What the storage tools refuse before any server is asked, and what they lack."""

from __future__ import annotations

import string
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import ModelError
from shared.settings import Settings
from tests.unit.tools.conftest import Bench
from workers.declare import Registry
from workers.tools.s3 import checked_key


@pytest.mark.parametrize("key", ["a", "a/b.txt", "año 2026/ñ.txt", "..a/b..", "a.b/..c"])
def test_keys_are_relative_paths(key: str) -> None:
    assert checked_key(key) == key


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "../a", "a/../b", "a//b", "./a", "a\\..\\b", "a\0b", "a\nb", "x" * 701]
)
def test_what_leads_out_of_the_prefix_is_no_key(key: str) -> None:
    with pytest.raises(ModelError) as caught:
        checked_key(key)
    assert caught.value.code == "bad_key"


def test_a_beginning_of_keys_may_end_in_a_slash() -> None:
    assert [checked_key(text, folder=True) for text in ("", "r/", "r/20")] == ["", "r/", "r/20"]
    for text in ("/", "../", "r/../x", "r//"):
        with pytest.raises(ModelError):
            checked_key(text, folder=True)


@pytest.mark.property
@given(st.text(st.sampled_from("./\\a \u0301é\0" + string.ascii_letters), max_size=30))
def test_no_key_leaves_its_folder(text: str) -> None:
    try:
        key = checked_key(text)
    except ModelError:
        return
    parts = PurePosixPath("root/ana", key).parts
    assert parts[:2] == ("root", "ana")
    assert ".." not in parts
    assert len(parts) > 2
    assert checked_key(key) == key


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("storage_upload", {"key": "a"}),
        ("storage_upload", {"key": "a", "text": "x", "path": "y"}),
        ("storage_upload", {"key": "../a", "text": "x"}),
        ("storage_download", {"key": "/etc/passwd"}),
        ("storage_list", {"prefix": "../eva/"}),
        ("storage_list", {"after": "../eva/x"}),
        ("storage_delete", {"key": "a/../../eva/x"}),
        ("storage_share", {"key": "a", "expires_s": 5}),
    ],
)
def test_wrong_arguments_need_no_server(make_bench: Callable[..., Bench], name: str, args: dict[str, Any]) -> None:
    bench = make_bench(storage={"url": "http://127.0.0.1:1"})
    with pytest.raises(ModelError) as caught:
        bench.run(name, **args)
    assert caught.value.code in ("bad_key", "bad_arguments")


def test_the_tools_say_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry()
    registry.load_builtin()

    def reason(**storage: Any) -> str:
        return registry.catalogue(Settings.model_validate({"storage": storage})).missing.get("storage_list", "")

    names = {"access_key_env": "TEST_S3_A", "secret_key_env": "TEST_S3_B"}
    assert "storage.url" in reason()
    monkeypatch.setenv("TEST_S3_A", "x")
    assert "TEST_S3_B" in reason(url="http://s3", **names)
    monkeypatch.setenv("TEST_S3_B", "y")
    assert reason(url="http://s3", **names) == ""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'capataz[storage]'" in reason(url="http://s3", **names)
