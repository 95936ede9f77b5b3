"""Entries of any content: they are judged, never stumbled over; and what is written is read back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from coordinator.inbox import classify
from shared.errors import UserError
from shared.messages import Attachment, Budget, Control, Entry, Message, as_fields, parse_entry
from shared.names import may_open
from shared.settings import LimitSettings

pytestmark = pytest.mark.property

LIMITS = LimitSettings()
NAME = st.text(alphabet="abcXYZ019._-", min_size=1, max_size=20)
MESSAGE_ID = st.text(alphabet="abc019._@:+-", min_size=1, max_size=20)
TEXT = st.text(max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["kind", "session", "text", "id", "agent", "mode", "attachments", "model", "tools", "budget", "reply_to"]
FIELDS += ["workflow", "params", "run", "node", "scope", "v", "principal"]
KINDS = ["message", "workflow", "cancel", "steer", "approve", "deny", "answer"]
WORDS = [*KINDS, "", "s", "queue", "once", "null", "[]", "{}", "{", "[{}]", "NaN", '{"steps": 1e400}', '"\\ud800"']
WORDS += ['[{"data": "aGk="}]', '[{"data": "é"}]', '{"a": 1e999}', "0", "\x00", "\n", "1" * 5000]
ENTRIES = st.dictionaries(
    st.sampled_from(FIELDS) | TEXT, st.sampled_from(WORDS) | TEXT | JSON.map(json.dumps), max_size=10
).flatmap(lambda fields: st.sampled_from([fields, {**fields, "kind": "message"}, {**fields, "session": "s"}]))

BUDGETS = st.builds(
    Budget,
    steps=st.none() | st.integers(1, 1000),
    seconds=st.none() | st.floats(0.001, 604800),
    tokens=st.none() | st.integers(1, 10**9),
    dollars=st.none() | st.floats(0, 1e6),
)
ATTACHMENTS = st.builds(
    Attachment,
    name=TEXT,
    media_type=st.sampled_from(["text/plain", "image/png"]),
    artifact=TEXT,
    data=st.sampled_from(["", "aGk="]),
)
MESSAGES = st.builds(
    Message,
    kind=st.just("message"),
    session=NAME,
    text=TEXT.filter(str.strip),
    id=st.none() | MESSAGE_ID,
    agent=NAME,
    mode=st.sampled_from(["queue", "steer", "interrupt"]),
    attachments=st.lists(ATTACHMENTS, max_size=3).map(tuple),
    model=TEXT,
    tools=st.lists(NAME, max_size=3).map(tuple),
    budget=BUDGETS,
    reply_to=st.none() | NAME,
    params=st.dictionaries(TEXT, JSON, max_size=3),
)
WORKFLOWS = st.builds(
    Message, kind=st.just("workflow"), session=NAME, workflow=NAME, params=st.dictionaries(TEXT, JSON, max_size=3)
)
CONTROLS = st.builds(
    Control,
    kind=st.sampled_from(["cancel", "steer", "approve", "deny", "answer"]),
    session=st.none() | NAME,
    run=NAME,
    node=TEXT,
    text=TEXT,
    scope=st.sampled_from(["once", "session", "always"]),
    id=st.none() | MESSAGE_ID,
    reply_to=st.none() | NAME,
).filter(lambda control: control.kind != "steer" or control.text.strip() != "")


@given(ENTRIES)
def test_an_entry_is_understood_or_refused_with_a_reason(fields: dict[str, str]) -> None:
    error: UserError | None = None
    try:
        parse_entry(fields, LIMITS)
    except UserError as refusal:
        error = refusal
    assert error is None or (error.message and error.code not in ("", "error", "bad_request"))


@given(ENTRIES)
def test_any_entry_gives_a_decision_that_travels(fields: dict[str, str]) -> None:
    decision = classify("1700000000000-0", fields, "owner", LIMITS, {"default"})
    assert decision["action"] in ("message", "control", "reject")
    json.dumps(decision, ensure_ascii=False).encode()
    for name in ("payload", "mail", "reply"):
        if name in decision:
            _strict(decision[name])


def _strict(text: str) -> Any:
    """JSON as other readers know it: without NaN and infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


@given(MESSAGES | WORKFLOWS | CONTROLS)
def test_what_is_written_is_read_back(entry: Entry) -> None:
    fields = as_fields(entry)
    assert all(isinstance(value, str) for value in fields.values())
    assert parse_entry(fields, LIMITS) == entry


@given(MESSAGES.filter(lambda message: may_open(message.session, "alice")))
def test_the_queued_message_holds_what_was_submitted(entry: Message) -> None:
    decision = classify("1700000000000-0", as_fields(entry), "alice", LIMITS, {entry.agent})
    assert decision["action"] == "message"
    queued = json.loads(decision["payload"])
    wanted = entry.model_dump(mode="json", exclude_defaults=True, exclude={"reply_to", "session", "kind"})
    assert {name: queued[name] for name in wanted} == wanted
    assert (queued["session"], queued["principal"]) == (entry.session, "alice")


@given(MESSAGES, NAME)
def test_nobody_opens_a_session_of_the_system_that_is_not_theirs(entry: Message, rest: str) -> None:
    entry = entry.model_copy(update={"session": f".{rest}"[:128]})
    assume(not may_open(entry.session, "alice"))
    decision = classify("1700000000000-0", as_fields(entry), "alice", LIMITS, {entry.agent})
    assert decision["action"] == "reject"
    assert '"forbidden"' in json.dumps(decision)
