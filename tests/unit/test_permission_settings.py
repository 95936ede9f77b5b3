"""The section `permissions`: tables of rules in the file, JSON in the environment, and bad rules named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shared.contract import Effect
from shared.errors import ConfigError
from shared.permissions import Rule
from shared.settings import PermissionSettings, load

GOOD = """
[permissions]
default = "ask"

[[permissions.rules]]
action = "allow"
groups = ["notes"]

[[permissions.rules]]
action = "deny"
tools = ["web_*"]
effects = ["read"]
args = { url = "http://*", "options.host" = "10.*" }
reason = "only over TLS"
"""


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.upper().startswith("CAPATAZ_") or name == "REDIS_URL":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def refused(text: str) -> str:
    Path("capataz.toml").write_text(text)
    with pytest.raises(ConfigError) as error:
        load()
    return str(error.value)


def test_by_default_everything_is_allowed_and_nobody_is_asked() -> None:
    assert load().permissions == PermissionSettings(default="allow", rules=(), headless="deny")


def test_rules_are_tables_of_the_file() -> None:
    Path("capataz.toml").write_text(GOOD)
    found = load().permissions
    assert found.default == "ask"
    assert found.rules == (
        Rule(action="allow", groups=("notes",)),
        Rule(
            action="deny",
            tools=("web_*",),
            effects=(Effect.READ,),
            args={"url": "http://*", "options.host": "10.*"},
            reason="only over TLS",
        ),
    )


def test_rules_are_json_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPATAZ_PERMISSIONS__RULES", '[{"action": "deny", "tools": ["web_*"]}]')
    assert load().permissions.rules == (Rule(action="deny", tools=("web_*",)),)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('action = "dney"', "permissions.rules.2.action"),
        ('tools = ["x"]', "permissions.rules.2.action"),
        ('action = "deny"\ntool = ["x"]', "permissions.rules.2.tool"),
        ('action = "deny"\ntools = "x"', "permissions.rules.2.tools"),
        ('action = "deny"\nargs = { "a..b" = "x" }', "permissions.rules.2.args"),
    ],
)
def test_a_bad_rule_is_named_with_its_file(line: str, key: str) -> None:
    said = refused(f"{GOOD}\n[[permissions.rules]]\n{line}\n")
    assert key in said
    assert "capataz.toml" in said


def test_a_bad_rule_of_the_environment_is_named_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPATAZ_PERMISSIONS__RULES", '[{"action": "dney"}]')
    with pytest.raises(ConfigError, match=r"permissions\.rules\.0\.action.*CAPATAZ_PERMISSIONS__RULES"):
        load()


@pytest.mark.parametrize("line", ['default = "maybe"', 'headless = "ask"', "expiry_s = 0"])
def test_other_bad_values(line: str) -> None:
    assert f"permissions.{line.partition(' ')[0]}" in refused(f"[permissions]\n{line}\n")
