"""The accumulator of tool calls: fragments in, whole calls and broken ones out. Pure, shared by all dialects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.llm.model import BrokenCall, Opaque, ToolCall
from shared.llm.text import has_lone_surrogate, join_pairs, writable, writable_json


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of a call. `key` is the provider's index (None if absent); `arguments` JSON text, or an object."""

    key: int | None = None
    id: str = ""
    name: str = ""
    arguments: str | Mapping[str, Any] = ""
    opaque: Opaque = field(default_factory=dict)


@dataclass(slots=True)
class _Slot:
    position: int
    key: int | None
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    opaque: Opaque = field(default_factory=dict)
    announced: bool = False
    ended: bool = False  # the provider said that nothing follows

    @property
    def raw(self) -> str:
        return join_pairs("".join(self.pieces))

    @property
    def bare(self) -> bool:
        """True if no argument text has come yet."""
        return not any(piece.strip() for piece in self.pieces)

    @property
    def whole(self) -> bool:
        """True if the arguments are an object already. Looks at the last character first: parsing costs."""
        return bool(self.pieces) and self.raw.rstrip().endswith("}") and isinstance(parse_arguments(self.raw), dict)


class CallAccumulator:
    """Collects the calls of one message, in order of arrival.

    Which call a fragment belongs to: a new id opens a call, even under an index already used; else the index
    decides; else a name that cannot continue the call opened last opens one; else it belongs to the call opened
    last. Ids that a provider repeats within a message are told apart by whether the first call was already
    whole. `original` maps a name on the wire to ours.
    """

    def __init__(self, original: Callable[[str], str] = lambda name: name) -> None:
        self._slots: list[_Slot] = []
        self._original = original

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, fragments: list[Fragment]) -> None:
        """Takes the fragments of one event. Two with a name in one event are two calls."""
        named: set[int] = set()
        for fragment in fragments:
            slot = self._slot_of(fragment, named)
            if slot is None:
                continue
            if fragment.id:
                slot.id = slot.id or fragment.id
            if fragment.name:
                named.add(slot.position)
                if not slot.name:
                    slot.name = fragment.name
                elif fragment.name != slot.name:
                    slot.name += fragment.name  # a name that comes in pieces
            if isinstance(fragment.arguments, str):
                if fragment.arguments:
                    slot.pieces.append(fragment.arguments)
            else:
                slot.pieces.append(json.dumps(fragment.arguments, ensure_ascii=False))
            merge_opaque(slot.opaque, fragment.opaque)

    def end(self, key: int) -> None:
        """The provider said that the call under `key` is complete."""
        for slot in reversed(self._slots):
            if slot.key == key:
                slot.ended = True
                return

    def ready(self, *, ended: bool = False) -> list[ToolCall]:
        """Calls newly known to be whole: ended by the provider, or followed by another call.

        With `ended` the provider has finished the message, so that the last one counts too. Empty arguments
        prove nothing before that, as they may still come.
        """
        found = []
        for slot in self._slots:
            followed = slot.position < len(self._slots) - 1
            if slot.announced or not (ended or slot.ended or followed):
                continue
            if not (ended or slot.ended) and slot.bare:
                continue
            call = self._parse(slot)
            if isinstance(call, ToolCall):
                slot.announced = True
                found.append(call)
        return found

    def settle(self, *, cut: bool) -> list[ToolCall | BrokenCall]:
        """All calls in order, at the end. `cut`: the output limit or a filter stopped the message, so that
        empty arguments of the last call, if the provider did not end it, may be missing ones.
        """
        settled: list[ToolCall | BrokenCall] = []
        for slot in self._slots:
            last = slot.position == len(self._slots) - 1
            if cut and last and not slot.ended and slot.bare:
                settled.append(self._broken(slot, "the answer was cut before its arguments"))
            else:
                settled.append(self._parse(slot))
        return settled

    def _parse(self, slot: _Slot) -> ToolCall | BrokenCall:
        if not slot.name.strip():
            return self._broken(slot, "it has no name")
        arguments = parse_arguments(slot.raw)
        if isinstance(arguments, str):
            return self._broken(slot, arguments)
        return ToolCall(
            id=f"call_{slot.position}",
            provider_id=slot.id,
            name=self._original(slot.name),
            arguments=arguments,
            opaque=slot.opaque,
        )

    def _broken(self, slot: _Slot, reason: str) -> BrokenCall:
        return BrokenCall(name=self._original(slot.name), provider_id=slot.id, raw=writable(slot.raw), reason=reason)

    def _open(self, key: int | None) -> _Slot:
        slot = _Slot(position=len(self._slots), key=key)
        self._slots.append(slot)
        return slot

    def _slot_of(self, fragment: Fragment, named: set[int]) -> _Slot | None:
        """The slot that a fragment belongs to, opened if need be; None for a repetition of a whole call."""
        found = self._candidate(fragment)
        if found is None:
            return self._open(fragment.key)
        if fragment.id and found.id and fragment.id != found.id:
            return self._open(fragment.key)
        if not fragment.name:
            return found
        brings = not isinstance(fragment.arguments, str) or bool(fragment.arguments.strip())
        if found.position in named and not (fragment.id and fragment.id == found.id and not brings):
            return self._open(fragment.key)  # two names in one event
        if found.bare:
            # Nothing but a name so far: a piece of the name, its repetition, or, where it cannot be told by an
            # index or an id, another call without arguments.
            other = fragment.name != found.name and bool(found.name)
            return self._open(fragment.key) if other and found.key is None and fragment.key is None else found
        if not found.whole or not brings:
            return found if fragment.name == found.name else self._open(fragment.key)
        return None if self._repeats(found, fragment) else self._open(fragment.key)

    def _candidate(self, fragment: Fragment) -> _Slot | None:
        last = self._slots[-1] if self._slots else None
        if fragment.key is not None:
            under = [slot for slot in self._slots if slot.key == fragment.key]
            same = [slot for slot in under if fragment.id and slot.id == fragment.id]
            if under:
                return (same or under)[-1]
            anonymous = not fragment.id and not fragment.name
            return last if anonymous and last is not None and last.key is None else None
        if fragment.id:
            same = [slot for slot in self._slots if slot.id == fragment.id]
            if same:
                return same[-1]
            late_id = last is not None and not last.id and last.bare and fragment.name in ("", last.name)
            return last if late_id else None
        return last

    def _repeats(self, slot: _Slot, fragment: Fragment) -> bool:
        if not fragment.id or fragment.id != slot.id or fragment.name != slot.name:
            return False
        raw = fragment.arguments if isinstance(fragment.arguments, str) else json.dumps(fragment.arguments)
        return parse_arguments(raw) == parse_arguments(slot.raw)


