"""Deliveries in a whole system: they follow runs, survive the death of who sends them, and failures are told."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from shared.client import AsyncClient, Client
from shared.entries import RunEnded, UserMessage
from shared.names import day_session
from shared.state import keys
from tests.integration.test_messages import call, calls
from tests.support.http_stub import Answer, Asked, HttpStub
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = pytest.mark.integration

TOLD_S = 60.0


class Service:
    """Where the user's channels lead. `hold`: requests wait for it."""

    def __init__(self) -> None:
        self.hold: threading.Event | None = None
        self.came = threading.Event()
        self.stub = HttpStub(self._answer)

    def _answer(self, asked: Asked) -> Answer:
        self.came.set()
        return Answer({"ok": True}, hold=self.hold)

    def keys(self, path: str) -> list[str]:
        return [one.headers.get("idempotency-key", "") for one in self.stub.asked if one.path.startswith(path)]

    def asked_times(self, path: str, times: int) -> bool:
        return len(self.keys(path)) == times


@pytest.fixture
def service() -> Iterator[Service]:
    found = Service()
    with found.stub:
        yield found


@pytest.fixture
def delivering(make_system: Callable[..., System], service: Service) -> System:
    channels = {
        "hook": {"kind": "webhook", "url": f"{service.stub.url}/hook"},
        "phone": {"kind": "ntfy", "topic": "mine", "url": service.stub.url},
    }
    return make_system(
        workers=1,
        beat=True,
        env={
            "CAPATAZ_DELIVERY__USERS": json.dumps({"owner": {"default": ["hook"], "channels": channels}}),
            "CAPATAZ_DELIVERY__TIMEOUT_S": "30",
            "CAPATAZ_WEB__ALLOW_PRIVATE": '["127.0.0.1"]',
            "CAPATAZ_WORKFLOWS__TICK_S": "1",
            "CAPATAZ_PRINCIPALS": '["eva"]',
        },
    )


def _notice(client: Client, session: str) -> str:
    """What the next notice in a session says."""
    for event in client.stream(session, timeout=TOLD_S):
        if event.type == "run.finished" and "channel" in str(event.data.get("answer")):
            return str(event.data["answer"])
    raise AssertionError("nothing was told")


def test_results_and_failures_go_to_the_channels_of_the_message(
    delivering: System, service: Service, model: ModelServer
) -> None:
    client = Client.connect(delivering.redis_url)
    model.script([{"then": {"text": "It rains."}}])
    reply = client.ask("weather?", session="sofa", deliver=("hook",), timeout=30)
    assert reply.answer == "It rains."
    _until(lambda: len(service.keys("/hook")) == 1)
    (asked,) = service.stub.asked
    assert (asked.json()["text"], asked.json()["title"], asked.json()["session"]) == ("It rains.", "weather?", "sofa")

    failed = client.submit_workflow("no-such-flow", session="sofa", deliver=("hook",))
    assert not client.wait(failed, 30).ok
    _until(lambda: len(service.keys("/hook")) == 2)
    assert service.stub.asked[-1].json()["text"].startswith("It failed: there is no workflow")

    client.ask("again", session="sofa", deliver=("pager",), timeout=30)
    assert "no channel pager" in _notice(client, "sofa")
    assert len(service.stub.asked) == 2

    # A reminder, a scheduled prompt: on the channels of the user's settings.
    model.script(calls(call("reminder_add", text="oven off", at="in 1 second"), user="remind me", then="I will"))
    client.ask("remind me in a second of the oven", session="kitchen", tools=["reminders"], timeout=30)
    _until(lambda: any("oven off" in one.json()["text"] for one in service.stub.asked))
    client.close()


def test_a_user_who_takes_the_name_of_its_session_stops_no_delivery(
    delivering: System, service: Service, model: ModelServer
) -> None:
    client, eva = Client.connect(delivering.redis_url), Client.connect(delivering.redis_url, principal="eva")
    model.script([{"then": {"text": "It rains."}}])
    now_ms = int(time.time() * 1000)
    taken = {day_session("deliver", now_ms + ahead, "owner") for ahead in (0, 600_000)}
    for name in taken:
        refused = eva.ask("mine now", session=name, timeout=30).error
        assert refused is not None
        assert refused.code == "forbidden"
        with delivering.client() as redis:
            redis.hset(keys.session(name), "owner", "eva")  # as if that were not so
    assert client.ask("weather?", session="sofa", deliver=("hook",), timeout=30).ok
    _until(lambda: len(service.keys("/hook")) == 1)
    assert [e.value.workflow for e in client.history("sofa") if isinstance(e.value, UserMessage)] == ["", "deliver"]
    for name in taken:
        assert list(eva.history(name)) == []
    client.close()
    eva.close()


