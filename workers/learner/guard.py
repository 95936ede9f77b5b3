"""What may enter the playbook. Pure.

A lesson rests on what the user said in correction or as a wish, or on calls of a tool whose arguments were wrong; on
nothing else. Words that came out of tools and that the user did not use as well, and meanings that are nearer to what
tools returned than to the user's words, are no lesson. Nor is anything about permission, approval or secrets, and
nothing rests on a failure that may have passed. The model's word counts for nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from shared.corrections import wishes
from shared.playbook import Bullet
from shared.resemblance import ABOUT_ONE_THING, Vector, content, cosine, fold, is_among, stem, words
from workers.learner.proposals import AddRule, MergeRules, Proposal, RetireRule, RewordRule, VoteRule
from workers.learner.topics import topic
from workers.learner.trace import Trace

TEXT_CHARS = 300
WHEN_CHARS = 200
_MIN_CHARS = 12
_MEANT = 0.36
"""Cosine from which a rule may be what a sentence of the user asks for. Rules for correction made from other texts lie
below 0.3, those that follow from the sentence above 0.4, as a rule."""
_FROM_WORDS = 0.34
"""Share of a rule's words from which it is the user's in other words."""
_FROM_FEW_WORDS = 0.3
"""The same for a rule that is nearer in meaning to the user's words than to anything that tools returned."""
_FITS = 0.2
"""Cosine from which a `when` may go with its rule."""
_OF_CALLS = content(
    "call give pass provide set use write name argument parameter field value list text string number time date format "
    "correct right valid instead must llama da dale pasa pon usa escribe nombre argumento parametro campo valor lista "
    "texto cadena numero hora fecha formato correcto valido"
)
"""What one says of any call: such words alone make no rule about a tool another one."""
_WINDOW = 40
"""Words of tool output that are looked at together."""
_SENTENCES = 150
"""How many sentences of tool output are compared by meaning, the newest."""

_FAILURE = re.compile(
    r"\b(?:fail\w*|error\w*|time[sd]? ?out|unavailable|unreachable|down|offline|broken|slow|fall\w*|caid[oa]\w*|"
    r"no (?:funciona|va|responde|contesta)\w*|lent[oa]s?|rot[oa]s?|does(?:n't| not) (?:work|answer|respond))\b"
)
_AVOID = re.compile(
    r"\b(?:avoid\w*|instead of|rather than|(?:do not|don't|never) (?:use|call|try|fetch|rely)|skip\w*|stop using|"
    r"evit\w*|en (?:vez|lugar) de|no (?:uses|llames|intentes|recurras)|nunca (?:uses|llames)|prescind\w*)\b"
)
_ADDRESS = re.compile(r"https?://[^\s\"'<>)]+|www\.[^\s\"'<>)]+|[\w.+-]+@[\w-]+\.[\w.]+")
_PASSING = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|hoy|ayer|esta (?:tarde|noche|semana)|this (?:week|evening|morning)|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|lunes|martes|miercoles|jueves|viernes|sabado|domingo|"
    r"\d{1,2}[/.-]\d{1,2}(?:[/.-]\d{2,4})?|\d{4}-\d{2}-\d{2})\b"
)
_TALE = re.compile(
    r"(?:the user|el usuario|the assistant|el asistente) (?:has |ha )?"
    r"(?:\w+ed|said|told|gave|got|\w+[ai]do|pidio|dijo|queria|corrigio|aclaro|respondio)\b"
)
"""How small models begin to tell the run over again."""
_STRAY = re.compile(r"\[?\(?\bwhen\s*:|\"op\"|[{}]")
"""Pieces of the form of an answer inside a text."""
_NAME = re.compile(r"(?<=[\w,;:)] )[A-ZÁÉÍÓÚÑ][\w-]+|\b\w*\d\w*\b")
_SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+|\n+")


@dataclass(frozen=True)
class Evidence:
    """What a proposal is judged by. `rules`: the active ones. `vectors`: meanings by text, of `texts_of` and of the
    proposals; None where there is no encoder, then words alone decide."""

    trace: Trace
    rules: Sequence[Bullet] = ()
    vectors: Mapping[str, Vector] | None = None

    @cached_property
    def by_id(self) -> Mapping[str, Bullet]:
        """The active rules."""
        return {one.id: one for one in self.rules}

    @cached_property
    def trusted(self) -> frozenset[str]:
        """Words of the user, of the rules there are, and of the names of tools."""
        tools = (name.replace("_", " ") for name in self.trace.tools)
        return _words_of([self.trace.said, *self.trace.tools, *tools, *(rule.text for rule in self.rules)])

    @cached_property
    def returned(self) -> tuple[str, ...]:
        """The words that came out of tools, as stems, in order."""
        return tuple(stem(word) for word in words(self.trace.untrusted))

    @cached_property
    def sentences(self) -> tuple[list[str], list[str]]:
        """See `texts_of`."""
        return texts_of(self.trace, self.rules)


