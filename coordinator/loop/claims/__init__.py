"""The claims guard: what an answer says was done, held against what was done. Pure.

An answer is split into clauses; in each the forms of verbs that name deeds are looked up, and subject, voice, negation,
supposition and attribution decide whether it claims one. A short answer is weighed by its words as well (evidence.py),
for what no rule foresaw and against what a rule misread. A claim that no success of this run supports is returned.
What follows from that is decided in `coordinator/loop/decide.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from coordinator.loop.claims import english, evidence, spanish
from coordinator.loop.claims.claim import Claim, Done, Voice, apart, is_time
from coordinator.loop.claims.deeds import deeds, done_by
from coordinator.loop.claims.lexicon import ENGLISH, ONLY_ENGLISH, ONLY_SPANISH, SPANISH, Kind, Words
from coordinator.loop.claims.text import Clause, Said, Sentence, said

__all__ = ["Claim", "Done", "Kind", "Voice", "claims", "deeds", "done_by", "unsupported"]

LONG: Final = 60
"""Words of an answer beyond which it is an explanation: there only short sentences and what is said in the first person
claim deeds."""
BRIEF: Final = 12
SHORT: Final = 45
"""Words of an answer beyond which a plain "done" is taken to be about what the answer itself brings."""


def claims(answer: str, *, asked: bool = False) -> list[Claim]:
    """The deeds that an answer says were done, in its order. `asked`: the user asked for one."""
    whole = said(answer)
    weighed = 0 < whole.words <= evidence.LONGEST
    more = evidence.ASKED if asked else 0.0
    found: list[Claim] = []
    told = list(_told(whole))
    for sentence in told:
        here = list(_of(sentence, shows=whole.shows)) or list(_plain(sentence.clauses, whole))
        if whole.words > LONG:
            brief = sum(len(clause.words) for clause in sentence.clauses) <= BRIEF
            here = [c for c in here if c.voice is Voice.SELF or (c.voice is Voice.RESULT and brief)]
        if here:
            weight = evidence.weight(whole, (sentence,)) + more
            least = evidence.DENIED if whole.words <= evidence.LONGEST else evidence.DENIED_AT_LENGTH
            here = [c for c in here if weight > (2 * evidence.DENIED if c.voice is Voice.SELF else least)]
        found.extend(replace(claim, text=sentence.text) for claim in here)
    if not found and weighed and not whole.shows:
        found.extend(_weighed(whole, told, evidence.CLAIMED - more))
    return found


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


def _weighed(whole: Said, told: Sequence[Sentence], least: float) -> Iterator[Claim]:
    """That something was done, by the weight of the sentences that deny, suppose and ask nothing."""
    plain = [sentence for sentence in told if _is_plain(sentence)]
    if plain and evidence.weight(whole, plain) >= least:
        heaviest = max(plain, key=lambda sentence: evidence.weight(whole, (sentence,)))
        yield Claim(frozenset({Kind.ANY}), "", Voice.DONE, heaviest.text)


def _is_plain(sentence: Sentence) -> bool:
    """Whether it names a deed or a thing, and denies, supposes and asks nothing."""
    words = [word for clause in sentence.clauses for word in clause.words]
    scoped = any(w in language[scope] for w in words for language in (ENGLISH, SPANISH) for scope in _SCOPES)
    return any(map(evidence.is_telling, words)) and not scoped and not any(clause.asks for clause in sentence.clauses)


_SCOPES: Final = ("negation", "hypothetical")


def _of(sentence: Sentence, *, shows: bool) -> Iterator[Claim]:
    """The claims of a sentence in its language; in both if it is short of words that only one of them has."""
    words = frozenset(word for clause in sentence.clauses for word in clause.words)
    is_english, is_spanish = not words.isdisjoint(ONLY_ENGLISH), not words.isdisjoint(ONLY_SPANISH)
    if is_english or not is_spanish:
        yield from english.claims(sentence, shows=shows)
    if is_spanish or not is_english:
        yield from spanish.claims(sentence, shows=shows)


def unsupported(answer: str, done: Sequence[Done], *, looked: Collection[str] = (), asked: bool = False) -> list[Claim]:
    """The claims that nothing speaks for. `done` are the deeds of the run; `looked` the domains of what was read in it
    (empty text: of anything), so that the answer may tell how things are there; `asked` as in `claims`."""
    return [claim for claim in claims(answer, asked=asked) if not claim.fits(done) and not _was_seen(claim, looked)]


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
        hands_over = bool(behind) and (clause.ends == ":" or any(_STATED & set(c.words) for c in behind))
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
