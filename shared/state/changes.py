"""The body of one change of a run, as `append` and `finish` take it. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shared.contract import NodeResult
from shared.entries import Decided, LogEntry, Node, Waiting
from shared.messages import QueuedMessage, Reply
from shared.names import WORKFLOW_DELIVER, WORKFLOW_NOTICE


def node_event(node: str, tool: str, result: NodeResult) -> str:
    """The data of a `node.finished` event: state, times, and a short piece of the text."""
    data: dict[str, Any] = {
        "node": node,
        "tool": tool,
        "state": result.state,
        "worker": result.worker,
        "queued_ms": result.queued_ms,
        "started_ms": result.started_ms,
        "ended_ms": result.ended_ms,
        "text": result.text[:300],
    }
    if result.artifact:
        data["artifact"] = result.artifact
    if result.error:
        data["error"] = result.error.model_dump(mode="json")
    return json.dumps(data, ensure_ascii=False)


def settlement(node: str, tool: str, result: NodeResult) -> dict[str, str]:
    """What scripts need to end a node: ledger value, log entry (a `NodeEnded`), event."""
    encoded = result.model_dump_json()
    return {
        "result": encoded,
        # Put together as text: the result is the larger part, and is encoded once.
        "log": f'{{"node":{json.dumps(node)},"result":{encoded}}}',
        "event": node_event(node, tool, result),
    }


@dataclass
class Change:
    """One change: collected by the loop, applied by one script, all or nothing."""

    entries: list[LogEntry] = field(default_factory=list)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    ends: list[tuple[str, str, NodeResult]] = field(default_factory=list)
    """(node, tool, result) of nodes that the owner ends itself."""
    unstarted: list[tuple[str, str, NodeResult]] = field(default_factory=list)
    """The same, for nodes that end so only if no worker has claimed them meanwhile."""
    set: dict[str, str] = field(default_factory=dict)
    mail_read: int = 0
    spawn: list[QueuedMessage] = field(default_factory=list)
    """Runs of subagents that begin; each answers the node in its `parent`."""
    cancel: list[str] = field(default_factory=list)
    """Runs of subagents that nobody needs any more."""
    cancel_reason: str = ""

    def event(self, kind: str, **data: Any) -> None:
        """Adds a public event."""
        self.events.append((kind, data))

    def behind(self, first: Change | None) -> Change:
        """One change that does what `first` does and then what this one does. `first` has entries and events only."""
        if first is None:
            return self
        return replace(self, entries=[*first.entries, *self.entries], events=[*first.events, *self.events])

    def body(self) -> dict[str, Any]:
        """The script's argument. Planned nodes are log entries as well as ledger rows."""
        entries: list[LogEntry] = [*self.entries, *self.nodes]
        body: dict[str, Any] = {"mail_read": self.mail_read}
        if entries:
            body["entries"] = [{"t": e.T, "d": e.model_dump_json()} for e in entries]
        if self.events:
            body["events"] = [{"t": t, "d": json.dumps(d, ensure_ascii=False, default=str)} for t, d in self.events]
        if self.nodes:
            body["nodes"] = [
                {"id": n.node, "hash": n.args_hash, "effect": n.effect, "not_after": n.not_after_ms} for n in self.nodes
            ]
        if self.ends or self.unstarted:
            body["ends"] = [
                *(_end(*end) for end in self.ends),
                *(_end(*end) | {"unstarted": True} for end in self.unstarted),
            ]
        if self.set:
            body["set"] = self.set
        body |= self._waits()
        if self.spawn:
            body["spawn"] = [{"run": m.run, "node": m.parent, "payload": _payload(m)} for m in self.spawn]
        if self.cancel:
            body["cancel"] = self.cancel
            body["cancel_mail"] = json.dumps({"kind": "cancel", "reason": self.cancel_reason})
        return body

    def _waits(self) -> dict[str, Any]:
        """What people are asked for, listed beside the log until it is decided; a node's end takes it off as well."""
        asked = {e.node: e for e in self.entries if isinstance(e, Waiting) and e.kind in ("approval", "question")}
        decided = [e.node for e in self.entries if isinstance(e, Decided)]
        body: dict[str, Any] = {}
        if asked:
            body["waits"] = {node: e.model_dump_json() for node, e in asked.items()}
        if decided:
            body["decided"] = decided
        return body

    def append_json(self) -> str:
        """The JSON for `append`."""
        return json.dumps(self.body())

    def finish_json(
        self,
        reply: Reply,
        follow_ups: Sequence[QueuedMessage],
        *,
        force: bool,
        up: tuple[str, str, NodeResult] | None,
    ) -> str:
        """The JSON for `finish`; `up` is (node, tool, result) for the run that waits for this one."""
        body = self.body()
        if up is not None:
            body["up"] = _end(*up)
        body["reply"] = reply.model_dump_json(exclude_none=True)
        body["force"] = force
        body["ends_first"] = True
        body["follow_ups"] = [
            {"run": one.run, "session": one.session, "payload": _payload(one), "must": one.workflow in _PROMISED}
            for one in follow_ups
        ]
        return json.dumps(body)


_PROMISED = (WORKFLOW_DELIVER, WORKFLOW_NOTICE)
"""What users wait for, so that it is queued whatever waits already."""


def _end(node: str, tool: str, result: NodeResult) -> dict[str, Any]:
    if not result.state.terminal:
        raise ValueError(f"{result.state} is not the end of a node")
    return {"id": node, "state": result.state, **settlement(node, tool, result)}


def _payload(message: QueuedMessage) -> str:
    return message.model_dump_json(exclude_defaults=True)
