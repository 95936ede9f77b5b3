"""The words of `words.toml` as tables: every form of a deed's verb, and what the other words do. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from importlib import resources
from typing import Any, Final


class Kind(StrEnum):
    """Kinds of deeds. `ANY` is a deed of which nobody knows which it was, or the claim that something was done."""

    SAVE = "save"
    SEND = "send"
    DELETE = "delete"
    SCHEDULE = "schedule"
    CREATE = "create"
    CHANGE = "change"
    CANCEL = "cancel"
    PAY = "pay"
    BUY = "buy"
    UPLOAD = "upload"
    SWITCH = "switch"
    RUN = "run"
    ANY = "any"


class Need(Enum):
    """What a verb needs to be a claim; `words.toml` says what they mean."""

    STRONG = "strong"
    FIRM = "firm"
    LIGHT = "light"


class Form(Enum):
    """What a word form can be of its verb."""

    BASE = "base"
    """English base form, Spanish infinitive."""
    PAST = "past"
    """English past, Spanish first person singular."""
    PLURAL = "plural"
    """Spanish first person plural, which is the present too."""
    THIRD = "third"
    """Spanish third person."""
    PARTICIPLE = "participle"
    GERUND = "gerund"


@dataclass(frozen=True, slots=True)
class Deed:
    """A class of deeds as verbs name it. `particle` is the word that must follow ("turned … off")."""

    name: str
    accepts: frozenset[Kind]
    need: Need
    particle: str = ""


@dataclass(frozen=True, slots=True)
class Thing:
    """A domain of things outside the answer, and the kinds of deeds that bring one about."""

    domain: str
    accepts: frozenset[Kind]


@dataclass(frozen=True)
class Words:
    """The words of one language by what they do."""

    forms: dict[str, tuple[tuple[Form, Deed], ...]]
    things: dict[str, Thing]
    content: frozenset[str]
    harmless: frozenset[str]
    done: frozenset[tuple[str, ...]]
    sets: dict[str, frozenset[str]]

    def thing(self, word: str) -> Thing | None:
        """The thing that a word names; the name of a file is one."""
        return self.things.get(word) or (_FILE if "." in word and _FILE_NAME.search(word) else None)

    @property
    def vocabulary(self) -> frozenset[str]:
        """All of them."""
        return frozenset().union(self.forms, self.things, self.content, self.harmless, *self.sets.values())

    def __getitem__(self, name: str) -> frozenset[str]:
        return self.sets[name]


TICK: Final = "✅✔☑✓"
PICTOGRAPH: Final = re.compile("[\U0001f300-\U0001faff☀-⛿➔-➾]")
_FILE_NAME: Final = re.compile(
    r"\w\.(?:md|txt|pdf|ya?ml|toml|json|csv|tsv|py|js|ts|sh|docx?|xlsx?|pptx?|png|jpe?g|gif|mp[34]|wav|zip|html?|css|ini|cfg|"
    r"sql|log|ics|svg|webp|odt|ods|conf|env|tar|gz)\Z"
)
_FILE: Final = Thing("files", frozenset({Kind.SAVE, Kind.CREATE, Kind.CHANGE, Kind.UPLOAD}))
OTHER: Final = Deed("other", frozenset({Kind.ANY}), Need.FIRM)
"""A verb of no known deed, of what somebody says that they did."""
_VOWELS: Final = "aeiou"


def _english(spec: str) -> Iterator[tuple[str, Form]]:
    base, *rest = spec.split("/")
    past = rest[0] if rest else _regular(base)
    participle = rest[1] if len(rest) > 1 else past
    yield base, Form.BASE
    yield past, Form.PAST
    yield participle, Form.PARTICIPLE
    yield _gerund(base), Form.GERUND


def _regular(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base[-1] == "y" and base[-2] not in _VOWELS:
        return base[:-1] + "ied"
    return base + (base[-1] if _doubles(base) else "") + "ed"


def _gerund(base: str) -> str:
    return (base[:-1] if base.endswith("e") else base + (base[-1] if _doubles(base) else "")) + "ing"


def _doubles(base: str) -> bool:
    """Verbs of one syllable with one vowel double their last letter: drop, flag, scrap; not post, mail, open."""
    return base[-1] in "bdgmnprt" and base[-2] in _VOWELS and sum(letter in _VOWELS for letter in base) == 1


def _spanish(spec: str) -> Iterator[tuple[str, Form]]:
    infinitive, *rest = spec.split("/")
    participle, first, third, thirds, plural = rest if len(rest) == 5 else _conjugated(infinitive, *rest)
    yield infinitive, Form.BASE
    yield first, Form.PAST
    yield plural, Form.PLURAL
    yield third, Form.THIRD
    yield thirds, Form.THIRD
    for ending in ("o", "a", "os", "as"):
        yield participle[:-1] + ending, Form.PARTICIPLE


def _conjugated(infinitive: str, participle: str = "") -> tuple[str, str, str, str, str]:
    stem, kind = infinitive[:-2], infinitive[-2:]
    if kind == "ar":
        hard = next((stem[: -len(a)] + b for a, b in (("c", "qu"), ("g", "gu"), ("z", "c")) if stem.endswith(a)), stem)
        return participle or stem + "ado", hard + "é", stem + "ó", stem + "aron", stem + "amos"
    return participle or stem + "ido", stem + "í", stem + "ió", stem + "ieron", stem + "imos"


def _verbs(table: dict[str, Any], language: str) -> dict[str, tuple[tuple[Form, Deed], ...]]:
    conjugate = _english if language == "english" else _spanish
    found: dict[str, list[tuple[Form, Deed]]] = {}
    for name, row in table.items():
        accepts = frozenset(Kind(k) for k in row["accepts"])
        for spec in row.get(language, "").split():
            forms, _, particle = spec.partition("+")
            deed = Deed(name, accepts, Need(row["need"]), particle)
            for word, form in conjugate(forms):
                found.setdefault(word, []).append((form, deed))
    return {word: tuple(dict.fromkeys(forms)) for word, forms in found.items()}


def _plain(words: str) -> tuple[str, ...]:
    return tuple(words.replace("you're", "you are").replace("i've", "i have").replace("we're", "we are").split())


def _opened(words: str) -> tuple[str, ...]:
    """A clause as the reader of clauses gives it: contractions opened."""
    return tuple(part for word in _plain(words) for part in ([word[:-2], "'s"] if word.endswith("'s") else [word]))


def _language(data: dict[str, Any], language: str) -> Words:
    things = {
        word: Thing(domain, frozenset(Kind(k) for k in row["accepts"]))
        for domain, row in reversed(data["things"].items())
        for word in row[language].split()
    }
    return Words(
        forms=_verbs(data["class"], language),
        things=things,
        content=frozenset(data["content"][language].split()),
        harmless=frozenset(data["harmless"][language].split()),
        done=frozenset(_opened(words) for words in data["done"][language]),
        sets={name: frozenset(words.split()) for name, words in data[language].items()},
    )


DATA: Final = tomllib.loads((resources.files(__package__) / "words.toml").read_text("utf-8"))
IRREGULAR: Final = frozenset(DATA["verbs"]["irregular"].split())
ENGLISH: Final = _language(DATA, "english")
SPANISH: Final = _language(DATA, "spanish")
JOINTS: Final = ENGLISH["joints"] | SPANISH["joints"]
ONLY_ENGLISH: Final = ENGLISH.vocabulary - SPANISH.vocabulary
ONLY_SPANISH: Final = SPANISH.vocabulary - ENGLISH.vocabulary
INTERROGATIVE: Final = ENGLISH["interrogative"] | SPANISH["interrogative"]