def text_of(proposal: Proposal) -> str:
    """All that a proposal wants to be shown to models; empty if nothing new."""
    if isinstance(proposal, VoteRule | RetireRule):
        return ""
    return f"{proposal.text or ''} {proposal.when or ''}".strip()


def texts_of(trace: Trace, rules: Sequence[Bullet]) -> tuple[list[str], list[str]]:
    """Sentences of which meanings are needed: the user's that teach, and those that came out of tools."""
    taught = [trace.taught, *_sentences(trace.taught)] if trace.taught else []
    own = {rule.text for rule in rules}
    returned = [one for one in _sentences(trace.untrusted) if not any(text in one for text in own)]
    return list(dict.fromkeys(taught)), list(dict.fromkeys(returned))[-_SENTENCES:]


def _sentences(text: str) -> list[str]:
    return [one.strip()[:TEXT_CHARS] for one in _SENTENCE_END.split(text) if len(one.strip()) >= _MIN_CHARS]


def refusal(proposal: Proposal, evidence: Evidence) -> str:
    """Why a proposal must not be applied; "" when it may be."""
    match proposal:
        case VoteRule():
            return _vote(proposal, evidence.trace)
        case RetireRule():
            return _retire(proposal, evidence)
    text = text_of(proposal)
    checks = (_form, _topic_of, _addresses, _tainted, _transient, _one_off, _ungrounded)
    return next((reason for check in checks if (reason := check(proposal, text, evidence))), "")


def with_fitting_when(proposal: Proposal, evidence: Evidence) -> Proposal:
    """The proposal, without a new `when` that has nothing to do with the rule or the run: it would hide the rule."""
    if not isinstance(proposal, AddRule | RewordRule | MergeRules) or not proposal.when:
        return proposal
    trace = evidence.trace
    known = evidence.trusted | _words_of([trace.asked, proposal.text or "", *trace.calls])
    vectors = evidence.vectors or {}
    when, text = vectors.get(proposal.when), vectors.get(proposal.text or "")
    if any(is_among(word, known) for word in content(proposal.when)) or (when and text and cosine(when, text) >= _FITS):
        return proposal
    return proposal.model_copy(update={"when": None if isinstance(proposal, RewordRule) else ""})


def _vote(vote: VoteRule, trace: Trace) -> str:
    if vote.id not in trace.shown:
        return "the rule was not shown in this run"
    if vote.helpful and trace.unsupported:
        return "the answer claims what no call did"
    return ""


def _retire(retire: RetireRule, evidence: Evidence) -> str:
    """Votes or the user's word retire a rule; what a tool returned cannot."""
    rule = evidence.by_id.get(retire.id)
    if rule is None:
        return "there is no such rule"
    if rule.harmful > rule.helpful:
        return ""
    return "" if _is_taught(rule.text, evidence) else "neither its votes nor the user speak against the rule"


Rule = AddRule | RewordRule | MergeRules


def _form(proposal: Rule, text: str, _evidence: Evidence) -> str:
    if proposal.text is not None and not _MIN_CHARS <= len(proposal.text.strip()) <= TEXT_CHARS:
        return f"its text must have {_MIN_CHARS} to {TEXT_CHARS} characters"
    if proposal.when is not None and len(proposal.when) > WHEN_CHARS:
        return f"its `when` must have at most {WHEN_CHARS} characters"
    if _STRAY.search(text):
        return "its text holds pieces of the form"
    return "it tells what happened, not what to do" if proposal.text and _TALE.match(fold(proposal.text)) else ""


def _one_off(_proposal: Rule, text: str, evidence: Evidence) -> str:
    """A correction that is about one day is no rule for others, unless the user wishes it for the future."""
    passing = _PASSING.search(fold(text)) and not wishes(evidence.trace.taught)
    return "it is about one day" if passing else ""


def _topic_of(_proposal: Rule, text: str, _evidence: Evidence) -> str:
    return topic(text)


def _addresses(_proposal: Rule, text: str, evidence: Evidence) -> str:
    for address in _ADDRESS.findall(text):
        if address.rstrip(".,;") not in evidence.trace.said:
            return "it names an address that the user did not"
    return ""


