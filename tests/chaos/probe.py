"""Looks into a running system: who owns a run, who runs a node, what the tools have written; opens their gates."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeVar

from shared.client import Client
from shared.entries import Event, Node, NodeEnded
from shared.state import keys
from tests.chaos.tools import EFFECTS, GATES
from tests.support.processes import Proc, System

T = TypeVar("T")

WAIT_S = 60.0


def until(find: Callable[[], T | None], what: str, timeout_s: float = WAIT_S) -> T:
    """The first answer that is not empty."""
    give_up = time.monotonic() + timeout_s
    while not (found := find()):
        assert time.monotonic() < give_up, f"{what} did not come"
        time.sleep(0.02)
    return found


def lines(system: System) -> Counter[str]:
    """What the tools have written, as `kind tag`, with how often."""
    path = system.workspace / EFFECTS
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return Counter(f"{row['kind']} {row['tag']}" for row in rows)


def await_line(system: System, line: str) -> None:
    """Returns when a tool has written the line."""
    until(lambda: lines(system)[line], f"the line {line!r}")


def open_gate(system: System, *gates: str) -> None:
    """Lets calls go on that wait there."""
    folder = system.workspace / GATES
    folder.mkdir(exist_ok=True)
    for gate in gates:
        (folder / gate).touch()


def events(client: Client, session: str, timeout: float = WAIT_S) -> Iterator[Event]:
    """The session's events from the first on, as they come."""
    return client.stream(session, timeout=timeout)


def await_events(client: Client, session: str, kind: str, count: int = 1) -> list[Event]:
    """The first `count` events of that type."""
    found: list[Event] = []
    for event in events(client, session):
        if event.type == kind:
            found.append(event)
            if len(found) == count:
                return found
    raise AssertionError(f"no {kind}")


def owner(system: System, run: str) -> Proc:
    """The coordinator that holds the run's lease."""
    with system.client() as client:
        cid = str(client.hget(keys.run(run), "owner"))
    return next(c for c in system.coordinators if f"-{c.pid}-" in cid)


def workers_by_tag(client: Client, session: str, nodes: int) -> dict[str, str]:
    """Which worker took each of the session's calls, by the calls' tags."""
    tags: dict[str, str] = {}
    found: dict[str, str] = {}
    for event in events(client, session):
        if event.type == "node.planned":
            tags[event.data["node"]] = event.data["args"]["tag"]
        elif event.type == "node.started":
            found[tags[event.data["node"]]] = event.data["worker"]
            if len(found) == nodes:
                return found
    raise AssertionError("not all calls were taken")


def worker(system: System, wid: str) -> Proc:
    """The process behind a worker's id."""
    return next(w for w in system.workers if f"-{w.pid}-" in wid)


def states(client: Client, session: str) -> dict[str, str]:
    """How each of the session's nodes ended, by its call's tag."""
    log = [e.value for e in client.history(session)]
    tags = {v.node: str(v.args.get("tag")) for v in log if isinstance(v, Node)}
    return {tags[v.node]: v.result.state.value for v in log if isinstance(v, NodeEnded)}
