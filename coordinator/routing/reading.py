"""Messages and keywords as layer 1 compares them: stems, and in place of what has a telling form, its kind. Pure.

"read notes_2023.md on friday" is `read <file> on <day>`: a file's name says that a file is meant, and its words say
nothing about notes. Keywords are read the same way, so the keyword "every friday" fits any day of the week.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from coordinator.routing.text import stem, tokens

_HOURS = (
    r"\d{1,2}|una|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce"
    r"|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
)
_TIME = (
    r"\b(?:(?:a las?|at)\s+)?(?:\d{1,2}(?::\d{2})?\s?(?:[ap]\.?m\b\.?|h\b|o['’]?clock\b)|\d{1,2}:\d{2}\b)"
    rf"|\b(?:a las?|at)\s+(?:{_HOURS})\b"
)
_FORMS: Final = (
    ("url", r"https?://\S+|www\.\S+|\b[a-z0-9-]+\.(?:com|org|net|io|dev|es|mx|ar|cl|pe|co|uk|eu)\b(?:/\S*)?"),
    ("image", r"[\w./-]*\w\.(?:png|jpe?g|gif|webp|heic|bmp)\b"),
    ("audio", r"[\w./-]*\w\.(?:mp3|wav|ogg|m4a|opus|flac)\b"),
    (
        "file",
        r"[\w./-]*\w\.(?:md|txt|csv|tsv|pdf|xlsx?|docx?|pptx?|ya?ml|json|toml|ini|log|py|js|ts|sh|sql|html?|xml)\b",
    ),
    ("subreddit", r"(?<![\w/])/?r/\w+"),
    ("sets", r"\b\d{1,2}x\d{1,3}\b"),
    ("sum", r"\d[\d.,]*\s*[*×÷+^]\s*\d[\d.,]*|\d[\d.,]*\s+[x/-]\s+\d[\d.,]*"),
    ("percent", r"\d+(?:[.,]\d+)?\s?(?:%|percent\b|por ?ciento\b)"),
    ("time", _TIME),
    ("date", r"\b\d{1,2}(?:st|nd|rd|th)\b|\b\d{1,2}/\d{1,2}\b"),
    ("number", r"(?<![^\W_])\d+(?:[.,]\d+)*(?![^\W_])"),
)
_ADDRESS = r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
_FORM = re.compile(
    "|".join([r"<(?P<kind>[a-z]+)>", f"(?P<address>{_ADDRESS})", *(f"(?P<{kind}>{form})" for kind, form in _FORMS)]),
    re.IGNORECASE,
)

_SIGN_OF_FORM: Final = re.compile(r"[\d@<×%./](?:(?<![./])|\S)")
_SIGN_OF_TIME: Final = re.compile(r"[aA](?<!\w.)(?:[tT]| [lL][aA]\w?)\s")
"""Where neither is found no form can match: far cheaper searches, for one character each, and all that most messages
need."""

_WORDS: Final = {
    "day": "lunes martes miércoles jueves viernes sábado domingo "
    "monday tuesday wednesday thursday friday saturday sunday",
    "month": "enero febrero abril mayo junio julio agosto septiembre setiembre octubre noviembre diciembre "
    "january february april june july august september october november december",
    "number": "dos tres cuatro cinco seis siete ocho nueve diez once doce quince veinte treinta cuarenta cincuenta "
    "two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty",
    "unit": "kilos kilogramos kg gramos libras onzas metros centímetros cm kilómetros km millas pies pulgadas yardas "
    "litros mililitros ml tazas cucharadas galones fahrenheit celsius centígrados hectáreas acres "
    "kilograms grams pounds lbs ounces oz metres meters centimetres centimeters kilometres kilometers miles feet "
    "inches yards litres liters millilitres cups tablespoons teaspoons gallons pints",
}
_KINDS: Final = {stem(word): f"<{kind}>" for kind, words in _WORDS.items() for word in tokens(words)}


def read(text: str, words: Sequence[str] | None = None) -> tuple[str, ...]:
    """The stems of `text` in order, with `<kind>` for whatever is of a kind: `<day>`, `<number>`, `<url>`, …

    A kind may be written as such: `read("every <day>")` is `read("every monday")`. `words` are the `tokens` of `text`,
    where they are at hand.
    """
    if _SIGN_OF_FORM.search(text) or _SIGN_OF_TIME.search(text):
        return tuple(_read(text))
    return tuple(_plain(tokens(text) if words is None else words))


def _read(text: str) -> Iterator[str]:
    at = 0
    for found in _FORM.finditer(text):
        yield from _plain(tokens(text[at : found.start()]))
        yield f"<{found['kind'] or found.lastgroup}>"
        at = found.end()
    yield from _plain(tokens(text[at:]))


def _plain(words: Sequence[str]) -> list[str]:
    return [_KINDS.get(word, word) for word in map(stem, words)]
