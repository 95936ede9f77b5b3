import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ops.cli.main import app
from ops.exits import Exit
from shared.permissions import Grant, Rule
from shared.settings import load
from shared.sql import Database, database_url
from shared.sql.grants import add_grant

runner = CliRunner()

RULES = '[permissions]\ndefault = "deny"\n[[permissions.rules]]\naction = "ask"\ntools = ["web_*"]\nreason = "costs"\n'


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("CAPATAZ_") or name == "REDIS_URL":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    Path("capataz.toml").write_text(RULES)


def keep(id: str, principal: str = "owner") -> None:
    one = Grant(id=id, tool="web_get", rule_id="r", agent="default", principal=principal, scope="always", by_text="ok")
    database = Database(database_url(load()))
    database.migrate()
    database.run_sync(lambda conn: add_grant(conn, one, now_ms=86_400_000))
    database.close()


def test_rules_and_grants_are_listed() -> None:
    keep("g1")
    keep("g2", "eva")
    rule = Rule(action="ask", tools=("web_*",), reason="costs")
    for command in (["permissions"], ["permissions", "list"]):
        shown = runner.invoke(app, command)
        assert shown.exit_code == 0
        for part in (rule.id, "tools web_*", "costs", "by default: deny", "g1", "1970-01-02"):
            assert part in shown.output
        assert "g2" not in shown.output
        found = json.loads(runner.invoke(app, [*command, "--json"]).output)
        assert found["rules"] == [{"id": rule.id, "action": "ask", "tools": ["web_*"], "reason": "costs"}]
        assert (found["default"], found["headless"]) == ("deny", "deny")
        assert [one["id"] for one in found["grants"]] == ["g1"]
    assert "g2" in runner.invoke(app, ["permissions", "list", "--user", "eva"]).output


def test_a_grant_is_taken_back_by_its_owner_only() -> None:
    keep("g1")
    assert runner.invoke(app, ["permissions", "forget", "g1", "--user", "eva"]).exit_code == Exit.FAILED
    assert runner.invoke(app, ["permissions", "forget", "g1"]).exit_code == 0
    again = runner.invoke(app, ["permissions", "forget", "g1"])
    assert again.exit_code == Exit.FAILED
    assert "no grant g1" in again.output
    assert json.loads(runner.invoke(app, ["permissions", "--json"]).output)["grants"] == []


def test_a_bad_rule_is_a_usage_error() -> None:
    Path("capataz.toml").write_text(RULES.replace('"ask"', '"aks"'))
    shown = runner.invoke(app, ["permissions"])
    assert shown.exit_code == Exit.USAGE
    assert "permissions.rules.0.action" in shown.output
