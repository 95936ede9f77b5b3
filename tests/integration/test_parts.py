"""One of each other part: workflow, learner and playbook, routing, facts, attachments."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from shared.client import Client
from shared.entries import Assistant, Node, Offered, RunEnded, UserMessage
from tests.integration.test_messages import call, calls, of_agents
from tests.support.model_server import ModelServer
from tests.support.processes import System, lessons

pytestmark = pytest.mark.integration

MakeSystem = Callable[..., System]


def test_daily_brief_is_a_graph_and_its_model_step_only_summarises(client: Client, model: ModelServer) -> None:
    model.script(calls(call("note_save", title="Milk", text="buy oat milk"), then="saved"))
    assert client.ask("note it", session="kitchen", timeout=20).ok
    model.script([{"then": {"text": "Today: oat milk."}}])
    submitted = client.submit_workflow("daily-brief", session="daily")
    reply = client.wait(submitted, 30)
    assert reply.answer == "Today: oat milk."
    entries = [e.value for e in client.history("daily")]
    nodes = [e for e in entries if isinstance(e, Node)]
    assert [n.tool.removeprefix("workflow:daily-brief/") for n in nodes] == [
        "read_notes",
        "due_reminders",
        "read_calendar",
        "read_mail",
        "filter",
        "model:step",
    ]
    asked = [r.body for r in model.requests if r.body["messages"][0]["role"] == "user"]
    assert len(asked) == 1
    assert "oat milk" in json.dumps(asked[0]["messages"])
    # The brief is part of the session: the next message can refer to it.
    model.script([{"then": {"text": "you need milk"}}])
    client.ask("what was in the brief?", session="daily", timeout=20)
    said = [m["content"] for m in of_agents(model)[-1].body["messages"] if m["role"] == "assistant"]
    assert "Today: oat milk." in said


def test_unknown_workflow_is_answered(client: Client) -> None:
    reply = client.wait(client.submit_workflow("no-such", session="daily"), 20)
    assert not reply.ok
    assert reply.error is not None
    assert "daily-brief" in reply.error.hint


def test_one_slot_fires_once_over_any_number_of_beats(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "brief"}}])
    ids = [client.submit_workflow("daily-brief", session="slots", id="daily-brief@2026-11-30T06:00Z") for _ in range(4)]
    replies = {client.wait(s, 30).run for s in ids}
    assert len(replies) == 1
    ended = [e for e in client.history("slots") if isinstance(e.value, RunEnded)]
    assert len(ended) == 1


def test_learner_adds_a_bullet_that_the_next_run_sees(client: Client, model: ModelServer) -> None:
    lesson = {
        "operations": [
            {"op": "add", "text": "Sums in euros are asked with two decimals", "when": "on sums", "importance": "high"}
        ]
    }
    model.script(
        [
            {"when": {"system": "reflect", "has_tools": False}, "then": {"json": lesson}},
            *calls(call("calculate", expression="2+2"), then="four"),
        ]
    )
    asked = client.ask("2+2 in euros? From now on sums in euros with two decimals", session="teach", timeout=20)

    def about_it(lesson: str) -> bool:
        told = [e.value for e in client.history(lessons()) if e.run == lesson and isinstance(e.value, UserMessage)]
        return told[0].params["run"] == asked.run

    learned = next(e for e in client.stream(lessons(), timeout=20) if e.type == "run.finished" and about_it(e.run))
    assert learned.data["ok"] is True
    model.script([{"then": {"text": "ok"}}])
    client.ask("next", session="taught", timeout=20)
    system_prompt = of_agents(model)[-1].body["messages"][0]["content"]
    assert "- [high] Sums in euros are asked with two decimals (when: on sums)" in system_prompt


def test_keywords_choose_tools_and_find_tools_opens_the_rest(client: Client, model: ModelServer) -> None:
    model.script(
        [
            {"when": {"step": 0}, "then": {"calls": [call("find_tools", query="calculate a sum")]}},
            {"when": {"step": 1}, "then": {"calls": [call("calculate", expression="1+1")]}},
            {"then": {"text": "{{result.calculate}}"}},
        ]
    )
    reply = client.ask("busca en mis notas", session="route", timeout=20)
    assert "2" in reply.answer
    offered = [e.value for e in client.history("route") if isinstance(e.value, Offered)]
    assert offered[0].layer == "keywords"
    assert offered[0].groups == ("notes",)
    tools = [{t["function"]["name"] for t in r.body["tools"]} for r in of_agents(model)]
    assert "calculate" not in tools[0]
    assert "calculate" in tools[1]
    assert {"find_tools", "read_artifact"} <= tools[0]


def test_facts_are_shown_at_the_next_message(client: Client, model: ModelServer) -> None:
    model.script(calls(call("fact_set", name="city", value="Madrid"), then="noted"))
    client.ask("I live in Madrid", session="facts", timeout=20)
    model.script([{"then": {"text": "ok"}}])
    client.ask("where do I live?", session="facts", timeout=20)
    last = of_agents(model)[-1].body["messages"][-1]
    assert last["role"] == "user"
    assert 'city: "Madrid"' in json.dumps(last["content"]).replace('\\"', '"')


def test_attachment_travels_as_a_handle(client: Client, model: ModelServer, system: System) -> None:
    data = base64.b64encode(b"the quick brown fox").decode()
    model.script(
        [
            {
                "when": {"step": 0, "user": r"handle (?P<h>a:[0-9a-f]{32})"},
                "then": {"calls": [call("read_artifact", handle="{{user[h]}}")]},
            },
            {"then": {"text": "{{results}}"}},
        ]
    )
    attachment = {"name": "fox.txt", "media_type": "text/plain", "data": data}
    reply = client.ask("read it", session="attach", attachments=(attachment,), timeout=20)
    assert "quick brown fox" in reply.answer
    with redis.Redis.from_url(system.redis_url, decode_responses=True) as raw:
        log: Any = raw.xrange("capataz:session:attach:log")
        assert data not in json.dumps(log)


def test_small_talk_gets_no_heap_of_tools(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "hola"}}])
    client.ask("hola, ¿qué tal?", session="small", timeout=20)
    tools = {t["function"]["name"] for t in of_agents(model)[-1].body["tools"]}
    assert tools == {"ask_user", "find_tools", "read_artifact"}


def test_encoder_routes_what_words_do_not_settle(make_system: MakeSystem, model: ModelServer) -> None:
    system = make_system(env={"CAPATAZ_ROUTING__ENCODER": "packaged"})
    client = Client.connect(system.redis_url)
    model.script([{"then": {"text": "ok"}}])
    question = "how far apart are Lisbon and Porto"
    layers = []
    for n in range(200):  # the first messages do not wait for the encoder to be loaded
        client.ask(question, session=f"enc{n}", timeout=20)
        routed = next(e for e in client.stream(f"enc{n}", timeout=5) if e.type == "routed")
        layers.append(routed.data["layer"])
        if layers[-1] != "all":
            break
        time.sleep(0.5)  # loading in the background announces nothing
    assert layers[0] == "all"
    assert layers[-1] == "centroids"


def test_costs_and_usage_are_in_log_and_reply(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "ok", "usage": {"input": 100, "output": 7, "cached": 40}}}])
    reply = client.ask("hi", session="usage", timeout=20)
    assert reply.usage["input"] == 60
    assert reply.usage["cache_read"] == 40
    assert reply.usage["output"] == 7
    [entry] = [e.value for e in client.history("usage") if isinstance(e.value, Assistant)]
    assert entry.usage.total == 107
    assert reply.model == "rehearsal/rehearsal"
