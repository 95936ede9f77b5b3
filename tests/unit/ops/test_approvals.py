"""`capataz approvals`, `approve`, `deny`, `answer`: what is shown, and what is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from ops.cli import approvals
from ops.cli.main import app
from ops.exits import Exit
from shared.entries import Waiting
from shared.messages import ErrorInfo, Reply

runner = CliRunner()

CALL = Waiting(
    node="r1.1.1.0",
    kind="approval",
    tool="pay",
    args={"to": "Íñigo", "note": "\x1b[2Jpaid"},
    args_hash="h",
    rules=("rule",),
    text="rule x asks the user first (it costs)",
)
QUESTION = Waiting(node="r2.1.1.0", kind="question", tool="ask_user", text="which?", options=("red", "the \x07blue"))


class People:
    """A client that notes what is sent with it."""

    def __init__(self, reply: Reply) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self._reply = reply

    def waiting(self, session: str | None) -> list[Waiting]:
        self.sent.append(("waiting", session))
        return [CALL, QUESTION] if session != "empty" else []

    def __getattr__(self, name: str) -> Any:
        def send(*args: Any) -> Reply:
            self.sent.append((name, *args))
            return self._reply

        return send


def use(monkeypatch: pytest.MonkeyPatch, reply: Reply) -> People:
    found = People(reply)

    @contextmanager
    def client() -> Iterator[People]:
        yield found

    monkeypatch.setattr(approvals, "client", client)
    return found


@pytest.fixture
def people(monkeypatch: pytest.MonkeyPatch) -> People:
    return use(monkeypatch, Reply(ok=True))


def test_what_waits_is_listed_with_all_that_a_person_needs(people: People) -> None:
    shown = runner.invoke(app, ["approvals"])
    assert shown.exit_code == 0
    for part in (CALL.node, "approval", 'pay {"to": "Íñigo"', "it costs", QUESTION.node, "an answer", "which?"):
        assert part in shown.output
    assert "1. red" in shown.output
    assert "recommended: -" in shown.output
    assert people.sent == [("waiting", None)]


def test_what_models_wrote_cannot_rewrite_the_terminal(people: People) -> None:
    shown = runner.invoke(app, ["approvals"]).output
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "2. the �blue" in shown


def test_as_json_and_of_one_session(people: People) -> None:
    shown = runner.invoke(app, ["approvals", "--session", "s", "--json"])
    assert people.sent == [("waiting", "s")]
    assert [Waiting.model_validate(row) for row in json.loads(shown.output)] == [CALL, QUESTION]
    assert json.loads(runner.invoke(app, ["approvals", "-s", "empty", "--json"]).output) == []


def test_where_nothing_waits_nothing_is_shown(people: People) -> None:
    shown = runner.invoke(app, ["approvals", "-s", "empty"])
    assert (shown.exit_code, shown.output) == (0, "")


@pytest.mark.parametrize(
    ("command", "sent", "said"),
    [
        (["approve", "n"], ("approve", "n", "once"), "approved"),
        (["approve", "n", "--session"], ("approve", "n", "session"), "approved"),
        (["approve", "n", "--always"], ("approve", "n", "always"), "approved"),
        (["deny", "n"], ("deny", "n", ""), "denied"),
        (["deny", "n", "not today"], ("deny", "n", "not today"), "denied"),
        (["answer", "n", "2"], ("answer", "n", "2"), "answered"),
    ],
)
def test_what_is_said_is_sent(people: People, command: list[str], sent: tuple[str, ...], said: str) -> None:
    shown = runner.invoke(app, command)
    assert (shown.exit_code, shown.output) == (0, f"{said}\n")
    assert people.sent == [sent]


@pytest.mark.parametrize(
    "command",
    [["approve", "n", "--session", "--always"], ["approve"], ["deny"], ["answer", "n"], ["approve", "n", "--forever"]],
)
def test_wrong_usage_sends_nothing(people: People, command: list[str]) -> None:
    assert runner.invoke(app, command).exit_code == Exit.USAGE
    assert people.sent == []


@pytest.mark.parametrize("command", [["approve", "n"], ["deny", "n"], ["answer", "n", "x"]])
def test_a_refusal_is_an_error_with_its_reason(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    use(monkeypatch, Reply(ok=False, error=ErrorInfo(code="not_found", message="no such run of yours")))
    shown = runner.invoke(app, command)
    assert shown.exit_code == Exit.FAILED
    assert "no such run of yours" in shown.output
    use(monkeypatch, Reply(ok=False))
    assert "not delivered" in runner.invoke(app, command).output