def test_a_worker_that_dies_while_it_sends(delivering: System, service: Service, model: ModelServer) -> None:
    """Who can tell a repeat gets it again, and once; of the other the session is told that nobody knows."""
    client = Client.connect(delivering.redis_url)
    model.script([{"then": {"text": "It rains."}}])
    for channel, path in (("hook", "/hook"), ("phone", "/")):
        service.hold, service.came = threading.Event(), threading.Event()
        before = len(service.keys(path))
        assert client.ask("weather?", session="sofa", deliver=(channel,), timeout=30).ok
        assert service.came.wait(30)
        delivering.kill(delivering.workers.pop())
        service.hold.set()
        service.hold = None
        delivering.add_worker()
        delivering.wait_ready()
        if channel == "hook":
            _until(partial(service.asked_times, path, before + 2))
            assert len(set(service.keys("/hook")[before:])) == 1
        else:
            assert "may or may not have arrived on the channel phone" in _notice(client, "sofa")
            assert len([one for one in service.stub.asked if one.path == "/"]) == 1
    ended = [entry.value for entry in client.history("sofa") if isinstance(entry.value, RunEnded)]
    assert sum("may or may not" in one.answer for one in ended) == 1
    client.close()


def test_schedules_are_made_by_command(delivering: System, service: Service, model: ModelServer) -> None:
    client = Client.connect(delivering.redis_url)
    model.script([{"then": {"text": "seen"}}])

    def order(**params: Any) -> Any:
        fields = {"kind": "command", "session": "desk", "command": "schedule", "params": json.dumps(params)}
        with delivering.client() as redis:
            name = f"r-{params['do']}-{len(params)}"
            redis.xadd("capataz:inbox", {**fields, "reply_to": name})
            answer: Any = redis.blpop([f"capataz:reply:{name}"], 30)
        return json.loads(answer[1])

    made = client.schedule(
        "add", session="desk", id="look", every="1m", prompt="look at it", tools=["notes"], target="watch"
    )
    assert made.ok, made
    assert made.answer.startswith("look is on, due ")
    assert order(do="change", id="look", at="2020-01-01T10:00")["error"]["message"].count("no such time ahead") == 1
    assert order(do="change", id="look", deliver=["pager"])["error"]["code"] == "step_failed"
    assert order(do="change", id="other", name="x")["ok"] is False
    off = order(do="change", id="look", state="off")
    assert off["answer"] == "look is off."
    assert order(do="add", every="1m", prompt="x", tools=["nonsense"])["ok"] is False
    assert asyncio.run(_deleted(delivering.redis_url, "look")) == "look is deleted."
    with pytest.raises(ValidationError, match="colour"):
        client.schedule("add", session="desk", colour="red")
    wrong = order(do="delete")
    assert wrong["error"]["code"] == "missing_field"
    asked = [entry.value for entry in client.history("desk") if isinstance(entry.value, UserMessage)]
    assert {one.workflow for one in asked} == {"schedule"}
    client.close()


async def _deleted(url: str, id: str) -> str:
    client = AsyncClient.connect(url)
    try:
        return (await client.schedule("delete", session="desk", id=id)).answer
    finally:
        await client.aclose()


def _until(condition: Callable[[], bool]) -> None:
    give_up = threading.Event()
    for _ in range(int(TOLD_S / 0.05)):
        if condition():
            return
        give_up.wait(0.05)
    raise AssertionError("it did not happen")


def test_a_slot_that_is_refused_is_told_or_tried_again(
    delivering: System, service: Service, model: ModelServer
) -> None:
    """An agent that is gone, by the time its schedule is due: nobody waits for the refusal, and it is told."""
    client = Client.connect(delivering.redis_url)
    order = {"do": "add", "id": "gone", "at": _soon(), "prompt": "look", "tools": ["notes"], "agent": "clerk"}
    fields = {"kind": "command", "session": "desk", "command": "schedule", "params": json.dumps(order)}
    with delivering.client() as redis:
        redis.xadd("capataz:inbox", fields)
    event = next(one for one in client.stream("schedule-gone", timeout=TOLD_S) if one.type == "run.finished")
    assert event.data["answer"] == "gone did not run: there is no agent 'clerk' (known: default)"
    _until(lambda: [one.json()["text"] for one in service.stub.asked] == [event.data["answer"]])
    client.close()


def _soon() -> str:
    """An ISO time in a few seconds."""
    return datetime.fromtimestamp(int(time.time()) + 4, UTC).isoformat()
