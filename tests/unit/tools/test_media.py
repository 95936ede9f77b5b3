"""The media tools against a local server that speaks the wire format of OpenAI-compatible services."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.errors import ModelError
from shared.settings import Settings
from tests.support.http_stub import Answer, Asked, HttpStub, always
from workers.declare import Registry

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
KEY = "sk-secret-of-the-test"
TOOLS = {"image_generate", "speech_to_text", "text_to_speech"}


@pytest.fixture
def server() -> Iterator[HttpStub]:
    with HttpStub(lambda asked: None) as stub:
        yield stub


@pytest.fixture
def bench(make_bench: Callable[..., Any], server: HttpStub, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TEST_MEDIA_KEY", KEY)
    return make_bench(media=section(server.url))


def section(url: str, **more: Any) -> dict[str, Any]:
    return {
        "base_url": f"{url}/v1",
        "api_key_env": "TEST_MEDIA_KEY",
        "image": {"model": "gpt-image-1"},
        "transcription": {"model": "whisper-1"},
        "speech": {"model": "tts-1", "voice": "nova"},
        **more,
    }


def stored(bench: Any, handle: str) -> Any:
    return asyncio.run(bench.services.artifacts.get("ana", handle))


def test_a_picture_in_the_answer_is_kept_as_an_artifact(bench: Any, server: HttpStub) -> None:
    server.answer = lambda asked: Answer({"created": 1, "data": [{"b64_json": base64.b64encode(PNG).decode()}]})
    output = bench.run("image_generate", prompt="un faro", size="1024x1024")
    assert (output.value["media_type"], output.value["width"], output.value["height"]) == ("image/png", 1, 1)
    assert stored(bench, output.value["handle"]).data == PNG
    assert output.value["handle"] in output.seen
    [asked] = server.asked
    assert (asked.method, asked.path) == ("POST", "/v1/images/generations")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.json() == {"model": "gpt-image-1", "prompt": "un faro", "n": 1, "size": "1024x1024"}


def test_a_picture_behind_an_address_of_the_service_is_fetched_without_the_key(bench: Any, server: HttpStub) -> None:
    def answer(asked: Asked) -> Answer | None:
        if asked.method == "POST":
            return Answer({"data": [{"url": f"{server.url}/files/1.png?sig=2"}]})
        return Answer(PNG, media_type="image/png")

    server.answer = answer
    handle = bench.run("image_generate", prompt="a lighthouse").value["handle"]
    assert stored(bench, handle).data == PNG
    assert server.asked[1].path == "/files/1.png?sig=2"
    assert "authorization" not in server.asked[1].headers


def test_a_picture_on_another_private_host_is_not_fetched(bench: Any, server: HttpStub) -> None:
    with HttpStub(lambda asked: Answer(PNG)) as other:
        server.answer = lambda asked: Answer({"data": [{"url": f"{other.url}/x.png"}]})
        with pytest.raises(ModelError) as caught:
            bench.run("image_generate", prompt="a lighthouse")
        assert caught.value.code == "private_address"
        assert other.asked == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"data": []},
        {"data": [{}]},
        {"data": [{"b64_json": "%%%"}]},
        {"data": [{"b64_json": base64.b64encode(b"<svg/>").decode()}]},
        {"data": "x"},
        b"<html>",
        b"[1]",
    ],
)
def test_an_answer_that_is_no_picture_is_told(bench: Any, server: HttpStub, body: Any) -> None:
    server.answer = lambda asked: Answer(body)
    with pytest.raises(ModelError) as caught:
        bench.run("image_generate", prompt="x")
    assert caught.value.code == "bad_response"


@pytest.mark.parametrize("by", ["path", "handle"])
def test_speech_is_sent_as_a_form_and_its_text_returned(bench: Any, server: HttpStub, workspace: Path, by: str) -> None:
    server.answer = lambda asked: Answer({"text": " Hola, Ana. "})
    sound = b"RIFF\0\0\0\0WAVEfmt "
    (workspace / "nota.wav").write_bytes(sound)
    where = "nota.wav" if by == "path" else asyncio.run(bench.services.artifacts.put("ana", sound, "audio/x-wav"))
    output = bench.run("speech_to_text", **{by: where}, language="es", hint="Ana")
    assert output.value == {"text": "Hola, Ana."}
    assert output.seen.endswith(":\nHola, Ana.")
    [asked] = server.asked
    form = asked.form()
    fields = {name: part.get_content().strip() for name, part in form.items() if name != "file"}
    assert fields == {"model": "whisper-1", "response_format": "json", "language": "es", "prompt": "Ana"}
    assert form["file"].get_filename() == "recording.wav"
    assert form["file"].get_content_type() == "audio/wav"
    assert form["file"].get_payload(decode=True) == sound


def test_what_is_no_recording_is_not_sent(bench: Any, server: HttpStub, workspace: Path) -> None:
    (workspace / "a.txt").write_text("x")
    (workspace / "empty.mp3").write_bytes(b"")
    for args, code in (
        ({"path": "a.txt"}, "not_audio"),
        ({"path": "empty.mp3"}, "too_large"),
        ({"path": "../a.mp3"}, "outside_workspace"),
        ({}, "bad_arguments"),
        ({"path": "a.txt", "handle": "a:" + "0" * 32}, "bad_arguments"),
    ):
        with pytest.raises(ModelError) as caught:
            bench.run("speech_to_text", **args)
        assert caught.value.code == code
    handle = asyncio.run(bench.services.artifacts.put("ana", b"abc", "audio/mpeg"))
    with pytest.raises(ModelError, match="no artifact"):
        bench.run("speech_to_text", principal="eva", handle=handle)
    assert server.asked == []


def test_a_text_is_read_aloud_into_an_artifact(bench: Any, server: HttpStub) -> None:
    server.answer = lambda asked: Answer(b"ID3\x04sound", media_type="audio/mpeg")
    output = bench.run("text_to_speech", text="Buenos días")
    artifact = stored(bench, output.value["handle"])
    assert (artifact.data, artifact.media_type) == (b"ID3\x04sound", "audio/mpeg")
    [asked] = server.asked
    assert asked.path == "/v1/audio/speech"
    assert asked.json() == {"model": "tts-1", "input": "Buenos días", "voice": "nova", "response_format": "mp3"}
    bench.run("text_to_speech", text="hi", voice="echo", format="wav")
    assert server.asked[1].json()["voice"] == "echo"


def test_an_answer_that_is_no_sound_is_told(bench: Any, server: HttpStub) -> None:
    bodies: tuple[bytes | dict[str, Any], ...] = ({"error": "none"}, b"")
    for body in bodies:
        server.answer = always(Answer(body))
        with pytest.raises(ModelError, match="not sound"):
            bench.run("text_to_speech", text="hi")


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (401, "auth_refused", "Incorrect API key provided: ***"),
        (403, "auth_refused", "status 403"),
        (400, "refused", "change the arguments"),
        (429, "rate_limited", "try again in 7 s"),
        (503, "service_failed", "try again later"),
    ],
)
def test_a_refusal_says_why_and_never_the_key(bench: Any, server: HttpStub, status: int, code: str, told: str) -> None:
    error = {"error": {"message": f"Incorrect API key provided: {KEY}"}}
    server.answer = lambda asked: Answer(error, status, headers={"Retry-After": "7"})
    for name, args in (("image_generate", {"prompt": "x"}), ("text_to_speech", {"text": "x"})):
        with pytest.raises(ModelError) as caught:
            bench.run(name, **args)
        assert caught.value.code == code
        assert told in str(caught.value)
        assert KEY not in str(caught.value)


def test_a_service_that_is_down_slow_or_endless_is_told(
    make_bench: Callable[..., Any], server: HttpStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_MEDIA_KEY", KEY)
    never = threading.Event()
    server.answer = lambda asked: Answer(b"x", hold=never)
    slow = make_bench(media=section(server.url, timeout_s=0.2))
    with pytest.raises(ModelError, match=r"did not answer within 0\.2 s"):
        slow.run("text_to_speech", text="hi")
    never.set()
    server.answer = lambda asked: Answer(b"x" * 200, media_type="audio/mpeg")
    small = make_bench(media=section(server.url, max_bytes=100))
    with pytest.raises(ModelError, match="more than 100 bytes"):
        small.run("text_to_speech", text="hi")
    with HttpStub(lambda asked: None) as gone:
        pass
    with pytest.raises(ModelError, match="cannot be reached, so nothing was done"):
        make_bench(media=section(gone.url)).run("text_to_speech", text="hi")


def test_each_tool_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry()
    registry.load_builtin()

    def missing(media: dict[str, Any]) -> dict[str, str]:
        found = registry.catalogue(Settings.model_validate({"media": media})).missing
        return {name: why for name, why in found.items() if name in TOOLS}

    assert set(missing({})) == TOOLS
    assert "media.image.model" in missing({})["image_generate"]
    assert "media.base_url" in missing({"image": {"model": "m"}})["image_generate"]
    monkeypatch.delenv("TEST_MEDIA_KEY", raising=False)
    assert "TEST_MEDIA_KEY" in missing(section("http://x"))["text_to_speech"]
    monkeypatch.setenv("TEST_MEDIA_KEY", KEY)
    assert missing(section("http://x")) == {}
    own = {"speech": {"model": "m", "base_url": "http://y"}}
    assert set(missing(own)) == TOOLS - {"text_to_speech"}


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("image_generate", {"prompt": ""}),
        ("image_generate", {"prompt": "x", "size": "big"}),
        ("text_to_speech", {"text": "x", "format": "midi"}),
        ("speech_to_text", {"path": "a.mp3", "language": "Spanish"}),
    ],
)
def test_wrong_arguments_reach_no_server(bench: Any, server: HttpStub, name: str, args: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        bench.run(name, **args)
    assert server.asked == []
