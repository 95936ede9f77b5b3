"""What a claim is, and what decides about one whatever the language: its object, its scope, its time. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Final

from coordinator.loop.claims.lexicon import OTHER, Deed, Kind, Need, Thing, Words
from coordinator.loop.claims.text import Clause, Sentence

_PAST_YEAR: Final = re.compile(r"(?:1[5-9]\d\d|20[01]\d)\Z")
_YEAR: Final = re.compile(r"(?:1[5-9]|20)\d\d(?:[-/.]\d.*)?\Z|\d{1,2}[/.]\d{1,2}(?:[/.]\d+)?\Z")


class Voice(Enum):
    """How a claim is made, which decides what else may speak for it."""

    SELF = "self"
    """Somebody says what they did: "I saved it"."""
    RESULT = "result"
    """What was brought about: "it has been saved", "saved"."""
    REPORT = "report"
    """How things are or what happened: "it is saved", "it was saved". Whoever looked may say so."""
    DONE = "done"
    """That all is done, and not what."""


@dataclass(frozen=True, slots=True)
class Done:
    """A deed that was done: its kinds, and the kind of thing that it was done to (empty: not told)."""

    kinds: frozenset[Kind]
    domain: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """That a deed was done.

    `kinds` are those that support it, `domain` the kind of thing that it was done to (empty: not told), `text` the
    sentence, `before` that it is told as of earlier.
    """

    kinds: frozenset[Kind]
    domain: str
    voice: Voice
    text: str
    before: bool = False

    def fits(self, done: Iterable[Done]) -> bool:
        """Whether one of these deeds supports it. A deed or a claim of any kind fits all."""
        return any(self._fits(one) for one in done)

    def _fits(self, done: Done) -> bool:
        if Kind.ANY in done.kinds or Kind.ANY in self.kinds:
            return True
        return not apart(self.domain, done.domain) and not self.kinds.isdisjoint(done.kinds)


_STEPS: Final = (("next",), ("then",), ("first",), ("finally",), ("lastly",), ("to",))
"""Beginnings of sentences that tell what to do."""
_FAILED: Final = frozenset({"failed", "failure", "error", "falló", "fallo"})
"""Words before a colon behind which a message is read out."""
_APART: Final = frozenset({"calendar", "mail", "device", "notes"})
"""Domains that nobody takes for each other."""


def apart(one: str, other: str) -> bool:
    """Whether deeds of one domain are surely none of the other."""
    return one != other and {one, other} <= _APART


@dataclass(slots=True)
class Scope:
    """What of a sentence reaches into its further clauses."""

    self_: bool = False
    """The subject was the answerer."""
    perfect: bool = False
    """The verb was a compound one, whose auxiliary goes on."""
    negated: bool = False
    hypothetical: bool = False
    conditional: bool = False
    predicate: bool = False
    """A clause before this one has a verb of its own, whose subject goes on after "and"."""
    reported: bool = False
    complied: bool = False
    """It is told as what was asked for."""
    attributed: bool = False
    """Somebody else is named as its source, behind it perhaps, or a year long ago as its time."""
    stepwise: bool = False
    """It begins like a step of an instruction: "Next, set up ..."."""
    named: Thing | None = None
    """The last thing that a clause before this one named, which "which" and "it" may be about."""
    listing: bool = False
    """What is told are choices, or the states that things may have."""

    @classmethod
    def of(cls, sentence: Sentence, words: Words) -> Scope:
        """What reaches over the whole sentence, wherever it is said."""
        behind = sentence.clauses[1:]
        guessed = any(w in ("sepa", "knowledge") for w in sentence.clauses[0].words)
        attributed = guessed or any(w in words["attributed"] for clause in behind for w in clause.words[:2])
        heading = sentence.clauses[0]
        source = [w for w in heading.words[:3] if (thing := words.thing(w)) is not None and thing.domain == "mail"]
        told_by = bool(source) and any(w in ("from", "de") for w in heading.words)
        told_by = heading.ends == ":" and (told_by or any(w in _FAILED for w in heading.words))
        complied = any(
            w in words["complied"]
            for c in sentence.clauses
            if c.words[:1] and c.words[0] in ("as", "like", "just", "como", "tal")
            for w in c.words[:5]
        )
        pairs = (pair for clause in sentence.clauses for pair in pairwise(clause.words))
        past = any(by in words["years_by"] and _PAST_YEAR.match(year) for by, year in pairs)
        return cls(
            attributed=attributed or past or told_by,
            complied=complied,
            stepwise=heading.link == "then" or heading.words[:1] in _STEPS,
        )

    def into(self, clause: Clause, words: Words) -> None:
        """Takes the scopes on that reach into this clause; others end before it."""
        if clause.link not in words["unbroken"]:
            self.self_ = self.self_ and clause.link in (",", "then", "but", "pero", "luego")
            self.negated = False
            self.hypothetical = False
        if clause.link in ("so", "but", "then", "así", "pero"):
            self.reported = False
        if clause.link in words["hypothetical"]:
            self.hypothetical = True
        if clause.link == "ni":
            self.negated = True


def deed_of(forms: Sequence[Deed], words: Sequence[str], at: int) -> Deed | None:
    """The deed that a verb names here: one with a particle that follows, else one that needs none."""
    behind = words[at + 1 : at + 8]
    return next((d for d in forms if d.particle and d.particle in behind), None) or next(
        (d for d in forms if not d.particle), None
    )


def object_of(rest: Sequence[str], words: Words, deed: Deed) -> tuple[Thing | None, bool]:
    """The first thing that is named, and whether content of the answer is named before it, which does not
    count when the thing is where it was put: "the summary in your notes"."""
    content = False
    for i, word in enumerate(rest):
        if (thing := words.thing(word)) is not None:
            placed = deed.name in _PLACING and any(w in words["places"] for w in rest[max(0, i - 3) : i])
            return thing, content and not placed and "." not in word
        content = content or word in words.content
    return None, content


_PLACING: Final = frozenset(
    {"save", "create", "add", "put", "note", "delete", "remove", "share", "upload", "raise", "send"}
)


def is_claim(deed: Deed, thing: Thing | None, content: bool, bare: bool, shows: bool) -> bool:
    """Whether what is said of this object is a deed. `bare`: no object, or a pronoun."""
    if deed.need is Need.STRONG:
        return True
    if content and (thing is None or deed.name != "save"):
        return False
    if deed.name == "create" and thing is not None and thing.domain == "mail":
        return False  # to write one is not to send it
    if deed.name == "toggle" and thing is not None and thing.domain in ("files", "notes", "mail"):
        return False  # to open one is to read it
    if deed.need is Need.LIGHT:
        return thing is not None or (deed.name == "put" and bare and not shows)
    return not (bare and shows and thing is None and deed.name not in ("send", "save", "delete"))


def kinds_of(deed: Deed, thing: Thing | None) -> frozenset[Kind]:
    """What supports the claim: for the making of a thing what makes such things, else what the verb says."""
    if thing is None or thing.domain == "other":
        return deed.accepts
    if deed is OTHER:
        return thing.accepts | {Kind.CHANGE, Kind.DELETE}
    if deed.name == "change" and thing.domain in ("lists", "notes"):
        return deed.accepts | {Kind.SAVE}
    if deed.name in ("create", "put", "place", "add", "light", "setup", "toggle"):
        return thing.accepts | (deed.accepts & {Kind.CHANGE} if thing.domain in ("lists", "other") else frozenset())
    if thing.domain == "calendar" and deed.name in ("change", "move", "save", "note", "programme", "mark"):
        return frozenset({Kind.SCHEDULE, Kind.CHANGE}) if deed.name != "programme" else frozenset({Kind.SCHEDULE})
    return deed.accepts


PLAIN: Final = frozenset(
    {
        "manage",
        "setup",
        "save",
        "send",
        "delete",
        "remove",
        "cancel",
        "schedule",
        "book",
        "pay",
        "buy",
        "upload",
        "add",
        "note",
        "change",
        "move",
        "push",
        "switch",
        "mark",
    }
)
"""Deeds that need no known thing before them: "Old code deleted"."""


def counts(clause: Clause) -> bool:
    """A number, a date, or nothing: what stands behind a label."""
    first = clause.words[:1]
    return len(clause.words) < 3 and all(is_time(w) or w in ("none", "never", "nothing", "ninguno") for w in first)


_TIMED: Final = frozenset(
    {"schedule", "programme", "book", "change", "move", "push", "put", "place", "add", "create", "cancel"}
)


def dated(rest: Sequence[str], words: Words, deed: Deed) -> bool:
    """True for what is told as of a time in the past: by a date, a day, or a word such as "yesterday".

    Deeds that have a time themselves may name days."""
    if any(w in words["past"] or _YEAR.match(w) for w in rest):
        return True
    if deed.name not in ("schedule", "programme", "book") and rest[:1] and rest[0] in words["days_by"]:
        return any(is_time(w) or w in words["days"] for w in rest[1:3])
    days = pairwise(rest)
    return deed.name not in _TIMED and any(day in words["days"] and by in words["days_by"] for by, day in days)


def is_time(word: str) -> bool:
    """A number, a time of day or a date."""
    return word[0].isdigit()
