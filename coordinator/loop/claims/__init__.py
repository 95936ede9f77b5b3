"""The claims guard: what an answer says was done, held against what was done. Pure.

An answer is split into clauses; in each the forms of verbs that name deeds are looked up, and subject, voice, negation,
supposition and attribution decide whether it claims one. Its words are weighed as well (evidence.py), for what no
rule foresaw and against what a rule misread. A claim that no success of this run supports is returned.
What follows from that is decided in `coordinator/loop/decide.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from coordinator.loop.claims import english, spanish
from coordinator.loop.claims.claim import Claim, Done, Voice, apart, is_time
from coordinator.loop.claims.deeds import deeds, done_by
from coordinator.loop.claims.evidence import ASKED, FITTED, LEAST, Weights, features, is_telling
from coordinator.loop.claims.lexicon import ENGLISH, ONLY_ENGLISH, ONLY_SPANISH, SPANISH, Form, Kind, Words
from coordinator.loop.claims.text import Clause, Said, Sentence, said

__all__ = [
    "VOICES",
    "Candidate",
    "Claim",
    "Done",
    "Kind",
    "Voice",
    "candidates",
    "claims",
    "deeds",
    "done_by",
    "unsupported",
]

LONG: Final = 60
"""Words of an answer beyond which it is an explanation: there only short sentences and what is said in the first person
claim deeds."""
BRIEF: Final = 12
SHORT: Final = 45
"""Words of an answer beyond which a plain "done" is taken to be about what the answer itself brings."""


VOICES: Final = ("none", *(voice.value for voice in (Voice.DONE, Voice.REPORT, Voice.RESULT, Voice.SELF)))
"""What the grammar can say of a sentence, the strongest last."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence that may claim a deed: what it claims by its grammar, and the features that it is weighed by."""

    sentence: Sentence
    claims: tuple[Claim, ...]
    features: frozenset[str]

    @property
    def voice(self) -> str:
        """The strongest voice of its claims, or `none`."""
        return max((claim.voice.value for claim in self.claims), key=VOICES.index, default="none")


def claims(answer: str, *, asked: bool = False, weights: Weights = FITTED) -> list[Claim]:
    """The deeds that an answer says were done, in its order. `asked`: the user asked for one."""
    least = LEAST - (ASKED if asked else 0.0)
    found: list[Claim] = []
    for one in candidates(answer):
        if weights.weigh(one.voice, one.features) > least or _stands(one, weights, least):
            text = one.sentence.text
            found.extend(replace(claim, text=text) for claim in one.claims or (_unnamed(one.sentence),))
    return found


def _stands(one: Candidate, weights: Weights, least: float) -> bool:
    """Whether what is said in the first person is a claim by itself: a sentence beside it takes nothing back."""
    if one.voice != Voice.SELF.value:
        return False
    alone = said(one.sentence.text)
    return bool(alone.sentences) and weights.weigh(one.voice, features(alone, alone.sentences, 0)) > least


def candidates(answer: str) -> Iterator[Candidate]:
    """The sentences of an answer that may claim a deed: those that do by their grammar, and in a short answer that only
    talks every one that names a deed or a thing."""
    whole = said(answer)
    told = list(_told(whole))
    for at, sentence in enumerate(told):
        here = list(_of(sentence, shows=whole.shows)) or list(_plain(sentence.clauses, whole))
        if whole.words > LONG:
            brief = sum(len(clause.words) for clause in sentence.clauses) <= BRIEF
            here = [c for c in here if c.voice is Voice.SELF or (c.voice is Voice.RESULT and brief)]
        if here or (whole.words <= LONG and not whole.shows and any(_open_clauses(sentence))):
            yield Candidate(sentence, tuple(here), features(whole, told, at))


def _told(whole: Said) -> Iterator[Sentence]:
    """The sentences without the items of lists that are read out."""
    read_out = False
    for sentence in whole.sentences:
        if not (read_out and sentence.item):
            read_out = _reads_out(sentence)
            yield sentence


def _reads_out(sentence: Sentence) -> bool:
    """Whether a list follows of what there is or what is to be done: "You have two mails:", "Checklist:"."""
    first, last = sentence.clauses[0], sentence.clauses[-1]
    opened = first.words[:2] in _THERE or first.words[:1] in (("tienes",), ("hay",), ("lista",))
    return last.ends == ":" and (opened or any("checklist" in w for c in sentence.clauses for w in c.words))


_THERE: Final = (("you", "have"), ("there", "are"), ("you", "'ve"), ("here", "are"))


def _open_clauses(sentence: Sentence) -> Iterator[Clause]:
    """The clauses that name a deed or a thing, and deny, suppose and ask nothing."""
    for clause in sentence.clauses:
        if any(w in language["hypothetical"] for w in clause.words for language in _LANGUAGES):
            return
        denied = any(w in language["negation"] for w in clause.words for language in _LANGUAGES)
        if not _is_path(clause) and not denied and not clause.asks and any(map(is_telling, clause.words)):
            yield clause


def _is_path(clause: Clause) -> bool:
    """Whether it is the rest of an address."""
    return len(clause.words) == 1 and "/" in clause.words[0]


