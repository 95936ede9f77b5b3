"""Tiers, budgets and costs through a whole system: what a message is decides which model sees it."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ops.supervisor.plan import ROOT
from shared.client import Client
from shared.entries import Event
from shared.messages import Attachment, Reply
from shared.settings import DataSettings, Settings
from shared.sql import Database, database_url, runs
from tests.integration.conftest import PROBE_ENV
from tests.integration.test_messages import call, threading_wait
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = pytest.mark.integration

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TIERS = ("fast", "long", "vision")


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, ModelServer]]:
    """A server per tier, whose provider is called like the tier."""
    names = ("default", *TIERS)
    started = {name: ModelServer(rules=[{"then": {"text": f"the {name} tier answers"}}]) for name in names}
    try:
        for server in started.values():
            server.__enter__()
        yield started
    finally:
        for server in started.values():
            server.__exit__(None, None, None)


@pytest.fixture(scope="module")
def tiered(servers: dict[str, ModelServer]) -> Iterator[System]:
    providers: dict[str, Any] = {n: {"preset": "rehearsal", "base_url": s.url} for n, s in servers.items()}
    providers["default"]["switches"] = {"images": False}
    env = {
        **PROBE_ENV,
        "CAPATAZ_MODELS__PROVIDERS": json.dumps(providers),
        "CAPATAZ_MODELS__TIERS": json.dumps({name: [f"{name}/rehearsal"] for name in servers}),
        "CAPATAZ_PRINCIPALS": '["ana"]',
        "CAPATAZ_BUDGET__USER_DAY_TOKENS": "1000000",
        "CAPATAZ_PLAYBOOK__ENABLED": "false",
    }
    running = System(model_url=servers["default"].url, env=env)
    try:
        yield running.start()
    finally:
        running.stop()


@pytest.fixture
def talk(tiered: System) -> Iterator[Client]:
    found = Client.connect(tiered.redis_url)
    yield found
    found.close()


def routed(client: Client, session: str, reply: Reply) -> Event:
    return next(e for e in client.stream(session, run=reply.run, timeout=10) if e.type == "routed")


def pages(count: int) -> str:
    """Text of so many pages, as a PDF's would stand in the context."""
    page = "The contractor shall inform the client of every delay in writing and without delay. " * 36
    return "\n\n".join(f"Page {number}\n{page}" for number in range(1, count + 1))


