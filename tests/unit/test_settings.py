"""Settings: defaults < file < environment, and every mistake named with where it was made."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from shared.errors import ConfigError
from shared.names import MAX_PRINCIPAL
from shared.settings import Settings, config_file, load
from shared.tool_settings import MailAccount

Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.upper().startswith("CAPATAZ_") or name == "REDIS_URL":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the file in the current folder."""

    def put(text: str) -> Path:
        path = tmp_path / "capataz.toml"
        path.write_text(text)
        return path

    return put


def refused() -> str:
    with pytest.raises(ConfigError) as error:
        load()
    return str(error.value)


def test_defaults() -> None:
    settings = load()
    assert settings.coordinator.max_runs == 500
    assert settings.redis.url == ""
    assert settings.redis.durability == "strict"
    assert settings.sql.url == ""
    assert settings.principals == ()


def test_the_file_wins_over_defaults_and_the_environment_over_the_file(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("[coordinator]\nmax_runs = 7\nwidth = 8\n")
    monkeypatch.setenv("CAPATAZ_COORDINATOR__WIDTH", "9")
    settings = load()
    assert (settings.coordinator.max_runs, settings.coordinator.width, settings.coordinator.batch) == (7, 9, 20)


def test_redis_url_wins_over_the_file_and_the_longer_name_over_both(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write('[redis]\nurl = "redis://file"\nmax_memory_mb = 99\n')
    assert load().redis.url == "redis://file"
    monkeypatch.setenv("REDIS_URL", "redis://short")
    assert load().redis.url == "redis://short"
    assert load().redis.max_memory_mb == 99
    monkeypatch.setenv("CAPATAZ_REDIS__URL", "redis://long")
    assert load().redis.url == "redis://long"


def test_an_empty_redis_url_is_none(monkeypatch: pytest.MonkeyPatch, write: Write) -> None:
    write('[redis]\nurl = "redis://file"\n')
    monkeypatch.setenv("REDIS_URL", "")
    assert load().redis.url == "redis://file"


@pytest.mark.parametrize(
    "text", ["[coordinator]\nmaxruns = 1\n", "[koordinator]\nmax_runs = 1\n", "[models.providers.x]\nkey = 'k'\n"]
)
def test_an_unknown_key_of_the_file_is_named_with_the_file(write: Write, text: str) -> None:
    write(text)
    said = refused()
    assert "capataz.toml" in said
    assert "unknown" in said
    assert any(name in said for name in ("maxruns", "koordinator", "models.providers.x.key"))


@pytest.mark.parametrize(
    "name", ["CAPATAZ_COORDINATOR__MAX_RUN", "CAPATAZ_KOORDINATOR__MAX_RUNS", "CAPATAZ_REDIS_URL", "CAPATAZ_COLOUR"]
)
def test_an_unknown_variable_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    said = refused()
    assert name in said
    assert "environment" in said


def test_variables_of_other_code_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CAPATAZ_LOG", "CAPATAZ_SIGNING_KEY", "CAPATAZ_FLOWER_PASSWORD"):
        monkeypatch.setenv(name, "x")
    assert load() == Settings()


def test_a_wrong_value_is_named_with_its_source(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write('[coordinator]\nmax_runs = "many"\n')
    assert "coordinator.max_runs" in (said := refused())
    assert path.name in said
    path.unlink()
    monkeypatch.setenv("CAPATAZ_COORDINATOR__MAX_RUNS", "many")
    assert "coordinator.max_runs" in (said := refused())
    assert "environment" in said


def test_a_wrong_variable_is_not_blamed_on_a_right_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("[coordinator]\nmax_runs = 5\n")
    monkeypatch.setenv("CAPATAZ_COORDINATOR__MAX_RUNS", "many")
    assert "environment" in refused()


@pytest.mark.parametrize(
    ("name", "value"), [("CAPATAZ_PRINCIPALS", "alice"), ("CAPATAZ_LIMITS", "{"), ("CAPATAZ_MODELS__TIERS", "fast")]
)
def test_a_variable_that_is_not_json_where_it_must_be_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert name.removeprefix("CAPATAZ_").partition("__")[0].lower() in refused().lower()


def test_a_section_that_is_no_table_is_named_also_beside_redis_url(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("redis = 3\n")
    assert "redis" in refused()
    monkeypatch.setenv("REDIS_URL", "redis://x")
    assert "redis" in refused()


def test_a_file_that_is_not_toml_is_named(write: Write) -> None:
    path = write("[coordinator\n")
    assert str(path.name) in refused()


def test_a_named_file_must_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CAPATAZ_CONFIG", str(tmp_path / "none.toml"))
    assert "none.toml" in refused()
    other = tmp_path / "other.toml"
    other.write_text("[coordinator]\nwidth = 3\n")
    monkeypatch.setenv("CAPATAZ_CONFIG", str(other))
    assert load().coordinator.width == 3


def test_where_the_file_is(tmp_path: Path) -> None:
    assert config_file({}) is None
    (tmp_path / "capataz.toml").touch()
    assert config_file({}) == Path("capataz.toml")


def test_a_principal_is_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPATAZ_PRINCIPALS", '["alice", "bob.2"]')
    assert load().principals == ("alice", "bob.2")
    for bad in ("alice:bob", "a" * (MAX_PRINCIPAL + 1)):
        monkeypatch.setenv("CAPATAZ_PRINCIPALS", f'["{bad}"]')
        assert bad in refused()


def test_mappings_take_any_names(monkeypatch: pytest.MonkeyPatch, write: Write) -> None:
    write('[workflows.cron]\ndaily-brief = "0 7 * * *"\n[models.providers.mine]\npreset = "ollama"\n')
    monkeypatch.setenv("CAPATAZ_MODELS__TIERS", '{"fast": ["mine/small"]}')
    settings = load()
    assert settings.workflows.cron == {"daily-brief": "0 7 * * *"}
    assert settings.models.providers["mine"].preset == "ollama"
    assert settings.models.tiers["fast"] == ("mine/small",)


OAUTH = {"address": "a@example.org", "imap_host": "imap.example.org"}


def test_oauth_of_a_mailbox(tmp_path: Path) -> None:
    def account(**oauth: str) -> MailAccount:
        return MailAccount.model_validate({**OAUTH, "oauth": {"client_id": "c", **oauth}})

    google, microsoft = account(provider="google"), account(provider="microsoft", client_secret_env="S")
    assert google.oauth is not None
    assert microsoft.oauth is not None
    assert (google.oauth.endpoint, google.oauth.asked_scope) == ("https://oauth2.googleapis.com/token", "")
    assert "SMTP.Send" in microsoft.oauth.asked_scope
    assert microsoft.oauth.endpoint.startswith("https://login.microsoftonline.com/")
    assert google.secret_envs == ("MAIL_REFRESH_TOKEN",)
    assert microsoft.secret_envs == ("S", "MAIL_REFRESH_TOKEN")
    token = tmp_path / "token"
    kept = account(provider="google", token_file=str(token))
    assert list(kept.secret_envs) == ["MAIL_REFRESH_TOKEN"]
    token.write_text("newer")
    assert list(kept.secret_envs) == []  # it is read each time
    assert account(token_url="http://localhost:8080/token").oauth is not None
    for wrong in ({}, {"token_url": "http://auth.example.org/token"}, {"provider": "yahoo"}):
        with pytest.raises(ValidationError):
            account(**wrong)
