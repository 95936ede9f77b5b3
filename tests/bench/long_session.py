"""Sessions with many turns behind them, as log entries in the documented form."""

from __future__ import annotations

from collections.abc import Iterator

from shared.contract import Effect, NodeResult, NodeState
from shared.entries import Assistant, Context, LogEntry, Node, NodeEnded, Offered, RunEnded, UserMessage
from shared.llm.model import Finish, Message, TextBlock, ToolCall, Usage
from shared.names import LOCAL_PRINCIPAL
from shared.signing import call_hash
from shared.state import keys
from shared.state.connection import connect_sync

CALLS = 2
TOOL = "bench_step"
RESULT = "the figure that was asked for, with a line or two about where it comes from. " * 5
ANSWER = "Both figures are in: the first is higher than the second, as it was before. " * 3


def step(run: str, number: int) -> tuple[Assistant, list[Node], list[NodeEnded]]:
    """One step of a run: a message with calls, its nodes, and their results."""
    nodes, ends, calls = [], [], []
    for position in range(CALLS):
        node = f"{run}.{number}.1.{position + 1}"
        args = {"seconds": 0.0, "tag": f"{run} {number} {position}"}
        calls.append(ToolCall(id=node, name=TOOL, arguments=args))
        nodes.append(
            Node(
                node=node,
                step=number,
                position=position,
                tool=TOOL,
                args=args,
                args_hash=call_hash(TOOL, args),
                effect=Effect.READ,
                queue="tools",
            )
        )
        result = NodeResult(state=NodeState.DONE, text=f"{node}: {RESULT}", value={"tag": node})
        ends.append(NodeEnded(node=node, result=result))
    message = Message(role="assistant", blocks=(TextBlock(text="I look at both."), *calls), origin="rehearsal")
    used = Usage(input=1000, output=50)
    return Assistant(step=number, attempt=1, message=message, finish=Finish.TOOL_CALLS, usage=used), nodes, ends


def opening(session: str, run: str, number: int) -> list[LogEntry]:
    """What a run begins with."""
    asked = f"bench: what are the two figures now? This is question {number}."
    return [
        UserMessage(run=run, principal=LOCAL_PRINCIPAL, session=session, received_ms=1_790_000_000_000, text=asked),
        Context(text="Date: 2026-09-21. Time: 12:00. Facts: none."),
        Offered(layer="explicit", groups=("bench",), tools=(TOOL,)),
    ]


def turns(session: str, count: int) -> Iterator[tuple[str, LogEntry]]:
    """(run, entry) of so many turns: each a message, two calls and an answer."""
    for number in range(1, count + 1):
        run = f"rold{number}"
        asked, nodes, ends = step(run, 1)
        said = Message(role="assistant", blocks=(TextBlock(text=ANSWER),), origin="rehearsal")
        answer = Assistant(step=2, attempt=1, message=said, finish=Finish.STOP, usage=Usage(input=1200, output=60))
        end = RunEnded(state="ended", finish_reason="stop", answer=ANSWER, steps=2)
        for entry in (*opening(session, run, number), asked, *nodes, *ends, answer, end):
            yield run, entry


def seed(url: str, session: str, count: int) -> None:
    """Gives a session that does not exist yet a log of so many turns."""
    with connect_sync(url) as client:
        pipe = client.pipeline(transaction=False)
        for run, entry in turns(session, count):
            pipe.xadd(keys.log(session), {"t": entry.T, "v": "1", "run": run, "d": entry.model_dump_json()})
        pipe.execute()
