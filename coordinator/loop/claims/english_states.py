"""English claims by what came of a deed: "the mail is on its way", "no more Friday meeting". Pure."""

from __future__ import annotations

from typing import Final

from coordinator.loop.claims.claim import Claim, is_time
from coordinator.loop.claims.lexicon import ENGLISH as W
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

_ON: Final = frozenset({"on", "off", "locked", "unlocked", "muted", "paused", "running", "ticking", "armed"})
_LEFT: Final = frozenset(
    {
        ("went", "out"),
        ("go", "out"),
        ("gone", "out"),
        ("is", "out"),
        ("'s", "out"),
        ("are", "out"),
        ("off", "to"),
        ("off", "it"),
    }
)
_READY: Final = frozenset({"ready", "live", "up", "finished", "complete", "exists"})
_NO_MORE: Final = frozenset({"again", "anymore", "longer"})


_NOW_SO: Final = frozenset(
    {("it", "does", "now"), ("there", "is", "one", "now"), ("there", "'s", "one", "now"), ("it", "is", "now")}
)
_ON_ITS_WAY: Final = frozenset(
    {("went", "to"), ("went", "over"), ("went", "off"), ("gone", "to"), ("landed", "in"), ("winging", "its")}
)
_MOVED: Final = frozenset(
    {
        ("moved", "to"), ("become", "a"), ("changed", "to"), ("switched", "to"), ("gone", "up"), ("gone", "down"),
        ("gone", "in"), ("has", "started"), ("gone", "from"),
    }
)  # fmt: skip


def state(clause: Clause, thing: Thing | None, follows: Clause | None, *, complied: bool) -> Claim | None:
    """The claim of a clause without a deed's verb. `thing` is the last one that it names."""
    words, side = clause.words, pairs(clause.words)
    if not words or (words[0] in ("a", "an") and "now" not in words) or any(w in W["hypothetical"] for w in words):
        return None
    if (gone := _english_gone(words, thing)) is not None:
        return gone
    reached = any(verb == "reached" and who in clause.names for verb, who in side)
    if reached and thing is not None and thing.domain == "mail" and "not" not in words:
        return report(SENT)
    if any(w in W["negation"] or w in W["modal"] or w in W["no"] for w in words):
        return None
    if words in _NOW_SO:
        return report(KEPT | CHANGED | DATED)
    if (sent := _english_sent(words, thing)) is not None:
        return sent
    if ("go", "out") in side and "did" not in words:
        return None
    if side & _LEFT and not any(w in W["other"] for w in words[:2]):
        return result(SENT)
    if thing is not None and _english_settled(clause, thing, follows, complied=complied):
        return result(thing.accepts, thing.domain)
    if side & _MOVED and any(w in ("has", "have", "'s") for w in words) and words[0] not in W["other"]:
        numbered = words[0] in W["definite"] and any(is_time(w) for w in words)
        ours = numbered or any(w in W["own"] or is_time(w) for w in words[:3]) or thing is not None
        return report(CHANGED) if ours else None
    if words[0] == "you" and ("on", "for") in side:
        return report(DATED)
    if {("down", "for"), ("in", "for")} & side and words[0] not in W["other"] - {"you"}:
        return report(DATED)
    return _english_held(clause) or _english_be(clause) or _english_now(words, thing)


def _english_sent(words: tuple[str, ...], thing: Thing | None) -> Claim | None:
    """That something has gone out: "there goes the mail", "it went to Ana", "it reached your inbox"."""
    if words[:2] == ("there", "goes") and thing is not None:
        return result(SENT)
    told = words[0] == "it" or thing is not None
    if told and _ON_ITS_WAY & pairs(words) and words[0] not in W["other"] - {"it"}:
        return result(SENT)
    mail = words[0] == "it" or (thing is not None and thing.domain == "mail")
    return report(SENT) if mail and "reached" in words[:5] and "your" in words else None


