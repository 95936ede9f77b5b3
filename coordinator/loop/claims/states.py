"""What the claims of both languages share that name no deed, but what came of it: "it's in your calendar". Pure.

Whoever looked may say the same, so most of them are reports: something read in the run speaks for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Final

from coordinator.loop.claims.claim import Claim, Voice
from coordinator.loop.claims.lexicon import Kind, Thing, Words

SENT: Final = frozenset({Kind.SEND})
GONE: Final = frozenset({Kind.DELETE, Kind.CANCEL, Kind.CHANGE})
KEPT: Final = frozenset({Kind.SAVE, Kind.CREATE, Kind.CHANGE})
DATED: Final = frozenset({Kind.SCHEDULE})
CHANGED: Final = frozenset({Kind.CHANGE, Kind.SCHEDULE, Kind.SWITCH})
STORED: Final = frozenset({Kind.UPLOAD, Kind.SAVE, Kind.CREATE})
PLACES: Final[dict[str, frozenset[Kind]]] = {
    place: kinds
    for places, kinds in (
        (("calendar", "agenda", "diary", "planner", "schedule", "reminders", "calendario", "book", "books"), DATED),
        (("notes", "notebook", "list", "lists", "profile", "memory", "log"), KEPT),
        (("notas", "lista", "perfil", "diario", "libreta", "registro"), KEPT),
        (("inbox", "outbox", "bandeja"), SENT),
        (("bin", "trash", "papelera", "basura"), GONE),
        (("cart", "basket", "carrito"), frozenset({Kind.BUY})),
        (("folder", "drive", "bucket", "storage", "workspace", "artifacts", "carpeta", "nube"), STORED),
    )
    for place in places
}


def report(kinds: frozenset[Kind], domain: str = "") -> Claim:
    """A claim by how things are."""
    return Claim(kinds, domain, Voice.REPORT, "")


def result(kinds: frozenset[Kind], domain: str = "") -> Claim:
    """A claim by what was brought about."""
    return Claim(kinds, domain, Voice.RESULT, "")


def first_thing(words: Iterable[str], of: Words) -> Thing | None:
    """The first thing that is named."""
    return next((thing for word in words if (thing := of.thing(word))), None)


@lru_cache(maxsize=64)
def pairs(words: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    """Words that stand side by side."""
    return frozenset(pairwise(words))


def verbless(words: tuple[str, ...], of: Words) -> bool:
    """Whether there is no verb among the words, as far as the tables know."""
    verbs = of["finite"] | of["negation"]
    return not any(w in verbs or w in of.forms or w == "'s" for w in words)
