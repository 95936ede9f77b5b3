"""What must be true when everything has come to rest. Each check returns what is wrong, one line each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import redis

from ops.rehearsal.wire import Wire
from ops.rehearsal.wire_anthropic import AnthropicWire
from ops.rehearsal.wire_openai import OpenAIWire
from shared.contract import Effect, NodeResult, NodeState
from shared.entries import Event, FactSet, Node, NodeEnded, RunEnded, Stored, UserMessage, decode
from shared.errors import CapatazError
from shared.fold import SessionFold
from shared.llm.check import repair
from shared.llm.dialects import dialect_of
from shared.llm.model import Message, Request, TextBlock, ToolResult
from shared.llm.provider import Provider
from shared.sql import archive, runs
from shared.sql.engine import Database
from shared.state import keys
from tests.chaos.load import Sent, replies
from tests.chaos.tools import EFFECTS

WIRES: dict[str, Wire] = {"openai": OpenAIWire(), "anthropic": AnthropicWire()}
NEVER_STARTED = (NodeState.SKIPPED, NodeState.REFUSED, NodeState.DENIED)
FINAL = ("run.finished", "run.failed", "subagent.finished")
WRITES = ("chaos_write", "chaos_ask")
NOBODY = ("no_worker", "not_taken")
"""Codes of failures that say that no worker ever took the node."""


@dataclass(frozen=True)
class Line:
    """One line of the file of effects."""

    kind: str
    tag: str
    node: str
    pid: int


@dataclass
class World:
    """All that is left when the chaos is over, read once."""

    logs: dict[str, list[Stored]] = field(default_factory=dict)
    events: dict[str, list[Event]] = field(default_factory=dict)
    runs: dict[str, dict[str, str]] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)

    @classmethod
    def read(cls, client: redis.Redis, workspace: Path) -> World:
        """Everything in the state Redis, and the effects."""
        world = cls()
        for key in client.scan_iter(f"{keys.PREFIX}*", count=1000):
            kind, _, rest = str(key).removeprefix(keys.PREFIX).partition(":")
            name, _, part = rest.partition(":")
            if kind == "session" and part == "log":
                rows: Any = client.xrange(key)
                world.logs[name] = [decode(i, f) for i, f in rows]
            elif kind == "session" and part == "events":
                rows = client.xrange(key)
                world.events[name] = [
                    Event(id=i, type=f["type"], run=f["run"], data=json.loads(f["data"] or "{}")) for i, f in rows
                ]
            elif kind == "run" and not part:
                world.runs[name] = {str(f): str(v) for f, v in client.hgetall(key).items()}
        path = workspace / EFFECTS
        if path.exists():
            world.lines = [Line(**json.loads(line)) for line in path.read_text().splitlines()]
        return world

    def nodes(self) -> Iterable[tuple[Node, NodeResult | None]]:
        """Every node of every log with its result."""
        for log in self.logs.values():
            values = [e.value for e in log]
            results = {v.node: v.result for v in reversed(values) if isinstance(v, NodeEnded)}
            for node in {v.node: v for v in values if isinstance(v, Node)}.values():
                yield node, results.get(node.node)


def answers(world: World, sent: Sequence[Sent], client: redis.Redis) -> list[str]:
    """Every message is answered, or reported as failed, once for each time it was accepted; its run ends once."""
    wrong = []
    for one in sent:
        got = replies(client, one.sure)
        if len(got) != len(one.sure):
            wrong.append(f"{one.kind} {one.id}: {len(got)} replies to {len(one.sure)} entries")
        for name in one.doubtful:
            if len(replies(client, [name])) > 1:
                wrong.append(f"{one.kind} {one.id}: more than one reply to one entry")
        if one.kind == "message":
            ran = {r["run"] for r in (*got, *replies(client, one.doubtful)) if r.get("run")}
            if len(ran) > 1:
                wrong.append(f"message {one.id} became several runs: {ran}")
            wrong += [f"message {one.id}: {r}" for r in got if r["ok"] and not r.get("answer")]
    wrong += _ends(world)
    return wrong


def _ends(world: World) -> list[str]:
    wrong = []
    final = Counter(e.run for events in world.events.values() for e in events if e.type in FINAL)
    ended = Counter(e.run for log in world.logs.values() for e in log if isinstance(e.value, RunEnded))
    opened = Counter(e.run for log in world.logs.values() for e in log if isinstance(e.value, UserMessage))
    for run, row in world.runs.items():
        if row.get("state") != "ended":
            wrong.append(f"run {run} is {row.get('state')}, owned by {row.get('owner')!r}")
        if final[run] != 1:
            wrong.append(f"run {run} has {final[run]} final events")
        if ended[run] != opened[run] or ended[run] > 1:
            wrong.append(f"run {run} began {opened[run]} times in the log and ended {ended[run]} times")
    ids = Counter(
        e.value.id for log in world.logs.values() for e in log if isinstance(e.value, UserMessage) and e.value.id
    )
    wrong += [f"message {i} opened {n} runs" for i, n in ids.items() if n > 1]
    return wrong


def effects(world: World, hurt: Collection[int]) -> list[str]:
    """Each `write` at most once, exactly once where its node is done, never where it never started.

    An outcome is unknown only where the worker was hurt.
    """
    wrong = []
    done = Counter(line.node for line in world.lines if line.kind == "write")
    tags = Counter(line.tag for line in world.lines if line.kind == "write")
    wrong += [f"the write {tag} happened {n} times" for tag, n in tags.items() if n > 1]
    workers = {
        e.data["node"]: str(e.data["worker"])
        for events in world.events.values()
        for e in events
        if e.type == "node.started"
    }
    known = set()
    for node, result in world.nodes():
        known.add(node.node)
        if result is None:
            wrong.append(f"node {node.node} ({node.tool}) has no result")
            continue
        if result.state is NodeState.OUTCOME_UNKNOWN:
            if node.effect is not Effect.WRITE:
                wrong.append(f"{node.effect} node {node.node} has an unknown outcome")
            if not any(f"-{pid}-" in workers.get(node.node, "") for pid in hurt):
                wrong.append(
                    f"node {node.node} has an unknown outcome, but its worker {workers.get(node.node)} was left alone"
                )
        if node.tool in WRITES:
            wrong += _count(node, result, done[node.node])
    wrong += [f"a write of an unknown node {node}" for node in done if node not in known]
    return wrong


def _count(node: Node, result: NodeResult, count: int) -> list[str]:
    least, most = 0, 1
    if result.state is NodeState.DONE:
        least = 1
    elif result.state in NEVER_STARTED or (result.error is not None and result.error.code in NOBODY):
        most = 0
    if least <= count <= most:
        return []
    return [f"write {node.node} ended as {result.state} ({result.text[:80]}) and happened {count} times"]


def histories(world: World) -> list[str]:
    """Every session's history is one that providers of both dialects accept, without repairs."""
    wrong = []
    for session, log in world.logs.items():
        fold = SessionFold.of(log)
        wrong += [f"session {session}: {problem}" for problem in history_problems(fold.messages)]
        for run in (r for r in fold.runs.values() if r.message is not None and r.message.parent):
            problems = history_problems(fold.conversation(run.run).messages)
            wrong += [f"session {session}, subagent {run.run}: {problem}" for problem in problems]
    return wrong


