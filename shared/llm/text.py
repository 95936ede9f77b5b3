"""Streamed text: halves of characters, thinking written into the content, and the blocks they end up in. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

_SURROGATE = re.compile("[\ud800-\udfff]")
_TAGS = {
    opening: re.compile(re.escape(opening.replace("<", "</")), re.IGNORECASE | re.ASCII)
    for opening in ("<think>", "<thinking>", "<thought>")
}
_LONGEST = max(map(len, _TAGS))


def has_lone_surrogate(text: str) -> bool:
    """True if `text` holds a code point that cannot be written as UTF-8."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def join_pairs(text: str) -> str:
    """Joins surrogate pairs whose halves came apart as JSON escapes; lone halves stay."""
    if not has_lone_surrogate(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def writable(text: str) -> str:
    """The text with pairs joined and lone halves replaced by U+FFFD, so that it can be written as UTF-8."""
    return _SURROGATE.sub("\ufffd", join_pairs(text)) if has_lone_surrogate(text) else text


def writable_json(value: Any) -> Any:
    """A copy of a JSON value that can be stored and sent: all its text writable."""
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, Mapping):
        return {writable(str(key)): writable_json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [writable_json(one) for one in value]
    return value


class HalfJoiner:
    """Makes text whole that a server cut inside a surrogate pair: the half waits for the next piece."""

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        """What can be given out now."""
        if self._half:
            text, self._half = self._half + text, ""
        if text.isascii():
            return text
        if "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return writable(text)

    def close(self) -> str:
        """What is left: U+FFFD for a half that never found its other."""
        half, self._half = self._half, ""
        return "\ufffd" if half else ""


class Piece(NamedTuple):
    """A piece of text and what it is."""

    kind: Literal["text", "thinking"]
    text: str


class ThinkSplitter:
    """Finds thinking that stands in tags at the very start of the content (`<think>…</think>`).

    The tags may be cut anywhere. A tag later in the text is text. Whitespace around the tags is dropped.
    """

    __slots__ = ("_held", "_opening", "_state")

    def __init__(self) -> None:
        self._state: Literal["start", "thinking", "gap", "text"] = "start"
        self._held = ""
        self._opening = ""

    @property
    def passing(self) -> bool:
        """True once everything that comes is text."""
        return self._state == "text"

    def feed(self, text: str) -> list[Piece]:
        """The pieces that are certain now."""
        if self._state == "text":
            return [Piece("text", text)] if text else []
        self._held += text
        pieces: list[Piece] = []
        if self._state == "start":
            self._start(pieces)
        if self._state == "thinking":
            self._thinking(pieces)
        if self._state == "gap":
            self._gap(pieces)
        return pieces

    def close(self) -> list[Piece]:
        """What was held back: it turned out to be no tag."""
        held, self._held = self._held, ""
        if not held or self._state == "gap":
            return []
        return [Piece("thinking" if self._state == "thinking" else "text", held)]

    def stop(self) -> list[Piece]:
        """Ends looking for a tag, because thinking came elsewhere or a call began; gives out what was held."""
        pieces = self.close() if self._state == "start" else []
        if self._state == "start":
            self._state = "text"
        return pieces

    def _start(self, pieces: list[Piece]) -> None:
        body = self._held.lstrip()
        head = body[:_LONGEST].lower()
        for opening in _TAGS:
            if head.startswith(opening):
                self._state, self._opening = "thinking", opening
                self._held = body[len(opening) :]
                return
        if not any(opening.startswith(head) for opening in _TAGS):
            self._state = "text"
            pieces.append(Piece("text", self._held))
            self._held = ""

    def _thinking(self, pieces: list[Piece]) -> None:
        if closing := _TAGS[self._opening].search(self._held):
            inside, self._held = self._held[: closing.start()], self._held[closing.end() :]
            self._state = "gap"
        else:
            cut = len(self._held) - _overlap(self._held, self._opening.replace("<", "</"))
            inside, self._held = self._held[:cut], self._held[cut:]
        if inside:
            pieces.append(Piece("thinking", inside))

    def _gap(self, pieces: list[Piece]) -> None:
        body = self._held.lstrip()
        self._held = ""
        if body:
            self._state = "text"
            pieces.append(Piece("text", body))


def _overlap(text: str, tag: str) -> int:
    """How many last characters of `text` could be the beginning of `tag`."""
    for size in range(min(len(text), len(tag) - 1), 0, -1):
        if tag.startswith(text[-size:].lower()):
            return size
    return 0
