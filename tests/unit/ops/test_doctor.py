import os
from pathlib import Path

import pytest

from ops.doctor import Check, Report, Verdict, changed_settings, durability, examine, mask, render
from shared.settings import load
from tests.support.redis import redis_server

LACKING = {
    "mail_list mail_search mail_folders mail_read mail_mark mail_send mail_reply": "mail.accounts.owner",
    "calendar_today calendar_upcoming calendar_add calendar_change calendar_delete": "calendar.accounts.owner",
    "storage_upload storage_download storage_list storage_delete storage_share": "storage.url",
    "tv_list tv_status tv_keys tv_volume tv_source tv_power": "tv.devices",
    "image_generate": "media.image.model",
    "speech_to_text": "media.transcription.model",
    "text_to_speech": "media.speech.model",
}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("CAPATAZ_") or name == "REDIS_URL" or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def _by_name(report: Report) -> dict[str, Check]:
    return {check.name: check for check in report.checks}


def test_a_fresh_machine_has_all_that_is_needed() -> None:
    report = examine(dict(os.environ))
    assert report.ok, render(report)
    checks = _by_name(report)
    assert checks["signing key"].text == "will be made at start"
    assert checks["durability"].text.startswith("strict")
    assert "no system runs" in checks["running"].text
    assert not Path(".capataz").exists(), "looking must leave nothing behind"


def test_what_a_worker_here_would_lack_is_listed_with_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mine.py").write_text("import nothing_of_that_name\n")
    monkeypatch.setenv("CAPATAZ_WORKER__TOOL_MODULES", '["mine.py"]')
    report = examine(dict(os.environ))
    assert report.missing_tools is not None
    for tools, setting in LACKING.items():
        for tool in tools.split():
            assert setting in report.missing_tools[tool]
        why = report.missing_tools[tools.split()[0]]
        assert f"  {', '.join(sorted(tools.split()))}: {why}" in render(report)
    assert not {"file_read", "shell_run", "note_save"} & set(report.missing_tools), "a start makes the workspace"
    assert "nothing_of_that_name" in _by_name(report)["tools"].hint


def test_sources_of_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Path("capataz.toml").write_text("[coordinator]\nwidth = 3\n[models.tiers]\ndefault = ['a/b']\n")
    monkeypatch.setenv("CAPATAZ_COORDINATOR__MAX_RUNS", "9")
    monkeypatch.setenv("REDIS_URL", "redis://u:secret@h/0")
    rows = {
        row.key: row
        for row in changed_settings(load(), os.environ, {"coordinator": {"width": 3}, "models": {"tiers": {}}}, "f")
    }
    assert (rows["coordinator.width"].value, rows["coordinator.width"].source) == ("3", "f")
    assert rows["coordinator.max_runs"].source == "CAPATAZ_COORDINATOR__MAX_RUNS"
    assert rows["models.tiers"].source == "f"
    assert (rows["redis.url"].value, rows["redis.url"].source) == ("redis://u:***@h/0", "REDIS_URL")
    assert "coordinator.batch" not in rows


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPATAZ_COORDINATOR__WIDHT", "3")
    report = examine(dict(os.environ))
    assert not report.ok
    assert "CAPATAZ_COORDINATOR__WIDHT" in render(report)


def test_what_cannot_be_reached_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://:pw@127.0.0.1:9/0")
    monkeypatch.setenv("CAPATAZ_REDIS__BROKER_URL", "redis://:pw@127.0.0.1:9/0")
    report = examine(dict(os.environ))
    checks = _by_name(report)
    assert checks["state redis"].verdict is checks["broker"].verdict is Verdict.MISSING
    assert "pw" not in render(report).replace("***", "")


@pytest.mark.integration
def test_a_real_redis_and_no_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with redis_server(tmp_path / "r", durability="relaxed") as server:
        monkeypatch.setenv("REDIS_URL", server.url)
        monkeypatch.setenv("CAPATAZ_REDIS__BROKER_URL", server.broker_url)
        checks = _by_name(examine(dict(os.environ)))
    assert checks["state redis"].verdict is Verdict.WARNING
    assert "everysec" in checks["state redis"].text
    assert checks["broker"].verdict is Verdict.OK
    assert checks["coordinators"].verdict is checks["workers"].verdict is Verdict.MISSING


@pytest.mark.parametrize(
    ("config", "safe"),
    [
        ({"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}, True),
        ({"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}, False),
        ({"appendonly": "no", "appendfsync": "always", "maxmemory-policy": "noeviction"}, False),
        ({"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "allkeys-lru"}, False),
    ],
)
def test_durability_in_words(config: dict[str, str], safe: bool) -> None:
    assert durability(config)[1] is safe


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("redis://:secret@h/0", "redis://:***@h/0"),
        ("unix://:secret@/a/b.sock?db=0", "unix://:***@/a/b.sock?db=0"),
        ("postgresql://u:p@h/d", "postgresql://u:***@h/d"),
        ("redis://h/0", "redis://h/0"),
    ],
)
def test_mask(url: str, masked: str) -> None:
    assert mask(url) == masked