def facts(world: World) -> list[str]:
    """No update of a shared fact is lost: each adds one, so its value is its version; and what is done was added."""
    wrong = []
    for session, log in world.logs.items():
        values = [e.value for e in log]
        versions = {v.version: v.row["value"] for v in values if isinstance(v, FactSet)}
        if versions != {n: n for n in range(1, len(versions) + 1)}:
            wrong.append(f"session {session}: versions and values of the fact are {versions}")
        nodes = {v.node: v.tool for v in values if isinstance(v, Node)}
        ends = [v for v in values if isinstance(v, NodeEnded) and nodes.get(v.node) == "chaos_add"]
        done = sum(v.result.state is NodeState.DONE for v in ends)
        if not done <= len(versions) <= len(ends):
            wrong.append(f"session {session}: {done} of {len(ends)} additions are done, the fact has {len(versions)}")
    return wrong


def history_problems(messages: Sequence[Message]) -> list[str]:
    """What providers would refuse in a history that is followed by a user message."""
    if not messages:
        return []
    wrong = _shape(messages)
    request = (*messages, Message(role="user", blocks=(TextBlock(text="and now?"),)))
    repaired, notices = repair(request)
    if notices or repaired != request:
        wrong.append(f"it needs repair: {'; '.join(notices) or 'it changed'}")
    for name, wire in WIRES.items():
        provider = Provider(name=name, dialect=name, base_url="http://127.0.0.1:1/v1")
        body = dialect_of(name).encode(provider, Request(model="m", messages=request)).body
        try:
            wire.parse(body, len(json.dumps(body)))
        except CapatazError as error:
            wrong.append(f"{name} refuses it: {error}")
    return wrong


