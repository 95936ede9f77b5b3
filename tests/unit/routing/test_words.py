"""Folding, stems, keywords, small talk: what layer 1 is made of."""

from __future__ import annotations

import pytest

from coordinator.routing import smalltalk
from coordinator.routing.keywords import KeywordIndex
from coordinator.routing.text import fold, name_tokens, stem, stems, tokens


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
    assert index().match(stems("es notable el anotador")) == {}
    assert index().match(stems("Busca mis NOTAS")) == {"notes": 1.0}


def test_the_longest_phrase_uses_up_its_tokens() -> None:
    assert index().match(stems("toca la nota musical")) == {"music": 2.0}
    assert index().match(stems("una nota y la nota musical")) == {"notes": 1.0, "music": 2.0}


def test_a_shared_phrase_is_worth_less_and_repeating_adds_nothing() -> None:
    assert index().match(stems("documento, documento")) == {"files": 0.5, "web": 0.5}


def test_a_phrase_without_letters_is_ignored() -> None:
    assert KeywordIndex([("a", "¿?"), ("a", "")]).match(stems("¿?")) == {}


def test_cover_finds_the_sequence_that_the_longest_phrase_would_miss() -> None:
    phrases = KeywordIndex([("x", "a b"), ("y", "a"), ("z", "b c")])
    assert phrases.cover(["a", "b", "c"]) == {"y", "z"}
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
        ("por favor", None),
        ("hola, recuérdame comprar pan", None),
        ("thanks, now open the contract", None),
        ("", None),
    ],
)
def test_small_talk_and_answers(text: str, expected: str | None) -> None:
    assert smalltalk.kind(stems(text)) == expected
