"""`capataz workflow`: the steps of a workflow, running one, and the record of what became of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from ops.cli.main import app
from shared.client import Client
from shared.state import keys
from tests.chaos.probe import await_line, until
from tests.integration.test_workflows import ENV, RULES
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
runner = CliRunner()


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with ModelServer(rules=RULES) as model, System(model_url=model.url, env=ENV) as running:
        yield running


@pytest.fixture(autouse=True)
def cli(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in system.env().items():
        if name.startswith("CAPATAZ_") or name == "REDIS_URL":
            monkeypatch.setenv(name, value)
    for path in (system.workspace / "effects.log", *(system.workspace / "gates").glob("*")):
        path.unlink(missing_ok=True)


def capataz(*args: str, code: int = 0) -> str:
    done = runner.invoke(app, ["workflow", *args])
    assert done.exit_code == code, done.output
    return done.output


def test_a_workflow_is_shown() -> None:
    listed = {one["name"] for one in json.loads(capataz("list", "--json"))}
    assert {"chain", "branches", "daily-brief"} <= listed
    assert "learn" not in listed
    lines = capataz("show", "branches").splitlines()
    rows = {line.split()[0]: line for line in lines[2:]}
    assert "has_mail" in rows["mail"]
    assert "runs old_news" in rows["news"]
    assert 'goes on with {"quote": "none"}' in rows["market"]
    assert "big.4999.row ≥ 4999" in rows["size"]
    assert "mail?, weather, news" in rows["brief"]
    assert capataz("show", "nowhere", code=2)


def test_a_run_shows_its_steps_and_leaves_a_record() -> None:
    shown = capataz("run", "chain", "-s", "cli", "-p", "hold=[]", "-p", "city=Lugo")
    for step in ("fetch", "note", "keep", "judge", "send", "tell"):
        assert f"▸ {step}\n" in shown
        assert f"✓ {step}" in shown
    assert "[6/6]" in shown
    assert "Told: sent 7, good" in shown
    [row] = [one for one in json.loads(capataz("runs", "chain", "--json")) if one["session"] == "cli"]
    record = json.loads(capataz("record", row["id"], "--json"))
    assert record["workflow"] == "chain"
    assert record["params"] == {"hold": [], "city": "Lugo"}
    assert record["answer"] == "Told: sent 7, good"
    steps = {one["id"]: one for one in record["steps"]}
    assert {one["state"] for one in steps.values()} == {"done"}
    assert {name for name, one in steps.items() if one["tokens"]} == {"judge", "tell"}
    assert record["tokens"] == sum(one["tokens"] for one in steps.values())
    assert json.loads(steps["judge"]["output"]) == {"mood": "good", "score": 3}
    for one in steps.values():
        [attempt] = one["attempts"]
        assert record["started_ms"] <= attempt["started_ms"] <= attempt["ended_ms"] <= record["ended_ms"]
    told = capataz("record", row["id"])
    assert "✓  judge" in told
    assert told.rstrip().endswith("Told: sent 7, good")


def test_attempts_and_skipped_steps_are_in_it() -> None:
    failed = capataz("run", "flaky", "-s", "cli", "-p", "fails=9", "--json", code=1)
    run = json.loads(failed)["run"]
    [step] = json.loads(capataz("record", run, "--json"))["steps"]
    assert [one["error"] for one in step["attempts"]] == ["closed"] * 3
    assert [one["text"][-1] for one in step["attempts"]] == [")"] * 3
    assert "shaky, attempt 2: failed" in capataz("record", run)
    branches = json.loads(capataz("run", "branches", "-s", "cli", "-p", "mail=false", "--json"))["run"]
    kept = {one["id"]: one for one in json.loads(capataz("record", branches, "--json"))["steps"]}
    assert "2 skipped" in runner.invoke(app, ["trace", branches]).output
    assert kept["mail"]["output"] == "Skipped: its condition has_mail is True does not hold: there is False."
    assert kept["answers"]["output"] == "Skipped: step mail was skipped."
    assert kept["old_news"]["state"] == "done"
    assert kept["big"]["artifact"].startswith("a:")
    assert len(kept["big"]["output"]) <= 500


def test_what_is_under_way_has_a_record_as_well(system: System) -> None:
    capataz("run", "chain", "-s", "under-way", "--no-wait", "-p", 'hold=["fetch"]')
    await_line(system, "step fetch")
    [row] = [one for one in json.loads(capataz("runs", "--json")) if one["session"] == "under-way"]
    assert row["state"] == "running"
    record = json.loads(capataz("record", row["id"], "--json"))
    assert record["state"] == "running"
    assert {one["id"]: one["state"] for one in record["steps"]} == {
        "fetch": "running",
        **dict.fromkeys(("note", "keep", "judge", "send", "tell"), "waiting"),
    }
    client = Client.connect(system.redis_url)
    assert client.cancel(run=row["id"]).ok
    until(lambda: json.loads(capataz("record", row["id"], "--json"))["state"] == "cancelled", "its end")
    client.close()


def test_a_record_outlives_the_state(system: System) -> None:
    run = json.loads(capataz("run", "pair", "-s", "archived", "--json"))["run"]
    until(lambda: json.loads(capataz("runs", "pair", "--json"))[0]["state"] == "ended", "the copy")
    before = capataz("record", run, "--json")
    with system.client() as raw:
        raw.delete(keys.log("archived"), keys.run(run), keys.session("archived"))
    assert capataz("record", run, "--json") == before


def test_what_is_no_run_of_a_workflow(system: System) -> None:
    client = Client.connect(system.redis_url)
    reply = client.ask("hello", session="chat", timeout=30)
    client.close()
    assert "is no run of a workflow" in capataz("record", reply.run, code=2)
    assert "there is no run" in capataz("record", "rnothing", code=2)
    assert capataz("run", "chain", "-p", "no value", code=2)
    assert [one for one in json.loads(capataz("runs", "--json")) if one["id"] == reply.run] == []
