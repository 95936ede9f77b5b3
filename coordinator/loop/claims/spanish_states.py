"""Spanish claims by what came of a deed: "ya lo tienes en tu calendario", "ya no queda ni rastro". Pure."""

from __future__ import annotations

from typing import Final

from coordinator.loop.claims.claim import Claim, is_time
from coordinator.loop.claims.lexicon import SPANISH as W
from coordinator.loop.claims.lexicon import Kind, Thing
from coordinator.loop.claims.states import (
    CHANGED,
    DATED,
    GONE,
    KEPT,
    PLACES,
    SENT,
    STORED,
    first_thing,
    pairs,
    report,
    result,
    verbless,
)
from coordinator.loop.claims.text import Clause

_HELD: Final = frozenset({"está", "están", "tienes", "queda", "quedan", "vuelve", "vuelto"})
_REACHED: Final = frozenset({"recibir", "llegado", "recibido", "llegó", "recibió", "salió", "salido", "salieron"})
_BE: Final = frozenset(
    {
        "tienes",
        "está",
        "están",
        "tiene",
        "tienen",
        "consta",
        "pone",
        "es",
        "va",
        "van",
        "queda",
        "quedan",
        "suena",
        "figura",
        "sale",
        "funciona",
    }
)
_STATES: Final[dict[tuple[str, ...], frozenset[Kind]]] = {
    ("al", "tanto"): SENT,
    ("al", "corriente"): SENT,
    ("fuera", "del"): GONE,
    ("son", "historia"): GONE,
    ("es", "historia"): GONE,
    ("quedado", "para"): DATED,
    ("queda", "para"): DATED,
    ("quedó", "para"): DATED,
    ("en", "marcha"): DATED | CHANGED,
    ("a", "salvo"): KEPT,
    ("en", "camino"): SENT | {Kind.BUY},
    ("de", "camino"): SENT | {Kind.BUY},
    ("buen", "recaudo"): KEPT,
}


def state(clause: Clause, thing: Thing | None, *, complied: bool) -> Claim | None:
    """The claim of a clause without a deed's verb. `thing` is the last one that it names."""
    words = clause.words
    if not words or words[0] in ("un", "una") or any(w in W["hypothetical"] for w in words):
        return None
    if _spanish_gone(words):
        return report(GONE)
    if any(w in W["negation"] or w in W["no"] for w in words):
        return None
    if words[0] == "ahí" and any(w in ("va", "van") for w in words[1:3]) and thing is not None:
        return result(SENT)
    if any(w in _REACHED for w in words) and _went(words, thing):
        return result(SENT)
    stated = next((kinds for state, kinds in _STATES.items() if state in pairs(words)), None)
    if stated and (any(w in _BE for w in words) or thing is not None):
        return report(stated)
    if complied and thing is not None and verbless(words, W):
        return result(thing.accepts, thing.domain)
    if (
        thing is not None
        and thing.domain == "device"
        and verbless(words, W)
        and _set_to(words)
        and any(map(W.thing, words[:3]))
    ):
        return result(thing.accepts, thing.domain)
    if ("queda", "libre") in pairs(words):
        return report(GONE | DATED)
    if words in (
        ("ahora", "sí"),
        ("ahora", "ya", "sí"),
        ("ya", "tiene", "uno"),
        ("ya", "tiene", "una"),
        ("ya", "hay", "una"),
    ):
        return report(KEPT | CHANGED | DATED)
    passed = ("ha", "pasado") in pairs(words) and {("pasado", "a"), ("pasado", "al")} & pairs(words)
    if (("pasa", "de") in pairs(words) or passed) and any(is_time(w) for w in words):
        return report(CHANGED)
    if thing is not None and thing.domain == "device" and {("está", "en"), ("están", "en")} & pairs(words):
        return report(thing.accepts, thing.domain)
    if words[:3] == ("está", "todo", "en") and len(words) < 6:
        return report(STORED)
    if words[0] == "tienes" and thing is not None and any(w in ("nuevo", "nueva") for w in words):
        return report(thing.accepts | KEPT)
    instead = {("en", "vez"), ("en", "lugar")} & pairs(words) and "ahora" in words
    if instead or (("queda", "en") in pairs(words) and any(w in ("hora", "horas", "minutos") for w in words)):
        return report(CHANGED)
    return _spanish_placed(words) or _spanish_by_now(clause)


