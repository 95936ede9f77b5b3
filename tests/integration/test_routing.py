"""Routing in a running system: what the event says, follow-ups, explicit tools, an encoder behind an endpoint."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.loop.own_tools import SPECS
from shared.client import Client
from tests.integration.test_messages import of_agents
from tests.support.model_server import ModelServer

pytestmark = pytest.mark.integration

OWN = [tool.name for tool in SPECS if tool.always]
"""The coordinator's, which are in every decision."""


def routed(client: Client, text: str, session: str, **options: Any) -> dict[str, Any]:
    reply = client.ask(text, session=session, timeout=30, **options)
    told = client.stream(session, run=reply.run, timeout=10)
    return next(event.data for event in told if event.type == "routed" and event.run == reply.run)


def offered(model: ModelServer) -> set[str]:
    """The tools of the newest request."""
    return {tool["function"]["name"] for tool in of_agents(model)[-1].body["tools"]}


def test_the_event_says_layer_scores_groups_tools_and_tokens_saved(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "ok"}}])
    data = routed(client, "avísame mañana de sacar la basura", "routing-words")
    assert data["layer"] == "keywords"
    assert data["groups"] == ["reminders"]
    assert data["scores"]["reminders"] > 0
    assert {"reminder_add", "find_tools", "read_artifact"} <= set(data["tools"])
    assert data["tokens_saved"] > 1000
    assert set(data["tools"]) <= offered(model)
    assert "note_save" not in offered(model)


@pytest.mark.parametrize(("session", "follow_up"), [("routing-es", "sí, hazlo"), ("routing-en", "and on sunday?")])
def test_a_follow_up_keeps_its_tools(client: Client, model: ModelServer, session: str, follow_up: str) -> None:
    model.script([{"then": {"text": "ok"}}])
    routed(client, "apunta la talla de Leo en mis notas", session)
    data = routed(client, follow_up, session)
    assert (data["layer"], data["groups"]) == ("sticky", ["notes"])
    assert "note_save" in offered(model)


def test_tools_that_the_caller_names_skip_routing(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "ok"}}])
    data = routed(client, "avísame mañana de sacar la basura", "routing-explicit", tools=["calculate", "notes"])
    assert (data["layer"], data["groups"], data["scores"]) == ("explicit", ["notes"], {})
    assert {"calculate", "note_save", "find_tools"} <= offered(model)
    assert "reminder_add" not in offered(model)


def test_small_talk_gets_the_tools_that_are_always_there(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "hi"}}])
    data = routed(client, "hola, ¿qué tal?", "routing-talk")
    assert (data["layer"], data["groups"]) == ("keywords", [])
    assert {"find_tools", "read_artifact"} <= set(data["tools"]) <= {"find_tools", "read_artifact", *OWN}
