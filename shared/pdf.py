"""The text of a PDF, read in a child process: what a broken or hostile one takes is bounded and ends with it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from shared.errors import ModelError

_CHILD: Final = Path(__file__).with_name("pdf_child.py")
_MEMORY_BYTES: Final = 768_000_000
_CHUNK: Final = 65_536
_GRACE_S: Final = 2.0
"""Beyond its time: the child stops by itself after the page at hand."""


@dataclass(frozen=True)
class Pdf:
    """`text` has a line `[page N]` before each page; `read` of its `pages` are in it, the first ones."""

    text: str
    pages: int
    read: int

    @property
    def empty(self) -> bool:
        """True if no page has text: a scan, most likely."""
        return all(line.startswith("[page ") or not line.strip() for line in self.text.splitlines())


def missing() -> str | None:
    """What has to be installed before PDFs can be read."""
    return None if importlib.util.find_spec("pypdf") else "PDFs cannot be read here: pip install 'capataz[pdf]'"


async def read_pdf(data: bytes, *, pages: int, chars: int, seconds: float) -> Pdf:
    """The text of the first `pages` pages, `chars` characters at most, as far as `seconds` allow.

    Raises ModelError when it is no PDF, is encrypted, gives nothing within its bounds, or pypdf is not installed.
    """
    if (reason := missing()) is not None:
        raise ModelError(reason, hint="tell the user", code="not_configured")
    bounds = {"pages": pages, "chars": chars, "seconds": seconds, "memory_bytes": _MEMORY_BYTES}
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(_CHILD),
        json.dumps(bounds),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"LANG": "C.UTF-8"},
        start_new_session=True,
    )
    try:
        out = await _talk(child, data, seconds + _GRACE_S, chars * 6 + 1_000_000)
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
    return _told(out, chars)


async def _talk(child: asyncio.subprocess.Process, data: bytes, seconds: float, most: int) -> bytes:
    """What the child says until it ends, its time is up, or it says too much."""
    assert child.stdin is not None
    assert child.stdout is not None
    out = bytearray()
    try:
        async with asyncio.timeout(seconds):
            try:
                child.stdin.write(data)
                await child.stdin.drain()
                child.stdin.close()
            except (BrokenPipeError, ConnectionResetError):
                pass  # it had enough; what it said tells why
            while len(out) < most and (chunk := await child.stdout.read(_CHUNK)):
                out += chunk
    except TimeoutError:
        pass  # the pages that came are worth having
    return bytes(out)


def _told(out: bytes, chars: int) -> Pdf:
    """The pages of whole lines; one that was cut by the end of the child is left out."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines(keepends=True) if line.endswith(b"\n")]
    texts = [str(line["text"]) for line in lines if "text" in line]
    wrong = next((str(line["error"]) for line in lines if "error" in line), "")
    if wrong and not texts:
        raise ModelError(f"the PDF cannot be read: {wrong}", hint="tell the user", code="bad_pdf")
    if not texts:
        raise ModelError(
            "the PDF gave no page within its bounds of time and memory", hint="ask for a smaller one", code="too_large"
        )
    text = "\n\n".join(f"[page {number}]\n{page}" for number, page in enumerate(texts, 1))
    text = text[:chars].encode("utf-8", "replace").decode()  # half a surrogate pair is no text that can be kept
    return Pdf(text, next(int(line["pages"]) for line in lines if "pages" in line), len(texts))