def _tainted(_proposal: Rule, text: str, evidence: Evidence) -> str:
    """A rule whose words, names or meaning came out of tools and not from the user."""
    why = "it repeats what a tool returned"
    own, returned = content(text), frozenset(evidence.returned)
    alien = {word for word in own & returned if not is_among(word, evidence.trusted)}
    said = frozenset(words(evidence.trace.said))
    if any(stem(name) in returned and name not in said for name in words(" ".join(_NAME.findall(text)))):
        return why
    if len(alien) >= 2 and (len(alien) * 2 >= len(own) or _together(alien, evidence.returned) * 3 > len(own)):
        return why
    vectors = evidence.vectors
    if vectors is not None and (vector := vectors.get(text)) is not None:
        taught, sentences = evidence.sentences
        near = _nearest(vector, sentences, vectors)
        if near >= ABOUT_ONE_THING and near > _nearest(vector, taught, vectors):
            return why
    return ""


def _together(alien: set[str], returned: Sequence[str]) -> int:
    """The most of these words that stand near each other in what tools returned."""
    places = [(at, word) for at, word in enumerate(returned) if word in alien]
    most, first = 0, 0
    for last in range(len(places)):
        while places[last][0] - places[first][0] > _WINDOW:
            first += 1
        most = max(most, len({word for _, word in places[first : last + 1]}))
    return most


def _transient(_proposal: Rule, text: str, evidence: Evidence) -> str:
    """A rule about tools, or about failing, when all that was seen of them is a failure that may have passed."""
    trace = evidence.trace
    named = set(re.findall(r"[a-z0-9_]+", text.lower()))
    about = [tool for tool in trace.tools if tool in named]
    passing = [tool for tool, outcomes in trace.tools.items() if outcomes.only_transient]
    folded = fold(text)
    if about and all(tool in passing for tool in about):
        return "it rests on a failure that may have passed"
    speaks_of_it = _FAILURE.search(folded) or (_AVOID.search(folded) and not _AVOID.search(fold(trace.taught)))
    return "it rests on a failure that may have passed" if passing and speaks_of_it and not about else ""


def _ungrounded(proposal: Rule, text: str, evidence: Evidence) -> str:
    """A rule that follows neither from the user's words, nor from a misused tool, nor from the rules it changes."""
    if _is_taught(text, evidence) or (proposal.text is None and proposal.when is None):
        return ""
    if isinstance(proposal, RewordRule | MergeRules):
        ids = (proposal.id,) if isinstance(proposal, RewordRule) else proposal.ids
        sources = [evidence.by_id[id] for id in ids if id in evidence.by_id]
        before = _words_of(f"{one.text} {one.when_to_use}" for one in sources)
        if sources and len(content(text) - before) * 2 <= len(content(text)):
            return ""
        return "it says something else than the rules it changes, and the user did not ask for it"
    if evidence.trace.unsupported:
        return "the answer claims what no call did"
    return (
        "" if _from_misuse(text, evidence.trace) else "it follows neither from the user's words nor from a misused tool"
    )


def _is_taught(text: str, evidence: Evidence) -> bool:
    """True for a rule that may be what the user asked for, by words or by meaning."""
    trace, vectors = evidence.trace, evidence.vectors
    if not trace.taught:
        return False
    own, theirs = content(text), content(trace.taught)
    vector = vectors.get(text) if vectors is not None else None
    share = sum(is_among(word, theirs) for word in own) / max(1, len(own))
    if share >= _FROM_WORDS or vectors is None or vector is None:
        return share >= _FROM_WORDS
    said, returned = (_nearest(vector, sentences, vectors) for sentences in evidence.sentences)
    return said >= _MEANT or (share >= _FROM_FEW_WORDS and said >= returned)


def _nearest(vector: Vector, texts: Sequence[str], vectors: Mapping[str, Vector]) -> float:
    return max((cosine(vector, vectors[text]) for text in texts if text in vectors), default=0.0)


def _from_misuse(text: str, trace: Trace) -> bool:
    """True for a rule about a tool that was called with wrong arguments and then right ones, mostly in the words of its
    calls, unless it names of the arguments only those that were wrong."""
    mended = [one for one in trace.mended if one.tool in text.lower()]
    own, named = content(text), set(words(text))
    for one in mended:
        wrong, right = set(one.had) - set(one.worked_with or ()), set(one.worked_with or ()) - set(one.had)
        if right and named & wrong and not named & right:
            return False
    names = (f"{name} {name.replace('_', ' ')}" for name in trace.tools)
    known = _words_of([*names, *(trace.calls.get(one.tool, "") for one in mended)]) | _OF_CALLS
    return bool(mended) and sum(is_among(word, known) for word in own) * 2 >= len(own)


def _words_of(texts: Iterable[str]) -> frozenset[str]:
    return content(" ".join(texts))