MESSAGES: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "a question of time": ("what time is it?", {}, "fast", "utility"),
    "una pregunta de hora": ("¿qué hora es?", {}, "fast", "utility"),
    "a short question": ("tell me about the history of bookbinding in Toledo", {}, "default", "no rule"),
    "a 40-page PDF": (f"Sum up this document.\n\n{pages(40)}", {}, "long", "tokens"),
    "an image": (
        "what is in this picture?",
        {"attachments": [Attachment(name="dot.png", media_type="image/png", data=base64.b64encode(PNG).decode())]},
        "vision",
        "cannot see",
    ),
    "a forced tier": ("what time is it?", {"model": "long"}, "long", "the user"),
    "a forced model": ("what time is it?", {"model": "default/rehearsal"}, "forced", "the user"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_the_routed_event_says_tier_model_and_why(talk: Client, name: str) -> None:
    text, options, tier, why = MESSAGES[name]
    session = name.translate(str.maketrans(" ñ", "-n"))
    reply = talk.ask(text, session=session, timeout=30, **options)
    provider = "default" if tier == "forced" else tier
    assert reply.answer == f"the {provider} tier answers"
    data = routed(talk, session, reply).data
    assert (data["tier"], data["model"]) == (tier, f"{provider}/rehearsal")
    assert why in data["why"]


def test_a_model_that_sees_gets_the_picture_and_one_that_does_not_gets_its_handle(
    talk: Client, servers: dict[str, ModelServer]
) -> None:
    attached = {"attachments": [Attachment(media_type="image/png", data=base64.b64encode(PNG).decode())]}
    talk.ask("look", session="sees", timeout=30, **attached)
    parts = servers["vision"].requests[-1].body["messages"][-1]["content"]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    assert urls == [f"data:image/png;base64,{base64.b64encode(PNG).decode()}"]
    talk.ask("look", session="blind", model="default/rehearsal", timeout=30, **attached)
    sent = json.dumps(servers["default"].requests[-1].body)
    assert "image_url" not in sent
    assert "handle a:" in sent


def test_a_prompt_that_grows_goes_on_with_the_long_tier(talk: Client, servers: dict[str, ModelServer]) -> None:
    servers["default"].script([{"then": {"calls": [call("probe_large", size=6_000)] * 20}}])
    try:
        reply = talk.ask("explain the stones of the aqueduct", session="grows", tools=("probe",), timeout=40)
    finally:
        servers["default"].script([{"then": {"text": "the default tier answers"}}])
    assert reply.answer == "the long tier answers"
    notices = [e.data for e in talk.stream("grows", run=reply.run, timeout=10) if e.data.get("code") == "rerouted"]
    assert [n["model"] for n in notices] == ["long/rehearsal"]


def test_a_spent_budget_asks_no_model(tiered: System, servers: dict[str, ModelServer]) -> None:
    ana = Client.connect(tiered.redis_url, principal="ana")
    servers["default"].script(
        [{"then": {"text": "dear", "usage": {"input": 1_000_000, "output": 1}}}, {"then": {"text": "never"}}]
    )
    try:
        assert ana.ask("a long story", session="ana.1", timeout=30).answer == "dear"
        asked = len(servers["default"].requests)
        reply = ana.ask("another one", session="ana.2", timeout=30)
        assert reply.error is not None
        assert reply.error.code == "budget_spent"
        assert reply.error.retry_after is not None
        assert 0 < reply.error.retry_after <= 86_400
        assert "try again in" in reply.error.message
        data = routed(ana, "ana.2", reply).data
        assert (data["tier"], data["model"]) == ("none", "")
        assert len(servers["default"].requests) == asked, "nothing was asked"
    finally:
        servers["default"].script([{"then": {"text": "the default tier answers"}}])
        ana.close()
    other = Client.connect(tiered.redis_url)
    assert other.ask("and mine?", session="mine", timeout=30).ok, "the budget is each user's own"
    other.close()


def capataz(system: System, *args: str) -> Any:
    """What the command prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "ops.cli.main", *args, "--json"],
        env=system.env(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_costs_are_there_by_model_user_day_and_group(talk: Client, tiered: System) -> None:
    reply = talk.ask("what time is it?", session="costs", timeout=30)
    database = Database(database_url(Settings.model_construct(data=DataSettings(dir=tiered.folder / "data"))))
    try:
        threading_wait(lambda: database.run_sync(lambda conn: runs.get_run(conn, reply.run, None)))
    finally:
        database.close()
    by = {what: {row["key"]: row for row in capataz(tiered, "costs", "--by", what)["rows"]} for what in _BYS}
    assert by["model"]["fast/rehearsal"]["calls"] >= 1
    assert by["model"]["fast/rehearsal"]["dollars"] == "0"
    assert by["model"]["fast/rehearsal"]["took_ms"] >= 0
    assert "owner" in by["user"]
    assert "utility" in by["group"]
    assert len(by["day"]) in (1, 2), "the tests may run over midnight"
    totals = {what: sum(row["calls"] for row in rows.values()) for what, rows in by.items()}
    assert len(set(totals.values())) == 1, totals


_BYS = ("model", "user", "day", "group")


def test_a_chain_that_cannot_work_is_found_at_start(tmp_path: Path) -> None:
    env = {
        "CAPATAZ_MODELS__TIERS": '{"default": ["rehearsal/a", "rehearsal/a"]}',
        "PATH": "/usr/bin:/bin",
        "CAPATAZ_SIGNING_KEY": "0" * 64,
    }
    config = tmp_path / "capataz.toml"
    config.touch()
    done = subprocess.run(
        [sys.executable, "-m", "coordinator"],
        env={**env, "CAPATAZ_CONFIG": str(config), "REDIS_URL": "redis://127.0.0.1:9/0", "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "models.tiers.default names a model twice" in done.stdout + done.stderr
