"""How waits end: by mail, by time; and what mail means that names nothing, or the wrong thing."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.loop.waits import announce, answered, expired, next_ms, only_people, take
from shared.contract import NodeResult, NodeState
from shared.entries import Decided, Waiting
from shared.fold import RunFold
from shared.messages import QueuedMessage
from shared.state.changes import Change

NOW = 1_700_000_000_000


def wait(node: str = "r1.1.1.0", kind: str = "approval", **fields: Any) -> Waiting:
    base = {"node": node, "kind": kind, "tool": "probe_write", "args_hash": "h", "rules": ("rule",)}
    return Waiting.model_validate(base | fields)


def run_of(*waits: Waiting) -> RunFold:
    return RunFold("r1", waiting={w.node: w for w in waits})


def told(run: RunFold, *mails: dict[str, Any]) -> tuple[list[bool], Change]:
    """What becomes of entries that are read together."""
    change = Change()
    return [take(mail, run, "default", "owner", NOW, change) for mail in mails], change


def test_an_approval_is_logged_as_it_was_asked_for() -> None:
    taken, change = told(run_of(wait()), {"kind": "approve", "node": "r1.1.1.0", "scope": "session", "text": "fine"})
    assert taken == [True]
    [decided] = change.entries
    assert decided == Decided(
        node="r1.1.1.0",
        tool="probe_write",
        args_hash="h",
        allowed=True,
        scope="session",
        rules=("rule",),
        agent="default",
        by="owner",
        text="fine",
    )
    assert change.ends == []  # it has yet to run
    [(kind, data)] = change.events
    assert (kind, data["node"], data["allowed"], data["by"]) == ("approval.decided", "r1.1.1.0", True, "owner")


@pytest.mark.parametrize(("text", "said"), [("not today", "the user said no: not today"), ("", "the user said no.")])
def test_a_no_ends_the_node_with_its_reason(text: str, said: str) -> None:
    taken, change = told(run_of(wait()), {"kind": "deny", "node": "r1.1.1.0", "text": text})
    assert taken == [True]
    [decided] = change.entries
    assert isinstance(decided, Decided)
    assert not decided.allowed
    [(node, tool, result)] = change.ends
    assert (node, tool, result.state, result.ended_ms) == ("r1.1.1.0", "probe_write", NodeState.DENIED, NOW)
    assert said in result.text
    assert result.error is not None
    assert result.error.code == "denied"


def test_an_answer_is_the_result() -> None:
    taken, change = told(run_of(wait(kind="question", options=("red", "blue"))), {"kind": "answer", "text": " 2 "})
    assert taken == [True]
    assert change.entries == []
    [(_, _, result)] = change.ends
    assert (result.state, result.value, result.text) == (NodeState.DONE, "blue", "The user answered: blue")


@pytest.mark.parametrize(
    "mail",
    [
        {"kind": "approve", "node": "r1.1.1.9"},  # no such node
        {"kind": "approve", "node": "r1.1.1.1"},  # a question
        {"kind": "deny", "node": "r1.1.1.1"},
        {"kind": "answer", "node": "r1.1.1.0", "text": "yes"},  # an approval
        {"kind": "answer", "node": "r1.1.1.2", "text": "yes"},  # a timer
        {"kind": "approve", "node": "r1.1.1.3"},  # a subagent
        {"kind": "cheer", "node": "r1.1.1.0"},
        {},
    ],
)
def test_what_nothing_waits_for_changes_nothing(mail: dict[str, Any]) -> None:
    kinds = ("approval", "question", "timer", "agent")
    run = run_of(*(wait(f"r1.1.1.{n}", kind) for n, kind in enumerate(kinds)))
    assert told(run, mail) == ([False], Change())


@pytest.mark.parametrize("kind", ["approval", "question"])
def test_without_a_node_the_only_one_of_its_kind_is_meant(kind: str) -> None:
    mail = {"kind": "approve" if kind == "approval" else "answer", "text": "yes", "node": ""}
    other = "question" if kind == "approval" else "approval"
    one = run_of(wait("r1.1.1.0", kind), wait("r1.1.1.1", other))
    assert told(one, mail)[0] == [True]
    several = run_of(wait("r1.1.1.0", kind), wait("r1.1.1.1", kind))
    assert told(several, mail) == ([False], Change())


def test_what_has_ended_or_was_decided_waits_no_more() -> None:
    ended = run_of(wait())
    ended.results["r1.1.1.0"] = NodeResult(state=NodeState.CANCELLED)
    decided = run_of(wait())
    decided.decided["r1.1.1.0"] = Decided(node="r1.1.1.0", tool="t", args_hash="h", allowed=True)
    for run in (ended, decided):
        assert told(run, {"kind": "approve", "node": "r1.1.1.0"}) == ([False], Change())


@pytest.mark.parametrize("first", ["approve", "deny"])
@pytest.mark.parametrize("then", ["approve", "deny"])
def test_of_two_decisions_that_are_read_together_the_first_counts(first: str, then: str) -> None:
    taken, change = told(run_of(wait()), {"kind": first}, {"kind": then, "scope": "always"})
    assert taken == [True, False]
    [decided] = change.entries
    assert isinstance(decided, Decided)
    assert (decided.allowed, decided.scope) == (first == "approve", "once")
    assert len(change.ends) == (first == "deny")
    question = run_of(wait(kind="question"))
    assert told(question, {"kind": "answer", "text": "a"}, {"kind": "answer", "text": "b"})[0] == [True, False]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", "red"),
        ("2", "blue"),
        ("02", "blue"),
        ("٢", "blue"),
        ("0", "0"),
        ("3", "3"),
        ("-1", "-1"),
        ("1.", "1."),
        ("²", "²"),
        ("the red", "the red"),
        ("", ""),
        ("9" * 5000, "9" * 5000),  # more digits than Python makes a number of
    ],
)
def test_the_number_of_an_option_stands_for_it(text: str, value: str) -> None:
    assert answered(wait(kind="question", options=("red", "blue")), text, NOW).value == value
    assert answered(wait(kind="question"), text, NOW).value == text


@pytest.mark.parametrize(
    ("kind", "state", "code"),
    [
        ("approval", NodeState.DENIED, "approval_expired"),
        ("question", NodeState.TIMED_OUT, "no_answer"),
        ("timer", NodeState.DONE, None),
    ],
)
def test_what_comes_of_a_wait_whose_time_is_over(kind: str, state: NodeState, code: str | None) -> None:
    due, later = wait("r1.1.1.0", kind, until_ms=NOW), wait("r1.1.1.1", kind, until_ms=NOW + 1)
    [(node, tool, result)] = expired(run_of(due, later), NOW)
    assert (node, tool, result.state, result.ended_ms) == ("r1.1.1.0", "probe_write", state, NOW)
    assert (result.error.code if result.error else None) == code
    assert result.text


def test_what_has_no_end_of_its_own_never_expires() -> None:
    run = run_of(wait(kind="agent", run="child"), wait("r1.1.1.1", "approval"))
    assert expired(run, NOW * 2) == []
    assert next_ms(run) == 0


def test_the_next_wait_that_ends_by_itself_and_whose_time_it_is() -> None:
    run = run_of(wait("a", "timer", until_ms=5), wait("b", "question", until_ms=3), wait("c", "approval"))
    assert next_ms(run) == 3
    assert only_people(run)
    run.waiting["d"] = wait("d", "agent", run="child")
    assert not only_people(run)
    run.results["d"] = NodeResult(state=NodeState.DONE)
    run.results["b"] = NodeResult(state=NodeState.DONE)
    assert only_people(run)
    assert next_ms(run) == 5


def test_what_people_are_told_when_a_wait_begins() -> None:
    change, path = Change(), ("lead", "worker")
    child = QueuedMessage(
        run="c1", principal="owner", session="s", received_ms=1, agent="worker", parent="n", path=path
    )
    announce(change, wait(args={"tag": "x"}, text="it writes", until_ms=9), None, path)
    announce(change, wait(kind="question", text="which?", options=("a", "b"), recommended="a"), None, path)
    announce(change, wait(kind="timer", until_ms=9), None, path)
    announce(change, wait(kind="agent", text="do it", run="c1"), child, path)
    announce(change, wait(kind="agent", text="do it", run="c1"), None, path)  # after a takeover: it runs already
    assert [kind for kind, _ in change.events] == ["approval.requested", "question.asked", "subagent.started"]
    approval, question, started = (data for _, data in change.events)
    assert (approval["args"], approval["args_hash"], approval["path"]) == ({"tag": "x"}, "h", path)
    assert (question["options"], question["recommended"]) == (("a", "b"), "a")
    assert (started["run"], started["agent"], started["text"]) == ("c1", "worker", "do it")
