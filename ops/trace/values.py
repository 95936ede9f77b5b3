"""The time line of a run as values: what `capataz trace --json` prints and what the pictures are drawn from. Pure.

All times are Unix milliseconds by the clock of the state Redis, so bars of several hosts can be compared.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from shared.contract import Effect, NodeState, Value

HEAD = 500
"""Characters kept of results and of what the model said and thought."""


class Attempt(Value):
    """One stream of a step. `first_ms` is its first token, `text_ms` its first visible one, None if none was seen.

    `ended_ms` is None while it streams. `failed` says why it broke, empty if it did not.
    """

    number: int
    model: str = ""
    started_ms: int
    first_ms: int | None = None
    text_ms: int | None = None
    ended_ms: int | None = None
    failed: str = ""


class Step(Value):
    """One model call of the run with its attempts, oldest first. `exact` is False if its start was inferred."""

    number: int
    attempts: tuple[Attempt, ...]
    model: str = ""
    finish: str = ""
    text: str = ""
    thinking: str = ""
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: str | None = None
    exact: bool = True

    @property
    def id(self) -> str:
        """Its name in `Timeline.critical`."""
        return f"step:{self.number}"

    @property
    def started_ms(self) -> int:
        """When its first attempt began."""
        return self.attempts[0].started_ms

    @property
    def ended_ms(self) -> int | None:
        """When its last attempt ended; None while it streams."""
        return self.attempts[-1].ended_ms


class NodeBar(Value):
    """One node of the graph.

    `ready_ms` is when everything it needs had ended: from there to `started_ms` it waited for a worker, from
    `started_ms` to `ended_ms` it ran. `started_ms` is None if it never ran, `ended_ms` if it has not ended.
    `text` is the head of its result, `claims` how many workers took it. `holds` are the steps of a plan, each of
    which names it as `owner`; such a node runs nothing itself. `adopted` is False for a node that was started for
    a stream which failed. `elided`: the model did not get its output, which only fed others.
    """

    id: str
    step: int
    position: int
    owner: str = ""
    holds: tuple[str, ...] = ()
    adopted: bool = True
    elided: bool = False
    tool: str
    args: dict[str, Any] = Field(default_factory=dict)
    effect: Effect = Effect.READ
    needs: tuple[str, ...] = ()
    state: NodeState
    worker: str = ""
    claims: int = 0
    planned_ms: int
    ready_ms: int
    started_ms: int | None = None
    ended_ms: int | None = None
    text: str = ""
    error: str = ""
    artifact: str | None = None

    def run_ms(self, end_ms: int) -> int:
        """How long it ran, until `end_ms` if it still does; 0 if it never started."""
        return 0 if self.started_ms is None else _until(self.ended_ms, end_ms) - self.started_ms

    def wait_ms(self, end_ms: int) -> int:
        """How long it waited for a worker since its inputs were there."""
        started = self.started_ms if self.started_ms is not None else _until(self.ended_ms, end_ms)
        return max(0, started - self.ready_ms)


class Mark(Value):
    """Something that happened at one moment: a notice, a nudge, a steer, a fact, an approval. `kind` is a word."""

    ms: int
    kind: str
    text: str = ""


class Figures(Value):
    """The figures in the head of a trace. Milliseconds, whole tokens, US dollars as a decimal string.

    `run_ms` adds up what all nodes ran (a plan's steps, not the plan); `busy_ms` is the time in which at least one
    node was planned and had not ended; `speed_up` is the first over the second. `critical_ms` is what the run
    would take with workers without end and no overhead.
    """

    seconds: float
    steps: int
    nodes: int
    states: dict[str, int]
    workers: int
    model_ms: int
    run_ms: int
    wait_ms: int
    busy_ms: int
    speed_up: float | None
    critical_ms: int
    tokens: int
    cost: str | None


class Timeline(Value):
    """A whole run. `ended_ms` is None while it goes on; `end_ms` is then the moment of looking.

    `workers` are the ids of workers in order of their first node. `critical` names steps (`step:3`) and nodes
    of the critical path in order. `events` is False if public events of the run were trimmed away, so that first
    tokens and broken attempts are missing.
    """

    run: str
    session: str = ""
    kind: str = "message"
    title: str = ""
    state: str
    finish_reason: str = ""
    answer: str = ""
    error: str = ""
    received_ms: int
    started_ms: int
    ended_ms: int | None = None
    end_ms: int
    steps: tuple[Step, ...] = ()
    nodes: tuple[NodeBar, ...] = ()
    marks: tuple[Mark, ...] = ()
    workers: tuple[str, ...] = ()
    critical: tuple[str, ...] = ()
    events: bool = True
    figures: Figures

    def tag(self, worker: str) -> str:
        """The short name of a worker in the picture, `w1` and so on; empty for none."""
        return f"w{self.workers.index(worker) + 1}" if worker in self.workers else ""


def _until(ended_ms: int | None, end_ms: int) -> int:
    return end_ms if ended_ms is None else ended_ms
