"""From an answer to the clauses in which something may be claimed. Pure, in time linear in the answer.

What the answer only shows (code, quotations, drafts) is taken out first and leaves a `HOLE`, so that it is the object
of a sentence still, and never its predicate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from coordinator.loop.claims.lexicon import INTERROGATIVE, JOINTS, PICTOGRAPH, TICK

HOLE: Final = "￼"
MOST: Final = 8_000
"""Characters of an answer that are looked at, from its beginning and from its end each: nobody claims in between."""

LONGEST: Final = 60
"""Words of a clause; what goes on is another one, so that no text takes more than linear time."""

_FENCE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")
_CITED = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_OPEN_BOX = re.compile(r"^[ \t]*(?:[-*+•][ \t]+)?(?:\[ \]|☐|⬜|🔲).*$", re.MULTILINE)
_ASSIGNED = re.compile(r"^[ \t]*[\w.]+ = \S.*$", re.MULTILINE)
_STRUCK = re.compile(r"~~[^~\n]+~~")
_QUOTED = re.compile(r'"[^"\n]*"|“[^“”]*”|„[^„“”]*[“”]|«[^«»]*»|‘[^‘’\n]*’(?!\w)|(?<![\w\'])\'[^\'\n]+\'(?!\w)')
_LINK = re.compile(r"\[([^\[\]\n]*)\]\([^()\n]*\)")
_RULE = re.compile(r"^[ \t]*\|?[ \t:|-]*--[ \t:|-]*$", re.MULTILINE)
_DRAFT = re.compile(
    r"\b(?:draft|template|example|sample|suggested|proposal|wording|subject|could (?:say|write|send|reply)|"
    r"something like|such as|borrador|plantilla|ejemplo|propuesta|redacción|asunto|podrías (?:decir|escribir|poner|"
    r"responder)|puedes (?:decir|escribir|poner|responder|usar)|algo así|poem|haiku|limerick|poema|"
    r"version|versión|translation|traducción)\b"
    r"[^:\n]{0,60}:",
    re.IGNORECASE,
)
_DRAFT_ENDS = re.compile(
    r"[-_]{3,}|¿|(?:want|would you|shall|let me know|do you|should i|if you|feel free|avísame|dime|(?:si )?quieres)\b",
    re.IGNORECASE,
)
_SIGNED = re.compile(
    r"(?:(?:best|kind|warm) (?:regards|wishes)|best|regards|cheers|thanks|thank you|sincerely|love|yours|un (?:saludo|"
    r"abrazo)|saludos|gracias|atentamente|besos|un beso)\b",
    re.IGNORECASE,
)
_HERE = re.compile(
    r"\b(?:here(?:'s|’s| is| are| you go| it is)|below|aquí (?:tienes|está|están|va|van)|a continuación|abajo)\b"
)
_SENTENCE = re.compile(r"(?<=[.!?…])(?<!\n\d\.)(?<!\A\d\.)\s+|\n+|;\s|(?=¿)")
_WRAPPED = re.compile(r"(?<=[^\n]{24}[^\n.!?:;])\n[ \t]*(?=[a-záéíóúñ(])")
_NUMBERED = re.compile(r"^\s*(?:[-*+•·–—]|\d{1,3}[.)]|#{1,6})\s+(?:\[[ xX]\]\s+)?")
_WORD = re.compile(
    r"[Ss]o far\b|[Uu]na vez\b|\d+(?::\d+)+\w*|\w+(?:[-'’.@/]\w+)*|[,:()—–&|]|(?<=\s)-(?=\s)"
    rf"|{HOLE}|[{TICK}]|{PICTOGRAPH.pattern}"
)
_NAME = re.compile(r"\b[A-ZÁÉÍÓÚÑ][\w'-]*")
_SIGNS: Final = frozenset(",:()—–-|")
_CONTRACTED: Final = {"ve": "have", "m": "am", "re": "are", "ll": "will", "d": "would"}
_NEGATED: Final = {"won't": "will", "can't": "can", "cannot": "can", "shan't": "shall", "ain't": "is"}


@dataclass(frozen=True, slots=True)
class Clause:
    """A piece of a sentence that has a predicate of its own, or none.

    `link` is the word or sign before it (empty at the beginning of the sentence), `ends` the sign behind it.
    """

    words: tuple[str, ...]
    link: str = ""
    ends: str = ""
    ticked: bool = False
    names: frozenset[str] = frozenset()
    """Words that are written like names."""
    asks: bool = False


@dataclass(frozen=True, slots=True)
class Sentence:
    """Clauses that share their scopes, and the text that they were; `item` if it is one of a list."""

    clauses: tuple[Clause, ...]
    text: str
    item: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """What an answer says in its own voice.

    `shows`: it holds code, a quotation or a draft, which "I changed it" may be about. `delivers`: it hands something
    over, which a plain "done" may be about. `checklist`: its ticks show which of several things are done.
    """

    sentences: tuple[Sentence, ...]
    shows: bool
    delivers: bool
    checklist: bool
    words: int


def said(answer: str) -> Said:
    """The sentences of an answer without what it only shows."""
    text = _excerpt(answer).replace("’", "'").replace(" ", " ")
    bare, shown = _without_shown(text)
    sentences = tuple(_sentences(bare))
    words = sum(len(c.words) for s in sentences for c in s.clauses)
    checklist = any(sign in answer for sign in ("⬜", "☐", "❌", "⏳", "🔲", "[ ]", "⚪", "✗", "✘"))
    return Said(sentences, shown, shown or bool(_HERE.search(bare.lower())), checklist, words)


def _excerpt(answer: str) -> str:
    return answer if len(answer) <= 2 * MOST else f"{answer[:MOST]}\n{answer[-MOST:]}"


def _without_shown(text: str) -> tuple[str, bool]:
    """The text without code, quotations and drafts; and whether it showed any at length."""
    hole = f" {HOLE} "
    bare, fences = _FENCE.subn(f"\n{HOLE}\n", text)
    bare, cited = _CITED.subn("", _ASSIGNED.sub("", _OPEN_BOX.sub("", bare)))
    bare, tables = _RULE.subn("", bare)
    bare = _QUOTED.sub(hole, _STRUCK.sub(" ", _CODE.sub(hole, _LINK.sub(r"\1", bare))))
    bare, drafts = _without_drafts(bare.replace("*", "").replace("__", ""))
    return bare, bool(fences or cited or drafts or (tables and not any(t in bare for t in TICK)))


def _without_drafts(text: str) -> tuple[str, bool]:
    """Takes out what follows an announcement of a draft, up to a line in the answer's own voice."""
    kept: list[str] = []
    drafting = signed = found = False
    for line in text.split("\n"):
        stripped = line.strip()
        signed = drafting and (signed or bool(_SIGNED.match(stripped)))
        if drafting and ((signed and not stripped) or _DRAFT_ENDS.match(stripped)):
            drafting = False
        if drafting:
            continue
        announced = _DRAFT.search(line)
        if announced is None:
            kept.append(line)
            continue
        found = True
        kept.append(line[: announced.end()])
        drafting = not line[announced.end() :].strip() or stripped.lower().startswith(("subject", "asunto"))
    return "\n".join(kept), found