def _spanish_gone(words: tuple[str, ...]) -> bool:
    """ "ya no queda ni rastro", "ya no está en la lista", "adiós a la nota"."""
    if words[:2] in (
        ("adiós", "a"),
        ("fuera", "los"),
        ("fuera", "las"),
        ("fuera", "de"),
        ("se", "acabó"),
        ("se", "acabaron"),
    ):
        return True
    at = next((i for i, w in enumerate(words[:6]) if (w, *words[i + 1 : i + 2]) == ("ya", "no")), -1)
    gone = (
        "queda",
        "quedan",
        "está",
        "están",
        "aparece",
        "existe",
        "figura",
        "existen",
        "hay",
        "llegará",
        "sonará",
        "recibirás",
        "molestará",
        "saltará",
    )
    return at >= 0 and any(w in gone or w.endswith(("rá", "rás", "rán")) for w in words[at + 2 : at + 5])


def _went(words: tuple[str, ...], thing: Thing | None) -> bool:
    """Whether something has reached somebody, or has left, and by us."""
    mail = thing is not None and thing.domain in ("mail", "files", "shop")
    ours = ("le", "ha") in pairs(words) or ("le", "llegó") in pairs(words) or ("mi", "parte") in pairs(words)
    ours = ours or (mail and "ya" in words and "recibido" in words) or ("acaba" in words and mail)
    invited = any(w.startswith("invitaci") for w in words)
    left = any(w in ("salió", "salido", "salieron") for w in words) and (mail or invited)
    return ours or left


def _set_to(words: tuple[str, ...]) -> bool:
    return any(w in ("en", "fuera", "off", "on") for w in words) or any(
        by in ("a", "al") and is_time(word) for by, word in pairs(words)
    )


def _spanish_placed(words: tuple[str, ...]) -> Claim | None:
    """What is where: "está en tu lista", "lo tienes en tu calendario"."""
    verb = next((i for i, w in enumerate(words[:10]) if w in _HELD), -1)
    rest = words[verb + 1 : verb + 8]
    place = next((w for w in rest if w in PLACES), "")
    if (
        not place
        or not any(w in ("en", "a") for w in rest)
        or ("de" in words[words.index(place) :] and place != "bandeja")
    ):
        return None
    if verb < 0:
        led = {("a", "la"), ("en", "la"), ("en", "tu"), ("a", "tu"), ("al", place)} & pairs(words)
        return report(PLACES[place]) if led and len(words) < 6 and verbless(words, W) and "he" not in words else None
    held = words[verb] != "tienes" or any(w in ("lo", "la", "los", "las", "ya") for w in words[:verb])
    return report(PLACES[place]) if held else None


def _spanish_by_now(clause: Clause) -> Claim | None:
    """What is so by now, and was not before."""
    words = clause.words
    if "ya" not in words[:8]:
        return None
    at = words.index("ya")
    rest = words[at + 1 : at + 10]
    if rest[:2] == ("lo", "sabe") or rest[:2] == ("lo", "saben"):
        return report(SENT)
    if not any(w in _BE for w in rest[:3]):
        return None
    thing = first_thing(rest, W) or first_thing(words[:at], W)
    if rest[:1] == ("consta",):
        return report(KEPT)
    if rest[:1] in (("pone",), ("es",)) and thing is not None and rest[1:2] and rest[1] not in W["definite"]:
        return report(CHANGED)
    if thing is None:
        return None
    if any(w in ("tiene", "tienen") for w in rest[:2]) and thing.domain != "device":
        return report(SENT)
    placed = "en" in rest or "a" in rest
    if placed and any(is_time(w) for w in rest):
        return report(CHANGED | thing.accepts)
    if placed and thing.domain in ("calendar", "notes", "lists", "device"):
        return report(thing.accepts, thing.domain)
    return (
        report(thing.accepts | KEPT, thing.domain)
        if rest[:1] == ("tienes",) and rest[1:2] and rest[1] in W["definite"]
        else None
    )