def _unnamed(sentence: Sentence) -> Claim:
    """The claim of a sentence that is one by its words alone: of the deeds and the things that it names."""
    words = [word for clause in _open_clauses(sentence) for word in clause.words]
    told = [
        deed for w in words for language in _LANGUAGES for form, deed in language.forms.get(w, ()) if _is_past(form)
    ]
    things = [thing for w in words for language in _LANGUAGES if (thing := language.thing(w)) is not None]
    kinds = frozenset().union(*(deed.accepts for deed in told), *(thing.accepts for thing in things)) if told else _ANY
    return Claim(kinds, "", Voice.DONE, "")


def _is_past(form: Form) -> bool:
    return form in (Form.PAST, Form.PARTICIPLE)


_LANGUAGES: Final = (ENGLISH, SPANISH)
_ANY: Final = frozenset({Kind.ANY})


def _of(sentence: Sentence, *, shows: bool) -> Iterator[Claim]:
    """The claims of a sentence in its language; in both if it is short of words that only one of them has."""
    words = frozenset(word for clause in sentence.clauses for word in clause.words)
    is_english, is_spanish = not words.isdisjoint(ONLY_ENGLISH), not words.isdisjoint(ONLY_SPANISH)
    if is_english or not is_spanish:
        yield from english.claims(sentence, shows=shows)
    if is_spanish or not is_english:
        yield from spanish.claims(sentence, shows=shows)


def unsupported(
    answer: str,
    done: Sequence[Done],
    *,
    looked: Collection[str] = (),
    asked: bool = False,
    weights: Weights = FITTED,
) -> list[Claim]:
    """The claims that nothing speaks for. `done` are the deeds of the run; `looked` the domains of what was read in it
    (empty text: of anything), so that the answer may tell how things are there; `asked` as in `claims`."""
    told = claims(answer, asked=asked, weights=weights)
    return [claim for claim in told if not claim.fits(done) and not _was_seen(claim, looked)]


def _was_seen(claim: Claim, looked: Collection[str]) -> bool:
    if claim.voice is Voice.DONE:
        return bool(looked)
    return claim.voice is Voice.REPORT and any(not apart(claim.domain, domain) for domain in looked)


def _plain(clauses: Sequence[Clause], whole: Said) -> Iterator[Claim]:
    """That something is done, without saying what: "Done", "listo ✅", a tick with the name of a thing."""
    if any(w in ENGLISH["listing"] or w in SPANISH["listing"] for c in clauses for w in c.words):
        return
    for clause in clauses:
        if clause.asks:
            continue
        behind = clauses[clauses.index(clause) + 1 :] if len(clauses) < 9 else ()
        hands_over = any(_STATED & set(c.words) for c in behind)
        if not whole.delivers and not hands_over and whole.words <= SHORT and _is_done(clause, whole):
            yield Claim(frozenset({Kind.ANY}), "", Voice.DONE, "")
        elif clause.ticked and not whole.checklist and (found := _ticked(clause)) is not None:
            yield found


def _is_done(clause: Clause, whole: Said) -> bool:
    if not clause.words:
        return clause.ticked and not whole.checklist
    for language in (ENGLISH, SPANISH):
        bare = tuple(w for w in clause.words if w not in language["adverb"] or w in ("all", "ya", "todo", "already"))
        if clause.words in language.done or bare in language.done:
            return True
        if any(bare[:n] in language.done and _is_dated(bare[n:]) for n in range(1, min(5, len(bare)))):
            return True
    at = next((i for i, w in enumerate(clause.words[:6]) if w in _ARRANGED), 0)
    leading, rest = clause.words[:at], clause.words[at + 1 :]
    named = bool(leading) and leading[0] not in ENGLISH["prepositions"] and leading[0] not in SPANISH["prepositions"]
    plain = not any(_is_verbal(w, words) and not w.endswith("ing") for w in leading for words in (ENGLISH, SPANISH))
    return named and plain and (not rest or _is_dated(rest))


def _is_dated(rest: Sequence[str]) -> bool:
    """What follows is for when it was done: "for Tuesday"."""
    if rest[0] not in ("for", "on", "para") or len(rest) < 2:
        return False
    behind = rest[1:3]
    return any(is_time(w) or w in ENGLISH["days"] or w in SPANISH["days"] for w in behind)


_STATED: Final = frozenset({"is", "'s", "es", "son"})
_ARRANGED: Final = frozenset(
    {"sorted", "done", "handled", "arranged", "settled", "set", "solucionado", "resuelto", "hecho"}
)


def _ticked(clause: Clause) -> Claim | None:
    """A tick before or behind the name of a thing, and no verb: "✅ Reminder for nine"."""
    for words in (ENGLISH, SPANISH):
        if any(_is_verbal(word, words) for word in clause.words):
            continue
        thing = next((t for w in clause.words if (t := words.thing(w))), None)
        if thing is not None and thing.domain not in ("other", "shop"):
            return Claim(thing.accepts, thing.domain, Voice.RESULT, "")
    return None


def _is_verbal(word: str, words: Words) -> bool:
    return word in words["finite"] or word in words["negation"] or word in words["no"] or word in words.forms