def _english_settled(clause: Clause, thing: Thing, follows: Clause | None, *, complied: bool) -> bool:
    """Whether it tells in few words, without a verb, how a thing is now: "TV: off", "lights down at 20", "note in"."""
    words, bare = clause.words, verbless(clause.words, W)
    if thing.domain == "device" and bare:
        switched = clause.ends == ":" and follows is not None and follows.words in (("on",), ("off",))
        turned = len(words) < 6 and any(w in ("down", "up", "at", "to") for w in words) and any(map(is_time, words))
        if switched or turned or words[-1] in ("on", "off"):
            return True
    return (complied and bare) or (len(words) <= 3 and words[-1] == "in")


def _english_gone(words: tuple[str, ...], thing: Thing | None) -> Claim | None:
    if words in (("gone",), ("all", "gone")):
        return result(GONE)
    if words[:2] in (("no", "more"), ("no", "trace"), ("nothing", "left")) and len(words) > 2:
        return result(GONE)
    if ("no", "longer") in pairs(words) and words[0] not in W["self"] and words[0] not in W["other"]:
        return report(GONE | CHANGED)
    if ("no", "more") in pairs(words) and any(w in ("is", "are", "'s") for w in words):
        return report(GONE)
    if words[:3] == ("there", "are", "no") and "left" in words:
        return report(GONE)
    if words[:4] == ("there", "'s", "nothing", "left"):
        return report(GONE)
    be = any(pair in pairs(words) for pair in (("is", "gone"), ("'s", "gone"), ("are", "gone"), ("is", "history")))
    if be or (words[-1:] == ("gone",) and len(words) < 8 and verbless(words[:-1], W)):
        return report(GONE) if not any(w in W["self"] or w in W["other"] for w in words) else None
    ours = words[0] == "you" or (thing is not None and words[0] not in W["self"] and words[0] not in W["other"])
    never = any(w in _NO_MORE for w in words) or ("any", "more") in pairs(words)
    stopped = "will" in words and "not" in words and never
    return report(GONE | CHANGED) if ours and stopped else None


def _english_held(clause: Clause) -> Claim | None:
    """Somebody or somewhere has it: "Ana has your message", "there's now a folder", "you now have an event"."""
    words = clause.words
    at = next((i for i, w in enumerate(words[:6]) if w in ("has", "have", "got", "knows", "there")), -1)
    if at < 0:
        return None
    rest = words[at + 1 : at + 7]
    thing = first_thing(rest, W)
    if (
        words[at] in ("has", "got")
        and words[0] in clause.names
        and rest[:1] in (("it",), ("them",), ("got",))
        and "now" in words
    ):
        return report(SENT)
    if words[0] in ("he", "she", "they") and rest[-1:] in (("it",), ("them",)) and len(words) < 6 and "got" in words:
        return report(SENT)
    if words[0] == "got" and rest[:1] in (("it",), ("that",), ("you",), ("them",)) and len(words) > 2:
        placed = next((PLACES[w] for w in rest if w in PLACES), None) or (DATED if "down" in rest else None)
        return result(placed) if placed else None
    if words[at] == "knows":
        return (
            report(SENT)
            if words[0] in clause.names and rest[:1] in (("you",), ("now",), ("about",), ("that",))
            else None
        )
    first = first_thing(words[:at], W)
    if "new" in rest and words[at] == "has" and first is not None and first.domain == "files":
        return report(CHANGED | KEPT)
    if thing is None:
        return None
    if words[at] == "there" or words[0] == "you":
        new = "now" in words or any(w in ("new", "waiting", "slot", "table", "seat", "spot") for w in rest)
        return report(thing.accepts | KEPT, thing.domain) if new else None
    given = "your" in rest or "now" in words
    return report(SENT) if given and words[0] in clause.names and thing.domain in ("mail", "files", "shop") else None


