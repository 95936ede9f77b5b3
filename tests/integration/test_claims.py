"""Answers that say what no tool did: asked for once more, then marked; also when a coordinator dies in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ops.rehearsal import scenario
from shared.client import Client
from shared.entries import Assistant, Event, Node, Nudge, RunEnded
from tests.integration.test_messages import call, calls
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = pytest.mark.integration

MakeSystem = Callable[..., System]
GUARDED = {"CAPATAZ_COORDINATOR__CLAIMS_GUARD": "true"}
RULES = yaml.safe_load((Path(scenario.__file__).parent / "scenarios" / "default.yaml").read_text("utf-8"))["rules"]
NUDGED = {"user": "no tool did it"}
LIE = {"then": {"text": "I've saved the note about the milk."}}


@pytest.fixture(scope="module")
def client(model: ModelServer) -> Any:
    with System(model_url=model.url, env={"CAPATAZ_ROUTING__ENCODER": "off", **GUARDED}) as running:
        found = Client.connect(running.redis_url)
        yield found
        found.close()


def log_of(client: Client, session: str) -> list[Any]:
    return [e.value for e in client.history(session) if e.value is not None]


def of_kind(entries: list[Any], kind: type[Any]) -> list[Any]:
    return [e for e in entries if isinstance(e, kind)]


def notices(client: Client, session: str, run: str) -> list[Event]:
    return [e for e in client.stream(session, run=run, timeout=10) if e.type == "notice"]


def test_a_claim_is_sent_back_and_then_carried_out(client: Client, model: ModelServer) -> None:
    saved = [
        {"when": {**NUDGED, "step": 0}, "then": {"calls": [call("note_save", title="Milk", text="buy milk")]}},
        {"when": {**NUDGED, "min_step": 1}, "then": {"text": "Now I've saved the note."}},
    ]
    model.script([*saved, LIE])
    reply = client.ask("note that I need milk", session="does", timeout=20)
    assert reply.answer == "Now I've saved the note."
    entries = log_of(client, "does")
    assert [n.tool for n in of_kind(entries, Node)] == ["note_save"]
    [nudge] = of_kind(entries, Nudge)
    assert nudge.reason == "unsupported_claim"
    assert "I've saved the note about the milk." in nudge.text
    assert [e.data["code"] for e in notices(client, "does", reply.run)] == ["unsupported_claim"]


def test_an_answer_that_admits_it_goes_out_as_it_is(client: Client, model: ModelServer) -> None:
    model.script([{"when": NUDGED, "then": {"text": "Sorry, I did not save it."}}, LIE])
    reply = client.ask("note that I need milk", session="admits", timeout=20)
    assert reply.answer == "Sorry, I did not save it."
    assert reply.finish_reason == "stop"


def test_a_claim_that_stays_is_marked_in_its_language(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "Ya te he guardado la nota de la leche."}}])
    reply = client.ask("apunta leche", session="insists", timeout=20)
    said, _, mark = reply.answer.partition("\n\n")
    assert said == "Ya te he guardado la nota de la leche."
    assert mark.startswith("⚠ Sin confirmar")
    assert reply.ok
    assert reply.finish_reason == "stop"
    assert len(model.requests) == 2
    assert [e.data["code"] for e in notices(client, "insists", reply.run)] == ["unsupported_claim", "unconfirmed"]
    assert of_kind(log_of(client, "insists"), RunEnded)[0].answer == reply.answer


def test_an_earlier_run_speaks_for_a_report_of_before(client: Client, model: ModelServer) -> None:
    model.script(calls(call("note_save", title="Milk", text="buy milk"), then="I've saved the note."))
    assert client.ask("note it", session="before", timeout=20).answer == "I've saved the note."
    model.script([{"then": {"text": "Yes, I saved the note."}}])
    assert client.ask("did you save the note?", session="before", timeout=20).answer == "Yes, I saved the note."
    model.script([{"then": {"text": "I've saved the note."}}])
    assert "⚠ Not confirmed" in client.ask("note that I need bread", session="before", timeout=20).answer


def test_a_run_of_a_guard_that_is_off_is_left_alone(make_system: MakeSystem, model: ModelServer) -> None:
    system = make_system()
    model.script([LIE])
    plain = Client.connect(system.redis_url)
    assert plain.ask("note it", session="off", timeout=20).answer == LIE["then"]["text"]
    plain.close()
    assert len(model.requests) == 1


def test_a_takeover_does_not_nudge_twice(make_system: MakeSystem, model: ModelServer) -> None:
    system = make_system(coordinators=2, env=GUARDED)
    client = Client.connect(system.redis_url)
    slow = {"when": NUDGED, "then": {"text": "I've saved the note about the milk, really.", "stream_ms": 1500}}
    model.script([slow, LIE])
    submitted = client.submit("note that I need milk", session="s")
    deltas = (
        e for e in client.stream("s", timeout=20) if e.type == "text.delta" or e.data.get("code") == "unsupported_claim"
    )
    next(e for e in deltas if e.type == "notice")
    next(e for e in deltas if e.type == "text.delta")
    with system.client() as raw:
        [run] = raw.smembers("capataz:runs:active")
        owner = str(raw.hget(f"capataz:run:{run}", "owner"))
    system.kill(next(c for c in system.coordinators if f"-{c.pid}-" in owner))
    reply = client.wait(submitted, 30)
    assert "⚠ Not confirmed" in reply.answer
    entries = log_of(client, "s")
    assert len(of_kind(entries, Nudge)) == 1
    assert len(of_kind(entries, Assistant)) == 2


def test_the_shipped_rehearsal_claims_a_note_and_saves_it_once_it_is_told(client: Client, model: ModelServer) -> None:
    model.script([rule for rule in RULES if "claim" in rule["name"] or rule["name"] == "results handed on"])
    reply = client.ask("please only claim a note", session="rehearsed", timeout=20)
    entries = log_of(client, "rehearsed")
    assert [n.tool for n in of_kind(entries, Node)] == ["note_save"]
    assert "This is what the tools returned" in reply.answer
    assert "⚠" not in reply.answer
