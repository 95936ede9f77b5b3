import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ops.cli.main import app
from ops.exits import Exit

runner = CliRunner()


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("CAPATAZ_") or name == "REDIS_URL":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def run(*args: str) -> Any:
    done = runner.invoke(app, ["playbook", *args, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def texts(*args: str) -> list[str]:
    return [one["text"] for one in run("list", *args)]


def test_a_bullet_is_added_shown_pinned_edited_and_forgotten() -> None:
    first = run("add", "Prices with VAT.", "--when", "on prices")["bullet"]
    second = run("add", "Weights in kilograms.", "--importance", "low")["bullet"]
    assert texts() == ["Prices with VAT.", "Weights in kilograms."]
    run("pin", second)
    assert texts() == ["Weights in kilograms.", "Prices with VAT."]
    run("unpin", second)
    run("edit", first, "--text", "Prices with taxes.", "--importance", "high")
    shown = run("show", first)
    assert (shown["bullet"]["text"], shown["bullet"]["importance"]) == ("Prices with taxes.", "high")
    assert shown["bullet"]["when_to_use"] == "on prices"
    assert [one["operation"]["kind"] for one in shown["changes"]] == ["reword", "add"]
    run("forget", second)
    assert texts() == ["Prices with taxes."]
    assert texts("--state", "forgotten") == ["Weights in kilograms."]
    plain = runner.invoke(app, ["playbook", "show", second]).output
    assert "forgotten" in plain
    assert "Weights in kilograms." in plain


def test_a_change_is_undone_by_its_number() -> None:
    one = run("add", "Prices with VAT.")["bullet"]
    run("edit", one, "--text", "Prices without VAT.")
    newest, _ = run("log")
    assert newest["before"][0]["text"] == "Prices with VAT."
    assert "reword" in runner.invoke(app, ["playbook", "log"]).output
    run("rollback", str(newest["change"]))
    assert texts() == ["Prices with VAT."]


def test_playbooks_of_users_agents_and_the_installation_are_apart() -> None:
    run("add", "Mine.")
    run("add", "Of an agent.", "--agent", "default")
    run("add", "For everyone.", "--everyone")
    run("add", "Hers.", "--user", "eva")
    assert sorted(texts()) == ["For everyone.", "Mine.", "Of an agent."]
    assert sorted(texts("--user", "eva")) == ["For everyone.", "Hers."]
    assert [e["after"][0]["text"] for e in run("log", "--everyone")] == ["For everyone."]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["show", "nothing"], Exit.USAGE),
        (["pin", "nothing"], Exit.USAGE),
        (["add", "A rule.", "--importance", "huge"], Exit.USAGE),
        (["list", "--state", "lost"], Exit.USAGE),
        (["rollback", "77"], Exit.USAGE),
        (["add", "  "], Exit.FAILED),
    ],
)
def test_what_cannot_be_is_an_error(args: list[str], code: Exit) -> None:
    assert runner.invoke(app, ["playbook", *args]).exit_code == code