def _english_be(clause: Clause) -> Claim | None:
    """What is where, or in which state."""
    words = clause.words
    verb = next((i for i, w in enumerate(words[:10]) if w in ("is", "are")), -1)
    verb = verb if verb >= 0 else next((i for i, w in enumerate(words[:10]) if w == "'s"), -1)
    subject, rest = words[: max(0, verb)], words[verb + 1 :]
    if any(w in W["other"] or w in W["self"] for w in subject if w != "they"):
        return None
    near = rest[:7]
    thing = first_thing(subject, W)
    pronoun = subject[-1:] in (("it",), ("that",), ("this",), ("everything",), ("all",), ("both",), ("they",))
    if near[:3] == ("on", "its", "way") or (near[:1] == ("with",) and thing and near[1:2] and near[1] in clause.names):
        return report(SENT | {Kind.BUY})
    if near[:3] in (("in", "the", "loop"), ("in", "the", "picture"), ("up", "to", "speed")):
        return report(SENT)
    if near[:2] in (("on", "record"), ("on", "file"), ("on", "the")) and near[2:3] in ((), ("board",), ("record",)):
        return report(KEPT)
    if pronoun and near[:1] == ("in",) and any("." in w and W.thing(w) for w in near[1:3]):
        return report(STORED)
    if near[:2] == ("in", "place") or near[:2] == ("locked", "in"):
        return report(thing.accepts if thing else DATED | KEPT)
    if near[:1] in (("complete",), ("completed",)) and subject and subject[0] in (W["definite"] | {"both", "all"}):
        return report(frozenset({Kind.ANY}))
    place = next((w for w in near if w in PLACES), "")
    of = place != "" and near[near.index(place) + 1 : near.index(place) + 2] == ("of",)
    if place and not of and any(w in ("in", "on", "under", "off", "out") for w in near[:3]):
        return report(GONE if near[0] in ("off", "out") else PLACES[place]) if verb >= 0 or verbless(words, W) else None
    if thing is not None and near in (("in",), ("out",), ("up",), ("live",)):
        return report(thing.accepts | SENT)
    if (
        near in (("on",), ("off",))
        and subject
        and (subject[0] in W["definite"] or any(w in clause.names for w in subject))
    ):
        return report(frozenset({Kind.SWITCH, Kind.CHANGE}))
    if verb < 1:
        timer = any(w in ("alarm", "timer") for w in words) and any(w in _ON for w in words)
        timer = timer and not any(w in W["finite"] or w in W["negation"] for w in words)
        return report(DATED | CHANGED) if timer else None
    if thing is not None and any(w in _ON for w in near[:2]) and near[1:2] != ("the",):
        switched = thing.domain == "device" or any(w in ("alarm", "timer", "alarms") for w in subject)
        return report(thing.accepts, thing.domain) if switched else None
    if thing is not None and thing.domain == "device" and near[:1] == ("at",) and any(is_time(w) for w in near[:3]):
        return report(thing.accepts, thing.domain)
    filed = (thing is not None and thing.domain == "files") or (first_thing(near, W) or _NOTHING).domain == "files"
    if filed and any(w in _READY for w in near[:2]):
        return result(STORED)
    return report(SENT | KEPT) if pronoun and near[:2] in (("in", "there"), ("all", "there")) else None


_NOTHING: Final = Thing("", frozenset())


def _english_now(words: tuple[str, ...], thing: Thing | None) -> Claim | None:
    """ "It runs at nine now instead of seven": a change, told by how things are since."""
    now = "now" in words[1:] or "again" in words[1:]
    instead = ("instead", "of") in pairs(words) or words[-1:] == ("instead",)
    own = any(w in W["own"] or w in ("that", "o'clock") for w in words[:3])
    ours = thing is not None or own
    timed = any(
        is_time(w) or w in ("hour", "minutes", "off", "on", "called", "named", "o'clock", "says", "noon") for w in words
    )
    if words[0] in W["other"] or words[0] in W["self"]:
        return None
    if ("now", "that") in pairs(words) or words[0] in ("it", "there"):
        return report(CHANGED) if instead and ours and timed else None
    days = any(is_time(w) or w.removesuffix("s") in W["days"] for w in words)
    if now and days and len(words) < 10 and (words[0] in W["definite"] or "'s" in words):
        return report(CHANGED)
    shown = (
        now
        and ours
        and any(
            w in ("says", "shows", "reads", "holds", "contains", "lives", "sits", "rings", "comes", "has", "starts")
            for w in words
        )
    )
    if shown or (now and own and len(words) < 12):
        return report(CHANGED | KEPT)
    return report(CHANGED) if (now and (instead or (ours and timed))) or (instead and ours and timed) else None
