"""Session commands all the way through: undo, fork and switches in real runs; export, archive and replay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ops.cli.main import app
from ops.exits import Exit
from shared import export
from shared.client import Client
from shared.entries import Event
from shared.sql import Database, archive
from shared.state import keys
from tests.chaos.probe import until
from tests.integration.test_messages import call, calls, of_agents
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = pytest.mark.integration
runner = CliRunner()


@pytest.fixture
def database(system: System) -> Iterator[Database]:
    found = Database(f"sqlite:///{system.folder / 'data' / 'capataz.db'}")
    yield found
    found.close()


@pytest.fixture
def cli(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in system.env().items():
        if name.startswith("CAPATAZ_") or name == "REDIS_URL":
            monkeypatch.setenv(name, value)


def told(model: ModelServer) -> list[str]:
    """What users and model had said in the newest request of an agent, without contexts."""
    messages = of_agents(model)[-1].body["messages"][1:]
    texts = [m["content"] if isinstance(m["content"], str) else m["content"][0]["text"] for m in messages]
    return [text.split("\n", 1)[0] for text in texts]


def events(client: Client, session: str, run: str) -> list[Event]:
    return [e for e in client.stream(session, run=run, timeout=10) if e.run == run]


def test_the_model_does_not_hear_of_a_turn_that_was_taken_back(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "re {{user}}"}}])
    first = client.ask("one", session="undo", timeout=20)
    second = client.ask("two", session="undo", timeout=20)
    assert client.undo("undo").run == second.run
    assert client.ask("three", session="undo", timeout=20).ok
    heard = told(model)
    assert heard[0] == "one"
    assert heard[-1] == "three"
    assert "two" not in heard
    assert len(heard) == 3
    assert [client.undo("undo").ok for _ in range(3)] == [True, True, False]
    assert first.run in {e.run for e in client.history("undo") if e.type == "undone"}


def test_a_fork_goes_on_beside_its_source(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "yes"}}])
    first = client.ask("one", session="source", timeout=20)
    end = client.history("source")[-1].id
    client.ask("two", session="source", timeout=20)
    forked = client.fork("source", "branch", at=end)
    assert (forked.ok, forked.run, forked.session) == (True, first.run, "branch")
    assert client.ask("other two", session="branch", timeout=20).ok
    assert told(model) == ["one", "yes", "other two"]
    client.ask("three", session="source", timeout=20)
    assert told(model) == ["one", "yes", "two", "yes", "three"]
    refused = client.fork("source", "branch")
    assert refused.error is not None
    assert refused.error.code == "exists"


def test_switches_hold_from_the_next_step_of_a_run_under_way(client: Client, model: ModelServer) -> None:
    slow = {"calls": [call("probe_read", tag="slow", seconds=1.5)], "thinking": "hm, slow"}
    model.script([{"when": {"step": 0}, "then": slow}, {"then": {"text": "done", "thinking": "hm, done"}}])
    submitted = client.submit("go", session="switch")
    started = next(e for e in client.stream("switch", timeout=20) if e.type == "node.started")
    assert client.set("switch", debug="on", thinking="hide", model="rehearsal/other").ok
    assert client.wait(submitted, 20).ok
    found = events(client, "switch", started.run)
    assert [(e.type, e.data["step"]) for e in found if e.type.startswith("debug.")] == [
        ("debug.request", 2),
        ("debug.response", 2),
    ]
    assert [e.data["model"] for e in found if e.type == "step.started"] == ["rehearsal/rehearsal", "rehearsal/other"]
    assert "".join(e.data["text"] for e in found if e.type == "thinking.delta") == "hm, slow"

    client.set("switch", debug="off", thinking="show", model="")
    reply = client.ask("again", session="switch", timeout=20)
    found = events(client, "switch", reply.run)
    assert not [e for e in found if e.type.startswith("debug.")]
    assert {e.data["model"] for e in found if e.type == "step.started"} == {"rehearsal/rehearsal"}
    assert "".join(e.data["text"] for e in found if e.type == "thinking.delta") == "hm, slowhm, done"


def test_debugging_shows_each_attempt_as_it_was_sent(client: Client, model: ModelServer) -> None:
    client.ask("hello", session="debug", timeout=20)
    client.set("debug", debug="on")
    model.script(
        [
            {
                "when": {"user": "again"},
                "times": 1,
                "then": {"text": "never seen whole", "error": {"status": 500, "after": 5}},
            },
            {"then": {"text": "whole"}},
        ]
    )
    reply = client.ask("again", session="debug", timeout=30)
    assert reply.answer == "whole"
    found = events(client, "debug", reply.run)
    asked = [e.data for e in found if e.type == "debug.request"]
    heard = [e.data for e in found if e.type == "debug.response"]
    assert [d["attempt"] for d in asked] == [d["attempt"] for d in heard] == [1, 2]
    for shown, arrived in zip(asked, of_agents(model), strict=True):
        assert shown["artifact"] is None or len(shown["body"]) == 16_000
        whole = json.dumps(arrived.body, ensure_ascii=False, separators=(",", ":"))
        assert whole.startswith(shown["body"])
        assert shown["bytes"] == len(whole.encode())
    assert "rehearsed error 500" in heard[0]["body"]
    assert heard[1]["body"].startswith("data: {")
    assert heard[1]["body"].endswith("data: [DONE]\n\n")


def test_a_model_that_does_not_exist_is_told_and_not_used(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "here"}}])
    client.ask("one", session="nomodel", timeout=20)
    client.set("nomodel", model="nobody/nothing")
    reply = client.ask("two", session="nomodel", timeout=20)
    assert reply.answer == "here"
    notices = [e.data for e in events(client, "nomodel", reply.run) if e.type == "notice"]
    assert [n["code"] for n in notices] == ["unknown_model"]
    assert "nobody" in notices[0]["text"]
    # A message that names its model keeps it, whatever was set for the session.
    client.set("nomodel", model="rehearsal/other")
    reply = client.ask("three", session="nomodel", model="rehearsal/third", timeout=20)
    assert reply.model == "rehearsal/third"


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


@pytest.mark.usefixtures("cli")
def test_export_and_replay_also_of_what_only_the_archive_has(
    client: Client, model: ModelServer, database: Database, system: System, tmp_path: Path
) -> None:
    model.script(calls(call("probe_large", size=9000), call("probe_read", tag="${1}"), call("probe_fail", tag="x")))
    first = client.ask("go", session="export", timeout=20)
    second = client.ask("go on", session="export", timeout=20)
    client.undo("export")
    whole, run, archived = tmp_path / "whole.jsonl", tmp_path / "run.jsonl", tmp_path / "archived.jsonl"
    for name, file in (("export", whole), (second.run, run)):
        assert runner.invoke(app, ["export", name, "-o", str(file)]).exit_code == 0
        assert runner.invoke(app, ["replay", str(file)]).exit_code == 0
    entries = [row for row in lines_of(whole) if "t" in row]
    assert [row["id"] for row in entries] == [e.id for e in client.history("export")]
    assert {row["run"] for row in lines_of(run) if "t" in row} == {second.run}
    assert [row["media_type"] for row in lines_of(whole) if "artifact" in row]

    until(lambda: any(e.type == "undone" for e in copied(database, "export")) or None, "the copy of the undone turn")
    with system.client() as redis:
        redis.delete(keys.log("export"), keys.session("export"), keys.run(first.run), keys.run(second.run))
    assert runner.invoke(app, ["export", first.run, "-o", str(archived)]).exit_code == 0
    assert runner.invoke(app, ["export", "export", "-o", str(archived)]).exit_code == 0
    assert lines_of(archived)[1:] == lines_of(whole)[1:]
    told = runner.invoke(app, ["history", "export"])
    assert "user: go" in told.output
    assert f"{second.run} taken back" in told.output
    assert runner.invoke(app, ["export", "nothing"]).exit_code == Exit.USAGE


def copied(database: Database, session: str) -> list[archive.ArchivedEntry]:
    return database.run_sync(lambda conn: archive.entries(conn, session, None))


@pytest.mark.usefixtures("cli")
def test_the_commands(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "fine"}}])
    client.ask("how are you?\nreally", session="words", timeout=20)
    listed = json.loads(runner.invoke(app, ["sessions", "--json"]).output)
    [row] = [r for r in listed if r["session"] == "words"]
    assert (row["owner"], row["runs"], row["begins"]) == ("owner", 1, "how are you?\nreally")
    assert "how are you?" in runner.invoke(app, ["sessions"]).output
    shown = runner.invoke(app, ["history", "words"])
    assert "user: how are you? really" in shown.output
    assert "assistant: fine" in shown.output
    history = json.loads(runner.invoke(app, ["history", "words", "--json"]).output)
    assert [h["id"] for h in history] == [e.id for e in client.history("words")]
    assert runner.invoke(app, ["set", "words", "--debug", "on"]).exit_code == 0
    assert runner.invoke(app, ["set", "words", "--debug", "maybe"]).exit_code == Exit.USAGE
    assert runner.invoke(app, ["fork", "words", "more-words", "--at", history[-1]["id"]]).exit_code == 0
    assert runner.invoke(app, ["fork", "words", "more-words"]).exit_code == Exit.FAILED
    assert runner.invoke(app, ["fork", "words", "not a name"]).exit_code == Exit.USAGE
    assert runner.invoke(app, ["undo", "words"]).exit_code == 0
    assert runner.invoke(app, ["undo", "words"]).exit_code == Exit.FAILED
    assert "(taken back)" in runner.invoke(app, ["history", "words"]).output
    assert "(taken back)" not in runner.invoke(app, ["history", "more-words"]).output
    assert runner.invoke(app, ["history", "no-words"]).exit_code == Exit.FAILED
    exported = runner.invoke(app, ["export", "more-words"])
    assert export.read(exported.stdout.split("\n")).header.session == "more-words"
