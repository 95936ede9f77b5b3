"""What may enter the playbook. Pure.

A rule is refused when it is about permission, approval or secrets, when it repeats what a tool returned, when it
names an address that the user did not, when all it rests on is a failure that may have passed, or when its form is
wrong. The model's word counts for nothing here.
"""

from __future__ import annotations

import re

from workers.learner.proposals import AddRule, MergeRules, Proposal, RewordRule
from workers.learner.trace import Trace
from workers.tools.when import fold

TEXT_CHARS = 300
WHEN_CHARS = 200
_MIN_CHARS = 12
_NGRAM = 4
_MAX_COPIED = 0.4
"""Share of a rule's n-grams that may occur in tool output without being the user's words."""

_WORD = re.compile(r"[a-z0-9]+")
_FORBIDDEN_TOPICS = (
    r"permi(?:ssions?|t(?:ted)?|sos?|tid[oa]s?)|approv\w*|aprob\w*|aprueb\w*|authori[sz]\w*|autori[sz]\w*|consent\w*",
    r"privileges?|privilegios?|sudo|as root|root (?:user|access)|admin\w*|bypass\w*|sandbox\w*|disable security",
    r"passwords?|passwd|passphrases?|contrasenas?|secrets?|secret[oa]s?|credentials?|credencial(?:es)?",
    r"access tokens?|tokens? de acceso|api[ _-]?keys?|private keys?|claves? (?:api|privadas?)",
    r"deny rules?|allow[ -]?list\w*|always allow|permite siempre",
    r"without (?:asking|confirm\w*)|sin (?:preguntar|confirma\w*|avisar)|(?:do not|don't|never) (?:ask|confirm)",
    r"(?:no|nunca) (?:preguntes|pidas|confirmes)",
    r"(?:ignore|disregard|forget|override|ignora|olvida) (?:all |any |the |your |las |todas las |tus )*"
    r"(?:previous|prior|earlier|above|system|instructions?|instrucciones|reglas|rules)",
)
_FORBIDDEN = re.compile(rf"\b(?:{'|'.join(_FORBIDDEN_TOPICS)})\b")
_FAILURE = re.compile(
    r"\b(?:fail\w*|error\w*|time[sd]? ?out|unavailable|unreachable|down|offline|fall\w*|caid[oa]\w*|no funciona)\b"
)
_SECRET = re.compile(r"(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,}|\bsk-\w+|\bgh[pousr]_\w+|\bAKIA\w+")
_FLAG = re.compile(r"(?:^|\s)--?(?:force|no-verify|yes|y|f|no-check|insecure|dangerously[\w-]*)\b")
_ADDRESS = re.compile(r"https?://[^\s\"'<>)]+|www\.[^\s\"'<>)]+|[\w.+-]+@[\w-]+\.[\w.]+")


def refusal(proposal: Proposal, trace: Trace) -> str:
    """Why a proposal must not be applied; "" when it may be."""
    if not isinstance(proposal, AddRule | RewordRule | MergeRules):
        return ""
    text = f"{proposal.text or ''} {proposal.when or ''}".strip()
    checks = (_form(proposal), _topic(text), _addresses(text, trace), _copied(text, trace))
    if reason := next((reason for reason in checks if reason), ""):
        return reason
    return _transient(text, trace)


def _form(proposal: AddRule | RewordRule | MergeRules) -> str:
    if proposal.text is not None and not _MIN_CHARS <= len(proposal.text.strip()) <= TEXT_CHARS:
        return f"its text must have {_MIN_CHARS} to {TEXT_CHARS} characters"
    if proposal.when is not None and len(proposal.when) > WHEN_CHARS:
        return f"its `when` must have at most {WHEN_CHARS} characters"
    return ""


def _topic(text: str) -> str:
    if _FORBIDDEN.search(fold(text)):
        return "it is about permission, approval, secrets or instructions"
    if _SECRET.search(text):
        return "it holds what may be a secret"
    return "it switches a safeguard off" if _FLAG.search(text) else ""


def _addresses(text: str, trace: Trace) -> str:
    for address in _ADDRESS.findall(text):
        if address.rstrip(".,;") not in trace.said:
            return "it names an address that the user did not"
    return ""


def ngrams(text: str, size: int = _NGRAM) -> set[tuple[str, ...]]:
    """Runs of `size` folded words; of a shorter text, all its words as one."""
    words = _WORD.findall(fold(text))
    if not words:
        return set()
    return {tuple(words[at : at + size]) for at in range(max(1, len(words) - size + 1))}


def _copied(text: str, trace: Trace) -> str:
    own = ngrams(text) - ngrams(trace.said)
    if not own:
        return ""
    size = min(_NGRAM, *(len(gram) for gram in own))
    copied = len(own & ngrams(trace.untrusted, size)) / len(own)
    return "it repeats what a tool returned" if copied > _MAX_COPIED else ""


def _transient(text: str, trace: Trace) -> str:
    """A rule about tools, or about failing, when all that was seen of them is a failure that may have passed."""
    words = set(re.findall(r"[a-z0-9_]+", text.lower()))
    about = [tool for tool in trace.tools if tool in words]
    if not about and _FAILURE.search(fold(text)):
        about = list(trace.tools)
    if about and all(trace.tools[tool].only_transient for tool in about):
        return "it rests on a failure that may have passed"
    return ""
