"""The fold: log entries to what the loop knows of a session and its active run. Pure.

The provider's messages array is this fold and nothing else, so a crash costs no knowledge: fold again, go on.
Results are placed right behind the assistant message that asked for them, in the order of its calls, whatever
order the log has them in. A call that never got a result (its run was cancelled or lost) gets one that says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from shared.contract import NodeResult
from shared.entries import (
    Assistant,
    Context,
    Elided,
    FactSet,
    Node,
    NodeEnded,
    Nudge,
    Offered,
    RunEnded,
    Steer,
    Stored,
    UserMessage,
)
from shared.llm.model import ImageBlock, Message, TextBlock, ToolResult, Usage
from shared.messages import QueuedMessage

NEVER_RAN = "This call has no result: its run ended before it did. It may or may not have been carried out."


@dataclass
class RunFold:
    """What one run has done so far."""

    run: str
    message: QueuedMessage | None = None
    nodes: dict[str, Node] = field(default_factory=dict)
    results: dict[str, NodeResult] = field(default_factory=dict)
    elided: dict[str, None] = field(default_factory=dict)
    assistants: list[Assistant] = field(default_factory=list)
    nudges: list[Nudge] = field(default_factory=list)
    broken_steps: list[int] = field(default_factory=list)
    """Steps in which a call did not arrive whole."""
    has_context: bool = False
    offered: dict[str, None] = field(default_factory=dict)
    """Names of tools offered for this run."""
    usage: Usage = field(default_factory=Usage)
    cost: Decimal | None = Decimal(0)
    ended: RunEnded | None = None
    started_ms: int = 0
    last: str = ""
    """Type of the run's newest entry that matters for what comes next."""

    @property
    def steps(self) -> int:
        """How many model calls the run has made."""
        return len(self.assistants)

    @property
    def open_nodes(self) -> list[Node]:
        """Planned nodes without a result, in planned order. Those of a stream that failed do not count: no message
        of the model adopted them."""
        adopted = self.adopted
        return [n for n in self.nodes.values() if n.node not in self.results and (not n.call or n.node in adopted)]

    @property
    def adopted(self) -> set[str]:
        """Nodes that stand for calls of logged messages."""
        return {call.id for assistant in self.assistants[-1:] for call in assistant.message.calls}


@dataclass
class _Turn:
    """An assistant message with calls, whose results are being gathered."""

    message: Message
    results: dict[str, ToolResult] = field(default_factory=dict)
    after: list[Message] = field(default_factory=list)


