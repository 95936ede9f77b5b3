"""Claims in Spanish clauses: a scan from left to right that knows verb group, person and scope. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

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
from coordinator.loop.claims.lexicon import OTHER, Deed, Form, Kind, Thing
from coordinator.loop.claims.lexicon import SPANISH as W
from coordinator.loop.claims.spanish_states import state
from coordinator.loop.claims.text import HOLE, Clause, Sentence

_MINE: Final = frozenset({"he", "hemos"})
_HABER: Final = _MINE | {"ha", "han", "has", "haya", "hayan", "había", "habían", "habré", "habrá", "habría"}
_LEFT: Final = frozenset({"dejé", "dejamos", "dejo", "tengo", "tienes", "tenemos", "tiene"})
_GROUP: Final = _HABER | W["be"] | W["clitic"] | W["adverb"] | W["negation"] | _LEFT | {"dejado"}
_FILLER: Final = W["adverb"] | {"ok", "perfecto", "vale", "sí", "si", "claro", "genial", "bien", "estupendo", HOLE}
_CLITICS: Final = re.compile(r"(?<=[aeiáéí]r)(?:(?:me|te|se|nos|os)(?:lo|la|los|las|le|les)?|lo|la|los|las|le|les)\Z")
_SMALL: Final = re.compile(r"([ai]d)it([oa]s?)\Z")
"""Diminutives of participles: "guardadito"."""
_BARE: Final = str.maketrans("áéí", "aei")
_MANAGED: Final = frozenset(
    {"conseguí", "logré", "pude", "conseguido", "logrado", "podido", "conseguimos", "pudimos", "logramos"}
)
_ENDED: Final = frozenset({"libertad", "acabo", "acabamos", "terminé", "terminado", "acabado"})
_ANY_FORM: Final = ((Form.PAST, OTHER), (Form.PARTICIPLE, OTHER))


@dataclass
class _Scan:
    """Where the scan of a clause is."""

    clause: Clause
    follows: Clause | None
    scope: Scope
    thing: Thing | None = None
    nothing: bool = False
    relative: bool = False
    reported: bool = False
    own: bool = False
    group: list[str] = field(default_factory=list)

    @property
    def words(self) -> tuple[str, ...]:
        return self.clause.words


@lru_cache(maxsize=4096)
def _infinitive(word: str) -> str:
    """An infinitive without the pronouns that hang on it, else the word."""
    word = _SMALL.sub(r"\1\2", word)
    bare = _CLITICS.sub("", word)
    return bare.translate(_BARE) if bare != word else word


def claims(sentence: Sentence, *, shows: bool) -> Iterator[Claim]:
    """The claims of a sentence, without those that it asks, denies, supposes or reports."""
    scope = Scope.of(sentence, W)
    for clause, follows in zip(sentence.clauses, (*sentence.clauses[1:], None), strict=True):
        scope.into(clause, W)
        if not clause.asks and not any(w in W["defines"] for w in clause.words):
            yield from _clause(_Scan(clause, follows, scope), shows)


def _clause(scan: _Scan, shows: bool) -> Iterator[Claim]:
    words, found = scan.words, False
    scan.nothing = scan.clause.link == "ni"
    theirs = any(w in ("ha", "han", "has", "había", "habían") for w in words)
    for i, word in enumerate(words):
        forms = W.forms.get(_infinitive(word), ()) or (_ANY_FORM if _may_be_deed(scan, i) else ())
        claim = _judged(scan, i, forms, shows) if forms else None
        if claim is not None:
            found = True
            yield claim
        if word in _GROUP and not (word in ("la", "lo", "los", "las") and _is_article(words, i)):
            scan.group.append(word)
        else:
            _advance(scan, i, word, verb=bool(forms))
    scan.scope.predicate = theirs and not found
    scan.scope.named = scan.thing or scan.scope.named
    if not found and (told := _state(scan)) is not None:
        yield told


def _may_be_deed(scan: _Scan, at: int) -> bool:
    """Whether a word looks like the first person of a verb that is no looking, thinking, talking or writing."""
    word, group = scan.words[at], scan.group
    if word in W.harmless or len(word) < 4:
        return False
    if any(g in _MINE for g in group):
        return word.endswith(("ado", "ido", "to", "cho")) and _has_object(scan, at)
    spoken = not group or group[-1] in W["clitic"] or group[-1] == "ya"
    first = bool(group) or at == 0
    future = word.endswith(("aré", "eré", "iré"))
    return word.endswith(("é", "í")) and not future and spoken and first and _has_object(scan, at)


def _has_object(scan: _Scan, at: int) -> bool:
    follows = scan.words[at + 1 : at + 2]
    clitic = any(g in ("lo", "la", "los", "las", "le", "les") for g in scan.group)
    return clitic or (bool(follows) and follows[0] not in W["intransitive"])


def _is_article(words: Sequence[str], at: int) -> bool:
    """Whether "la" and the like stand before a noun, and not before a verb."""
    follows = words[at + 1] if at + 1 < len(words) else ""
    return follows not in _GROUP and follows not in W.forms and not follows.endswith(("é", "í"))


def _advance(scan: _Scan, at: int, word: str, *, verb: bool) -> None:
    """What a word that is no part of a verb group changes."""
    scope = scan.scope
    if word in W["hypothetical"] and not (word == "si" and scan.words[at + 1 : at + 2] == ("no",)):
        scope.hypothetical = True
        scope.conditional = scope.conditional or word in W["conditional"]
    elif word in W["listing"]:
        scope.listing = True
    elif word in W["directive"]:
        scope.hypothetical = True
    elif word in W["report"] and not (word in ("figura", "aparece", "consta", "pone") and scan.group[-1:] == ["ya"]):
        scope.reported = True
        scan.reported = word not in W["self_report"]
    elif word in W["no"]:
        scan.nothing = True
    elif word == "que" and scan.thing is not None:
        scan.relative = True
    elif (thing := W.thing(word)) is not None and not (verb and scan.group):
        scan.thing = thing
    scan.own = scan.own or word in W["own"]
    if verb:
        scope.negated = scope.negated or any(g in W["negation"] for g in scan.group)
        scope.perfect = scope.perfect or any(g in _MINE for g in scan.group)
    scan.group = []


def _judged(scan: _Scan, at: int, forms: Sequence[tuple[Form, Deed]], shows: bool) -> Claim | None:
    """What a form of a deed's verb claims where it stands."""
    words, group, scope = scan.words, scan.group, scan.scope
    rest = words[at + 1 :]
    deed = deed_of([d for _, d in forms], words, at) or _said_to(forms, group)
    if deed is None or scope.hypothetical or scope.listing or _idiom(deed, group, rest):
        return None
    voice = _voice(scan, at, {form for form, _ in forms}, deed)
    if voice is None or any(g in W["negation"] for g in group) or scan.nothing or (not group and scope.negated):
        return None
    if any(w in W["no"] for w in rest[:2]):
        return None
    own = voice is Voice.SELF
    theirs = scan.reported or (scan.clause.link == ":" and scope.reported)
    if theirs if own else (scope.reported or scope.conditional or scope.attributed):
        return None
    thing, content = object_of(rest, W, deed)
    content = content and not (not own and scan.thing is not None and rest[0] in W["prepositions"])
    if (not own or thing is None) and not content:
        thing = scan.thing or thing
    if own and thing is None and not content and any(g in ("lo", "la", "los", "las") for g in group):
        thing = scope.named
    if not own and thing is None and not content:
        named = rest[:2] in (("a", HOLE), ("por", HOLE))
        content = (
            not named and any(w in W.content for w in words[:at]) and deed.name in ("change", "remove", "create", "add")
        )
    bare = not rest or rest[0] in W["prepositions"] or rest[0] in W["adverb"]
    if deed.name == "create" and own and any(g in ("le", "les") for g in group) and words[at].startswith("escri"):
        return Claim(frozenset({Kind.SEND}), "", voice, "", any(w in W["before"] for w in words))
    if not is_claim(deed, thing, content, bare, shows):
        return None
    before = any(w in W["before"] for w in words)
    return Claim(kinds_of(deed, thing), thing.domain if thing else "", voice, "", before)