def _sentences(text: str) -> Iterator[Sentence]:
    for piece in _SENTENCE.split(_WRAPPED.sub(" ", text)):
        stripped = _NUMBERED.sub("", piece, count=1).strip()
        if stripped and (clauses := _clauses(stripped)):
            yield Sentence(clauses, stripped, item=_NUMBERED.match(piece) is not None)


@lru_cache(maxsize=4096)
def _expanded(word: str) -> tuple[str, ...]:
    """A word in lower case with its contraction opened: "I've" is two."""
    word = word.lower().replace("’", "'").replace(" ", "-")
    if word in _NEGATED:
        return (_NEGATED[word], "not")
    if word.endswith("n't"):
        return (word[:-3], "not")
    stem, mark, rest = word.rpartition("'")
    if mark and rest in _CONTRACTED:
        return (stem, _CONTRACTED[rest])
    if mark and rest == "s":
        return (stem, "'s")
    return (word,)


def _clauses(sentence: str) -> tuple[Clause, ...]:
    found: list[Clause] = []
    words: list[str] = []
    link, ticked = "", False
    ends = sentence.rstrip("\"')] ")[-1:]
    names = frozenset(m[0].lower().removesuffix("'s") for m in _NAME.finditer(sentence))
    for match in _WORD.finditer(sentence):
        token = match[0]
        is_tick = token in TICK
        for word in (token,) if is_tick else _expanded(token):
            if not (is_tick or word in _SIGNS or word in JOINTS or PICTOGRAPH.match(word)):
                words.append(word)
                if len(words) < LONGEST:
                    continue
                word = ""
            if words:
                found.append(Clause(tuple(words), link, word, ticked or is_tick, names))
            elif found and is_tick:  # a tick belongs to what is before it, or else to what is behind
                found[-1] = replace(found[-1], ends=word, ticked=True)
            ticked = is_tick
            link, words = word if found or not is_tick else "", []
    if words:
        found.append(Clause(tuple(words), link, ends, ticked, names))
    elif ticked and not found:
        found.append(Clause((), link, ends, ticked, names))
    return tuple(_asking(found) if ends == "?" else found)


def _asking(clauses: list[Clause]) -> list[Clause]:
    """Marks what a question asks: from the first clause that begins like one, else all of it."""
    first = next((i for i, c in enumerate(clauses) if c.words and c.words[0] in INTERROGATIVE), 0)
    return [replace(c, asks=True) if i >= first else c for i, c in enumerate(clauses)]
