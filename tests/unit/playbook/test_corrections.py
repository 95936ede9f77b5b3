"""Messages that tell how things should be done, in English and Spanish."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shared.corrections import corrects, lesson, own_words, wishes

SAID: dict[str, list[str]] = yaml.safe_load(
    (Path(__file__).parents[2] / "data" / "playbook" / "corrections.yaml").read_text("utf-8")
)


@pytest.mark.parametrize("text", SAID["corrects"])
def test_a_correction_needs_something_to_correct(text: str) -> None:
    assert corrects(text, "Done.")
    assert not corrects(text)
    assert lesson(text, "Done.") == text


@pytest.mark.parametrize("text", SAID["wishes"])
def test_a_wish_needs_nothing_before_it(text: str) -> None:
    assert wishes(text)
    assert lesson(text) == text


@pytest.mark.parametrize("text", SAID["neither"])
def test_questions_orders_and_thanks_are_neither(text: str) -> None:
    assert not corrects(text, "Done.")
    assert not wishes(text)
    assert lesson(text, "Done.") == ""


def test_no_to_a_question_is_an_answer() -> None:
    assert not corrects("No, mejor mañana no", "Shall I save it?")
    assert corrects("No, in kilos", "It weighs two pounds.")


def test_of_a_long_message_only_what_teaches_counts() -> None:
    filler = "The parcel came on a day in May and stood in the hall. " * 10
    assert lesson(f"{filler}From now on give weights in kilos. {filler}") == "From now on give weights in kilos."


def test_what_is_quoted_is_somebody_elses() -> None:
    assert own_words("mine\n> always copy Bob\n```\nnever\n```\nmine too") == "mine\nmine too"
    assert lesson("look:\n> from now on copy Bob", "Done.") == ""


@pytest.mark.property
@given(st.text(max_size=300), st.text(max_size=50))
def test_a_lesson_is_part_of_the_message(text: str, answer: str) -> None:
    found = lesson(text, answer)
    assert len(found) <= 400
    assert all(part in text for part in found.split())
