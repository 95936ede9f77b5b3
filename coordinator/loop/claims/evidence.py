"""What speaks for a claim beside its grammar: the weights of words, and of what words do side by side. Pure.

A linear model over a sentence has the last word on whether it claims a deed. What the grammar says of it is where the
odds begin, and its words move them: for the many ways of saying that something is done which no rule foresaw, and
against what a rule misread. It is fitted to the labelled answers in `tests/data` (`python -m tests.bench.claims_fit`),
and its weights are `weights.json`. It knows no objects and no scope, so what is claimed is left to the grammar.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from itertools import pairwise
from math import sqrt
from typing import Final

from coordinator.loop.claims.lexicon import ENGLISH, SPANISH, Form
from coordinator.loop.claims.states import PLACES
from coordinator.loop.claims.text import Clause, Said, Sentence

LEAST: Final = -0.4
"""Weight from which a sentence counts as a claim."""
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
    if word.endswith(("aré", "eré", "iré", "remos")):
        found["S:future"] = None
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


@lru_cache(maxsize=4096)
def _of_word(word: str) -> tuple[str, ...]:
    return (f"w={word}", f"c={_class(word)}", *_tags(word))


@lru_cache(maxsize=4096)
def _near(word: str) -> tuple[str, ...]:
    return tuple(f"near={tag}" for tag in _tags(word) if tag[:2] in ("S:", "F:"))


def _of_clause(clause: Clause) -> Iterator[str]:
    words = clause.words
    classes = [_class(word) for word in words]
    for word in words:
        yield from _of_word(word)
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


def features(whole: Said, told: Sequence[Sentence], at: int) -> frozenset[str]:
    """What of a sentence of an answer is weighed: its own words, and of those beside it what they do."""
    sentence = told[at]
    found = {name for clause in sentence.clauses for name in _of_clause(clause)}
    found.add(f"length={min(6, sum(len(clause.words) for clause in sentence.clauses) // 6)}")
    found.add("at=first" if at == 0 else "at=last" if at == len(told) - 1 else "at=between")
    found.add(f"of={min(4, len(told))}")
    found.update(name for beside in (*told[max(0, at - 1) : at], *told[at + 1 : at + 2]) for name in _beside(beside))
    marks = (("shows", whole.shows), ("delivers", whole.delivers), ("item", sentence.item))
    found.update(name for name, here in marks if here)
    return frozenset(found)


def _beside(sentence: Sentence) -> Iterator[str]:
    for clause in sentence.clauses:
        if clause.asks:
            yield "near=asks"
        for word in clause.words:
            yield from _near(word)


def share(known: int) -> float:
    """What each of so many known features counts, so that long sentences weigh no more than short ones."""
    return _SCALE / sqrt(max(1, known))


@dataclass(frozen=True, slots=True)
class Weights:
    """What is fitted: the odds by what the grammar says of a sentence, its strongest voice or `none`, and what each
    feature adds to them. Logarithms of odds."""

    bases: Mapping[str, float]
    words: Mapping[str, float]

    def weigh(self, voice: str, names: Iterable[str]) -> float:
        """How much speaks for it that a sentence with these features claims a deed; 0 where it may be either."""
        known = [w for name in names if (w := self.words.get(name)) is not None]
        return self.bases[voice] + share(len(known)) * sum(known)


def _read() -> Weights:
    data = json.loads((resources.files(__package__) / "weights.json").read_text("utf-8"))
    bases, words = ({name: weight / 1000 for name, weight in data[part].items()} for part in ("bases", "weights"))
    return Weights(bases, words)


FITTED: Final = _read()


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
