"""Names on the wire: tool names and call ids in the form a provider accepts, and the way back. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from shared.llm.model import Message

_BAD = re.compile(r"[^A-Za-z0-9_-]+")
_HASH_DIGITS = 8


class WireNames:
    """A two-way map between our tool names and those on the wire.

    A name that fits goes out as it is. Any other is cleaned, shortened and gets a suffix from a hash of the whole
    name, so that it is the same in every request and process, and two names never become one. A name that cannot
    be made to fit has no wire name; `missing` lists them.
    """

    def __init__(self, names: Iterable[str], *, pattern: str = r"[A-Za-z0-9_-]{1,64}", longest: int = 64) -> None:
        self._fits = re.compile(pattern)
        self._longest = longest
        self._wire: dict[str, str] = {}
        self._ours: dict[str, str] = {}
        missing = []
        unique = list(dict.fromkeys(names))
        # Names that fit come first, so that a made one can never take the place of a real one.
        for name in sorted(unique, key=lambda one: not self._fits.fullmatch(one)):
            wire = self._wire_name(name)
            if wire is None or wire in self._ours:
                missing.append(name)
                continue
            self._wire[name] = wire
            self._ours[wire] = name
        self.missing = tuple(missing)

    def wire(self, name: str) -> str | None:
        """The name to send, or None if there is none."""
        return self._wire.get(name)

    def ours(self, wire: str) -> str:
        """Our name for what a model called; an unknown one stays as it is."""
        return self._ours.get(wire, wire)

    def _wire_name(self, name: str) -> str | None:
        if self._fits.fullmatch(name):
            return name
        suffix = "_" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
        stem = _BAD.sub("_", name)
        for candidate in (stem, "t_" + stem):
            wire = candidate[: self._longest - len(suffix)] + suffix
            if self._fits.fullmatch(wire):
                return wire
        return None


def names_in(messages: Iterable[Message]) -> list[str]:
    """The names of all calls in a history."""
    return [call.name for message in messages for call in message.calls]


class WireIds:
    """Call ids on the wire, for one request: unique, the same for a call and its result.

    The provider's own id is used where this provider gave it and it is not taken yet; else one is made from ours.
    Make one per request and ask for the calls in order of the history.
    """

    def __init__(self, origin: str, style: str = "plain") -> None:
        self._origin = origin
        self._style = style
        self._taken: set[str] = set()

    def assign(self, message: Message) -> dict[str, str]:
        """Our id -> wire id for the calls of one assistant message."""
        found: dict[str, str] = {}
        for position, call in enumerate(message.calls):
            wire = call.provider_id if message.origin == self._origin else ""
            salt = 0
            while not wire or wire in self._taken:
                wire = self._make(f"{call.id}\x00{position}\x00{salt}")
                salt += 1
            self._taken.add(wire)
            found[call.id] = wire
        return found

    def _make(self, seed: str) -> str:
        digest = hashlib.sha256(seed.encode()).hexdigest()
        return digest[:9] if self._style == "nine" else "call_" + digest[:24]
