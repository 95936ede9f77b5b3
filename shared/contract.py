"""The contract between coordinator and workers: frozen, versioned values that travel as JSON.

`names.py` holds the queue and task names that go with it. A reader ignores fields that it does not know, so
that a newer process may add some; a change of meaning raises `VERSION`, and a reader refuses what is newer.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

VERSION = 1


class Value(BaseModel):
    """Base of values that our own processes exchange: immutable, unknown fields ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Effect(StrEnum):
    """What running a tool does to the world, which decides who may repeat it.

    `read` has no effect. `idempotent` is safe to repeat, also concurrently. `write` is neither: it is never
    run a second time by itself.
    """

    READ = "read"
    IDEMPOTENT = "idempotent"
    WRITE = "write"


class NodeState(StrEnum):
    """The states of a node. All but `planned` and `running` are terminal; the first terminal one wins."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    REFUSED = "refused"
    OUTCOME_UNKNOWN = "outcome_unknown"

    @property
    def terminal(self) -> bool:
        """True for a state that a node never leaves."""
        return self not in (NodeState.PLANNED, NodeState.RUNNING)


class ToolSpec(Value):
    """A tool as workers publish it and models see it.

    `parameters` is a JSON Schema object. `timeout_s` bounds one call. `keywords` and `examples` map a language
    (`es`, `en`) to words and sentences for routing.
    """

    name: str
    group: str
    description: str
    parameters: dict[str, Any]
    effect: Effect
    timeout_s: float = 30.0
    queue: str = "tools"
    parallel: int = 0
    """How many calls of one run may be at workers at once; 0: no bound of its own."""
    keywords: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    examples: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    always: bool = False
    """Offered in every turn, whatever routing says (`find_tools`, `read_artifact`)."""
    untrusted: bool = False
    """Its output may hold what others wrote: the model gets it between marks, as data."""


class GroupSpec(Value):
    """A group of tools: what routing chooses among. `coordinator/routing/keywords.py` says how keywords are written."""

    name: str
    title: str
    keywords: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    examples: dict[str, tuple[str, ...]] = Field(default_factory=dict)


class Condition(Value):
    """A comparison over the output of a needed step, or over `params`: what is at `path` in it against `value`.

    `holds` takes true or false alone; `within` looks for what is there in the list `value`, `contains` for `value` in
    the list or text that is there; `exists` says whether anything is there. Else what is not there fulfils nothing.
    """

    step: str
    path: tuple[str | int, ...] = ()
    op: Literal["holds", "eq", "ne", "lt", "le", "gt", "ge", "within", "contains", "exists"]
    value: JsonValue = True


class Retries(Value):
    """How often a step is tried in all, and how long it rests before it is tried again, twice as long each time."""

    attempts: int = 1
    backoff_s: float = 2.0


class OnError(Value):
    """What a step that failed is for those that need it: the end of the workflow (`fail`), nothing (`skip`), a value
    that was declared, or the output of a `step` that runs in this case alone."""

    do: Literal["fail", "skip", "value", "step"] = "fail"
    value: JsonValue = None
    step: str = ""


class StepSpec(Value):
    """One step of a workflow.

    kind `code`: a function of the workflow, run as a node on the `workflows` queue with the outputs of the
    steps it needs. kind `tool`: a catalogue tool with `args`, in which `${step.path}` takes its value from the output
    of a needed step. kind `model`: one model call that sees only `prompt`, in which `{step}` stands for the output of
    a needed step, and never chooses the flow; with `json_schema` its answer is JSON of that shape. kind `agent`: a run
    of `agent` with that prompt and no other `tools` than those (none named: the agent's own).

    It runs if all of `when` holds. Of what it needs, `optional` are steps that may have been skipped; else it is
    skipped as well.
    """

    id: str
    kind: Literal["code", "tool", "model", "agent"]
    needs: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    when: tuple[Condition, ...] = ()
    retry: Retries = Retries()
    on_error: OnError = OnError()
    tool: str = ""
    args: dict[str, Any] = Field(default_factory=dict)
    prompt: str = ""
    json_schema: dict[str, Any] | None = None
    tier: str = "fast"
    agent: str = ""
    tools: tuple[str, ...] = ()
    effect: Effect = Effect.READ
    timeout_s: float = 60.0
    queue: str = "workflows"


class WorkflowSpec(Value):
    """A deterministic workflow: a graph that code wrote beforehand.

    `result` names the step whose output is the answer of the run. `cron` (with `timezone`) is its default schedule, a
    line as `shared/timing.py` has them, empty for none. `hidden` workflows are the system's own and leave no message in
    a session. `timeout_s` bounds a whole run (0: the budget of runs does).
    """

    name: str
    title: str
    steps: tuple[StepSpec, ...]
    result: str
    cron: str = ""
    timezone: str = "UTC"
    hidden: bool = False
    timeout_s: float = 0.0


class Catalogue(Value):
    """Everything a worker offers. Workers publish it under its digest."""

    v: int = VERSION
    tools: tuple[ToolSpec, ...] = ()
    groups: tuple[GroupSpec, ...] = ()
    workflows: tuple[WorkflowSpec, ...] = ()
    missing: dict[str, str] = Field(default_factory=dict)
    """Tool name -> what is missing for it to be offered."""


class WorkerInfo(Value):
    """A worker's heartbeat value. `key_id` identifies its signing key, `slots` how many nodes it runs at once."""

    v: int = VERSION
    id: str
    nonce: str
    catalogue: str
    queues: tuple[str, ...]
    slots: int
    key_id: str
    host: str
    pid: int
    started_ms: int


class NodeOrder(Value):
    """One node as it is sent to a worker.

    `args_hash` is the ledger's fingerprint of (tool, args); `not_after_ms` (Unix milliseconds) is the node's
    deadline, also for starting. `agent_path` has the agents that call, the root first; `approval` is the id of the
    approval or grant under which a call that rules ask about was let through. On the wire a `signature` over all
    fields is added (`signing.sign`); one Celery message carries a list of them.
    """

    v: int = VERSION
    run: str
    session: str
    principal: str
    node: str
    tool: str
    args: dict[str, Any]
    args_hash: str
    effect: Effect
    not_after_ms: int
    timeout_s: float
    agent_path: tuple[str, ...] = ()
    approval: str = ""


class NodeError(Value):
    """Why a node did not end as done. `may_have_had_effect` says whether a repeat could do it twice."""

    code: str
    message: str
    hint: str = ""
    may_have_had_effect: bool = False


class Usage(Value):
    """Tokens of one or more calls in disjoint classes, so that each is paid and counted once.

    `input` is fresh prompt, `output` visible answer, `reasoning` thinking where the provider reports it apart
    (else it is part of `output`). `estimated` marks a guess of ours.
    """

    input: int = 0
    cache_write: int = 0
    cache_read: int = 0
    output: int = 0
    reasoning: int = 0
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            cache_write=self.cache_write + other.cache_write,
            cache_read=self.cache_read + other.cache_read,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
            estimated=self.estimated or other.estimated,
        )

    @property
    def total(self) -> int:
        """All tokens of all classes."""
        return self.input + self.cache_write + self.cache_read + self.output + self.reasoning


class NodeResult(Value):
    """The end of a node.

    `text` goes to the model. `value` is what references and code see (JSON, types kept); it is None and
    `artifact` is set when it was too large to travel. `usage` and `cost` (dollars) are those of a subagent's
    run, or of the models and services that the tool paid for. `deeds` are the tools with effects that succeeded in
    a subagent's run; None where nobody knows.
    """

    v: int = VERSION
    state: NodeState
    text: str = ""
    value: JsonValue = None
    artifact: str | None = None
    error: NodeError | None = None
    usage: Usage | None = None
    cost: str | None = None
    deeds: tuple[str, ...] | None = None
    worker: str = ""
    queued_ms: int = 0
    started_ms: int = 0
    ended_ms: int = 0
