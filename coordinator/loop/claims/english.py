"""Claims in English clauses: a scan from left to right that knows subject, verb group and scope. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from coordinator.loop.claims.claim import (
    PLAIN,
    Claim,
    Scope,
    Voice,
    counts,
    dated,
    deed_of,
    is_claim,
    is_time,
    kinds_of,
    object_of,
)
from coordinator.loop.claims.english_phrases import by_somebody, idiom, is_mass, is_verb, of_ours
from coordinator.loop.claims.english_states import state
from coordinator.loop.claims.lexicon import ENGLISH as W
from coordinator.loop.claims.lexicon import IRREGULAR, OTHER, Deed, Form, Thing
from coordinator.loop.claims.text import HOLE, Clause, Sentence

_GROUP = W["be"] | W["have"] | W["modal"] | W["negation"] | W["adverb"] | {"did", "do", "does", "to", "only"}
_FILLER = W["adverb"] | {"ok", "okay", "great", "perfect", "yes", "sure", "hey", "alright", "right", HOLE}
_ANY_FORM = ((Form.PAST, OTHER), (Form.PARTICIPLE, OTHER))
_AUXILIARY = (("is",), ("are",), ("was",), ("were",), ("has",), ("have",), ("'s",))
_TRAILING = ("before", "after", "once")
"""Words that suppose nothing at the end of a clause: "an hour before"."""
_TOLD = ("tell", "send", "reply", "share")


@dataclass
class _Scan:
    """Where the scan of a clause is."""

    clause: Clause
    follows: Clause | None
    scope: Scope
    subject: str = ""
    """`self`, `you`, `other`, `thing` or nothing yet."""
    open: bool = False
    """Only a verb group has come since the subject."""
    nothing: bool = False
    """The subject says that there is none: "no mail"."""
    relative: bool = False
    reported: bool = False
    thing: Thing | None = None
    definite: bool = False
    verbs: bool = False
    """It has a verb that is not its first word."""
    group: list[str] = field(default_factory=list)

    @property
    def words(self) -> tuple[str, ...]:
        return self.clause.words


def claims(sentence: Sentence, *, shows: bool) -> Iterator[Claim]:
    """The claims of a sentence, without those that it asks, denies, supposes or reports."""
    scope = Scope.of(sentence, W)
    told_to = _is_instruction(sentence.clauses[0])
    for clause, follows in zip(sentence.clauses, (*sentence.clauses[1:], None), strict=True):
        scope.into(clause, W)
        scope.conditional = scope.conditional or (clause.link in ("and", "then") and told_to)
        if not clause.asks and not any(w in W["defines"] for w in clause.words):
            yield from _clause(_Scan(clause, follows, scope), shows)


def _is_instruction(clause: Clause) -> bool:
    """Whether it begins by telling what to do: "Tick the box", of which "and it is saved" is what follows."""
    forms = {form for form, _ in W.forms.get(clause.words[0], ())} if clause.words else set()
    return Form.BASE in forms and not forms & {Form.PAST, Form.PARTICIPLE} and clause.words[1:2] != ()


def _clause(scan: _Scan, shows: bool) -> Iterator[Claim]:
    found = False
    if scan.words[:1] == ("which",) and scan.clause.link == ",":
        scan.subject, scan.definite, scan.thing = "thing", True, scan.scope.named
    scan.scope.hypothetical = scan.scope.hypothetical or scan.words[:2] == ("had", "i")
    for i, word in enumerate(scan.words):
        forms = () if _is_noun(scan, word) else W.forms.get(word, ()) or (_ANY_FORM if _may_be_deed(scan, i) else ())
        scan.verbs = scan.verbs or (bool(forms) and i > 0)
        claim = _judged(scan, i, forms, shows) if forms else None
        if claim is not None:
            found = True
            yield claim
        if word in _GROUP and not (word == "to" and scan.group[-1:] == ["to"]):
            scan.group.append(word)
        else:
            _advance(scan, word, verb=bool(forms))
    scan.scope.named = scan.thing or scan.scope.named
    scan.scope.predicate = any(is_verb(w) for w in scan.words) or (not found and scan.verbs)
    if not found and (told := _state(scan)) is not None:
        yield told


def _is_noun(scan: _Scan, word: str) -> bool:
    """Whether a word that is a verb as well ("email", "order") is a thing here."""
    if W.thing(word) is None or any(form in (Form.PAST, Form.PARTICIPLE) for form, _ in W.forms.get(word, ())):
        return False
    return not any(g in ("to", "did", "do", "does") or g in W["modal"] for g in scan.group)


def _may_be_deed(scan: _Scan, at: int) -> bool:
    """Whether a word looks like the past of a verb that is no looking, thinking, talking or writing."""
    word = scan.words[at]
    if word in W.harmless or not (word in IRREGULAR or (word.endswith("ed") and len(word) > 4)):
        return False
    follows = scan.words[at + 1 : at + 2]
    if not follows and "been" in scan.group:
        return True
    return bool(follows) and follows[0] not in W["intransitive"] and follows[0] not in W.harmless


def _advance(scan: _Scan, word: str, *, verb: bool) -> None:
    """What a word that is no part of a verb group changes."""
    scope = scan.scope
    if word in W["self"]:
        scan.subject, scan.open, scan.nothing = "self", True, False
        scope.self_, scope.negated = True, False
    elif word in W["other"] and not (scan.subject == "self" and not scan.open):
        scan.subject, scan.open = "you" if word == "you" else "other", True
        scope.self_ = False
    elif word == "that" and scan.words[max(0, scan.words.index(word) - 1) :][:1] in (("informed",), ("note",)):
        scope.hypothetical = False  # "please note that"
    elif word in W["hypothetical"] and not (word in _TRAILING and (scan.words[-1] == word or _is_factual(scan, word))):
        scope.hypothetical = True
        scope.conditional = scope.conditional or word in W["conditional"]
    elif word in W["listing"]:
        scope.listing = True
    elif (word in W["directive"] and scan.subject != "self") or word in W["doubt"]:
        scope.hypothetical = True
    elif (
        word in W["report"]
        and "now" not in (*scan.group, scan.words[-1])
        and not (word == "read" and ("as", "read") in pairwise(scan.words))
        and (scan.subject != "self" or word in W["perception"])
    ):
        scope.reported = scan.reported = True
    elif word in W["no"]:
        scan.nothing = True
    elif word in ("that", "which", "who") and not verb and (scan.thing is not None or _is_relative(scan, word)):
        scan.relative = True
    elif (thing := W.thing(word)) is not None and not verb:
        scan.thing, scan.subject, scan.open = thing, scan.subject or "thing", False
    elif word in W["pronoun"] or word == HOLE:
        if not (scan.subject == "self" and scan.open):
            scan.subject, scan.definite = scan.subject or "thing", True
    else:
        scan.open = False
    scan.definite = scan.definite or (word in W["definite"] and scan.subject != "self")
    scope.negated = scope.negated or (verb and any(g in W["negation"] for g in scan.group))
    scan.group = []


def _is_factual(scan: _Scan, word: str) -> bool:
    """Whether "before" and the like tell when something happened: "it was 97% before I emptied the bin"."""
    words = scan.words
    at = words.index(word)
    behind = {form for w in words[at + 2 : at + 3] for form, _ in W.forms.get(w, ())}
    told = any(w in ("was", "were", "had") for w in words[:at]) and words[at + 1 : at + 2] == ("i",)
    return told and Form.PAST in behind and Form.BASE not in behind


def _is_relative(scan: _Scan, word: str) -> bool:
    """Whether "that" goes on about the word before it: "modules that have been imported"."""
    at = scan.words.index(word)
    before, behind = scan.words[max(0, at - 1) : at], scan.words[at + 1 : at + 2]
    return bool(before) and before[0] not in _GROUP | W["report"] | W["doubt"] and behind[:1] in _AUXILIARY


def _judged(scan: _Scan, at: int, forms: Sequence[tuple[Form, Deed]], shows: bool) -> Claim | None:
    """What a form of a deed's verb claims where it stands."""
    words, group, scope = scan.words, scan.group, scan.scope
    deed = deed_of([d for _, d in forms], words, at) or (OTHER if words[at] not in W.harmless else None)
    if deed is None or scope.hypothetical or scope.listing:
        return None
    voice = _voice(scan, at, {form for form, _ in forms}, deed)
    if voice is not Voice.SELF and words[at] == "called" and deed.name == "reply":
        return None
    if voice is None or any(g in W["negation"] for g in group) or scan.nothing or (not group and scope.negated):
        return None
    own = voice is Voice.SELF
    theirs = scan.reported or (scan.clause.link == ":" and scope.reported)
    if theirs if own else (scope.reported or scope.conditional or scope.attributed):
        return None
    rest = words[at + 1 :]
    if (idiom(deed, words[at], rest, scan.thing, scan.clause.names) and (own or deed.name != "tell")) or (
        rest[:1] and rest[0] in W["no"]
    ):
        return None
    thing, content = object_of(rest, W, deed)
    content = content and not (not own and scan.thing is not None and rest[0] in W["prepositions"])
    if (not own or thing is None) and not content:
        thing = scan.thing or thing
    if own and thing is None and not content and (words[0] == "which" or rest[:1] in (("it",), ("them",), ("one",))):
        thing = scope.named
    if not own and thing is None and not content:
        content = (
            "now" not in words
            and any(w in W.content for w in words[:at])
            and rest[:2] != ("to", HOLE)
            and deed.name in ("change", "remove", "create", "add")
        )
    bare = not rest or rest[0] in W["pronoun"] or rest[0] in W["prepositions"] or rest[0] in W["adverb"]
    if not is_claim(deed, thing, content, bare, shows):
        return None
    before = any(w in W["before"] for w in words)
    return Claim(kinds_of(deed, thing), thing.domain if thing else "", voice, "", before)


