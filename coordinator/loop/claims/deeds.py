"""What was done: the kinds of deeds that a call's tool stands for, by the words of its name. Pure.

The name is all that the log keeps of a tool, so a run is judged the same wherever and whenever it is folded. A tool
whose name tells nothing may have done anything: its success supports every claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from coordinator.loop.claims.claim import Done
from coordinator.loop.claims.lexicon import DATA, Kind

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_NONE: Final[frozenset[Kind]] = frozenset()


def _table(name: str) -> dict[str, frozenset[Kind]]:
    rows = DATA["tools"][name].items()
    return {word: frozenset(Kind(k) for k in kinds.split()) for kinds, words in rows for word in words.split()}


_VERBS: Final = _table("verbs")
_OWN: Final = {**_table("dated"), **_table("switched")}
_THINGS: Final = {**_table("things"), **_OWN}
_MADE: Final = frozenset({Kind.SAVE, Kind.CREATE, Kind.CHANGE})
_ANYTHING: Final = frozenset(
    {"run", "exec", "execute", "shell", "bash", "command", "python", "code", "request", "http"}
)
_DOMAINS: Final[dict[str, str]] = {
    "note": "notes", "notes": "notes", "reminder": "calendar", "remind": "calendar", "calendar": "calendar",
    "event": "calendar", "alarm": "calendar", "appointment": "calendar", "meeting": "calendar", "mail": "mail",
    "email": "mail", "file": "files", "files": "files", "folder": "files", "tv": "device", "light": "device",
    "lights": "device", "device": "device", "thermostat": "device",
}  # fmt: skip


@lru_cache(maxsize=1024)
def done_by(tool: str) -> Done:
    """What a success of this tool was."""
    words = [w.lower() for w in _WORDS.findall(tool)]
    if any(w in _ANYTHING for w in words):
        return Done(frozenset({Kind.ANY}))
    kinds = {kind for w in words for kind in _VERBS.get(w, _NONE)}
    if not kinds:
        kinds = {kind for w in words for kind in _THINGS.get(w, _NONE)}
    elif not kinds.isdisjoint(_MADE):
        kinds |= {kind for w in words for kind in _OWN.get(w, _NONE)}
    domain = next((_DOMAINS[w] for w in words if w in _DOMAINS), "")
    return Done(frozenset(kinds) or frozenset({Kind.ANY}), domain)


def deeds(tools: Iterable[str]) -> tuple[Done, ...]:
    """What successes of these tools were."""
    return tuple(dict.fromkeys(map(done_by, tools)))
