"""The storage tools against an S3 server over real HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from minio import Minio

from shared.errors import ModelError
from tests.support.http_stub import Answer, HttpStub, always
from tests.support.s3 import ACCESS_KEY, SECRET_KEY, s3_server
from tests.unit.tools.conftest import bench, make_bench, workspace  # noqa: F401 - fixtures

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with s3_server() as found:
        yield found


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_S3_ACCESS", ACCESS_KEY)
    monkeypatch.setenv("TEST_S3_SECRET", SECRET_KEY)


_buckets = iter(f"bucket-{number}" for number in range(1000))


def section(url: str, **more: Any) -> dict[str, Any]:
    names = {"access_key_env": "TEST_S3_ACCESS", "secret_key_env": "TEST_S3_SECRET"}
    return {"url": url, "prefix": "users", "create_bucket": True, **names, **more}


@pytest.fixture
def store(make_bench: Callable[..., Any], url: str, keys: None) -> Any:  # noqa: F811
    return make_bench(storage=section(url, bucket=next(_buckets)))


def raw(store: Any) -> Minio:
    settings = store.settings.storage
    return Minio(settings.url.removeprefix("http://"), ACCESS_KEY, SECRET_KEY, secure=False, region=settings.region)


def content(store: Any, name: str) -> bytes:
    response = raw(store).get_object(store.settings.storage.bucket, name)
    try:
        return response.read()
    finally:
        response.close()


def test_text_file_and_artifact_are_stored_below_the_users_prefix(store: Any, workspace: Path) -> None:  # noqa: F811
    (workspace / "informe.pdf").write_bytes(b"%PDF-1.7 bytes")
    handle = asyncio.run(store.services.artifacts.put("ana", b"\x89PNG", "image/png"))
    store.run("storage_upload", key="notas/año.txt", text="hola")
    store.run("storage_upload", key="informe.pdf", path="informe.pdf")
    output = store.run("storage_upload", key="foto.png", handle=handle)
    assert output.value == {"key": "foto.png", "size": 4, "media_type": "image/png", "stored": True}
    assert content(store, "users/ana/notas/año.txt") == b"hola"
    assert content(store, "users/ana/informe.pdf") == b"%PDF-1.7 bytes"
    head = raw(store).stat_object(store.settings.storage.bucket, "users/ana/foto.png")
    assert (head.content_type, head.size) == ("image/png", 4)


def test_an_object_is_replaced_only_when_that_is_asked_for(store: Any) -> None:
    store.run("storage_upload", key="a.txt", text="one")
    again = store.run("storage_upload", key="a.txt", text="one")
    assert again.value["stored"] is False
    assert "There already" in again.seen
    with pytest.raises(ModelError) as caught:
        store.run("storage_upload", key="a.txt", text="two")
    assert caught.value.code == "exists"
    assert content(store, "users/ana/a.txt") == b"one"
    store.run("storage_upload", key="a.txt", text="two", overwrite=True)
    assert content(store, "users/ana/a.txt") == b"two"


def test_objects_come_back_as_artifact_or_file(store: Any, workspace: Path) -> None:  # noqa: F811
    store.run("storage_upload", key="a.txt", text="hola")
    handle = store.run("storage_download", key="a.txt").value["handle"]
    assert asyncio.run(store.services.artifacts.get("ana", handle)).data == b"hola"
    assert store.run("storage_download", key="a.txt", path="in/b.txt").value["path"] == "in/b.txt"
    assert (workspace / "in" / "b.txt").read_bytes() == b"hola"
    store.run("storage_download", key="a.txt", path="in/b.txt")  # the same bytes: an attempt that is repeated
    (workspace / "in" / "b.txt").write_text("mine")
    with pytest.raises(ModelError) as caught:
        store.run("storage_download", key="a.txt", path="in/b.txt")
    assert caught.value.code == "exists"
    store.run("storage_download", key="a.txt", path="in/b.txt", overwrite=True)
    assert (workspace / "in" / "b.txt").read_bytes() == b"hola"
    assert [one.name for one in (workspace / "in").iterdir()] == ["b.txt"]
    for path, code in (("../b.txt", "outside_workspace"), ("AGENTS.md", "protected"), (".", "bad_path")):
        with pytest.raises(ModelError) as caught:
            store.run("storage_download", key="a.txt", path=path)
        assert caught.value.code == code
    with pytest.raises(ModelError) as caught:
        store.run("storage_download", key="none.txt")
    assert caught.value.code == "not_found"


def test_lists_are_paged_and_each_user_sees_their_own(store: Any) -> None:
    for name in ("r/1.txt", "r/2.txt", "r/3.txt", "other.txt"):
        store.run("storage_upload", key=name, text=name)
    store.run("storage_upload", principal="eva", key="secret.txt", text="x")
    first = store.run("storage_list", prefix="r/", limit=2)
    assert [one["key"] for one in first.value["objects"]] == ["r/1.txt", "r/2.txt"]
    assert first.value["objects"][0]["size"] == 7
    assert "after=r/2.txt" in first.seen
    rest = store.run("storage_list", prefix="r/", after="r/2.txt", limit=2).value
    assert ([one["key"] for one in rest["objects"]], rest["more"]) == (["r/3.txt"], False)
    assert len(store.run("storage_list").value["objects"]) == 4
    assert [one["key"] for one in store.run("storage_list", principal="eva").value["objects"]] == ["secret.txt"]
    assert store.run("storage_list", principal="an").value["objects"] == []
    with pytest.raises(ModelError):
        store.run("storage_download", key="secret.txt")


def test_delete_says_whether_there_was_anything(store: Any) -> None:
    store.run("storage_upload", key="a.txt", text="x")
    assert store.run("storage_delete", key="a.txt").value["deleted"] is True
    assert store.run("storage_delete", key="a.txt").value["deleted"] is False
    assert store.run("storage_list").value["objects"] == []


def test_a_link_works_without_keys_and_names_the_public_address(
    store: Any,
    make_bench: Callable[..., Any],  # noqa: F811
) -> None:
    store.run("storage_upload", key="contrato 1.txt", text="firmado")
    output = store.run("storage_share", key="contrato 1.txt", expires_s=600)
    assert httpx.get(output.value["url"]).text == "firmado"
    assert "X-Amz-Expires=600" in output.value["url"]
    assert output.value["expires"] == "2026-11-10T14:10+00:00"
    with pytest.raises(ModelError, match="86400 s at most"):
        store.run("storage_share", key="contrato 1.txt", expires_s=86_401)
    with pytest.raises(ModelError) as caught:
        store.run("storage_share", key="none.txt")
    assert caught.value.code == "not_found"
    settings = section(store.settings.storage.url, bucket=store.settings.storage.bucket)
    public = make_bench(storage={**settings, "public_url": "https://files.example.org"})
    assert public.run("storage_share", key="contrato 1.txt").value["url"].startswith("https://files.example.org/")


def test_a_bucket_is_made_only_if_told_so(make_bench: Callable[..., Any], url: str, keys: None) -> None:  # noqa: F811
    closed = make_bench(storage=section(url, bucket=next(_buckets), create_bucket=False))
    for name, args in (("storage_upload", {"key": "a", "text": "x"}), ("storage_list", {})):
        with pytest.raises(ModelError) as caught:
            closed.run(name, **args)
        assert caught.value.code == "no_bucket"
    assert not raw(closed).bucket_exists(closed.settings.storage.bucket)


def test_too_much_is_neither_sent_nor_taken(make_bench: Callable[..., Any], store: Any, url: str) -> None:  # noqa: F811
    store.run("storage_upload", key="big.bin", text="x" * 200)
    small = make_bench(storage=section(url, bucket=store.settings.storage.bucket, max_bytes=100))
    with pytest.raises(ModelError, match="limit is 100"):
        small.run("storage_upload", key="b", text="x" * 101)
    with pytest.raises(ModelError, match="larger than 100 bytes"):
        small.run("storage_download", key="big.bin")


def test_a_server_that_is_down_refuses_is_slow_or_talks_nonsense_is_told(
    make_bench: Callable[..., Any],  # noqa: F811
    keys: None,
) -> None:
    denied = "<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>"
    never = threading.Event()
    answers = {
        "auth_refused": Answer(denied, 403, "application/xml"),
        "bad_response": Answer("<html>", 502, "text/html"),
        "timed_out": Answer(b"", hold=never),
    }
    with HttpStub(lambda asked: None) as server:
        store = make_bench(storage=section(server.url, bucket="bucket", timeout_s=0.3))
        for code, answer in answers.items():
            server.answer = always(answer)
            for name, args in (("storage_list", {}), ("storage_delete", {"key": "a"})):
                with pytest.raises(ModelError) as caught:
                    store.run(name, **args)
                assert (name, caught.value.code) == (name, code)
                assert SECRET_KEY not in str(caught.value)
        never.set()
        server.answer = lambda asked: Answer("<html>", 200, "text/html")
        with pytest.raises(ModelError, match="cannot be used"):
            store.run("storage_list")
    with pytest.raises(ModelError, match="so nothing was done"):
        store.run("storage_upload", key="a", text="x")
