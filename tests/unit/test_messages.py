"""Inbox entries: what is accepted, what is refused and how, and what goes over the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from shared.errors import UserError
from shared.messages import Attachment, Budget, Control, Message, QueuedMessage, Reply, as_fields, parse_entry
from shared.settings import LimitSettings

LIMITS = LimitSettings()
PLAIN = {"kind": "message", "session": "s", "text": "hi"}


def refused(fields: dict[str, str], limits: LimitSettings = LIMITS) -> UserError:
    with pytest.raises(UserError) as error:
        parse_entry(fields, limits)
    return error.value


def test_a_message_with_everything() -> None:
    entry = parse_entry(
        {
            **PLAIN,
            "id": "daily@2026-11-30T06:00Z",
            "agent": "writer",
            "mode": "steer",
            "attachments": '[{"name": "a.txt", "media_type": "text/plain", "data": "aGk="}]',
            "model": "fast",
            "tools": "notes, web_fetch  files",
            "budget": '{"steps": 3, "dollars": 0.5}',
            "reply_to": "r.1",
            "params": '{"a": [1, null]}',
        },
        LIMITS,
    )
    assert isinstance(entry, Message)
    assert entry.tools == ("notes", "web_fetch", "files")
    assert entry.budget == Budget(steps=3, dollars=0.5)
    assert entry.attachments == (Attachment(name="a.txt", media_type="text/plain", data="aGk="),)
    assert entry.params == {"a": [1, None]}


def test_fields_that_are_empty_count_as_not_given() -> None:
    entry = parse_entry({**PLAIN, "id": "", "agent": "", "mode": "", "reply_to": "", "model": ""}, LIMITS)
    assert entry == Message(session="s", text="hi")


@pytest.mark.parametrize(
    ("fields", "code", "named"),
    [
        ({}, "missing_field", "kind"),
        ({"kind": "dance"}, "unknown_kind", "dance"),
        ({"kind": "message", "text": "hi"}, "missing_field", "session"),
        ({"kind": "message", "session": "s"}, "missing_field", "text"),
        ({"kind": "message", "session": "s", "text": " \n"}, "missing_field", "text"),
        ({"kind": "workflow", "session": "s"}, "missing_field", "workflow"),
        ({"kind": "cancel"}, "missing_field", "run"),
        ({"kind": "cancel", "session": "s", "mode": "queue"}, "unknown_field", "mode"),
        ({**PLAIN, "colour": "red"}, "unknown_field", "colour"),
        ({**PLAIN, "principal": "root"}, "unknown_field", "principal"),
        ({**PLAIN, "session": "a b"}, "bad_field", "session"),
        ({**PLAIN, "session": ""}, "bad_field", "session"),
        ({**PLAIN, "session": "s\n"}, "bad_field", "session"),
        ({**PLAIN, "session": "x" * 129}, "bad_field", "session"),
        ({**PLAIN, "reply_to": "a:b"}, "bad_field", "reply_to"),
        ({**PLAIN, "id": "a b"}, "bad_field", "id"),
        ({**PLAIN, "mode": "later"}, "bad_field", "mode"),
        ({**PLAIN, "budget": "{"}, "bad_json", "budget"),
        ({**PLAIN, "budget": "[]"}, "bad_field", "budget"),
        ({**PLAIN, "budget": '{"steps": 0}'}, "bad_field", "budget.steps"),
        ({**PLAIN, "budget": '{"stepz": 1}'}, "unknown_field", "budget.stepz"),
        ({**PLAIN, "budget": '{"dollars": NaN}'}, "bad_field", "budget.dollars"),
        ({**PLAIN, "attachments": '[{"data": "not base64!"}]'}, "bad_field", "attachments.0.data"),
        ({**PLAIN, "attachments": '[{"url": "x"}]'}, "unknown_field", "attachments.0.url"),
        ({**PLAIN, "params": '"text"'}, "bad_field", "params"),
        ({"kind": "approve", "run": "r", "scope": "forever"}, "bad_field", "scope"),
    ],
)
def test_what_is_refused(fields: dict[str, str], code: str, named: str) -> None:
    error = refused(fields)
    assert error.code == code
    assert named in error.message


def test_size_is_counted_in_bytes() -> None:
    limits = LimitSettings(text_bytes=10)
    assert parse_entry({**PLAIN, "text": "é" * 5}, limits)
    error = refused({**PLAIN, "text": "é" * 5 + "x"}, limits)
    assert error.code == "too_large"
    assert "11 bytes" in error.message


def test_attachments_have_a_size() -> None:
    limits = LimitSettings(attachment_bytes=3000)
    fields = {**PLAIN, "attachments": json.dumps([{"data": "QUFB" * 1000}])}
    assert parse_entry(fields, limits)
    assert refused({**PLAIN, "attachments": json.dumps([{"data": "QUFB" * 2000}])}, limits).code == "too_large"


@pytest.mark.parametrize("field", ["params", "budget", "attachments"])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_json_that_is_nested_beyond_reason_is_refused(field: str, opening: str) -> None:
    assert refused({**PLAIN, field: opening * 100_000}).code in ("bad_json", "too_large")


@pytest.mark.parametrize("params", [r'{"a": "\ud800"}', r'{"\ud800": 1}', r'{"a": [{"b": "x\udfffy"}]}'])
def test_text_that_is_no_unicode_is_refused(params: str) -> None:
    assert refused({**PLAIN, "params": params}).code in ("bad_json", "bad_field")


def test_params_have_a_size() -> None:
    assert refused({**PLAIN, "params": json.dumps({"a": "x" * 5_000_000})}).code == "too_large"


def test_a_workflow_does_not_join_a_run() -> None:
    """The active run could only be given its text, and it has none."""
    assert refused({"kind": "workflow", "session": "s", "workflow": "w", "mode": "steer"}).code == "bad_field"


def test_an_attachment_is_enough() -> None:
    entry = parse_entry({"kind": "message", "session": "s", "attachments": '[{"artifact": "a:1"}]'}, LIMITS)
    assert isinstance(entry, Message)
    assert entry.text == ""


def test_a_control_entry_names_a_run_or_a_session() -> None:
    assert parse_entry({"kind": "cancel", "run": "r"}, LIMITS) == Control(kind="cancel", run="r")
    assert parse_entry({"kind": "steer", "session": "s", "text": "x"}, LIMITS) == Control(
        kind="steer", session="s", text="x"
    )


def test_only_what_differs_from_the_defaults_is_written() -> None:
    assert as_fields(Message(session="s", text="hi")) == PLAIN
    assert as_fields(Control(kind="cancel", run="r")) == {"kind": "cancel", "run": "r"}
    fields = as_fields(Message(session="s", text="hi", tools=("a", "b"), budget=Budget(steps=2)))
    assert fields == {**PLAIN, "tools": "a b", "budget": '{"steps": 2}'}


@pytest.mark.parametrize(
    "value", [{"v": 1, "ok": True, "later": 1}, {"ok": False, "error": {"code": "x", "message": "y"}}]
)
def test_readers_of_replies_pass_over_what_they_do_not_know(value: dict[str, Any]) -> None:
    assert Reply.model_validate(value).ok is value["ok"]


def test_values_cannot_be_changed() -> None:
    message = QueuedMessage(run="r", principal="owner", session="s", received_ms=1)
    with pytest.raises(ValidationError):
        message.principal = "root"
