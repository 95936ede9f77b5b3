"""Every control entry in every state of a run, where its owner lives and where it has just been killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ops.rehearsal.scenario import Rule
from shared.client import Client, Submitted
from shared.entries import Event
from shared.messages import Reply
from tests.integration.test_messages import call
from tests.integration.test_subagents import agents
from tests.integration.test_waits import ASKING
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

STATES = ("queued", "streaming", "tools", "approval", "question", "subagent")
CONTROLS = ("cancel", "interrupt", "steer", "approve", "answer")
LONG_S = 4.0
"""How long a stream or a tool takes that nobody ends: longer than a takeover, so that controls find it."""
REACHED = {
    "queued": "message.accepted",
    "streaming": "text.delta",
    "tools": "node.started",
    "approval": "approval.requested",
    "question": "question.asked",
    "subagent": "subagent.started",
}


def then_calls(user: str, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"when": {"system": "the lead", "user": f"^{user}", "step": 0}, "then": {"calls": list(rows)}},
        {"when": {"system": "the lead", "user": f"^{user}", "min_step": 1}, "then": {"text": "came to its end"}},
    ]


RULES: list[Rule | dict[str, Any]] = [
    {"when": {"user": "^changed"}, "then": {"text": "steered"}},
    {"when": {"user": "^new"}, "then": {"text": "interrupted"}},
    {"when": {"user": "^block"}, "then": {"text": "w " * 50, "stream_ms": LONG_S * 1000}},
    {"when": {"user": "^queued"}, "then": {"text": "came to its end"}},
    {"when": {"user": "^streaming"}, "then": {"text": "came to its end" + " " * 100, "stream_ms": LONG_S * 1000}},
    *then_calls("tools", call("probe_read", tag="t", seconds=LONG_S)),
    *then_calls("approval", call("probe_write", tag="a")),
    *then_calls("question", call("ask_user", question="which?")),
    *then_calls("subagent", call("agent_worker", task="long")),
    {"when": {"system": "a worker", "step": 0}, "then": {"calls": [call("probe_read", tag="c", seconds=LONG_S)]}},
    {"when": {"system": "a worker", "min_step": 1}, "then": {"text": "the worker is done"}},
]


@dataclass
class Case:
    """One run in one state, and the control entry that it gets."""

    state: str
    control: str
    client: Client

    def __post_init__(self) -> None:
        self.session = f"{self.state}-{self.control}"
        if self.state == "queued":
            self.client.submit("block", session=self.session, agent="lead")
            self._event("text.delta")
        self.sent = self.client.submit(f"{self.state} {self.control}", session=self.session, agent="lead")
        self.second: Submitted | None = None
        self.acknowledged: Reply | None = None
        self.reached: Event | None = None

    def _event(self, kind: str) -> Event:
        return next(e for e in self.client.stream(self.session, timeout=30) if e.type == kind)

    def reach(self) -> None:
        """Returns when the run is in its state."""
        kind = REACHED[self.state]
        wanted = 2 if self.state == "queued" else 1
        seen = 0
        for event in self.client.stream(self.session, timeout=30):
            seen += event.type == kind
            if seen == wanted:
                self.reached = event
                return

    def send(self) -> None:
        """Sends the control entry to the run."""
        assert self.reached is not None
        if self.control == "interrupt":
            self.second = self.client.submit("new", session=self.session, agent="lead", mode="interrupt")
        else:
            text = {"steer": "changed", "answer": "this one"}.get(self.control, "")
            run = self.reached.run
            self.acknowledged = self.client.control(self.control, run=run, text=text)

    def wrong(self) -> str:
        """What did not come out as it should; empty if all did."""
        state, control = self.state, self.control
        if control == "interrupt":
            assert self.second is not None
            new = self.client.wait(self.second, 60)
            if new.answer != "interrupted":
                return f"new message: {new}"
            if state == "queued":  # it went to the front; who waited before still gets its turn
                return "" if self.client.wait(self.sent, 60).answer == "came to its end" else "lost its turn"
            return self._ended("cancelled")
        assert self.acknowledged is not None
        if state == "queued" and control != "cancel":
            error = self.acknowledged.error
            if error is None or error.code != "not_started":
                return f"acknowledged {self.acknowledged}"
            return self._ended("stop", "came to its end")
        if not self.acknowledged.ok:
            return f"not delivered: {self.acknowledged}"
        if control == "cancel":
            return self._ended("cancelled")
        if (state, control) not in {("approval", "approve"), ("question", "answer")} and state in REACHED:
            self._let_go_on()
        return self._ended("stop", "steered" if control == "steer" else "came to its end")

    def _let_go_on(self) -> None:
        """What the run waits for anyway, so that it ends."""
        assert self.reached is not None
        if self.state == "approval":
            self.client.approve(self.reached.data["node"])
        elif self.state == "question":
            self.client.answer(self.reached.data["node"], "any")

    def _ended(self, reason: str, answer: str = "") -> str:
        reply = self.client.wait(self.sent, 60)
        right = reply.finish_reason == reason and reply.answer.strip().startswith(answer)
        return "" if right else f"ended as {reply.finish_reason}: {reply.answer!r} {reply.error}"


@pytest.mark.parametrize("killed", [False, True], ids=["owner lives", "owner killed"])
def test_controls(make_system: Callable[..., System], model: ModelServer, tmp_path: Path, killed: bool) -> None:
    env = {**ASKING, **agents(tmp_path / "agents"), "CAPATAZ_COORDINATOR__LEASE_TTL_S": "2"}
    system = make_system(env=env)
    model.script(RULES)
    with system.client() as raw:
        client = Client(raw, system.redis_url)
        cases = [Case(state, control, client) for state in STATES for control in CONTROLS]
        for case in cases:
            case.reach()
        owner = system.coordinators[0]
        system.add_coordinator()
        if killed:
            system.kill(owner)
        began = time.monotonic()
        for case in cases:
            case.send()
        wrong = {f"{c.state} {c.control}": problem for c in cases if (problem := c.wrong())}
        print(f"{len(cases)} controls had their effect within {time.monotonic() - began:.1f} s")
    assert wrong == {}