def _voice(scan: _Scan, at: int, shapes: set[Form], deed: Deed) -> Voice | None:
    """Who is said to have done it, by the verb group before it; None if nobody."""
    words, group, scope = scan.words, scan.group, scan.scope
    past, participle, base = (form in shapes for form in (Form.PAST, Form.PARTICIPLE, Form.BASE))
    ours = scan.subject == "self" or (scope.self_ and scan.subject == "")
    if (scan.relative and scan.subject != "self") or any(g in W["modal"] for g in group):
        return None
    if "to" in group:
        led = words[max(0, at - 6) : at]
        able = base and any(w in W["able"] for w in led) and not any(w in W["negation"] or w == "am" for w in led)
        return Voice.SELF if able and ours else None
    if participle and words[max(0, at - 1) : at] == ("as",) and not group:
        return None  # "mark it as done"
    if Form.GERUND in shapes:
        led = words[max(0, at - 2) : at]
        done = led[-1:] and (led[-1] in W["gerund"] or led in (("succeeded", "in"), ("liberty", "of")))
        return Voice.SELF if done and ours else None
    if participle and words[max(0, at - 2) : at] in (("consider", "it"), ("consider", "that"), ("consider", "them")):
        return Voice.RESULT
    if participle and (be := [g for g in group if g in W["be"]]):
        return _passive(scan, at, be, deed)
    if participle and any(g in ("have", "'s") for g in group):
        return Voice.SELF if ours and (scan.open or scan.subject == "") else None
    if "did" in group:
        return Voice.SELF if base and scan.subject == "self" and scan.open else None
    if any(g in ("do", "does", "has", "had", "having") for g in group):
        system = participle and "has" in group and any(w in W["system"] for w in words[:at])
        return Voice.RESULT if system else None
    if past and scan.subject == "self" and scan.open:
        return None if base and any(w in ("always", "usually", "normally", "often") for w in words) else Voice.SELF
    if past and ours and all(w in _FILLER for w in words[:at]) and scan.clause.link != ":":
        return Voice.SELF
    if participle and ours and not group and scan.thing and any(w in ("got", "had", "have") for w in words[:at]):
        return Voice.SELF
    if words[:2] == ("that", "'s") and participle and deed is not OTHER and 2 < at < 8 and not group:
        return Voice.RESULT  # "that's Ana told"
    if deed is OTHER and not (at == 0 and scan.clause.link in ("", ",") and words[1:2] and _is_object(scan, words[1])):
        return None
    return _fragment(scan, at, deed) if participle or past else None


