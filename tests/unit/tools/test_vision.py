"""Pictures from files, artifacts and addresses: what models are shown, and what never reaches one."""

from __future__ import annotations

import asyncio
import base64
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import ModelError
from shared.llm.model import ImageBlock
from shared.pictures import MOST_BYTES, Picture, look_at
from tests.support.http_stub import Answer, HttpStub


def png(width: int = 2, height: int = 3) -> bytes:
    """A PNG whose header says that size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunk = b"IHDR" + header
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))


JPEG = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xff\xc2\0\x11\x08\0\x07\0\x09\x03"
GIF = b"GIF89a\x05\0\x06\0\x80\0\0"
VP8 = b"RIFF\x24\0\0\0WEBPVP8 \x18\0\0\0\x30\x01\0\x9d\x01\x2a\x0a\0\x0b\0"
VP8L = b"RIFF\x24\0\0\0WEBPVP8L\x18\0\0\0\x2f" + struct.pack("<I", 11 | 12 << 14)
VP8X = b"RIFF\x24\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\x0c\0\0" + b"\x0d\0\0"


@pytest.mark.parametrize(
    ("data", "picture"),
    [
        (png(), Picture("image/png", 2, 3)),
        (JPEG, Picture("image/jpeg", 9, 7)),
        (GIF, Picture("image/gif", 5, 6)),
        (VP8, Picture("image/webp", 10, 11)),
        (VP8L, Picture("image/webp", 12, 13)),
        (VP8X, Picture("image/webp", 13, 14)),
        (png(0, 5), None),
        (b"RIFF\0\0\0\0WAVEfmt ", None),
        (b"<svg/>", None),
        (b"", None),
    ],
)
def test_kind_and_size_are_read_from_the_header(data: bytes, picture: Picture | None) -> None:
    assert look_at(data) == picture


@pytest.mark.property
@given(st.sampled_from([png(), JPEG, GIF, VP8, VP8L, VP8X]), st.integers(0, 60), st.binary(max_size=20))
def test_any_bytes_are_a_picture_or_none(head: bytes, cut: int, tail: bytes) -> None:
    found = look_at(head[:cut] + tail)
    assert found is None or found.pixels > 0


def test_a_picture_is_shown_to_the_vision_tier(bench: Any, workspace: Path) -> None:
    (workspace / "gato.jpg").write_bytes(png())
    bench.model.answer = "Un gato."
    output = bench.run("image_describe", path="gato.jpg", question="¿Qué animal es?")
    assert output.value == {"description": "Un gato.", "media_type": "image/png", "model": "scripted"}
    tier, request = bench.model.asked[0]
    image, question = request.messages[0].blocks
    assert tier == "vision"
    assert isinstance(image, ImageBlock)
    assert base64.b64decode(image.data) == png()
    assert question.text == "¿Qué animal es?"
    handle = asyncio.run(bench.services.artifacts.put("ana", JPEG, "image/png"))
    assert bench.run("image_describe", handle=handle).value["media_type"] == "image/jpeg"
    with pytest.raises(ModelError, match="no artifact"):
        bench.run("image_describe", principal="eva", handle=handle)


def test_a_picture_behind_an_address_goes_through_the_checked_fetch(make_bench: Callable[..., Any]) -> None:
    with HttpStub(lambda asked: Answer(png(), media_type="image/png")) as server:
        url = f"{server.url}/a.png"
        with pytest.raises(ModelError) as caught:
            make_bench().run("image_describe", url=url)
        assert caught.value.code == "private_address"
        assert server.asked == []
        web = {"allow_private": ("127.0.0.1",)}
        bench = make_bench(web={**web, "ports": (server.port,)})
        bench.model.answer = "Nada."
        assert bench.run("image_describe", url=url).value["media_type"] == "image/png"
        server.answer = lambda asked: None
        with pytest.raises(ModelError, match="404"):
            bench.run("image_describe", url=url)


def test_text_is_read_exactly_and_its_lack_is_told(bench: Any, workspace: Path) -> None:
    (workspace / "ticket.png").write_bytes(png())
    bench.model.answer = "PAN 1,20\nTOTAL 1,20"
    output = bench.run("image_read_text", path="ticket.png")
    assert output.value["text"] == "PAN 1,20\nTOTAL 1,20"
    assert output.seen.startswith("The text in ticket.png:\nPAN")
    assert "exactly" in bench.model.asked[0][1].system
    bench.model.answer = "[no text]"
    output = bench.run("image_read_text", path="ticket.png")
    assert (output.value["text"], output.seen) == ("", "There is no text in ticket.png.")


def test_pictures_are_compared_by_their_numbers(bench: Any, workspace: Path) -> None:
    (workspace / "a.png").write_bytes(png(2, 2))
    handle = asyncio.run(bench.services.artifacts.put("ana", JPEG, "image/jpeg"))
    bench.model.answer = "The second is a photo."
    output = bench.run("image_compare", images=["a.png", handle])
    assert output.value["comparison"] == "The second is a photo."
    assert f"image 2 is {handle}" in output.seen
    blocks = bench.model.asked[0][1].messages[0].blocks
    assert [type(block).__name__ for block in blocks] == [
        "TextBlock", "ImageBlock", "TextBlock", "ImageBlock", "TextBlock",
    ]  # fmt: skip
    assert [blocks[0].text, blocks[2].text] == ["Image 1:", "Image 2:"]
    for images in (["a.png"], ["a.png"] * 5, ["a.png", "none.png"]):
        with pytest.raises(ModelError):
            bench.run("image_compare", images=images)
    assert len(bench.model.asked) == 1


def test_what_is_no_picture_or_too_large_reaches_no_model(bench: Any, workspace: Path) -> None:
    (workspace / "fake.png").write_bytes(b"<svg/>")
    (workspace / "bomb.png").write_bytes(png(100_000, 100_000))
    (workspace / "big.png").write_bytes(png() + b"\0" * MOST_BYTES)
    large = asyncio.run(bench.services.artifacts.put("ana", png() + b"\0" * MOST_BYTES, "image/png"))
    cases = [
        ({"path": "fake.png"}, "not_an_image"),
        ({"path": "bomb.png"}, "too_large"),
        ({"path": "big.png"}, "too_large"),
        ({"handle": large}, "too_large"),
        ({"path": "../x.png"}, "outside_workspace"),
        ({}, "bad_arguments"),
        ({"path": "fake.png", "handle": "a:" + "0" * 32}, "bad_arguments"),
    ]
    for name in ("image_describe", "image_read_text"):
        for args, code in cases:
            with pytest.raises(ModelError) as caught:
                bench.run(name, **args)
            assert caught.value.code == code, args
    assert bench.model.asked == []


def test_a_model_that_says_nothing_is_told(bench: Any, workspace: Path) -> None:
    (workspace / "a.png").write_bytes(png())
    with pytest.raises(ModelError, match="said nothing"):
        bench.run("image_describe", path="a.png")
