"""The entries of a session's log, and the events that people see. Frozen, versioned values. Pure.

A stream entry has the fields `t` (type), `v` (version), `run` and `d` (JSON of one of these values).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar, Literal, get_args

from pydantic import Field, JsonValue

from shared.contract import VERSION, Effect, NodeResult, Value, WorkflowSpec
from shared.llm.model import Finish, Usage
from shared.llm.model import Message as ModelMessage
from shared.messages import ErrorInfo, QueuedMessage


class LogValue(Value):
    """Base of log entries; `T` is their type on the wire."""

    T: ClassVar[str]


class UserMessage(QueuedMessage):
    """The message that opened a run; written by the script that claims the run."""

    T: ClassVar[str] = "user.message"


class Context(LogValue):
    """The changing tail that was shown with the message before it: date, facts, bullets. Part of history for good.
    `facts` are the versions of the facts that it names, `bullets` the ids of all that the run was shown, in the system
    prompt and here."""

    T: ClassVar[str] = "context"
    text: str
    facts: dict[str, int] = Field(default_factory=dict)
    bullets: tuple[str, ...] = ()


class News(LogValue):
    """Shared facts that others of the session have set since this run last looked, with their versions."""

    T: ClassVar[str] = "news"
    text: str
    facts: dict[str, int] = Field(default_factory=dict)


class Retry(Value):
    """A failed attempt of a step: the `code` of its error, and what it cost as far as known."""

    provider: str
    model: str
    attempt: int
    code: str
    usage: Usage = Usage()
    cost: str | None = None
    took_ms: int = 0


class Assistant(LogValue):
    """A whole assistant message: text, thinking, calls (whose ids are node ids), usage.

    `usage` and `cost` are those of the attempt that answered, `retries` the ones that failed before it. `group` is
    what the call is billed under: the tool groups of its message, or a workflow. `node` is the workflow's step that it
    answered; empty in a conversation.
    """

    T: ClassVar[str] = "assistant.message"
    step: int
    attempt: int
    message: ModelMessage
    finish: Finish
    raw_finish: str = ""
    usage: Usage = Usage()
    provider: str = ""
    model: str = ""
    cost: str | None = None
    tier: str = ""
    group: str = ""
    node: str = ""
    first_ms: int = 0
    took_ms: int = 0
    retries: tuple[Retry, ...] = ()

    @property
    def all_usage(self) -> Usage:
        """Tokens of all attempts."""
        return sum((retry.usage for retry in self.retries), self.usage)

    @property
    def all_cost(self) -> Decimal | None:
        """Dollars of all attempts; None if those of one that took tokens are not known."""
        parts = [self.cost, *(retry.cost for retry in self.retries if retry.usage.total)]
        return None if None in parts else sum((Decimal(part) for part in parts if part), Decimal(0))


class Node(LogValue):
    """One node of the graph as planned. `call` is False for nodes that no model call stands for (steps).

    `args` are as they were written, references included. `args_hash` is that of the arguments with the references
    filled in, and is empty until the node is ready: such a node is logged a second time then.
    """

    T: ClassVar[str] = "node.planned"
    node: str
    step: int
    position: int
    tool: str
    args: dict[str, Any] = Field(default_factory=dict)
    args_hash: str = ""
    effect: Effect = Effect.READ
    queue: str = ""
    needs: tuple[str, ...] = ()
    not_after_ms: int = 0
    timeout_s: float = 0.0
    call: bool = True


class Elided(LogValue):
    """Outputs of a turn that only fed other calls: what the model reads in their place, by node."""

    T: ClassVar[str] = "results.elided"
    lines: dict[str, str]


class Waiting(LogValue):
    """A node that no worker runs: it waits for a person, for a time, or for a run of its own.

    `args` and `args_hash` are what an approval is bound to, `rules` are those that ask for it. `until_ms` (0: never)
    is when the wait ends by itself. `run` is the subagent's.
    """

    T: ClassVar[str] = "node.waiting"
    node: str
    kind: Literal["approval", "question", "timer", "agent"]
    tool: str
    until_ms: int = 0
    args: dict[str, Any] = Field(default_factory=dict)
    args_hash: str = ""
    rules: tuple[str, ...] = ()
    text: str = ""
    options: tuple[str, ...] = ()
    recommended: str = ""
    run: str = ""


class Decided(LogValue):
    """An approval was given or refused, for the arguments of `args_hash` alone or (`scope`) for what `rules` ask."""

    T: ClassVar[str] = "approval.decided"
    node: str
    tool: str
    args_hash: str
    allowed: bool
    scope: Literal["once", "session", "always"] = "once"
    rules: tuple[str, ...] = ()
    agent: str = ""
    by: str = ""
    text: str = ""


class NodeEnded(LogValue):
    """The result of a node."""

    T: ClassVar[str] = "node.result"
    node: str
    result: NodeResult


class Nudge(LogValue):
    """What the loop itself told the model, in the user role. `reason` is a stable word."""

    T: ClassVar[str] = "nudge"
    reason: str
    text: str


class Steer(LogValue):
    """A message that joined the run while it was going on."""

    T: ClassVar[str] = "steer"
    text: str
    id: str = ""


class FactSet(LogValue):
    """A shared fact changed. `row` holds value and author."""

    T: ClassVar[str] = "fact.set"
    name: str
    version: int
    row: dict[str, JsonValue] = Field(default_factory=dict)


class Offered(LogValue):
    """Groups that routing or `find_tools` opened for this session; they stay."""

    T: ClassVar[str] = "tools.offered"
    layer: str
    groups: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


class Terms(LogValue):
    """What a run is bound to from its start on, by agent and installation: the form of its calls, the calls of a
    turn, its budget (0 tokens or dollars: none), and whether its answer is held against its deeds (`claims`)."""

    T: ClassVar[str] = "run.terms"
    calls: Literal["references", "plan", "flat"]
    calls_per_turn: int
    steps: int
    seconds: float
    tokens: int = 0
    dollars: str = "0"
    claims: bool = False


class WorkflowBegun(LogValue):
    """The definition that a run of a workflow carries out to its end, whatever becomes of the code, and its bounds
    (0 tokens or dollars: none)."""

    T: ClassVar[str] = "workflow.begun"
    spec: WorkflowSpec
    seconds: float
    tokens: int = 0
    dollars: str = "0"


class Undone(LogValue):
    """The turn of `run` was taken back: it is no longer part of the conversation. What it did stays done."""

    T: ClassVar[str] = "undone"
    run: str


class RunEnded(LogValue):
    """The end of a run."""

    T: ClassVar[str] = "run.ended"
    state: Literal["ended", "failed", "cancelled", "lost"]
    finish_reason: str
    answer: str = ""
    usage: Usage = Usage()
    cost: str | None = None
    steps: int = 0
    seconds: float = 0.0
    error: ErrorInfo | None = None


LogEntry = (
    UserMessage
    | Context
    | News
    | Assistant
    | Node
    | Waiting
    | Decided
    | NodeEnded
    | Elided
    | Nudge
    | Steer
    | FactSet
    | Offered
    | Terms
    | WorkflowBegun
    | RunEnded
    | Undone
)

_BY_TYPE: dict[str, type[LogEntry]] = {c.T: c for c in get_args(LogEntry)}
LOG_TYPES = tuple(_BY_TYPE)


class Stored(Value):
    """A log entry as read: its stream id, its run, and the value; None for a type that this version does not know."""

    id: str
    run: str
    type: str
    value: LogEntry | None


def decode(entry_id: str, fields: Mapping[str, str]) -> Stored:
    """One stream entry of a log as a value. Unknown types are kept as such: an older process reads a newer log."""
    kind = fields.get("t", "")
    cls = _BY_TYPE.get(kind) if int(fields.get("v", 1)) <= VERSION else None
    value = cls.model_validate_json(fields["d"]) if cls is not None else None
    return Stored.model_construct(id=entry_id, run=fields.get("run", ""), type=kind, value=value)


EVENT_TYPES = (
    "message.accepted",
    "run.started",
    "routed",
    "step.started",
    "step.restarted",
    "text.delta",
    "thinking.delta",
    "node.planned",
    "node.started",
    "node.progress",
    "node.finished",
    "approval.requested",
    "approval.decided",
    "question.asked",
    "subagent.started",
    "subagent.finished",
    "fact.set",
    "usage",
    "debug.request",
    "debug.response",
    "notice",
    "run.finished",
    "run.failed",
    "undone",
    "snapshot",
)


class Event(Value):
    """A public event of a session. `id` is the stream id to resume after; `data` depends on the type."""

    id: str
    type: str
    run: str = ""
    data: dict[str, Any] = Field(default_factory=dict)
