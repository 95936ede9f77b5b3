"""Folding of Spanish and English text into tokens, and of tokens into rough stems. Pure.

Matching is always between whole tokens: "nota" is no match for "notable".
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_APOSTROPHES = re.compile(r"['’`´](?<=\w.)(?=\w)")  # the mark first: a search for one character is a fast one
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"\w+")
_MARKS = {"Mn", "Me", "Cf"}  # accents, enclosing marks, zero-width characters

_CLITIC = re.compile(r"(?:[mts]e)?l[aeo]$|[mt]e$")
_NO_PLURAL = {"news"}  # "the new phone" is not about news
_STEM_MIN = 5  # letters that must stay when an ending is cut


def fold(text: str) -> str:
    """Lower case without accents or invisible characters, in compatibility form. Folding twice changes nothing.

    "Añádela" and "ANADELA" become "anadela": people who write in a hurry leave out accents and the ñ's tilde.
    """
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    kept = "".join([c for c in plain if c.isascii() or unicodedata.category(c) not in _MARKS])
    return kept.lower()


def tokens(text: str) -> list[str]:
    """The folded words and numbers of `text` in order; "what's" is one token, "web_search" two."""
    return _WORD.findall(_APOSTROPHES.sub("", fold(text)).replace("_", " "))


def name_tokens(name: str) -> list[str]:
    """The tokens of an identifier: `createIssue`, `create_issue` and `create-issue` are the same two words."""
    return tokens(_CAMEL.sub(" ", name))


@lru_cache(maxsize=2048)
def stem(token: str) -> str:
    """A folded token without plural, Spanish enclitic pronouns, and the ending of infinitives in -ar.

    "notas" -> "nota", "apuntamelo", "apuntar" -> "apunta", "imagenes" -> "imagen". It only has to bring the forms of
    one word together, so that a keyword list need not hold them all; the result need not be a word.
    """
    word = token
    if len(word) >= 4 and word[-1] == "s" and word[-2] not in "sui" and word not in _NO_PLURAL:
        word = word[:-1]
    cut = _CLITIC.search(word)
    if cut and cut.start() >= _STEM_MIN:
        word = word[: cut.start()]
    if len(word) > _STEM_MIN and (word.endswith("ar") or (word[-1] == "e" and word[-2] in "nrldjz")):
        word = word[:-1]
    return word


def stems(text: str) -> list[str]:
    """`stem` of each of the `tokens` of `text`."""
    return [stem(token) for token in tokens(text)]