class SessionFold:
    """An incremental fold: `apply` entries in log order; `messages` is the conversation so far."""

    def __init__(self) -> None:
        self._done: list[Message] = []
        self._turn: _Turn | None = None
        self.runs: dict[str, RunFold] = {}
        self.offered_groups: dict[str, None] = {}
        self.offered_tools: dict[str, None] = {}
        self.facts: dict[str, FactSet] = {}
        self.last_id = "-"

    @classmethod
    def of(cls, entries: Iterable[Stored]) -> SessionFold:
        """The fold of `entries`."""
        fold = cls()
        for entry in entries:
            fold.apply(entry)
        return fold

    def run(self, run: str) -> RunFold:
        """The fold of one run, empty if the log has nothing of it."""
        return self.runs.setdefault(run, RunFold(run))

    @property
    def messages(self) -> list[Message]:
        """The conversation in the neutral form: roles user, assistant, tool; every call followed by its result."""
        if self._turn is None:
            return list(self._done)
        return [*self._done, *self._closed(self._turn)]

    def apply(self, entry: Stored) -> None:
        """Takes one entry. Unknown types are passed over."""
        self.last_id = entry.id
        run = self.run(entry.run)
        value = entry.value
        match value:
            case UserMessage():
                run.message = value
                run.started_ms = int(entry.id.partition("-")[0])
                run.last = value.T
                self._settle()
                if value.kind == "message":
                    self._done.append(_user(value))
            case Context():
                run.has_context = True
                self._attach(value.text)
            case Assistant():
                self._assistant(run, value)
            case Node():
                run.nodes[value.node] = value
            case NodeEnded():
                run.results.setdefault(value.node, value.result)
                run.last = value.T
                if self._turn is not None:
                    self._turn.results.setdefault(value.node, _tool_result(value))
            case Elided():
                run.elided.update(dict.fromkeys(value.lines))
                self._elide(value)
            case Nudge():
                run.nudges.append(value)
                if value.reason == "broken_call":
                    run.broken_steps.append(run.steps)
                run.last = value.T
                self._say(Message(role="user", blocks=(TextBlock(text=value.text),)))
            case Steer():
                run.last = value.T
                self._say(Message(role="user", blocks=(TextBlock(text=value.text),)))
            case FactSet():
                self.facts[value.name] = value
            case Offered():
                run.offered.update(dict.fromkeys(value.tools))
                self._keep_offered(value)
            case RunEnded():
                self._end(run, value)
            case None:
                pass

    def _elide(self, value: Elided) -> None:
        if self._turn is not None:
            for node, line in value.lines.items():
                self._turn.results[node] = ToolResult(call_id=node, text=line)

    def _keep_offered(self, value: Offered) -> None:
        """What stays for the session: groups that were chosen, tools that were searched for; not a heap of all."""
        if value.layer == "find_tools":
            self.offered_tools.update(dict.fromkeys(value.tools))
        elif value.layer not in ("all", "explicit"):
            self.offered_groups.update(dict.fromkeys(value.groups))

    def _assistant(self, run: RunFold, value: Assistant) -> None:
        self._settle()
        run.assistants.append(value)
        run.last = value.T
        run.usage = run.usage + value.all_usage
        cost = value.all_cost
        run.cost = None if run.cost is None or cost is None else run.cost + cost
        if not value.message.blocks:
            return
        if value.message.calls:
            self._turn = _Turn(value.message)
            for call in value.message.calls:  # started while the model still streamed, and done before it was
                if (early := run.results.get(call.id)) is not None:
                    self._turn.results[call.id] = _tool_result(NodeEnded(node=call.id, result=early))
        else:
            self._done.append(value.message)

    def _end(self, run: RunFold, value: RunEnded) -> None:
        run.ended = value
        run.last = value.T
        self._settle()
        said = run.assistants[-1].message.text if run.assistants else ""
        if value.answer and value.answer != said and run.message is not None:
            # An answer that no model message holds: a workflow's result, or one that was marked before it went out.
            asked_by_workflow = run.message.kind == "workflow"
            if asked_by_workflow and (not self._done or self._done[-1].role != "user"):
                title = f"[workflow {run.message.workflow}]"
                self._done.append(Message(role="user", blocks=(TextBlock(text=title),)))
            if asked_by_workflow:
                self._done.append(Message(role="assistant", blocks=(TextBlock(text=value.answer),)))
        elif value.state != "ended" and self._done and self._done[-1].role == "user":
            note = f"[This run ended without an answer: {value.finish_reason}]"
            self._done.append(Message(role="assistant", blocks=(TextBlock(text=note),)))

    def _attach(self, text: str) -> None:
        """Adds a text block to the newest user message."""
        for messages in (self._turn.after if self._turn else [], self._done):
            for i in range(len(messages) - 1, -1, -1):
                if messages[i].role == "user":
                    old = messages[i]
                    messages[i] = old.model_copy(update={"blocks": (*old.blocks, TextBlock(text=text))})
                    return

    def _say(self, message: Message) -> None:
        if self._turn is None:
            self._done.append(message)
        else:
            self._turn.after.append(message)  # results come first, always

    def _settle(self) -> None:
        if self._turn is not None:
            self._done.extend(self._closed(self._turn))
            self._turn = None

    @staticmethod
    def _closed(turn: _Turn) -> list[Message]:
        results = tuple(
            turn.results.get(call.id) or ToolResult(call_id=call.id, text=NEVER_RAN, is_error=True)
            for call in turn.message.calls
        )
        return [turn.message, Message(role="tool", blocks=results), *turn.after]


def _user(value: QueuedMessage) -> Message:
    blocks: list[TextBlock | ImageBlock] = [TextBlock(text=value.text)] if value.text else []
    for attachment in value.attachments:
        handle = attachment.artifact or "(not stored)"
        note = f"[attachment {attachment.name or handle}: {attachment.media_type}, handle {handle}]"
        blocks.append(TextBlock(text=note))
    return Message(role="user", blocks=tuple(blocks))


def _tool_result(value: NodeEnded) -> ToolResult:
    result = value.result
    return ToolResult(call_id=value.node, text=result.text or "(no output)", is_error=result.state != "done")