def _shape(messages: Sequence[Message]) -> list[str]:
    """Calls are followed by their results at once, all of them, in their order; ids are unique; nothing is empty."""
    wrong = [] if messages[0].role == "user" else [f"it begins with {messages[0].role}"]
    seen: set[str] = set()
    for at, message in enumerate(messages):
        if not message.blocks:
            wrong.append(f"message {at} ({message.role}) is empty")
        before = messages[at - 1] if at else None
        if message.role == "assistant" and before is not None and before.role == "assistant":
            wrong.append(f"two assistant messages in a row at {at}")
        if message.role == "tool" and (before is None or not before.calls):
            wrong.append(f"results without calls at {at}")
        if not message.calls:
            continue
        wanted = [c.id for c in message.calls]
        wrong += [f"the call id {i} is used twice" for i in wanted if i in seen]
        seen.update(wanted)
        after = messages[at + 1] if at + 1 < len(messages) else None
        got = (
            [b.call_id for b in after.blocks if isinstance(b, ToolResult)]
            if after is not None and after.role == "tool"
            else []
        )
        if got != wanted:
            wrong.append(f"the calls at {at} are {wanted}, the results after them {got}")
    return wrong


def leftovers(client: redis.Redis) -> list[str]:
    """No lease, open ledger row, mail, runnable session, waiting message, inbox entry or due copy is left."""
    wrong = []
    for name, count in (
        ("inbox entries", client.xlen(keys.inbox())),
        ("active runs", client.scard(keys.ACTIVE)),
        ("parked runs", client.zcard(keys.PARKED)),
        ("runnable sessions", client.zcard(keys.RUNNABLE)),
        ("archive entries", client.zcard(keys.ARCHIVE)),
    ):
        if count:
            wrong.append(f"{count} {name} left")
    for key in map(str, client.scan_iter(f"{keys.PREFIX}*", count=1000)):
        if key.endswith((":mail", ":queue")) and client.llen(key):
            wrong.append(f"{key} holds {client.lrange(key, 0, -1)}")
        elif key.endswith(":waits"):
            wrong.append(f"{key} still holds {client.hkeys(key)}")
        elif key.endswith(":ledger"):
            row: Any = client.hgetall(key)
            open_rows = [f for f, v in row.items() if f.endswith(":s") and not NodeState(v).terminal]
            wrong += [f"{key} has an open row {f}: {row[f]}" for f in open_rows]
        elif key.startswith(keys.session("")) and client.type(key) == "hash" and client.hget(key, "active"):
            wrong.append(f"{key} still has the active run {client.hget(key, 'active')!r}")
        elif key.startswith(f"{keys.PREFIX}gate:slots:") and client.zcard(key):
            wrong.append(f"{key} still holds slots")
    return wrong


def archived(world: World, url: str) -> list[str]:
    """SQL holds every run that began, ended as the log says, and every entry of it."""
    wrong = []
    database = Database(url)
    try:
        for session, log in world.logs.items():
            rows = {e.entry_id: e for e in database.run_sync(partial(archive.entries, session=session, principal=None))}
            missing = [e for e in log if e.run and e.id not in rows]
            wrong += [f"session {session}: the {e.type} of run {e.run} is not in SQL" for e in missing]
            wrong += [
                f"session {session}: {e.id} differs in SQL" for e in log if e.id in rows and rows[e.id].type != e.type
            ]
            wrong += [f"session {session}: SQL has {i}, the log has not" for i in rows.keys() - {e.id for e in log}]
        for run, end in {
            e.run: e.value for log in world.logs.values() for e in log if isinstance(e.value, RunEnded)
        }.items():
            row = database.run_sync(partial(runs.get_run, run=run, principal=None))
            if row is None or (row.state, row.answer, row.steps) != (end.state, end.answer, end.steps):
                wrong.append(f"run {run} ended as {end.state} in the log and stands as {row and row.state} in SQL")
    finally:
        database.close()
    return wrong
