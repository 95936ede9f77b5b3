"""Inbox entries of the kind `command`: what is taken, what is refused and why, and the way back to fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinator.inbox import classify
from shared.errors import UserError
from shared.messages import Command, as_fields, parse_entry
from shared.settings import LimitSettings

LIMITS = LimitSettings()


def fields(command: str, params: Any = None, **more: str) -> dict[str, str]:
    given = {"kind": "command", "session": "s", "command": command, **more}
    return given if params is None else {**given, "params": json.dumps(params)}


@pytest.mark.parametrize(
    "entry",
    [
        Command(kind="command", session="s", command="undo", id="u", reply_to="r"),
        Command(kind="command", session="s", command="fork", params={"to": "t", "at": "1-0"}),
        Command(kind="command", session="s", command="set", params={"model": "", "debug": "on"}),
    ],
)
def test_the_way_to_fields_and_back(entry: Command) -> None:
    assert parse_entry(as_fields(entry), LIMITS) == entry


@pytest.mark.parametrize(
    ("entry", "code", "names"),
    [
        (fields("erase"), "bad_field", "command"),
        ({"kind": "command", "session": "s"}, "missing_field", "command"),
        ({"kind": "command", "command": "undo"}, "missing_field", "session"),
        (fields("undo", text="x"), "unknown_field", "text"),
        (fields("undo", {"to": "t"}), "unknown_field", "params"),
        (fields("undo", []), "bad_field", "params"),
        (fields("fork"), "missing_field", "to"),
        (fields("fork", {"to": ""}), "bad_field", "to"),
        (fields("fork", {"to": "t", "at": "yesterday"}), "bad_field", "at"),
        (fields("fork", {"to": "s"}), "bad_field", "twice"),
        (fields("set", {"thinking": True}), "bad_field", "thinking"),
        (fields("set", {"model": "m" * 201}), "bad_field", "model"),
        (fields("set", {"colour": "red"}), "unknown_field", "colour"),
        (fields("set", {"model": None}), "missing_field", "sets nothing"),
        ({**fields("set"), "params": "{"}, "bad_json", "params"),
    ],
)
def test_what_is_refused(entry: dict[str, str], code: str, names: str) -> None:
    with pytest.raises(UserError) as refused:
        parse_entry(entry, LIMITS)
    assert refused.value.code == code
    assert names in str(refused.value)


def test_what_the_script_gets() -> None:
    decision = classify("1-0", fields("set", {"model": "", "debug": "on", "thinking": None}), "owner", LIMITS, set())
    assert decision["action"] == "command"
    assert decision["set"] == {"model": "", "debug": "on"}
    decision = classify("1-0", fields("fork", {"to": "t"}), "owner", LIMITS, set())
    assert (decision["to"], decision["at"], decision["set"]) == ("t", "", {})
