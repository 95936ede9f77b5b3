"""The playbook through real processes: corrections without tools, commands, a prompt that stays the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.client import Client
from shared.entries import Context, NodeEnded
from shared.messages import Reply
from tests.integration.test_messages import call, calls, of_agents
from tests.support.model_server import ModelServer
from tests.support.processes import System, lessons

pytestmark = pytest.mark.integration


def lesson(*rules: dict[str, str]) -> dict[str, Any]:
    """The learner's answer."""
    answer = {"operations": [{"op": "add", **rule} for rule in rules]}
    return {"when": {"system": "^You reflect on one finished run"}, "then": {"json": answer}}


def learned(client: Client, after: str) -> str:
    """Waits for the end of the next lesson; the id of its last event."""
    end = next(e for e in client.stream(lessons(), after=after, timeout=30) if e.type == "run.finished")
    assert end.data["ok"] is True, end.data
    return end.id


def order(client: Client, **params: Any) -> Reply:
    return client.playbook(params.pop("do"), params.pop("bullet"), session="orders", **params)


def systems(model: ModelServer) -> list[str]:
    return [r.body["messages"][0]["content"] for r in of_agents(model)]


def asked(model: ModelServer) -> str:
    """The last user message of the last request of an agent, with its context."""
    return json.dumps([m for m in of_agents(model)[-1].body["messages"] if m["role"] == "user"][-1]["content"])


def test_a_correction_without_tools_is_learned_and_what_is_forgotten_is_not_learned_again(
    client: Client, model: ModelServer, system: System
) -> None:
    rule = {"text": "Weights are given in kilos.", "when": "on weights", "importance": "high"}
    model.script([lesson(rule), {"then": {"text": "12 pounds"}}])
    client.ask("how heavy is the parcel?", session="talk", timeout=30)
    client.ask("thanks", session="talk", timeout=30)
    assert client.last_event(lessons()) == "0" or not list_of_reflections(model)
    client.ask("No, give weights in kilos", session="talk", timeout=30)
    end = learned(client, "0")
    client.ask("and the letter?", session="other", timeout=30)
    assert "- [high] Weights are given in kilos. (when: on weights)" in systems(model)[-1]
    [context] = [e.value for e in client.history("other") if isinstance(e.value, Context)]
    [bullet] = context.bullets
    assert order(client, do="pin", bullet=bullet).ok
    assert order(client, do="edit", bullet=bullet, text="Weights in kilos, always.").ok
    client.ask("and the box?", session="other", timeout=30)
    assert "Weights in kilos, always." in systems(model)[-1]
    assert order(client, do="forget", bullet=bullet).ok
    refused = order(client, do="forget", bullet=bullet)
    assert not refused.ok
    assert refused.error is not None
    client.ask("No, I said weights in kilos!", session="talk", timeout=30)
    learned(client, end)
    result = [e.value.result.text for e in client.history(lessons()) if isinstance(e.value, NodeEnded)][-1]
    assert "took a rule away" in result
    client.ask("and the crate?", session="other", timeout=30)
    assert "kilos" not in systems(model)[-1]


def list_of_reflections(model: ModelServer) -> list[Any]:
    return [r for r in model.requests if r.body["messages"][0]["content"].startswith("You reflect")]


def test_the_prompt_stays_the_same_while_the_playbook_does(client: Client, model: ModelServer) -> None:
    before = client.last_event(lessons())
    rules = [
        {"text": "Titles of notes carry the project's prefix.", "when": "notes", "importance": "medium"},
        {"text": "Prices are given with taxes.", "importance": "low"},
    ]
    done = [lesson(*rules), *calls(call("calculate", expression="1+1"), then="two")]
    model.script(done)
    client.ask("From now on: titles of notes with the project prefix, prices with taxes", session="p0", timeout=30)
    learned(client, before)
    model.script([{"then": {"text": "ok"}}])
    for session, text in (("p1", "save a note about milk"), ("p2", "hi"), ("p1", "and what does it cost?")):
        client.ask(text, session=session, timeout=30)
    assert len(set(systems(model))) == 1
    assert "Prices are given with taxes." in systems(model)[0]
    assert "carry the project's prefix" not in systems(model)[0]
    model.script([{"then": {"text": "ok"}}])
    client.ask("save another note", session="p3", timeout=30)
    assert "carry the project's prefix" in asked(model)
