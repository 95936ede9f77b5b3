"""What speaks for a claim beside its grammar: the weights of words, and of what words do side by side. Pure.

A linear model over a short answer, for the many ways of saying that something is done which no rule foresaw. It is
fitted to the labelled answers in `tests/data` (`python -m tests.bench.claims_fit`), and its weights are
`weights.json`. It knows no objects and no scope, so it says only that something is claimed, and not what.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import resources
from itertools import pairwise
from math import sqrt
from typing import Final

from coordinator.loop.claims.lexicon import ENGLISH, SPANISH, Form
from coordinator.loop.claims.states import PLACES
from coordinator.loop.claims.text import Clause, Said, Sentence

LONGEST: Final = 30
"""Words of an answer beyond which nothing is weighed: it was fitted to short ones."""
CLAIMED: Final = 0.6
"""Weight from which an answer counts as a claim although no clause of it does by its grammar."""
DENIED: Final = -1.5
"""Weight under which it counts as none although a clause does."""
DENIED_AT_LENGTH: Final = -0.5
"""The same in an answer that is longer, where a sentence is less often a claim."""
ASKED: Final = 0.5
"""What it weighs that the user asked for a deed."""

_SCALE: Final = 4.0
_SETS: Final = (
    "self", "other", "modal", "negation", "be", "have", "hypothetical", "conditional", "directive", "doubt", "report",
    "definite", "own", "adverb", "no", "days", "past", "finite", "clitic", "habitual",
)  # fmt: skip


@lru_cache(maxsize=4096)
def _tags(word: str) -> tuple[str, ...]:
    """What a word can be, in either language."""
    found: dict[str, None] = {}
    for words in (ENGLISH, SPANISH):
        if (thing := words.thing(word)) is not None:
            found[f"T:{thing.domain}"] = None
        found.update(dict.fromkeys(f"F:{form.value}" for form, _ in words.forms.get(word, ())[:4]))
        if word in words.content:
            found["content"] = None
        found.update(dict.fromkeys(f"S:{name}" for name in _SETS if name in words.sets and word in words[name]))
    if word[0].isdigit():
        found["number"] = None
    return tuple(found)


@lru_cache(maxsize=4096)
def _class(word: str) -> str:
    """The one that matters most, or its ending."""
    tags = _tags(word)
    first = next((t for t in tags if t[:2] == "F:"), None) or next((t for t in tags if t[:2] == "T:"), None)
    return first or (tags[0] if tags else f"-{word[-2:]}")


@lru_cache(maxsize=4096)
def is_telling(word: str) -> bool:
    """Whether it is a thing or a form of a deed's verb, or a place where things are kept: what a claim is about."""
    return word in PLACES or any(tag[:2] in ("T:", "F:") for tag in _tags(word))


def _of_clause(clause: Clause) -> Iterator[str]:
    words = clause.words
    classes = [_class(word) for word in words]
    for word, kind in zip(words, classes, strict=True):
        yield f"w={word}"
        yield f"c={kind}"
        yield from _tags(word)
    for (one, kind), (other, behind) in pairwise(zip(words, classes, strict=True)):
        yield f"ww={one} {other}"
        yield f"cc={kind} {behind}"
        yield f"wc={one} {behind}"
        yield f"cw={kind} {other}"
    for at in range(len(classes) - 2):
        yield f"ccc={' '.join(classes[at : at + 3])}"
    if words:
        yield f"begins={words[0]}"
        yield f"begin={' '.join(classes[:2])}"
        yield f"end={classes[-1]}"
    yield f"sign={clause.link}"
    yield f"ends={clause.ends}"
    if clause.ticked:
        yield "ticked"
    if clause.asks:
        yield "asks"


def features(whole: Said, sentences: Sequence[Sentence] | None = None) -> frozenset[str]:
    """What of an answer, or of some sentences of it, is weighed."""
    sentences = whole.sentences if sentences is None else sentences
    clauses = [clause for sentence in sentences for clause in sentence.clauses]
    found = {name for clause in clauses for name in _of_clause(clause)}
    found.add(f"length={min(6, sum(len(clause.words) for clause in clauses) // 6)}")
    found.update(name for name, here in (("shows", whole.shows), ("delivers", whole.delivers)) if here)
    return frozenset(found)


def share(known: int) -> float:
    """What each of so many known features counts, so that long answers weigh no more than short ones."""
    return _SCALE / sqrt(max(1, known))


def _read() -> tuple[float, dict[str, float]]:
    data = json.loads((resources.files(__package__) / "weights.json").read_text("utf-8"))
    return data["base"] / 1000, {name: weight / 1000 for name, weight in data["weights"].items()}


_BASE, _WEIGHTS = _read()


def weight(whole: Said, sentences: Sequence[Sentence] | None = None) -> float:
    """How much speaks for it that an answer, or some sentences of it, claim a deed: the logarithm of the odds, 0 where
    it may be either."""
    known = [w for name in features(whole, sentences) if (w := _WEIGHTS.get(name)) is not None]
    return _BASE + share(len(known)) * sum(known)


def is_request(text: str) -> bool:
    """Whether a message of a user asks for a deed, as far as its verbs tell: "save it", "can you call Ana"."""
    for word, before in zip(words := text.lower().split()[:60], ["", *words], strict=False):
        bare = word.strip(".,;:!?¡¿\"'()")
        base = any(form is Form.BASE for form, _ in (*ENGLISH.forms.get(bare, ()), *SPANISH.forms.get(bare, ())))
        stem = bare.removesuffix("me") if bare.endswith(("ame", "eme")) else bare
        imperative = any(form is Form.BASE for end in "re" for form, _ in SPANISH.forms.get(f"{stem}{end}", ()))
        starts = not before or before[-1:] in ".,;:!?" or before in _LEADS
        if starts and (base or (imperative and stem.endswith(("a", "e")) and len(stem) > 3)):
            return True
    return False


_LEADS: Final = frozenset({"please", "you", "and", "then", "favor", "puedes", "podrías", "y", "to", "i'd", "que"})
