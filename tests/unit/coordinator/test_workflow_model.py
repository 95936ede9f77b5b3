"""What an answer of a model step comes to, and what a model is asked the second time."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.loop.workflow_model import read_json, request_of
from shared.contract import StepSpec
from shared.ids import effect_key, node_id

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"n": 1}', {"n": 1}),
        (' \n{"n": 1}\n', {"n": 1}),
        ('```json\n{"n": 1}\n```', {"n": 1}),
        ('\n```\n{"n": 1}\n```\n', {"n": 1}),
        ('{"n": 1, "text": "```"}', {"n": 1, "text": "```"}),
    ],
)
def test_json_is_read(text: str, value: Any) -> None:
    assert read_json(text, SCHEMA) == (value, "")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "not JSON"),
        ("Here it is: {}", "not JSON"),
        ('{"n": 1} and more', "not JSON"),
        ('{"n": NaN}', "NaN is no JSON value"),
        ("[" * 100_000, "not JSON"),
        ("{}", "lacks 'n'"),
        ('{"n": "1"}', "n should be integer"),
    ],
)
def test_anything_else_is_a_complaint(text: str, wrong: str) -> None:
    assert wrong in read_json(text, SCHEMA)[1]


def test_a_wrong_answer_is_shown_to_the_model() -> None:
    step = StepSpec(id="s", kind="model", json_schema=SCHEMA)
    assert len(request_of(step, {"prompt": "p"}).messages) == 1
    again = request_of(step, {"prompt": "p", "answer": "{}", "complaint": "the answer lacks 'n'"})
    assert [(m.role, m.text) for m in again.messages] == [
        ("user", "p"),
        ("assistant", "{}"),
        ("user", "That is not valid: the answer lacks 'n'. Answer again, with the JSON alone."),
    ]
    assert again.json_schema == SCHEMA


def test_attempts_of_a_step_are_one_effect() -> None:
    assert {effect_key(node_id("r1", 0, attempt, 7)) for attempt in range(3)} == {"r1.0.0.7"}
    for other in (node_id("r1", 2, 1, 7), f"{node_id('r1', 2, 1, 7)}e", f"{node_id('r1', 2, 1, 7)}.3", "n"):
        assert effect_key(other) == other
