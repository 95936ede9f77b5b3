"""What a picture says of itself, from its first bytes: its kind and its size in pixels. Pure; nothing is decoded."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

MEDIA_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What the large providers read."""
MOST_BYTES: Final = 5_000_000
"""What they accept for one picture."""
MOST_PIXELS: Final = 50_000_000
"""Larger ones are refused before anything unpacks them: a few kilobytes may stand for gigabytes of pixels."""

_NO_FRAME = frozenset((0xC4, 0xC8, 0xCC))  # among JPEG's frame headers, but tables


@dataclass(frozen=True, slots=True)
class Picture:
    """Kind and size of a picture. Animations have the size of one frame."""

    media_type: str
    width: int
    height: int

    @property
    def pixels(self) -> int:
        """Width times height."""
        return self.width * self.height


def look_at(data: bytes) -> Picture | None:
    """The picture whose file this is: PNG, JPEG, GIF or WebP. None for anything else, and for a header that is cut."""
    try:
        found = _png(data) or _gif(data) or _webp(data) or _jpeg(data)
    except (struct.error, IndexError):
        return None
    return found if found is not None and found.pixels > 0 else None


def media_type_of(data: bytes) -> str | None:
    """The media type by the file's first bytes: PNG, JPEG, GIF or WebP; None for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def _png(data: bytes) -> Picture | None:
    if media_type_of(data) != "image/png" or data[12:16] != b"IHDR":
        return None
    return Picture("image/png", *struct.unpack_from(">II", data, 16))


def _gif(data: bytes) -> Picture | None:
    if media_type_of(data) != "image/gif":
        return None
    return Picture("image/gif", *struct.unpack_from("<HH", data, 6))


def _webp(data: bytes) -> Picture | None:
    """Lossy (VP8), lossless (VP8L) or extended (VP8X): each has its size in a place and form of its own."""
    if media_type_of(data) != "image/webp":
        return None
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
        return Picture("image/webp", width, height) if len(data) >= 30 else None
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return Picture("image/webp", 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return Picture("image/webp", width & 0x3FFF, height & 0x3FFF)
    return None


def _jpeg(data: bytes) -> Picture | None:
    """Goes from marker to marker up to the frame header."""
    if media_type_of(data) != "image/jpeg":
        return None
    at = 2
    while True:
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
        elif marker == 0x01 or 0xD0 <= marker <= 0xD7:  # markers without a segment
            at += 2
        elif 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return Picture("image/jpeg", width, height)
        else:
            (length,) = struct.unpack_from(">H", data, at + 2)
            at += 2 + max(2, length)