def _said_to(forms: Sequence[tuple[Form, Deed]], group: Sequence[str]) -> Deed | None:
    """A deed of telling somebody: "le dije que"."""
    told = ("le" in group or "les" in group) and "te" not in group
    return next((deed for _, deed in forms if told and deed.name == "tell"), None)


def _voice(scan: _Scan, at: int, shapes: set[Form], deed: Deed) -> Voice | None:
    """Who is said to have done it, by the verb group before it; None if nobody."""
    words, group, scope = scan.words, scan.group, scan.scope
    if scan.relative and not any(g in _MINE for g in group) and Form.PAST not in shapes:
        return None
    if Form.BASE in shapes:
        return _succeeded(words, at)
    if Form.PARTICIPLE in shapes:
        if words[max(0, at - 1) : at] == ("como",):
            return None  # "marca la tarea como hecha"
        if words[max(0, at - 2) : at] in (("dalo", "por"), ("dala", "por"), ("dalos", "por"), ("dadlo", "por")):
            return Voice.RESULT
        if any(g in _HABER or g in W["be"] or g in _LEFT for g in group):
            return _compound(scan, at, deed)
    if (
        Form.PAST in shapes
        and not any(g in _HABER for g in group)
        and (deed is not OTHER or not words[at].endswith("o"))
    ):
        return Voice.SELF
    if Form.THIRD in shapes and "se" in group:
        named = scan.thing is not None or any(W.thing(w) for w in words[at + 1 :]) or not words[at + 1 :]
        told = dated(words, W, deed) or dated(words[at + 1 :], W, deed)
        return Voice.RESULT if named and not told and not _by_somebody(words[at + 1 :]) else None
    if Form.PLURAL in shapes and any(g in W["clitic"] or g == "ya" for g in group):
        return Voice.SELF
    if Form.PARTICIPLE not in shapes or deed is OTHER:
        return None
    if scope.perfect and scan.clause.link in W["unbroken"] and all(w in _FILLER for w in words[:at]):
        return Voice.SELF
    if not group and any(w in ("dejado", "dejé", "tengo") for w in words[:at]) and not {"ha", "han"} & set(words[:at]):
        return Voice.SELF
    return _fragment(scan, at, deed)


