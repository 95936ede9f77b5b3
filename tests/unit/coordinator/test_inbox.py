"""What the routing script is told to do with an entry."""

from __future__ import annotations

import json

import pytest

from coordinator.inbox import RAW_CHARS, classify, entry_ms
from shared.messages import QueuedMessage, Reply
from shared.settings import LimitSettings

LIMITS = LimitSettings()
AGENTS = {"default", "writer"}
ENTRY = "1700000000000-7"


def decided(fields: dict[str, str], principal: str = "owner") -> dict[str, object]:
    return classify(ENTRY, fields, principal, LIMITS, AGENTS)


def test_the_time_of_an_entry_is_in_its_id() -> None:
    assert entry_ms(ENTRY) == 1_700_000_000_000


def test_a_message_gets_a_run_and_belongs_to_the_inboxs_principal() -> None:
    found = decided({"kind": "message", "session": "s", "text": "hi", "id": "m1", "reply_to": "r"}, "alice")
    assert (found["action"], found["entry"], found["session"], found["id"]) == ("message", ENTRY, "s", "m1")
    assert (found["mode"], found["reply_to"]) == ("queue", "r")
    queued = QueuedMessage.model_validate_json(str(found["payload"]))
    assert (queued.principal, queued.text, queued.received_ms) == ("alice", "hi", entry_ms(ENTRY))
    assert queued.run == found["run"]
    assert json.loads(str(found["mail"])) == {"kind": "steer", "text": "hi", "id": "m1"}


def test_two_entries_get_two_runs() -> None:
    fields = {"kind": "message", "session": "s", "text": "hi"}
    assert decided(fields)["run"] != decided(fields)["run"]


def test_a_message_without_id_is_not_a_duplicate_of_anything() -> None:
    assert decided({"kind": "message", "session": "s", "text": "hi"})["id"] == ""


def test_an_unknown_agent_is_refused_with_the_known_ones() -> None:
    found = decided({"kind": "message", "session": "s", "text": "hi", "agent": "cook", "reply_to": "r"})
    assert (found["action"], found["code"], found["reply_to"]) == ("reject", "unknown_agent", "r")
    reply = Reply.model_validate_json(str(found["reply"]))
    assert reply.error is not None
    assert reply.error.hint == "known: default, writer"


def test_a_workflow_needs_no_agent() -> None:
    found = decided({"kind": "workflow", "session": "s", "workflow": "brief", "agent": "cook"})
    assert found["action"] == "message"


@pytest.mark.parametrize(
    ("principal", "session", "action"),
    [
        ("bob", ".deliver.2026-11-30.ana", "reject"),
        ("bob", ".deliver.2026-11-30.ana.bob", "reject"),
        ("bob", ".due-reminders.2026-11-30", "reject"),
        ("bob", ".bob", "reject"),
        ("bob", ".deliver.2026-11-30.bob", "message"),
        ("bob", "deliver.2026-11-30.ana", "message"),
        ("owner", ".due-reminders.2026-11-30", "message"),
    ],
)
def test_nobody_comes_first_to_a_session_of_the_system(principal: str, session: str, action: str) -> None:
    found = decided({"kind": "message", "session": session, "text": "mine"}, principal)
    assert (found["action"], found.get("code", "forbidden")) == (action, "forbidden")
    fork = decided(
        {"kind": "command", "command": "fork", "session": "s", "params": f'{{"to": "{session}"}}'}, principal
    )
    assert fork["action"] == ("reject" if action == "reject" else "command")
    params = '{"do": "forget", "bullet": "b1"}'
    order = decided({"kind": "command", "command": "playbook", "session": session, "params": params}, principal)
    assert order["action"] == action


def test_a_control_entry_goes_to_its_run() -> None:
    found = decided({"kind": "approve", "run": "r1", "node": "n", "scope": "session", "reply_to": "r"})
    assert (found["action"], found["kind"], found["target_run"], found["session"]) == ("control", "approve", "r1", "")
    mail = json.loads(str(found["mail"]))
    assert (mail["kind"], mail["node"], mail["scope"]) == ("approve", "n", "session")
    assert "reply_to" not in mail


def test_a_refusal_is_answered_only_where_that_is_safe() -> None:
    found = decided({"kind": "dance", "session": "no spaces", "reply_to": "../x", "id": "i" * 500})
    assert found["reply_to"] == ""
    reply = Reply.model_validate_json(str(found["reply"]))
    assert (reply.ok, reply.session, len(reply.id)) == (False, "", 128)


def test_what_was_refused_is_kept_in_bounds() -> None:
    found = decided({"kind": "dance", "text": "x" * 100_000})
    assert len(str(found["raw"])) == RAW_CHARS + 1
    assert str(found["raw"]).startswith('{"kind": "dance"')


@pytest.mark.parametrize("params", ["[" * 100_000, r'{"a": "\ud800"}'])
def test_no_entry_stops_the_consumer(params: str) -> None:
    found = decided({"kind": "message", "session": "s", "text": "hi", "params": params, "reply_to": "r"})
    assert found["action"] == "reject"
