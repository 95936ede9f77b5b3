"""The fold: log entries to what the loop knows of a session and its active run. Pure.

The provider's messages array is this fold and nothing else, so a crash costs no knowledge: fold again, go on.
Results are placed right behind the assistant message that asked for them, in the order of its calls, whatever
order the log has them in. A call that never got a result (its run was cancelled or lost) gets one that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from shared.contract import NodeResult
from shared.entries import (
    Assistant,
    Context,
    Decided,
    Elided,
    FactSet,
    News,
    Node,
    NodeEnded,
    Nudge,
    Offered,
    RunEnded,
    Steer,
    Stored,
    Terms,
    Undone,
    UserMessage,
    Waiting,
    WorkflowBegun,
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
    opened: str = ""
    """The id of the log entry that opened it."""
    waiting: dict[str, Waiting] = field(default_factory=dict)
    """Nodes that waited, or still wait, for something that no worker does."""
    decided: dict[str, Decided] = field(default_factory=dict)
    facts_seen: dict[str, int] = field(default_factory=dict)
    """Versions of the shared facts that this run was told."""
    terms: Terms | None = None
    """What it is bound to; None in logs of before these were kept."""
    workflow: WorkflowBegun | None = None
    """What it carries out; None for a run of an agent."""
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

    @property
    def open_waits(self) -> dict[str, Waiting]:
        """Nodes that wait at the moment: not ended, and if for an approval, not decided."""
        return {n: w for n, w in self.waiting.items() if n not in self.results and n not in self.decided}

    @property
    def children(self) -> list[str]:
        """Runs of subagents that have not ended as far as this run knows."""
        return [w.run for w in self.open_waits.values() if w.kind == "agent"]

    def answered(self, value: Assistant) -> None:
        """A step of the model."""
        self.assistants.append(value)
        self.last = value.T
        self._spend(value.all_usage, value.all_cost)

    def node_ended(self, value: NodeEnded) -> None:
        """The end of a node; the first one counts. A subagent's run is paid for by the run that called it."""
        self.last = value.T
        if value.node in self.results:
            return
        self.results[value.node] = value.result
        if value.result.usage is not None:
            self._spend(value.result.usage, None if value.result.cost is None else Decimal(value.result.cost))

    def nudged(self, value: Nudge) -> None:
        """The loop said something to the model."""
        self.nudges.append(value)
        if value.reason == "broken_call":
            self.broken_steps.append(self.steps)
        self.last = value.T

    def _spend(self, usage: Usage, cost: Decimal | None) -> None:
        self.usage = self.usage + usage
        self.cost = None if self.cost is None or cost is None else self.cost + cost


@dataclass
class _Turn:
    """An assistant message with calls, whose results are being gathered."""

    message: Message
    results: dict[str, ToolResult] = field(default_factory=dict)
    after: list[Message] = field(default_factory=list)


class Conversation:
    """The messages of one thread: the session's own, or that of a subagent's run; and what stays offered in it."""

    def __init__(self) -> None:
        self._done: list[Message] = []
        self._turn: _Turn | None = None
        self.offered_groups: dict[str, None] = {}
        self.offered_tools: dict[str, None] = {}
        self._begins: dict[str, int] = {}
        """Where each run's messages begin, oldest first."""

    @property
    def messages(self) -> list[Message]:
        """The conversation in the neutral form: roles user, assistant, tool; every call followed by its result."""
        if self._turn is None:
            return list(self._done)
        return [*self._done, *self._closed(self._turn)]

    def open(self, run: str, message: Message | None) -> None:
        """A run begins, with its message if it has one."""
        self.settle()
        self._begins[run] = len(self._done)
        if message is not None:
            self._done.append(message)

    def take_back(self, run: str) -> None:
        """Takes the messages of a run out; what stays offered stays. The ones of later runs are left alone."""
        self.settle()
        if run not in self._begins:
            return
        runs = list(self._begins)
        later = runs[runs.index(run) + 1 :]
        begin = self._begins.pop(run)
        end = self._begins[later[0]] if later else len(self._done)
        del self._done[begin:end]
        for other in later:
            self._begins[other] -= end - begin

    def assistant(self, message: Message, results: Mapping[str, NodeResult]) -> None:
        """A message of the model; `results` are those of its run so far."""
        self.settle()
        if not message.blocks:
            return
        if not message.calls:
            self._done.append(message)
            return
        self._turn = _Turn(message)
        for call in message.calls:  # started while the model still streamed, and done before it was
            if (early := results.get(call.id)) is not None:
                self._turn.results[call.id] = _tool_result(call.id, early)

    def result(self, node: str, result: NodeResult) -> None:
        """The end of a node; the first one counts."""
        if self._turn is not None:
            self._turn.results.setdefault(node, _tool_result(node, result))

    def elide(self, lines: Mapping[str, str]) -> None:
        """Puts lines in the place of outputs."""
        if self._turn is not None:
            for node, line in lines.items():
                self._turn.results[node] = ToolResult(call_id=node, text=line)

    def keep_offered(self, value: Offered) -> None:
        """What stays in the thread: groups that were chosen, tools that were searched for; not a heap of all."""
        if value.layer == "find_tools":
            self.offered_tools.update(dict.fromkeys(value.tools))
        elif value.layer not in ("all", "explicit"):
            self.offered_groups.update(dict.fromkeys(value.groups))

    def attach(self, text: str) -> None:
        """Adds a text block to the newest user message."""
        for messages in (self._turn.after if self._turn else [], self._done):
            for i in range(len(messages) - 1, -1, -1):
                if messages[i].role == "user":
                    old = messages[i]
                    messages[i] = old.model_copy(update={"blocks": (*old.blocks, TextBlock(text=text))})
                    return

    def say(self, text: str) -> None:
        """Something that is told to the model in the user role."""
        message = Message(role="user", blocks=(TextBlock(text=text),))
        if self._turn is None:
            self._done.append(message)
        else:
            self._turn.after.append(message)  # results come first, always

    def end(self, run: RunFold, value: RunEnded) -> None:
        """The end of a run: an answer that no message of the model holds, or the lack of one, leaves a line."""
        self.settle()
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

    def settle(self) -> None:
        """Closes the turn: what has no result by now gets none."""
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


