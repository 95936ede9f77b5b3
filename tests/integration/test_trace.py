"""`capataz trace` on a real run of a real system, and its page in a real browser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from ops.cli.main import app
from ops.exits import Exit
from ops.trace.html import page
from ops.trace.source import read
from shared.client import Client
from shared.state import keys
from tests.support.model_server import ModelServer
from tests.support.processes import System
from tests.unit.trace.support import crowd, failures

pytestmark = pytest.mark.integration
runner = CliRunner()


def ask(client: Client, model: ModelServer, session: str) -> str:
    """A run of two steps with three calls, one of which fails; its id."""
    calls = [
        {"name": "probe_read", "arguments": {"tag": "one", "seconds": 0.3}},
        {"name": "probe_read", "arguments": {"tag": "two", "seconds": 0.1}},
        {"name": "probe_fail", "arguments": {"tag": "<b>three</b>"}},
    ]
    rules: list[dict[str, Any]] = [
        {
            "when": {"step": 0},
            "then": {"thinking": "three calls", "calls": calls, "first_token_ms": 60, "stream_ms": 60},
        },
        {"when": {"min_step": 1}, "then": {"text": "All done.", "first_token_ms": 60, "stream_ms": 60}},
    ]
    model.script(rules)
    reply = client.ask("Probe three things", session=session, timeout=30)
    assert reply.ok, reply
    return reply.run


def command(system: System, monkeypatch: pytest.MonkeyPatch, *args: str) -> Any:
    monkeypatch.setenv("REDIS_URL", system.redis_url)
    return runner.invoke(app, ["trace", *args])


@pytest.fixture(scope="module")
def run(system: System, model: ModelServer) -> str:
    client = Client.connect(system.redis_url)
    try:
        return ask(client, model, "traced")
    finally:
        client.close()


def test_what_happened_is_what_is_shown(client: Client, run: str) -> None:
    found = read(client, run)
    assert (found.state, found.answer, found.session) == ("ended", "All done.", "traced")
    assert found.events
    first, second = found.steps
    assert first.exact
    token = first.attempts[0].first_ms
    assert token is not None
    assert first.started_ms + 40 <= token <= (first.ended_ms or 0)
    states = [(n.tool, n.state.value) for n in found.nodes]
    assert states == [("probe_read", "done"), ("probe_read", "done"), ("probe_fail", "failed")]
    long, short, bad = found.nodes
    assert long.run_ms(found.end_ms) >= 300
    assert short.run_ms(found.end_ms) >= 100
    assert all(n.worker and n.claims == 1 for n in found.nodes)
    assert "three" in bad.error
    assert second.started_ms >= max(n.ended_ms or 0 for n in found.nodes)
    assert found.critical == ("step:1", long.id, "step:2")
    assert found.figures.critical_ms <= found.figures.seconds * 1000
    assert found.figures.speed_up is not None


def test_without_its_events_the_log_is_enough(system: System, client: Client, model: ModelServer) -> None:
    run = ask(client, model, "trimmed")
    whole = read(client, run)
    with system.client() as raw:
        raw.xtrim(keys.events("trimmed"), maxlen=1, approximate=False)
    trimmed = read(client, run)
    assert not trimmed.events
    assert [(n.id, n.state, n.ended_ms) for n in trimmed.nodes] == [(n.id, n.state, n.ended_ms) for n in whole.nodes]
    for a, b in zip(trimmed.nodes, whole.nodes, strict=True):
        assert b.started_ms is not None
        assert a.ready_ms <= (a.started_ms or 0) <= (a.ended_ms or 0)
    with system.client() as raw:
        raw.delete(keys.events("trimmed"))
    assert read(client, run) == trimmed


def test_the_forms_of_the_command(system: System, run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = command(system, monkeypatch, run)
    assert shown.exit_code == Exit.OK
    assert "probe_fail" in shown.output
    assert json.loads(command(system, monkeypatch, run, "--json").output)["run"] == run
    picture = command(system, monkeypatch, run, "--svg").output
    assert ET.fromstring(picture).tag.endswith("svg")
    assert "&lt;b&gt;three" in picture
    for ending, start in (("svg", "<svg"), ("html", "<!DOCTYPE html>"), ("json", "{"), ("txt", "Probe three things")):
        file = tmp_path / f"trace.{ending}"
        assert command(system, monkeypatch, run, "-o", str(file)).exit_code == Exit.OK
        assert file.read_text("utf-8").startswith(start)
    assert command(system, monkeypatch, run, "--session", "traced", "--json").exit_code == Exit.OK


def test_wrong_use(system: System, run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = command(system, monkeypatch, "r-unknown")
    assert unknown.exit_code == Exit.USAGE
    assert "capataz runs" in unknown.output
    assert command(system, monkeypatch, run, "--session", "elsewhere").exit_code == Exit.USAGE
    assert command(system, monkeypatch, run, "--svg", "--html").exit_code == Exit.USAGE
    nowhere = command(system, monkeypatch, run, "-o", str(tmp_path / "no" / "folder.svg"))
    assert nowhere.exit_code == Exit.FAILED
    assert "cannot be written" in nowhere.output


def in_browser(html: str, folder: Path) -> str:
    """The document as a browser has it after loading the page from a file."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is missing; .ci/install-servers brings it")
        pytest.skip("chromium is not installed")
    file = folder / "trace.html"
    file.write_text(html, "utf-8")
    done = subprocess.run(
        [
            browser,
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
            f"--user-data-dir={folder / 'profile'}",
            "--enable-logging=stderr",
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    assert "Content Security Policy" not in done.stderr, "the page breaks its own policy"
    return done.stdout


def test_a_browser_shows_the_page_of_a_run(client: Client, run: str, tmp_path: Path) -> None:
    timeline = read(client, run)
    dom = in_browser(page(timeline), tmp_path)
    assert dom.count('class="bar ') == len(timeline.nodes) + len(timeline.steps)
    assert "<b>three" not in dom, "a text stayed a text"
    assert "&lt;b&gt;three" in dom
    assert "All done." in dom


@pytest.mark.parametrize(("told", "bars"), [(failures(), 13 + 3), (crowd(200), 200 + 2)])
def test_a_browser_shows_failures_and_crowds(told: Any, bars: int, tmp_path: Path) -> None:
    dom = in_browser(page(told.timeline()), tmp_path)
    assert dom.count('class="bar ') == bars
    assert dom.count('class="link"') + dom.count('class="path"') > 3
