"""Thinking in Chat Completions: the fields in which servers send it, and how it goes back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.llm.calls import merge_opaque
from shared.llm.model import Opaque, ThinkingBlock
from shared.llm.text import writable

FIELDS = ("reasoning_content", "reasoning", "thinking")
"""Plain text fields of a delta. Gateways repeat the same piece under two of them: the first that is filled counts."""
DETAILS = "reasoning_details"
CONTENT = "content"
"""Stands for thinking that came as a part of the content list."""


class Reasoning:
    """Collects the thinking of one message."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._field = ""
        self._details: list[Opaque] = []

    def read(self, delta: Mapping[str, Any]) -> str:
        """The piece of visible thinking in a delta. Structured details are kept beside it."""
        raw_details = delta.get(DETAILS)
        details = [one for one in raw_details if isinstance(one, dict)] if isinstance(raw_details, list) else []
        for detail in details:
            self._add_detail(detail)
        for field in FIELDS:
            value = delta.get(field)
            if isinstance(value, str) and value:
                self._field = self._field or field
                return value
        return "".join(_visible(detail) for detail in details)

    def add(self, text: str, field: str = "") -> None:
        """Keeps a piece of visible thinking, and where it came from if that is known."""
        self._text.append(text)
        self._field = self._field or field

    @property
    def seen(self) -> bool:
        """True once there was any thinking."""
        return bool(self._text or self._details)

    def block(self) -> ThinkingBlock | None:
        """All of it as one block, or None."""
        if not self.seen:
            return None
        opaque: Opaque = {}
        if self._field:
            opaque["field"] = self._field
        if self._details:
            opaque[DETAILS] = list(self._details)
        return ThinkingBlock(text="".join(self._text), opaque=opaque)

    def _add_detail(self, detail: Mapping[str, Any]) -> None:
        """Pieces of one detail, told by type and index (and id, if both have one), become one object again."""
        last = self._details[-1] if self._details else None
        same = last is not None and all(
            last.get(key) == detail.get(key) or (key == "id" and None in (last.get(key), detail.get(key)))
            for key in ("type", "index", "id")
        )
        if last is None or not same:
            last = {}
            self._details.append(last)
        grown: dict[str, Any] = dict(detail)
        for key in ("text", "summary", "data"):
            before, piece = last.get(key), detail.get(key)
            if isinstance(before, str) and isinstance(piece, str):
                grown[key] = before + piece
        merge_opaque(last, grown)


def parts_of(content: Any) -> tuple[str, str]:
    """(text, thinking) of a content value: a string, or a list of parts as some servers stream it."""
    if isinstance(content, str):
        return content, ""
    text, thinking = [], []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            text.append(part)
        elif isinstance(part, dict):
            kind = part.get("type")
            if kind in ("thinking", "reasoning"):
                inner = part.get("thinking", part.get("text", ""))
                thinking.append(parts_of(inner)[0])
            elif isinstance(part.get("text"), str):
                text.append(part["text"])
    return "".join(text), "".join(thinking)


def replay_fields(
    block: ThinkingBlock | None, *, mode: str, own: bool, open_loop: bool, default_field: str
) -> dict[str, Any]:
    """The fields of an assistant message that carry its thinking back.

    `mode` is the provider's `replay_reasoning`; `own`: the message came from this provider; `open_loop`: its tool
    loop is still going on. What came from another provider is never sent.
    """
    if mode == "never":
        return {}
    opaque = block.opaque if block is not None and own else {}
    fields: dict[str, Any] = {}
    if details := opaque.get(DETAILS):
        fields[DETAILS] = details
    field = opaque.get("field")
    text = writable(block.text) if block is not None and own else ""
    if mode == "always":
        fields[field if isinstance(field, str) and field in FIELDS else default_field] = text
    elif isinstance(field, str) and field in FIELDS and text and open_loop:
        fields[field] = text
    return fields


def replay_part(block: ThinkingBlock | None, *, mode: str, own: bool, open_loop: bool) -> dict[str, Any] | None:
    """The content part for thinking that came as one, or None."""
    if block is None or not own or mode == "never" or block.opaque.get("field") != CONTENT:
        return None
    if not block.text or not (open_loop or mode == "always"):
        return None
    return {"type": "thinking", "thinking": [{"type": "text", "text": block.text}]}


def _visible(detail: Mapping[str, Any]) -> str:
    for key in ("text", "summary"):
        if isinstance(detail.get(key), str):
            return str(detail[key])
    return ""
