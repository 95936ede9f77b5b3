"""Shows a run's events as they come."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ops.cli.common import clean
from shared.contract import NodeState
from shared.entries import Event

_MARKS = {NodeState.DONE: "✓", NodeState.SKIPPED: "·", NodeState.CANCELLED: "·", NodeState.OUTCOME_UNKNOWN: "?"}
_MAX_ASKED = 2000
_MAX_ARGS = 100
_MAX_LABEL = 40


@dataclass
class EventPrinter:
    """Prints thinking dim, nodes one line a change, and the text as it streams.

    `write` gets pieces of text without added line ends; `colour` allows terminal codes.
    """

    write: Callable[[str], None]
    colour: bool = False
    nodes: dict[str, str] = field(default_factory=dict)
    """Terminal states of nodes by id."""
    workers: set[str] = field(default_factory=set)
    """Workers that ended nodes."""
    streamed: str = ""
    """The text of the present step."""
    _labels: dict[str, str] = field(default_factory=dict)
    _column: int = 0
    _mode: str = ""

    def show(self, event: Event) -> None:
        """Prints one event. Types that it does not know are left out."""
        handler = getattr(self, "_on_" + event.type.replace(".", "_"), None)
        if handler is not None:
            handler(event.data)

    def line(self, text: str, *, dim: bool = False) -> None:
        """A line of its own."""
        self._switch("")
        self._put(f"{clean(text)}\n", dim=dim)

    def _on_text_delta(self, data: dict[str, Any]) -> None:
        self._switch("text")
        self.streamed += str(data.get("text", ""))
        self._put(clean(str(data.get("text", ""))))

    def _on_thinking_delta(self, data: dict[str, Any]) -> None:
        self._switch("thinking")
        self._put(clean(str(data.get("text", ""))), dim=True)

    def _on_step_started(self, data: dict[str, Any]) -> None:
        self.streamed = ""

    def _on_step_restarted(self, data: dict[str, Any]) -> None:
        self.streamed = ""
        self.line(f"(the model's stream broke, the step begins again: {data.get('reason', 'retry')})", dim=True)

    def _on_routed(self, data: dict[str, Any]) -> None:
        self.line(f"tools: {_listed(data.get('groups')) or 'none'} ({data.get('layer', '?')})", dim=True)

    def _on_node_planned(self, data: dict[str, Any]) -> None:
        args = data.get("args")
        text = _cut(json.dumps(args, ensure_ascii=False) if args else "", _MAX_ARGS)
        first = next(iter(args.values()), "") if isinstance(args, dict) else ""
        self._labels[str(data.get("node"))] = _cut(str(first), _MAX_LABEL).replace("\n", " ")
        self.line(f"  → {data.get('tool', '?')} {text}".rstrip())

    def _on_node_progress(self, data: dict[str, Any]) -> None:
        self.line(f"    {data.get('text', '')}", dim=True)

    def _on_node_finished(self, data: dict[str, Any]) -> None:
        state = str(data.get("state", "?"))
        node = str(data.get("node"))
        self.nodes[node] = state
        if worker := data.get("worker"):
            self.workers.add(str(worker))
        took = _took(data.get("started_ms"), data.get("ended_ms"))
        mark = _MARKS.get(NodeState(state), "✗") if state in set(NodeState) else "?"
        detail = "" if state == NodeState.DONE else f" {state}: {_error_text(data)}"
        where = f"  on {worker}" if worker else ""
        label = f" {self._labels[node]}" if self._labels.get(node) else ""
        self.line(f"  {mark} {data.get('tool', '?')}{label}{detail}{took}{where}")

    def _on_notice(self, data: dict[str, Any]) -> None:
        self.line(f"! {data.get('text') or data.get('code', '')}", dim=True)

    def _on_debug_request(self, data: dict[str, Any]) -> None:
        self.line(f"> {data.get('model', '?')} {data.get('url', '')}: {data.get('body', '')}", dim=True)

    def _on_debug_response(self, data: dict[str, Any]) -> None:
        self.line(f"< {data.get('model', '?')} {data.get('status', '?')}: {data.get('body', '')}", dim=True)

    def _on_undone(self, data: dict[str, Any]) -> None:
        self.line(f"(the turn {data.get('run', '?')} was taken back)", dim=True)

    def _on_approval_requested(self, data: dict[str, Any]) -> None:
        args = _cut(json.dumps(data.get("args") or {}, ensure_ascii=False), _MAX_ASKED)
        self.line(f"? {data.get('tool', 'a tool')} {args} waits for approval: {data.get('text', '')}")
        node = data.get("node", "?")
        self.line(f"  capataz approve {node} [--session|--always]   or   capataz deny {node}", dim=True)

    def _on_approval_decided(self, data: dict[str, Any]) -> None:
        what = "approved" if data.get("allowed") is True else "denied"
        self.line(f"  {what}: {data.get('tool', 'a tool')} {data.get('text') or ''}".rstrip(), dim=True)

    def _on_question_asked(self, data: dict[str, Any]) -> None:
        self.line(f"? {data.get('text', '')}")
        options = data.get("options")
        for number, option in enumerate(options if isinstance(options, list) else (), 1):
            mark = "  (recommended)" if option == data.get("recommended") else ""
            self.line(f"    {number}. {option}{mark}")
        self.line(f"  capataz answer {data.get('node', '?')} TEXT", dim=True)

    def _on_subagent_started(self, data: dict[str, Any]) -> None:
        self.line(f"  ▸ {_listed(data.get('path'), ' > ')}: {_cut(str(data.get('text', '')), _MAX_ARGS)}")

    def _on_subagent_finished(self, data: dict[str, Any]) -> None:
        self.line(f"  ◂ subagent ended: {data.get('finish_reason', '?')}", dim=True)

    def _switch(self, mode: str) -> None:
        """Begins a new line when another kind of text begins."""
        if mode != self._mode and self._column:
            self._put("\n")
        self._mode = mode

    def _put(self, text: str, *, dim: bool = False) -> None:
        if not text:
            return
        self._column = len(text) - text.rfind("\n") - 1 if "\n" in text else self._column + len(text)
        self.write(f"\x1b[2m{text}\x1b[0m" if dim and self.colour else text)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _took(started: object, ended: object) -> str:
    if isinstance(started, int) and isinstance(ended, int) and 0 < started <= ended:
        took = ended - started
        return f"  {took} ms" if took < 1000 else f"  {took / 1000:.1f} s"
    return ""


def _listed(values: Any, between: str = ", ") -> str:
    """The items of a list; empty for anything else."""
    return between.join(map(str, values)) if isinstance(values, list) else ""


def _error_text(data: dict[str, Any]) -> str:
    error = data.get("error")
    return str(error.get("message", "")) if isinstance(error, dict) else str(data.get("text", ""))