def parse_arguments(raw: str) -> dict[str, Any] | str:
    """The object in `raw`, or the reason why there is none. Empty text and `null` are the empty object.

    Strict JSON (RFC 8259): no NaN, no repair of what was cut. A lone half of a surrogate pair is refused, as no
    store could keep it.
    """
    if not raw.strip():
        return {}
    try:
        value = json.loads(raw, parse_constant=_refuse)
    except RecursionError:
        return "its arguments are nested too deeply"
    except ValueError as error:
        return f"its arguments are not valid JSON: {error}"
    if value is None:
        return {}
    if not isinstance(value, dict):
        return "its arguments are not a JSON object"
    if (_ESCAPED_HALF.search(raw) or has_lone_surrogate(raw)) and has_lone_surrogate(
        json.dumps(value, ensure_ascii=False)
    ):
        return "its arguments hold half a character"
    return value


_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def merge_opaque(target: Opaque, more: Mapping[str, Any]) -> None:
    """Adds a copy of `more` to `target`: objects merge, anything else replaces, nulls add nothing."""
    for key, value in more.items():
        if value is None:
            continue
        present = target.get(key)
        if isinstance(present, dict) and isinstance(value, Mapping):
            merge_opaque(present, value)
        else:
            target[writable(key)] = writable_json(value)
