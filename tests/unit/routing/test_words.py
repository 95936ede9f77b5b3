"""Folding, stems, keywords, small talk: what layer 1 is made of."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from coordinator.routing import smalltalk
from coordinator.routing.keywords import KeywordIndex
from coordinator.routing.reading import read
from coordinator.routing.text import fold, name_tokens, stem, tokens


def test_folding_drops_case_accents_and_invisible_characters() -> None:
    assert fold("AÑADE el Pingüino\u200b ﬁel") == "anade el pinguino fiel"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("¿Qué hora es?", ["que", "hora", "es"]),
        ("what's up", ["whats", "up"]),
        ("what’s up", ["whats", "up"]),
        ("lee datos_2024.csv", ["lee", "datos", "2024", "csv"]),
        ("…!", []),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize("name", ["createIssue", "create_issue", "create-issue", "Create.Issue"])
def test_the_words_of_an_identifier(name: str) -> None:
    assert name_tokens(name) == ["create", "issue"]


@pytest.mark.parametrize(
    "forms",
    [
        ("nota", "notas"),
        ("note", "notes"),
        ("imagen", "imagenes"),
        ("file", "files"),
        ("picture", "pictures"),
        ("apunta", "apuntar", "apuntame", "apuntalo", "apuntamelo", "apuntarlo"),
        ("recordatorio", "recordatorios"),
        ("avisa", "avisame", "avisar"),
    ],
)
def test_forms_of_one_word_have_one_stem(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize(
    ("one", "other"), [("nota", "notable"), ("note", "not"), ("web", "webinar"), ("hora", "ahora"), ("plan", "plane")]
)
def test_different_words_keep_different_stems(one: str, other: str) -> None:
    assert stem(one) != stem(other)


def index() -> KeywordIndex:
    return KeywordIndex(
        [("notes", "nota"), ("music", "nota musical"), ("web", "página"), ("files", "documento"), ("web", "documento")]
    )


def test_keywords_are_whole_tokens() -> None:
    assert index().match(read("es notable el anotador")) == {}
    assert index().match(read("Busca mis NOTAS")) == {"notes": 1.0}


def test_the_longest_phrase_uses_up_its_tokens() -> None:
    assert index().match(read("toca la nota musical")) == {"music": 2.0}
    assert index().match(read("una nota y la nota musical")) == {"notes": 1.0, "music": 2.0}


def test_a_shared_phrase_is_worth_less_and_repeating_adds_nothing() -> None:
    assert index().match(read("documento, documento")) == {"files": 0.5, "web": 0.5}


def test_a_phrase_without_letters_is_ignored() -> None:
    assert KeywordIndex([("a", "¿?"), ("a", "")]).match(read("¿?")) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lee notas_2023.md", "lee <file>"),
        ("mira https://example.org/notas y www.example.com", "mira <url> y <url>"),
        ("escribe a ana.gil@example.org", "escribe a <address>"),
        ("r/spain", "<subreddit>"),
        ("every Friday at six", "every <day> <time>"),
        ("mañana a las 5", "manana <time>"),
        ("el 15 % de 1.340,50", "el <percent> de <number>"),
        ("348 * 17", "<sum>"),
        ("hoy 5x5", "hoy <sets>"),
        ("3 cups in grams", "<number> <unit> in <unit>"),
        ("on the 4th of July", "on the <date> of <month>"),
        ("gaviota2019 s3", "gaviota2019 s3"),
        ("every <day>", "every <day>"),
    ],
)
def test_what_has_a_telling_form_is_read_as_its_kind(text: str, expected: str) -> None:
    assert " ".join(read(text)) == expected


def points(phrases: Mapping[str, tuple[str, ...]], text: str) -> dict[str, float]:
    return KeywordIndex([(owner, phrase) for owner, own in phrases.items() for phrase in own]).match(read(text))


def test_alternatives_stand_for_each_other_and_count_once() -> None:
    mail = {"mail": ("send|write … mail|email",)}
    assert points(mail, "write her an email") == points(mail, "send a mail") == {"mail": 2.0}
    assert points(mail, "send a mail, then write an email") == {"mail": 2.0}
    assert points(mail, "send a parcel") == {}


def test_a_gap_is_bounded() -> None:
    gap = {"mail": ("send … mail",)}
    assert points(gap, "send one two three four five six mail") == {"mail": 2.0}
    assert points(gap, "send one two three four five six seven mail") == {}


def test_of_equally_long_phrases_that_which_ends_first_wins() -> None:
    pictures = {"media": ("make … picture|cover",), "vision": ("picture",)}
    assert points(pictures, "make a picture for the cover") == {"media": 2.0}


def test_behind_a_leader_only_the_strongest_other_owner_stays() -> None:
    phrases = {"reminders": ("remind …",), "mail": ("mail",), "files": ("the file",), "web": ("~bank",)}
    assert set(points(phrases, "remind me to mail the file to the bank")) == {"reminders", "files"}
    assert set(points(phrases, "mail the file and remind me")) == {"reminders", "mail", "files"}
    assert set(points(phrases, "remind me tomorrow")) == {"reminders"}


def test_a_hint_counts_only_with_another_or_with_a_keyword() -> None:
    phrases = {"calendar": ("meeting", "~dentist|doctor", "~<day>"), "mail": ("mail",), "web": ("~friday prayer",)}
    assert points(phrases, "the dentist") == {}
    assert points(phrases, "the dentist or the doctor") == {}  # two alternatives of one hint
    assert points(phrases, "the dentist on friday") == {"calendar": 1.0}
    assert points(phrases, "a meeting on friday") == {"calendar": 1.5}
    assert points(phrases, "mail the dentist on friday") == {"calendar": 1.0, "mail": 1.0}


def test_hints_have_what_keywords_leave() -> None:
    phrases = {"web": ("~look for the",), "files": ("the file",)}
    assert points(phrases, "look for the file") == {"files": 2.0}


def test_what_was_found_can_be_explained() -> None:
    index = KeywordIndex([("reminders", "remind …"), ("mail", "send … mail"), ("calendar", "~<day>")])
    assert index.explain(read("remind me on friday to send the mail")) == [
        ("remind …", ("reminders",)),
        ("~<day>", ("calendar",)),
        ("send … mail", ("mail",)),
    ]


def test_cover_finds_the_sequence_that_the_longest_phrase_would_miss() -> None:
    phrases = KeywordIndex([("x", "a b"), ("y", "a"), ("z", "b c")])
    assert phrases.cover(["a", "b", "c"]) == frozenset({"y", "z"})
    assert phrases.cover(["a", "c"]) is None
    assert phrases.cover([]) == frozenset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("¡Hola!", "talk"),
        ("buenos días, ¿qué tal?", "talk"),
        ("muchas gracias, jajaja", "talk"),
        ("thanks, you are the best", "talk"),
        ("hahaha", "talk"),
        ("sí, hazlo por favor", "answer"),
        ("yes, do it", "answer"),
        ("ok gracias, el segundo", "answer"),
        ("the last one please", "answer"),
        ("thank you, you saved my afternoon", "talk"),
        ("uf, qué día llevo", "talk"),
        ("jaja ya te digo", "talk"),
        ("¿y en Sevilla?", "follow"),
        ("no, better on friday", "follow"),
        ("what about Ana", "follow"),
        ("thank you, can you book a table", None),
        ("qué día tenía la revisión", None),
        ("por favor", None),
        ("hola, recuérdame comprar pan", None),
        ("thanks, now open the contract", None),
        ("", None),
    ],
)
def test_small_talk_and_answers(text: str, expected: str | None) -> None:
    assert smalltalk.kind(read(text)) == expected
