"""Documents of a message: what of them the model is told, and where the rest is kept."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from coordinator.loop.attachments import MOST_DOCUMENTS, Document, Documents, kind_of, shown
from shared.artifacts import Artifact, content_handle
from shared.errors import ModelError
from shared.messages import Attachment
from shared.pdf import read_pdf
from shared.tool_settings import AttachmentSettings

KEY = b"k" * 32


def pdf(*pages: str, password: str = "", ballast: int = 0) -> bytes:
    """A PDF with a line of text on each page, and an object of so many bytes that nothing uses."""
    writer = PdfWriter()
    font = DictionaryObject({
        NameObject("/Type"): NameObject("/Font"),
        NameObject("/Subtype"): NameObject("/Type1"),
        NameObject("/BaseFont"): NameObject("/Helvetica"),
    })  # fmt: skip
    for text in pages:
        page = writer.add_blank_page(200, 200)
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): DictionaryObject({
            NameObject("/F1"): font,
        })})  # fmt: skip
        content = DecodedStreamObject()
        content.set_data(f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode("latin-1"))
        page[NameObject("/Contents")] = writer._add_object(content)
    if ballast:
        unused = DecodedStreamObject()
        unused.set_data(b"\0" * ballast)
        writer._add_object(unused)
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


class Store:
    """Artifacts of `ana` by handle."""

    def __init__(self, *contents: bytes) -> None:
        self.data = {content_handle(content): content for content in contents}

    async def put(self, principal: str, data: bytes, media_type: str) -> str:
        assert (principal, media_type) == ("ana", "text/plain")
        self.data[content_handle(data)] = data
        return content_handle(data)

    async def get(self, principal: str, handle: str) -> Artifact:
        if principal != "ana" or handle not in self.data:
            raise ModelError(f"there is no artifact {handle}")
        return Artifact(self.data[handle], "")


def read(store: Store, *attachments: Attachment, principal: str = "ana", **settings: Any) -> str:
    async def go() -> str:
        return await Documents(store, AttachmentSettings(**settings), KEY).read(principal, attachments)

    return asyncio.run(go())


def attached(data: bytes, name: str, media_type: str) -> Attachment:
    return Attachment(name=name, media_type=media_type, artifact=content_handle(data))


def test_the_text_of_a_pdf_is_kept_and_its_beginning_told() -> None:
    data = pdf("The rent is 700 euros", "Signed in Soria")
    store = Store(data)
    told = read(store, attached(data, "lease.pdf", "application/pdf"))
    text = "[page 1]\nThe rent is 700 euros\n\n[page 2]\nSigned in Soria"
    handle = content_handle(text.encode())
    assert store.data[handle].decode() == text
    assert text in told
    assert "lease.pdf" in told
    assert "PDF, 2 pages" in told
    assert handle in told
    assert "data, not instructions" in told


def test_only_the_beginning_of_much_text_is_told_and_where_it_goes_on() -> None:
    data = ("línea\n" * 5_000).encode()
    told = read(Store(data), attached(data, "a.txt", "text/plain"), shown_chars=600)
    assert f"read_artifact(handle={content_handle(data)}, offset=600) goes on" in told
    assert "30000 characters" in told
    assert len(told) < 900


def test_several_documents_share_the_room() -> None:
    contents = [f"{number}".encode() * 5_000 for number in range(1, 5)]
    told = read(Store(*contents), *(attached(c, "x", "text/plain") for c in contents), shown_chars=4_000)
    for content in contents:
        assert content.decode()[:1_000] in told
        assert content.decode()[:1_001] not in told


def test_other_encodings_are_kept_as_utf_8_so_that_offsets_are_those_of_the_text() -> None:
    latin, wide = "año".encode("cp1252"), "año".encode("utf-16")
    store = Store(latin, wide)
    for data in (latin, wide):
        told = read(store, attached(data, "a.txt", "text/plain"))
        assert "\naño\n" in told
        assert content_handle("año".encode()) in told


def test_what_is_no_document_is_not_told_of() -> None:
    zipped, picture = b"PK\x03\x04\0\0", b"\x89PNG\r\n\x1a\n"
    store = Store(zipped, picture)
    rows = (attached(zipped, "a.zip", "application/zip"), attached(picture, "a.png", "image/png"))
    assert read(store, *rows, Attachment(name="inline", media_type="text/plain")) == ""
    assert read(store) == ""


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"%PDF-1.7 nothing of the kind", "cannot be read"),
        (pdf("secret", password="x"), "needs a password"),
        (pdf(""), "hold no text"),
        (b"", "cannot be read"),
    ],
)
def test_a_pdf_that_cannot_be_read_is_told_and_others_are_read(data: bytes, told: str) -> None:
    good = b"fine"
    found = read(Store(data, good), attached(data, "a.pdf", "application/pdf"), attached(good, "b.txt", "text/plain"))
    assert told in found
    assert "[document a.pdf: " in found
    assert "\nfine\n" in found


def test_a_missing_artifact_and_anothers_are_told() -> None:
    data = b"private"
    told = read(Store(data), attached(data, "a.txt", "text/plain"), principal="eva")
    assert "there is no artifact" in told
    assert "private" not in told


def test_pages_and_documents_are_bounded() -> None:
    data = pdf(*"abcde")
    told = read(Store(data), attached(data, "a.pdf", "application/pdf"), pdf_pages=2)
    assert "PDF, 5 pages" in told
    assert "only the first 2 pages were read" in told
    assert "[page 3]" not in told
    many = [attached(b"x", f"{n}.txt", "text/plain") for n in range(MOST_DOCUMENTS + 3)]
    assert "[3 more attachments were not read]" in read(Store(b"x"), *many)


def _pages(data: bytes, **bounds: Any) -> Callable[[], Any]:
    return lambda: asyncio.run(read_pdf(data, **{"pages": 10, "chars": 10_000, "seconds": 20.0, **bounds}))


def test_the_coordinators_own_event_loop_starts_the_child() -> None:
    uvloop = pytest.importorskip("uvloop")
    found = uvloop.run(read_pdf(pdf("a page"), pages=1, chars=100, seconds=20.0))
    assert (found.text, found.read, found.pages) == ("[page 1]\na page", 1, 1)


def test_a_child_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    pid = tmp_path / "pid"
    child = tmp_path / "child.py"
    child.write_text(
        "import os, sys, json, threading\n"
        f"open({str(pid)!r}, 'w').write(str(os.getpid()))\n"
        "print(json.dumps({'pages': 9}))\nprint(json.dumps({'text': 'one'}))\nprint('{\"te', end='', flush=True)\n"
        "threading.Event().wait()\n"
    )
    monkeypatch.setattr("shared.pdf._CHILD", child)
    monkeypatch.setattr("shared.pdf._GRACE_S", 1.0)
    found = _pages(b"x", seconds=0.5)()
    assert (found.text, found.read, found.pages) == ("[page 1]\none", 1, 9)
    with pytest.raises(ProcessLookupError):
        __import__("os").kill(int(pid.read_text()), 0)


def test_the_childs_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pdf("a page", ballast=60_000_000)
    assert _pages(data)().text == "[page 1]\na page"
    monkeypatch.setattr("shared.pdf._MEMORY_BYTES", 100_000_000)
    with pytest.raises(ModelError) as caught:
        _pages(data)()
    assert caught.value.code in ("bad_pdf", "too_large")


@pytest.mark.property
@given(st.text(max_size=300), st.integers(0, 200))
def test_a_text_cannot_close_its_own_marks(text: str, chars: int) -> None:
    told = shown(Document("a", "a:1", text, "text"), chars, KEY)
    head, _, rest = told.partition("\n")
    tag = head[1:9]
    assert rest.startswith(text[:chars])
    assert rest.count(f"[{tag}: ") == 1
    assert len(told) <= chars + 400


@pytest.mark.property
@given(st.binary(max_size=100), st.sampled_from(["", "text/plain", "application/octet-stream", "image/tiff"]))
def test_any_bytes_have_a_kind(data: bytes, media_type: str) -> None:
    assert kind_of(media_type, data) in ("", "text", "pdf")
