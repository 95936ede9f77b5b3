"""Secrets never reach a log."""

from __future__ import annotations

import json

import pytest
import structlog

from shared.logs import configure, redact

SECRET = "s3cr3tS3cr3tS3cr3tS3cr3t"


@pytest.mark.parametrize(
    "text",
    [
        f"redis://:{SECRET}@host:6379/0",
        f"redis://user:{SECRET}@host",
        f"connecting to postgresql+psycopg://u:{SECRET}@db/capataz failed",
        f"unix://worker:{SECRET}@/tmp/redis.sock?db=0",
        f"amqp://guest:{SECRET}@rabbit//",
        f"Authorization: Bearer {SECRET}",
        f"authorization: basic {SECRET}==",
        f"the key sk-{SECRET} is refused",
        f"sk-ant-api03-{SECRET}",
        f"sk-or-v1-{SECRET}",
        f"pk_live_{SECRET}",
        f"ghp_{SECRET}",
        f"xoxb-{SECRET}",
        f"gsk_{SECRET}",
        f"nvapi-{SECRET}",
        f"AIza{SECRET}",
        f"two: sk-{SECRET}, redis://:{SECRET}@host and Bearer {SECRET}.",
    ],
)
def test_a_secret_is_covered(text: str) -> None:
    assert SECRET not in redact(text)
    assert "***" in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "redis://localhost:6379/0",
        "http://127.0.0.1:8080/v1/chat/completions",
        "unix:///tmp/redis.sock?db=0",
        "the bearer of bad news",
        "task-force-of-many-people",
        "mail to someone@example.org",
        "12:30 @ the office",
        "run r01hf7yat00tmfra2e7k5p ended",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


def test_what_stands_around_a_secret_stays() -> None:
    assert redact(f"to redis://user:{SECRET}@host:1/0 now") == "to redis://user:***@host:1/0 now"
    assert redact(f"Bearer {SECRET} sent") == "Bearer *** sent"


def test_covering_twice_changes_nothing() -> None:
    once = redact(f"redis://:{SECRET}@host Bearer {SECRET} sk-{SECRET}")
    assert redact(once) == once


def test_a_log_line_is_covered_also_in_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CAPATAZ_LOG", "json")
    try:
        configure("test")
        log = structlog.get_logger("x")
        try:
            raise RuntimeError(f"no answer from redis://:{SECRET}@host")
        except RuntimeError as error:
            log.error("failed", url=f"redis://:{SECRET}@host", error=str(error), exc_info=True)
        line = capsys.readouterr().err
    finally:
        structlog.reset_defaults()
        structlog.contextvars.clear_contextvars()
    assert SECRET not in line
    row = json.loads(line)
    assert row["process"] == "test"
    assert "RuntimeError" in row["exception"]