def _succeeded(words: Sequence[str], at: int) -> Voice | None:
    """ "acabo de enviar", "he conseguido enviar": infinitives of what was done."""
    before = words[max(0, at - 4) : at]
    if any(w in W["negation"] for w in words[max(0, at - 6) : at]):
        return None
    ended = before[-1:] == ("de",) and before[-2:-1] and before[-2] in _ENDED
    return Voice.SELF if ended or (before[-1:] and before[-1] in _MANAGED) else None


def _compound(scan: _Scan, at: int, deed: Deed) -> Voice | None:
    """The voice of a participle with an auxiliary."""
    words, group = scan.words, scan.group
    rest = words[at + 1 :]
    agent = _by_somebody(rest)
    told = deed.name in ("tell", "send", "reply", "share")
    named = scan.thing is not None or scan.own or told or any(W.thing(w) for w in rest)
    timed = rest[:1] in (("a",), ("para",), ("al",)) and any(is_time(w) or w in W["days"] for w in rest[:4])
    named = named or (deed.name in PLAIN and (timed or any(map(is_time, rest[:1]))))
    alone = all(w in _FILLER for w in words[: at - len(group)])
    if any(g in _MINE for g in group):
        return Voice.SELF
    if any(g in ("has", "haya", "hayan", "había", "habían", "habré", "habrá", "habría") for g in group):
        return None
    if rest[:1] == ("que",) and any(g in ("tengo", "tenemos") for g in group):
        return None  # it is read out
    if any(g in ("dejé", "dejo", "dejamos", "tengo", "tenemos") for g in group):
        return Voice.SELF
    if any(g in ("tienes", "tiene") for g in group):
        return Voice.REPORT if any(g in ("ya", "lo", "la", "los", "las") for g in group) else None
    if deed is OTHER or agent:
        return None
    be = [g for g in group if g in W["be"]]
    if any(g in ("ha", "han") for g in group):
        if "se" in group or be:
            return Voice.RESULT if (named or alone) and not dated(words, W, deed) else None
        return Voice.RESULT if any(w in W["system"] for w in words[:at]) else None
    if any(g in ("va", "van", "queda", "quedan", "quedó", "quedaron") for g in be):
        return Voice.RESULT
    if any(g in ("fue", "fueron") for g in be):
        return Voice.REPORT if named and not dated(words, W, deed) else None
    if "estás" in be:
        return Voice.REPORT if deed.name in ("note", "setup", "book", "schedule") else None
    if any(g in ("está", "están") for g in be) and not any(w in W["habitual"] for w in words):
        return Voice.REPORT if named or alone or "ya" in group else None
    return None


