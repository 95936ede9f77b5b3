"""Whether two rules say the same: by their words, and by vectors of their meaning where there are any. Pure.

Vectors alone cannot tell "in kilograms" from "in pounds", and words alone know one language. So vectors say whether two
rules are about one thing, words whether one of them takes the other's place.
"""

from __future__ import annotations

import math
import operator
import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from functools import lru_cache
from itertools import takewhile
from typing import Final

Vector = Sequence[float]
"""Of unit length."""

ABOUT_ONE_THING: Final = 0.62
"""Cosine from which two rules are about one thing. Paraphrases and translations lie above (0.63 and more), rules of one
kind about different things below (0.6 and less)."""

_WITH_OTHER_FIGURES: Final = 0.7
"""The same for rules of which one names a number that the other does not."""

_WORDS_ALIKE: Final = 0.66
"""Share of common words from which two rules say the same where there are no vectors."""

_TEMPLATE: Final = 0.6
"""Share of words in common, in order, from which two rules are one sentence with other words put in."""

_TOKEN = re.compile(r"[^\W_]+(?:_[^\W_]+)*")
_STEM = 6
"""Letters of a word that count: endings, and with them number and gender, do not."""

_SMALL_WORDS = """
    a al an and any are as at be been before but by can como con cual cuando de del do does each el ella ellos
    en entre es esa ese eso esta este esto estan for from get ha hace hacia hay he her his i if in into is it
    its la las le les lo los mas may me mi mis must my no not nor o of on one or our para per pero please por
    que se sea ser si sin sobre son su sus than that the their them then there these they this those to too un
    una unas uno unos up use usa usar used user using usuario very was were what when where which who will
    with y ya you your always siempre never nunca only solo should debe deben make haz give given da dar state
    say di decir put pon poner write escribe show muestra have has want wants quiere also tambien every cada
    all todo toda todos todas after despues so such tal both how why whose donde quien quienes cuanto cuanta
    cuantos cuantas
"""
_NEGATING_WORDS = (
    "no not never nunca jamas without sin don dont avoid evita evitar stop deja neither tampoco except salvo"
)
_NUMBERS = (
    "zero cero|one uno|two dos|three tres|four cuatro|five cinco|six seis|seven siete|eight ocho|nine nueve|ten diez"
)

_STOP: Final = frozenset(_SMALL_WORDS.split())
_NEGATIONS: Final = frozenset(_NEGATING_WORDS.split())
_NUMBER_WORDS: Final = {
    w: n for n, of_two_languages in enumerate(_NUMBERS.split("|")) for w in of_two_languages.split()
}


class Resemblance(StrEnum):
    """What a new rule is to one that there is."""

    DISTINCT = "distinct"
    SAME = "same"
    REPLACES = "replaces"
    """About the same thing, and otherwise: the newer one counts."""


@lru_cache(maxsize=4096)
def fold(text: str) -> str:
    """Lower case, without accents, invisible characters and other writings of the same letters."""
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return "".join(c for c in unicodedata.normalize("NFKD", decomposed) if unicodedata.category(c) not in _INVISIBLE)


_INVISIBLE = {"Mn", "Me", "Cf"}


def words(text: str) -> list[str]:
    """The folded words and numbers of a text, identifiers whole."""
    return _TOKEN.findall(fold(text))


def stem(word: str) -> str:
    """The part of a folded word that counts. Identifiers and numbers count whole."""
    if "_" in word or not word.isalpha():
        return word
    word = word[:-1] if len(word) > 3 and word[-1] == "s" else word
    return word[:_STEM]


def content(text: str) -> frozenset[str]:
    """Stems of the words that carry the meaning of a rule."""
    found = (word for word in words(text) if word not in _STOP)
    return frozenset(stem(word) for word in found if len(word) > 1 or word.isdigit())


def cosine(one: Vector, other: Vector) -> float:
    """The likeness of two meanings, -1 to 1."""
    return float(sum(map(operator.mul, one, other)))


def unit(vector: Vector) -> tuple[float, ...]:
    """The vector at unit length; zeros stay zeros."""
    length = math.sqrt(cosine(vector, vector)) or 1.0
    return tuple(value / length for value in vector)


def is_among(word: str, stems: frozenset[str]) -> bool:
    """True if one of the stems is the same word, perhaps in another form or in a language that spells it alike."""
    return word in stems or any(_same_word(word, other) for other in stems)


def _same_word(one: str, other: str) -> bool:
    """True for "trata" and "tratan", not for "kilogramos" and "kilometros"."""
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return one.isalpha() and other.isalpha() and alike >= max(4, min(len(one), len(other)) - 1)


def common(one: frozenset[str], other: frozenset[str]) -> float:
    """Share of stems that two rules have in common, 0 to 1."""
    return len(one & other) / max(1, len(one | other))


def resemblance(old: str, new: str, vectors: tuple[Vector, Vector] | None = None) -> Resemblance:
    """What the rule `new` is to `old`. `vectors`: those of both; None where there are none."""
    ours, theirs = content(old), content(new)
    shared_words = common(ours, theirs)
    if vectors is None:
        if shared_words < _WORDS_ALIKE:
            return Resemblance.DISTINCT
    elif shared_words < 1.0:
        same_figures = _figures(old) == _figures(new)
        if cosine(*vectors) < (ABOUT_ONE_THING if same_figures else _WITH_OTHER_FIGURES):
            return Resemblance.DISTINCT
    if _same_words_in_order(old, new) < _TEMPLATE:  # other words for it, or another language
        return Resemblance.SAME
    if _figures(old) != _figures(new) or _negated(old) != _negated(new):
        return Resemblance.REPLACES
    gone = {one for one in ours - theirs if not is_among(one, theirs)}
    come = {one for one in theirs - ours if not is_among(one, ours)}
    if not gone or not come:
        return Resemblance.SAME
    # One sentence with other words put in. At its end that is another value of the same thing: "in pounds".
    at_end = _last(old) in gone and _last(new) in come
    return Resemblance.REPLACES if len(gone) == len(come) == 1 and at_end else Resemblance.DISTINCT


def _last(text: str) -> str:
    """The stem of the last word that carries meaning."""
    return next((stem(word) for word in reversed(words(text)) if word not in _STOP), "")


def _same_words_in_order(one: str, other: str) -> float:
    """0 to 1; small words count too, since they make the form of a sentence."""
    return SequenceMatcher(None, words(one), words(other), autojunk=False).ratio()


def _figures(text: str) -> frozenset[str]:
    found = words(text)
    return frozenset(str(_NUMBER_WORDS.get(word, word)) for word in found if word in _NUMBER_WORDS or word.isdigit())


def _negated(text: str) -> bool:
    return not _NEGATIONS.isdisjoint(words(text))