def _passive(scan: _Scan, at: int, be: list[str], deed: Deed) -> Voice | None:
    words, group = scan.words, scan.group
    rest = words[at + 1 :]
    if "following" in rest and scan.clause.ends == ":":
        return None
    mine = scan.subject == "self" and (scan.open or scan.thing is None)
    if "being" in be or "be" in be or mine or scan.subject == "other":
        return None
    if scan.subject == "you":
        mine = deed.name in PLAIN or deed.name in ("setup", "put")
        return Voice.RESULT if mine and scan.open and not {"were", "was"} & set(be) else None
    own = any(w in W["own"] for w in words[:at])
    named = scan.thing is not None or own or any(W.thing(w) for w in rest) or deed.name in _TOLD
    pronoun = (scan.subject == "thing" and scan.definite) or (words[0] == "one" and "been" in be)
    short = deed.name in PLAIN and len(words) <= 14 and at <= 7
    worded = (
        "now" not in words
        and any(w in W.content for w in words[:at])
        and deed.name
        not in (
            "save",
            "send",
            "upload",
            "book",
            "schedule",
            "buy",
            "pay",
            "setup",
        )
    )
    if not named and not pronoun and short and at > len(group) and not worded:
        return _of_unknown(words, at, be, deed)
    named = named or (deed.name in PLAIN and rest[:1] in (("to",), ("for",)) and any(is_time(w) for w in rest[:4]))
    if deed is OTHER and not ((own and "been" in be) or (scan.thing is not None and scan.definite)):
        return None
    if not (named or pronoun) or by_somebody(rest) or any(w in W["habitual"] for w in words):
        return None
    if "been" in be:
        perfect = any(g in ("have", "has", "'s") for g in group)
        return Voice.RESULT if perfect and (own or not dated(rest, W, deed)) else None
    definite = scan.definite or own
    if any(g in ("was", "were") for g in be):
        whole = definite or words[0] in ("all", "both") or (is_time(words[0]) and deed.name in PLAIN)
        return Voice.REPORT if whole and not dated(words, W, deed) else None
    if "got" in be:
        return Voice.RESULT if definite else None
    now = any(g in ("now", "all", "already", "successfully") for g in group) or words[0] in ("all", "both")
    return Voice.REPORT if now or definite or (scan.thing is not None and at - len(group) == 1) else None


