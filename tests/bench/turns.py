"""Turns that the benchmarks run: scripted models, systems with the benchmarks' tools, and times out of the log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ops.redis_server import Durability
from ops.rehearsal.engine import Call, Reply
from ops.rehearsal.playback import deltas
from ops.trace.observed import moment
from shared.client import Client
from shared.contract import NodeState
from shared.entries import Node, NodeEnded, Stored
from shared.messages import Reply as Answer
from tests.support.processes import System

ENV = {
    "CAPATAZ_WORKER__TOOL_MODULES": json.dumps([str(Path(__file__).with_name("bench_tools.py"))]),
    "CAPATAZ_PLAYBOOK__ENABLED": "false",  # the learner works after a run, on the cores that the next one needs
    "CAPATAZ_ROUTING__ENCODER": "off",
    "CAPATAZ_LIMITS__RATE_PER_MINUTE": "0",  # whoever measures sends as fast as it can
}
TOOLS = ("bench",)


@contextmanager
def system(
    url: str, *, workers: int = 1, durability: Durability = "strict", workspace: Path | None = None, **settings: str
) -> Iterator[System]:
    """A running system whose workers have the benchmarks' tools; `settings` are variables without their CAPATAZ_."""
    env = ENV | {f"CAPATAZ_{name}": value for name, value in settings.items()}
    running = System(model_url=url, workers=workers, durability=durability, workspace=workspace, env=env)
    try:
        yield running.start()
    finally:
        running.stop()


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A tool call of a scripted turn."""
    return {"name": name, "arguments": arguments}


def script(calls: Sequence[dict[str, Any]], *, answer: str = "all done", **timing: Any) -> list[dict[str, Any]]:
    """A model that makes these calls in one turn and then answers; `timing` is that of the turn."""
    return [
        {"when": {"step": 0}, "then": {"calls": list(calls), "delta_chars": 40, **timing}},
        {"then": {"text": answer}},
    ]


def tokens(calls: Sequence[dict[str, Any]]) -> int:
    """How many pieces the scripted model sends for these calls, four characters each: its tokens."""
    said = tuple(Call(c["name"], json.dumps(c["arguments"], ensure_ascii=False)) for c in calls)
    return len(deltas(Reply(calls=said)))


def ask(client: Client, session: str, *, text: str = "bench", nodes: int | None = None, **fields: Any) -> Answer:
    """Runs one turn. Raises RuntimeError unless the run ended well, and all of its `nodes` nodes did."""
    reply = client.ask(text, session=session, timeout=120, **{"tools": TOOLS, **fields})
    if not reply.ok:
        raise RuntimeError(f"the run failed: {reply}")
    if nodes is not None:
        states = [e.value.result.state for e in client.history(session) if isinstance(e.value, NodeEnded)]
        if states != [NodeState.DONE] * nodes:
            raise RuntimeError(f"{nodes} nodes should be done, and are {states}")
    return reply


@dataclass(frozen=True, slots=True)
class Timing:
    """When things happened to one node, in Unix milliseconds."""

    node: str
    needs: tuple[str, ...]
    planned_ms: int
    started_ms: int
    ended_ms: int


@dataclass(frozen=True)
class Times:
    """A turn's nodes and its makespan in seconds: from the first node planned to the last result logged."""

    nodes: tuple[Timing, ...]
    makespan_s: float


def times(entries: Sequence[Stored]) -> Times:
    """The times of all nodes in a session's log: plans and ends as Redis logged them, starts as workers saw them."""
    planned: dict[str, int] = {}
    needs: dict[str, tuple[str, ...]] = {}
    found = []
    for entry in entries:
        if isinstance(entry.value, Node):
            planned.setdefault(entry.value.node, moment(entry.id))
            needs[entry.value.node] = entry.value.needs
        elif isinstance(entry.value, NodeEnded):
            node, result = entry.value.node, entry.value.result
            found.append(Timing(node, needs[node], planned[node], result.started_ms, moment(entry.id)))
    span_ms = max(t.ended_ms for t in found) - min(t.planned_ms for t in found)
    return Times(tuple(found), span_ms / 1000)