def _by_somebody(rest: Sequence[str]) -> bool:
    """Whether "por" follows and names who did it, and not by what means."""
    return rest[:1] == ("por",) and len(rest) > 1 and rest[1] not in W["means"]


def _fragment(scan: _Scan, at: int, deed: Deed) -> Voice | None:
    """A clause without a verb of its own: "Guardado.", "Correo enviado a Ana"."""
    words, scope, clause = scan.words, scan.scope, scan.clause
    rest = words[at + 1 :]
    if at == 0 and scope.predicate and clause.link in W["unbroken"]:
        return None  # its subject is the one before
    if scope.negated or clause.link == "(" or scope.reported or dated(words, W, deed) or _by_somebody(rest):
        return None
    if any(_is_verb(w) and w != "que" for w in rest):
        return None
    if clause.ends == ":" and scan.follows is not None and counts(scan.follows):
        return None
    if clause.ends == ":" and len(words) == 1 and words[0].endswith("s") and scan.follows is not None:
        return None  # a heading: "Invitados:"
    leading = [w for w in words[:at] if w not in _FILLER]
    follows = not rest or rest[0] in W["prepositions"] or rest[0] == HOLE
    if not follows and (leading or not (is_time(rest[0]) or rest[0] in W["objects"] or rest[0] in clause.names)):
        return None
    if not leading:
        return Voice.RESULT
    if leading[0] in W["articles"] or len(leading) > 8 or any(_is_verb(w) or _is_told(w) for w in leading):
        return None
    if scan.thing is None and (
        len(leading) > 5 or deed.name not in PLAIN or (clause.link == ":" and not is_time(leading[0]))
    ):
        return None
    if scan.thing is None and not _agree(leading, words[at]):
        return None
    ours = any(w.startswith(("recordatorio", "alarma", "aviso", "evento", "mesa", "temporizador")) for w in leading)
    agenda = deed.name in ("schedule", "book", "programme") and not clause.ticked and not ours
    return Voice.REPORT if agenda or (clause.ends == ":" and words[at].endswith("s")) else Voice.RESULT


def _agree(leading: Sequence[str], participle: str) -> bool:
    """Whether some word before a participle could be its noun, by number."""
    return any(w.endswith("s") == participle.endswith("s") and not is_time(w) for w in leading)


def _is_verb(word: str) -> bool:
    return word in W["finite"] or word in ("se", "no", "que")


def _is_told(word: str) -> bool:
    """The past of somebody else: "agregó"."""
    return word.endswith("ó") and any(form is Form.THIRD for form, _ in W.forms.get(word, ()))


def _idiom(deed: Deed, group: Sequence[str], rest: Sequence[str]) -> bool:
    """Phrases with a deed's verb that are none."""
    if deed.name == "tell":
        return "te" in group or "os" in group
    if deed.name == "programme":
        return rest[:1] == ("en",) and rest[1:2] != () and rest[1] not in W["definite"]
    if deed.name == "put":
        return rest[:2] == ("todo", "como") or rest[:1] in (
            ("como",),
            ("igual",),
            ("intacto",),
            ("intacta",),
            ("sin",),
            ("pendiente",),
            ("claro",),
        )
    if deed.name == "reply":
        person = "le" in group or "les" in group or rest[:1] in (("a",), ("al",))
        return not (person or any(W.thing(w) for w in rest[:4])) or "te" in group
    return False


def _state(scan: _Scan) -> Claim | None:
    """What the clause claims without a deed's verb."""
    scope = scan.scope
    if scope.hypothetical or scope.reported or scope.negated or scope.conditional or scope.listing or scope.attributed:
        return None
    return state(scan.clause, scan.thing, complied=scope.complied)