_NEWS = ("cancel", "change", "move", "push", "buy", "delete", "pay", "switch", "mark", "remove")


def _of_unknown(words: Sequence[str], at: int, be: list[str], deed: Deed) -> Voice | None:
    """Of a subject that the tables do not know: what may be news as well counts as told."""
    rest = words[at + 1 :]
    blocked = W["habitual"] | W["hypothetical"] | {"through"}
    if dated(words, W, deed) or by_somebody(rest) or any(w in blocked for w in rest):
        return None
    if "been" in be:
        return Voice.REPORT if deed.name in _NEWS else Voice.RESULT
    if words[0] in ("a", "an"):
        return None
    whole = any(g in ("is", "'s") for g in be) or words[0] in ("all", "both", "they", "these", "those")
    whole = whole or is_time(words[0])
    return Voice.REPORT if whole else None


def _fragment(scan: _Scan, at: int, deed: Deed) -> Voice | None:
    """A clause without a verb of its own: "Saved.", "Mail sent to Ana"."""
    words, scope, clause = scan.words, scan.scope, scan.clause
    rest = words[at + 1 :]
    dropped = (
        bool(rest)
        and (rest[0] in W["objects"] or rest[0] in clause.names)
        and all(w in _FILLER or w == "just" for w in words[:at])
    )
    if at == 0 and clause.link == "," and deed.name in ("schedule", "book", "programme"):
        return Voice.REPORT if not scope.negated else None  # "there is a call, scheduled for ten"
    if (not words[:at] or scan.thing is None) and scope.predicate and clause.link in W["unbroken"]:
        return None  # its subject is the one before
    base = any(form is Form.BASE for form, _ in W.forms.get(words[at], ()))
    if at == 0 and base and len(words) > 2 and all(w in clause.names for w in words):
        return None  # a heading: "Set Up Your Account"
    dropped = dropped and deed is not OTHER
    if scope.negated or clause.link == "(" or (not dropped and any(w in W["finite"] or w in W["modal"] for w in rest)):
        return None
    if (
        by_somebody(rest)
        or (not dropped and dated(words, W, deed))
        or scan.subject in ("self", "you", "other")
        or scope.reported
    ):
        return None
    if clause.ends == ":" and scan.follows is not None and counts(scan.follows):
        return None
    leading = [w for w in words[:at] if w not in _FILLER]
    follows = not rest or rest[0] in W["prepositions"] or rest[0] == HOLE
    follows = follows or (not leading and (is_time(rest[0]) or rest[0] in W["objects"] or rest[0] in clause.names))
    follows = follows or (not leading and is_mass(rest))
    listed = clause.link == "" and clause.ends in (",", "and") and scan.follows is not None and len(rest) < 4
    listed = listed and not any(w in W["hypothetical"] for w in rest)
    follows = follows or (listed and not leading and deed.name in PLAIN)
    if not follows and not (deed.particle and deed.particle in rest[:3]):
        return None
    if not leading:
        meant = clause.ticked or rest[:1] in ((), ("for",)) or ("for", "you") in pairwise(rest)
        return Voice.RESULT if not base or (not scope.stepwise and (meant or deed.particle)) else None
    if deed.name == "mark" and not rest and scan.thing is None and all(w in clause.names for w in leading):
        return None  # "James declined"
    if leading[0] in W["definite"] - W["own"] or len(leading) > 8 or any(is_verb(w) for w in leading):
        return None
    if scan.thing is None and (
        len(leading) > 5 or deed.name not in PLAIN or (clause.link == ":" and not is_time(leading[0]))
    ):
        return None
    agenda = deed.name in ("schedule", "book", "programme") and not clause.ticked and not of_ours(leading)
    return Voice.REPORT if agenda or (clause.ends == ":" and leading[-1].endswith("s")) else Voice.RESULT


def _is_object(scan: _Scan, word: str) -> bool:
    return word in W["objects"] or word in scan.clause.names or is_time(word)


def _state(scan: _Scan) -> Claim | None:
    """What the clause claims without a deed's verb."""
    scope = scan.scope
    if scope.hypothetical or scope.reported or scope.negated or scope.conditional or scope.listing or scope.attributed:
        return None
    return state(scan.clause, scan.thing, scan.follows, complied=scope.complied)
