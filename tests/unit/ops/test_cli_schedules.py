import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ops.cli.main import app
from ops.exits import Exit
from shared.client import Client
from shared.settings import load
from shared.sql import Database, database_url
from shared.sql.schedules import list_schedules
from tests.support.redis import TestRedis

runner = CliRunner()


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("CAPATAZ_") or name == "REDIS_URL":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    Path("capataz.toml").write_text('[workflows]\ntimezone = "Europe/Madrid"\n')


def schedules(*words: str, code: Exit = Exit.OK) -> str:
    done = runner.invoke(app, ["schedules", *words])
    assert done.exit_code == code, done.output
    return done.output


def kept(user: str = "owner") -> list[object]:
    database = Database(database_url(load()))
    database.migrate()
    found = database.run_sync(lambda conn: list_schedules(conn, user))
    database.close()
    return list(found)


PROMPT = ("--prompt", "Sum up the news", "--tools", "web, notes")


def test_one_is_added_listed_changed_and_deleted() -> None:
    assert schedules().strip() == "nothing is scheduled"
    id = schedules("add", "news", "--cron", "0 7 * * *", *PROMPT).split()[0]
    for words in ((), ("list",)):
        (row,) = json.loads(schedules(*words, "--json"))["schedules"]
        assert (row["id"], row["when"], row["tools"]) == (id, "cron 0 7 * * * (Europe/Madrid)", ["web", "notes"])
        assert (row["session"], row["policy"], row["next"][-5:]) == (f"schedule-{id}", "run_once", "07:00")
    assert "Sum up the news" in schedules("list")
    assert "is off" in schedules("change", id, "--state", "off", "--missed", "skip")
    assert "08:30" in schedules("change", id, "--state", "on", "--cron", "30 8 * * *", "--name", "early news")
    (row,) = json.loads(schedules("--json"))["schedules"]
    assert (row["name"], row["policy"], row["state"], row["prompt"]) == ("early news", "skip", "on", "Sum up the news")
    assert "has no schedule" in schedules("delete", id, "--user", "eva", code=Exit.FAILED)
    schedules("delete", id)
    assert "has no schedule" in schedules("change", id, "--name", "x", code=Exit.FAILED)
    assert kept() == []


def test_intervals_one_offs_workflows_and_users() -> None:
    schedules("add", "poll", "--every", "2h", "--workflow", "brief", "--params", '{"city": "Lugo"}', "--user", "eva")
    schedules("add", "later", "--at", "2099-12-24T18:00", "--zone", "America/New_York", "--session", "eve", *PROMPT)
    (poll,) = json.loads(schedules("--json", "--user", "eva"))["schedules"]
    assert (poll["params"], poll["when"]) == ({"city": "Lugo"}, "every 2 hours")
    assert poll["session"] == f"eva.schedule-{poll['id']}"
    assert poll["next_ms"] == poll["timing"]["start_ms"] == poll["created_ms"] + 2 * 3_600_000
    (later,) = json.loads(schedules("--json"))["schedules"]
    assert (later["next"], later["session"]) == ("2099-12-24 18:00", "eve")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("add", "x", *PROMPT), "say when"),
        (("add", "x", "--cron", "0 7 * *", *PROMPT), "five fields"),
        (("add", "x", "--cron", "0 7 * * *", "--every", "2h", *PROMPT), "exclude each other"),
        (("add", "x", "--every", "soon", *PROMPT), "such as 20m"),
        (("add", "x", "--at", "noon", *PROMPT), "no ISO time"),
        (("add", "x", "--at", "2001-01-01", *PROMPT), "in the future"),
        (("add", "x", "--every", "2h", "--zone", "Mars", *PROMPT), "no time zone"),
        (("add", "x", "--every", "2h", "--prompt", "hi"), "names its tools"),
        (("add", "x", "--every", "2h", "--missed", "never", *PROMPT), "skip, run_once or run_all"),
        (("add", "x", "--every", "2h", "--workflow", "w", "--params", "[1]"), "no JSON object"),
        (("add", "x", "--every", "2h", "--workflow", "w", "--params", "{"), "not JSON"),
        (("change", "s1"), "nothing to change"),
        (("change", "s1", "--zone", "UTC"), "--zone goes with"),
        (("change", "s1", "--state", "maybe"), "on or off"),
    ],
)
def test_what_is_wrong_is_a_usage_error(words: tuple[str, ...], problem: str) -> None:
    assert problem in schedules(*words, code=Exit.USAGE)
    assert kept() == []


def test_one_is_run_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    id = schedules("add", "poll", "--every", "2h", "--workflow", "brief").split()[0]
    assert "no system runs" in schedules("run", id, code=Exit.UNREACHABLE)
    redis = TestRedis(tmp_path / "state")
    redis.start()
    try:
        monkeypatch.setenv("REDIS_URL", redis.url)
        assert f"schedule-{id}" in schedules("run", id)
        with redis.client() as raw:
            ((_, fields),) = raw.xrange("capataz:inbox")
        assert (fields["workflow"], fields["session"], fields["approvals"]) == ("brief", f"schedule-{id}", "deny")
        assert fields["id"].startswith(f"schedule-{id}@now-")
        assert Client.connect(redis.url).catalogue().workflows == ()
        assert id in schedules("list")
    finally:
        redis.kill()
