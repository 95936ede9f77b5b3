"""English phrases: what the words behind and before a deed's verb make of it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from coordinator.loop.claims.claim import is_time
from coordinator.loop.claims.lexicon import ENGLISH as W
from coordinator.loop.claims.lexicon import Deed, Thing


def by_somebody(rest: Sequence[str]) -> bool:
    """Whether "by" follows and names who did it, and not when or by what means."""
    at = next((i for i, w in enumerate(rest[:6]) if w == "by"), -1)
    return 0 <= at < len(rest) - 1 and rest[at + 1] not in W["means"] and not is_time(rest[at + 1])


def is_mass(rest: Sequence[str]) -> bool:
    """An object without an article, and not a plural, which a participle may be part of: "Replaced milk with"."""
    single = not rest[0].endswith("s") and (len(rest) == 1 or rest[1] in W["prepositions"] or is_time(rest[1]))
    return "." in rest[0] or (single and rest[0] not in W["adverb"])


def of_ours(leading: Sequence[str]) -> bool:
    """Things that are there because somebody like us made them, unlike meetings."""
    return any(w in ("reminder", "reminders", "alarm", "alarms", "timer", "table", "event") for w in leading)


def is_verb(word: str) -> bool:
    """Whether a word is a verb wherever it stands."""
    return word in W["finite"] or word in W["modal"] or word in W["negation"]


def idiom(deed: Deed, word: str, rest: Sequence[str], thing: Thing | None, names: Collection[str]) -> bool:
    """Phrases with a deed's verb that are none."""
    if deed.name == "buy":
        return any(w in ("by", "alphabetically", "chronologically", "list", "steps") for w in rest[:4])
    if deed.name == "put" and word == "left":
        return any(w in ("alone", "as", "unchanged", "untouched") for w in rest[:4])
    if deed.name == "save":
        return any(w in ("time", "trouble", "effort", "money", "click", "clicks") for w in rest[:4])
    if word == "ran":
        return rest[:1] in (("through",), ("into",), ("out",), ("across",), ("over",))
    if deed.name == "pay":
        return rest[:1] in (("attention",), ("close",), ("special",), ("particular",))
    if deed.name == "tell":
        named = rest[:1] in (("her",), ("him",), ("them",)) or any(w in names for w in rest[:1])
        return rest[:1] in (("you",), ("me",)) or (word == "asked" and not named)
    return deed.name == "reply" and thing is None and (not rest or rest[0] in ("you", "with", "that"))
