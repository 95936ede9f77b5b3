import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ops.cli.main import app
from ops.exits import Exit
from shared.contract import Catalogue, Effect, ToolSpec, WorkerInfo
from shared.state.nodes import beat_worker
from tests.support.redis import TestRedis, redis_server

runner = CliRunner()


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("CAPATAZ_") or name == "REDIS_URL":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "command", [["ask", "hi"], ["tools"], ["runs"], ["down"], ["workflow", "list"], ["cancel", "--run", "r"]]
)
def test_without_a_system_the_exit_code_says_so(command: list[str]) -> None:
    result = runner.invoke(app, command)
    assert result.exit_code == Exit.UNREACHABLE
    assert "no system runs on" in result.output


@pytest.mark.parametrize(
    "command", [["ask"], ["nonsense"], ["cancel"], ["up", "--profile", "huge"], ["up", "--workers", "0"]]
)
def test_wrong_usage(command: list[str]) -> None:
    assert runner.invoke(app, command).exit_code == Exit.USAGE


def test_a_wrong_setting_is_a_usage_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPATAZ_NONSENSE", "1")
    result = runner.invoke(app, ["ask", "hi"])
    assert result.exit_code == Exit.USAGE
    assert "CAPATAZ_NONSENSE" in result.output


@pytest.mark.integration
def test_tools_are_those_of_live_workers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with redis_server(tmp_path / "r") as server:
        monkeypatch.setenv("REDIS_URL", server.url)
        assert runner.invoke(app, ["tools"]).exit_code == Exit.UNREACHABLE, "no worker is alive"
        _beat(server)
        listed = runner.invoke(app, ["tools"])
        assert listed.exit_code == 0
        assert "time_now" in listed.output
        assert "mail_send" not in listed.output
        everything = runner.invoke(app, ["tools", "--all"])
        assert "no SMTP server" in everything.output
        assert runner.invoke(app, ["runs", "--json"]).output.strip() == "[]"
        assert runner.invoke(app, ["workflow", "run", "nope"]).exit_code == Exit.USAGE
        assert runner.invoke(app, ["ask", "hi", "--session", "not a name"]).exit_code == Exit.USAGE


def _beat(server: TestRedis) -> None:
    tool = ToolSpec(name="time_now", group="utility", description="The time.\nMore.", parameters={}, effect=Effect.READ)
    info = WorkerInfo(
        id="w", nonce="n", catalogue="d", queues=("tools",), slots=1, key_id="k", host="h", pid=1, started_ms=0
    )
    with server.client() as client:
        beat_worker(client, info, Catalogue(tools=(tool,), missing={"mail_send": "no SMTP server"}), 60.0)
