"""Calls that a model wrote as text."""

from __future__ import annotations

import pytest

from coordinator.loop.prose import is_call

CALLS = [
    '{"name": "calculate", "arguments": {"expression": "17*23"}}',
    ' {"name": "f", "parameters": {}} ',
    '```json\n{"name": "f", "arguments": {}}\n```',
    '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>',
    '<tool_call>{"name": "f", "arguments": {}}',
    '[{"name": "f", "arguments": {}}, {"name": "g", "arguments": {"a": 1}}]',
    '{"type": "function", "function": {"name": "f", "arguments": "{}"}}',
]
PROSE = [
    "",
    "391",
    "17*23 is 391",
    '{"name": "Ana", "age": 3}',
    '{"arguments": {}}',
    'Use {"name": "f", "arguments": {}} for that.',
    '{"name": "f", "arguments": {}} is what I would call',
    "[]",
    "{",
    "[" * 5000,
]


@pytest.mark.parametrize("text", CALLS)
def test_calls(text: str) -> None:
    assert is_call(text)


@pytest.mark.parametrize("text", PROSE)
def test_prose(text: str) -> None:
    assert not is_call(text)
