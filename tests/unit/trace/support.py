"""Logs and events of invented runs, with the values that the system itself writes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ops.trace.model import timeline
from ops.trace.values import Timeline
from shared.contract import NodeError, NodeResult, NodeState
from shared.entries import Assistant, Event, LogEntry, Node, NodeEnded, RunEnded, Stored, UserMessage
from shared.llm.model import Finish, Message, TextBlock, ToolCall, Usage

T0 = 1_790_000_000_000
RUN = "r1"


@dataclass
class Story:
    """A run that is told in order of time: each method takes milliseconds from the run's start."""

    text: str = "a question"
    kind: str = "message"
    queued_ms: int = 0
    entries: list[Stored] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    _tools: dict[str, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fields: dict[str, Any] = {"kind": self.kind, "text": self.text}
        if self.kind == "workflow":
            fields |= {"workflow": self.text, "text": ""}
        at = T0 - self.queued_ms
        self.log(0, UserMessage(run=RUN, principal="owner", session="s", received_ms=at, **fields))
        self.event(0, "run.started")

    def log(self, at: int, value: LogEntry, run: str = RUN) -> None:
        name = f"{T0 + at}-{len(self.entries)}"
        self.entries.append(Stored.model_construct(id=name, run=run, type=value.T, value=value))

    def event(self, at: int, kind: str, **data: Any) -> None:
        self.events.append(Event(id=f"{T0 + at}-{len(self.events)}", type=kind, run=RUN, data=data))

    def step(
        self, number: int, start: int, first: int | None, end: int, text: str = "", calls: Sequence[Node] = ()
    ) -> None:
        """A model call that succeeds at once; its calls are planned when it ends."""
        self.event(start, "step.started", step=number, attempt=1, model="p/m")
        if first is not None:
            self.event(first, "text.delta", attempt=1, text=text)
        self.answer(number, end, text=text, calls=calls)

    def answer(
        self, number: int, end: int, attempt: int = 1, text: str = "", calls: Sequence[Node] = (), **fields: Any
    ) -> None:
        blocks = [TextBlock(text=text)] if text else []
        asked = [ToolCall(id=n.node, name=n.tool, arguments=n.args) for n in calls]
        message = Message(role="assistant", blocks=(*blocks, *asked))
        values = {"finish": Finish.STOP, "usage": Usage(input=1000, output=50), "provider": "p", "model": "m", **fields}
        self.log(end, Assistant(step=number, attempt=attempt, message=message, **values))
        for node in calls:
            self.plan(end, node)
        self.event(end, "usage", step=number)

    def plan(self, at: int, node: Node) -> None:
        self._tools[node.node] = node
        self.log(at, node)

    def claim(self, at: int, node: str, worker: str, attempt: int = 1) -> None:
        self.event(at, "node.started", node=node, worker=worker, attempt=attempt)

    def end(
        self,
        at: int,
        node: str,
        state: NodeState = NodeState.DONE,
        *,
        start: int | None = None,
        worker: str = "",
        text: str = "a result",
        skew: int = 0,
    ) -> None:
        """`start` also writes the worker's claim; `skew` shifts the clock of its host."""
        times: dict[str, Any] = {}
        if start is not None:
            self.claim(start, node, worker)
            times = {"started_ms": T0 + start + skew, "ended_ms": T0 + at + skew}
        error = None if state is NodeState.DONE else NodeError(code=state.value, message=f"{state.value}, for a test")
        self.log(
            at, NodeEnded(node=node, result=NodeResult(state=state, text=text, error=error, worker=worker, **times))
        )

    def finish(self, at: int, answer: str = "an answer", **fields: Any) -> None:
        values = {"state": "ended", "finish_reason": "stop", "answer": answer, **fields}
        self.log(at, RunEnded(**values))
        self.event(at, "run.finished")

    def timeline(self, *, events: bool = True, now: int = 0) -> Timeline:
        return timeline(RUN, self.entries, self.events if events else (), now_ms=T0 + now)


def node(step: int, position: int, tool: str = "look_up", needs: Sequence[int] = (), **args: Any) -> Node:
    """A node of a step; `needs` are positions in the same step."""
    return Node(
        node=name(step, position),
        step=step,
        position=position,
        tool=tool,
        args=args,
        needs=tuple(name(step, n) for n in needs),
    )


def name(step: int, position: int) -> str:
    return f"{RUN}.{step}.1.{position}"


def failures() -> Story:
    """A run with a broken stream and every way in which a node can end."""
    story = Story("What do the three suppliers charge, and is the order of last week paid?", queued_ms=1500)
    story.event(20, "step.started", step=1, attempt=1, model="p/m")
    story.event(220, "text.delta", attempt=1, text="I will")
    story.event(480, "notice", code="connection", text="the stream broke off", attempt=1, retry_in=0.2)
    story.event(700, "step.restarted", step=1, attempt=2, model="p/m")
    story.event(860, "thinking.delta", attempt=2, text="three calls")
    story.event(1100, "text.delta", attempt=2, text="I will look them up.")
    calls = [
        node(1, 0, "web_fetch", url="https://example.com/prices"),
        node(1, 1, "web_fetch", url="https://example.org/list"),
        node(1, 2, "web_fetch", url="https://example.net/slow"),
        node(1, 3, "mail_send", to="orders@example.com"),
        node(1, 4, "extract", needs=[1], text="${2.text}"),
        node(1, 5, "compare", needs=[0, 4], rows="$1"),
        node(1, 6, "shell", command="rm -r cache"),
        node(1, 7, "wether", city="Madrid"),
        node(1, 8, "calculate", expression="17*23"),
        node(1, 9, "file_read", path="orders.csv"),
        node(1, 10, "summarise", needs=[9], text="$10"),
    ]
    story.answer(1, 1400, attempt=2, text="I will look them up.", calls=calls)
    end, state = story.end, NodeState
    end(1400, name(1, 7), state.REFUSED, text="There is no tool 'wether'.")
    end(1405, name(1, 6), state.DENIED)
    end(1460, name(1, 8), start=1412, worker="worker-1-host-a-812-77ab12")
    end(1700, name(1, 9), start=1415, worker="worker-2-host-b-44-1f00aa")
    end(2300, name(1, 0), start=1412, worker="worker-1-host-a-812-77ab12", text="price list")
    end(2420, name(1, 10), start=1712, worker="worker-2-host-b-44-1f00aa")
    end(2600, name(1, 1), state.FAILED, start=1480, worker="worker-1-host-a-812-77ab12", text="503 from the server")
    end(2600, name(1, 4), state.SKIPPED)
    end(2600, name(1, 5), state.SKIPPED)
    story.claim(1800, name(1, 3), "worker-2-host-b-44-1f00aa")
    end(4100, name(1, 3), state.OUTCOME_UNKNOWN, worker="worker-2-host-b-44-1f00aa")
    story.event(3300, "notice", code="node_requeued", text="web_fetch is sent again")
    end(4600, name(1, 2), state.TIMED_OUT, start=3400, worker="worker-1-host-a-812-77ab12")
    story.event(4620, "step.started", step=2, attempt=1, model="p/m")
    story.event(4900, "text.delta", attempt=1, text="One price")
    again = [node(2, 0, "web_fetch", url="https://example.org/list"), node(2, 1, "ask_user", question="Go on?")]
    story.answer(2, 5300, text="One more time.", calls=again)
    story.claim(5310, name(2, 0), "worker-1-host-a-812-77ab12")
    end(6200, name(2, 0), state.CANCELLED, worker="worker-1-host-a-812-77ab12")
    end(6200, name(2, 1), state.CANCELLED)
    story.finish(
        6210, "", state="cancelled", finish_reason="cancelled", error={"code": "cancelled", "message": "asked to end"}
    )
    return story


def crowd(count: int = 200, width: int = 32, seed: int = 7) -> Story:
    """One turn of `count` nodes with random needs and times, `width` of them at once, a few of which fail."""
    rng = random.Random(seed)
    story = Story(f"Check {count} pages and count what they say")
    calls = [
        node(1, i, rng.choice(["web_fetch", "file_read", "extract"]), _some(rng, i), page=f"page-{i:03}.html")
        for i in range(count)
    ]
    story.step(1, 15, 180, 900, "All of them, then.", calls)
    _run(story, calls, width, rng, 905)
    last = max(int(e.id.split("-")[0]) for e in story.entries) - T0
    story.step(2, last + 4, last + 160, last + 700, "Done.")
    story.finish(last + 705)
    return story


def _some(rng: random.Random, i: int) -> list[int]:
    return rng.sample(range(max(0, i - 30), i), 1) if i > 10 and rng.random() < 0.2 else []


def _run(story: Story, calls: Sequence[Node], width: int, rng: random.Random, at: int) -> None:
    """List scheduling over `width` slots; whoever needs a failed node is skipped."""
    slots = [at] * width
    ends: dict[str, int] = {}
    bad: set[str] = set()
    told: list[tuple[int, Node, int | None, NodeState]] = []
    for call in calls:
        ready = max([at, *(ends[n] for n in call.needs)])
        if bad & set(call.needs):
            bad.add(call.node)
            ends[call.node] = ready
            told.append((ready, call, None, NodeState.SKIPPED))
            continue
        slot = min(range(width), key=lambda s: slots[s])
        begin = max(ready, slots[slot]) + rng.randrange(1, 5)
        ends[call.node] = slots[slot] = begin + int(rng.lognormvariate(5.4, 0.6))
        state = rng.choices([NodeState.DONE, NodeState.FAILED, NodeState.TIMED_OUT], [95, 3, 2])[0]
        if state is not NodeState.DONE:
            bad.add(call.node)
        told.append((ends[call.node], call, begin, state))
    for end, call, start, state in sorted(told, key=lambda t: t[0]):
        worker = "" if start is None else f"worker-{call.position % 4 + 1}-host-{call.position % 4}"
        story.end(end, call.node, state, start=start, worker=worker)