class SessionFold:
    """An incremental fold: `apply` entries in log order. Each subagent's run has a conversation of its own; all other
    runs of the session share one."""

    def __init__(self) -> None:
        self._main = Conversation()
        self._threads: dict[str, Conversation] = {}
        self.runs: dict[str, RunFold] = {}
        self.facts: dict[str, FactSet] = {}
        self.granted: list[Decided] = []
        """Approvals that hold for the whole session."""
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
        found = self.runs.get(run)
        if found is None:
            found = self.runs[run] = RunFold(run)
        return found

    def conversation(self, run: str) -> Conversation:
        """The thread that a run belongs to."""
        return self._threads.get(run, self._main)

    @property
    def messages(self) -> list[Message]:
        """The session's own conversation."""
        return self._main.messages

    def apply(self, entry: Stored) -> None:
        """Takes one entry. Unknown types are passed over."""
        self.last_id = entry.id
        run, value = self.run(entry.run), entry.value
        if isinstance(value, UserMessage):
            self._open(run, value, entry.id)
            return
        thread = self.conversation(entry.run)
        match value:
            case Context():
                run.has_context = True
                run.facts_seen.update(value.facts)
                thread.attach(value.text)
            case News():
                run.facts_seen.update(value.facts)
                thread.say(value.text)
            case Assistant():
                run.answered(value)
                thread.assistant(value.message, run.results)
            case Node():
                run.nodes[value.node] = value
            case Waiting():
                run.waiting[value.node] = value
                run.decided.pop(value.node, None)  # asked about again: what was said was not about this call
            case Decided():
                run.decided[value.node] = value
                if value.allowed and value.scope != "once":
                    self.granted.append(value)
            case NodeEnded():
                run.node_ended(value)
                thread.result(value.node, value.result)
            case Elided():
                run.elided.update(dict.fromkeys(value.lines))
                thread.elide(value.lines)
            case Nudge():
                run.nudged(value)
                thread.say(value.text)
            case Steer():
                run.last = value.T
                thread.say(value.text)
            case FactSet():
                self.facts[value.name] = value
            case Offered():
                run.offered.update(dict.fromkeys(value.tools))
                thread.keep_offered(value)
            case Terms():
                run.terms = value
            case WorkflowBegun():
                run.workflow = value
            case Undone():
                self._main.take_back(value.run)
            case RunEnded():
                run.ended = value
                run.last = value.T
                thread.end(run, value)
            case None:
                pass

    def _open(self, run: RunFold, value: UserMessage, entry_id: str) -> None:
        run.message = value
        run.started_ms = int(entry_id.partition("-")[0])
        run.opened = entry_id
        run.last = value.T
        if value.parent:
            self._threads[run.run] = Conversation()
        self.conversation(run.run).open(run.run, _user(value) if value.kind == "message" else None)


def _user(value: QueuedMessage) -> Message:
    blocks: list[TextBlock | ImageBlock] = [TextBlock(text=value.text)] if value.text else []
    for attachment in value.attachments:
        handle = attachment.artifact or "(not stored)"
        note = f"[attachment {attachment.name or handle}: {attachment.media_type}, handle {handle}]"
        blocks.append(TextBlock(text=note))
    return Message(role="user", blocks=tuple(blocks))


def _tool_result(node: str, result: NodeResult) -> ToolResult:
    return ToolResult(call_id=node, text=result.text or "(no output)", is_error=result.state != "done")
