"""The fold of a session's log: what the model is shown, and what the loop knows of its run."""

from __future__ import annotations

from decimal import Decimal

import pytest

from shared.contract import NodeResult, NodeState
from shared.entries import (
    Assistant,
    Context,
    Elided,
    FactSet,
    LogEntry,
    Node,
    NodeEnded,
    Nudge,
    Offered,
    RunEnded,
    Steer,
    Stored,
    UserMessage,
    decode,
)
from shared.fold import NEVER_RAN, SessionFold
from shared.llm.model import Finish, Message, TextBlock, ToolCall, ToolResult, Usage
from shared.messages import Attachment


def stored(*values: LogEntry | tuple[str, LogEntry], run: str = "r1") -> list[Stored]:
    """Log entries in order; a value alone is of `run`."""
    out = []
    for number, item in enumerate(values, 1):
        rid, value = item if isinstance(item, tuple) else (run, item)
        out.append(Stored.model_construct(id=f"{number}000-0", run=rid, type=value.T, value=value))
    return out


def user(text: str = "go", **fields: object) -> UserMessage:
    return UserMessage.model_validate(
        {"run": "r1", "principal": "owner", "session": "s", "received_ms": 1, "text": text, **fields}
    )


def says(text: str, step: int = 1, finish: Finish = Finish.STOP, cost: str | None = "0") -> Assistant:
    message = Message(role="assistant", blocks=(TextBlock(text=text),) if text else ())
    return Assistant(step=step, attempt=1, message=message, finish=finish, usage=Usage(input=10, output=1), cost=cost)


def asks(*nodes: str, step: int = 1) -> Assistant:
    calls = tuple(ToolCall(id=n, name="probe", arguments={}) for n in nodes)
    message = Message(role="assistant", blocks=calls)
    return Assistant(step=step, attempt=1, message=message, finish=Finish.TOOL_CALLS)


def result(node: str, text: str = "", state: NodeState = NodeState.DONE) -> NodeEnded:
    return NodeEnded(node=node, result=NodeResult(state=state, text=text or f"result of {node}"))


def plan(node: str) -> Node:
    return Node(node=node, step=1, position=0, tool="probe")


def ends(state: str = "ended", reason: str = "stop", answer: str = "") -> RunEnded:
    return RunEnded.model_validate({"state": state, "finish_reason": reason, "answer": answer})


def shown(fold: SessionFold) -> list[tuple[str, ...]]:
    """The conversation as role and texts."""
    rows = []
    for message in fold.messages:
        texts = [
            b.text if isinstance(b, TextBlock | ToolResult) else f"call {getattr(b, 'id', '')}" for b in message.blocks
        ]
        rows.append((message.role, *texts))
    return rows


def test_results_follow_their_calls_in_call_order() -> None:
    fold = SessionFold.of(stored(user(), asks("a", "b"), result("b"), result("a"), says("done", 2)))
    assert shown(fold) == [
        ("user", "go"),
        ("assistant", "call a", "call b"),
        ("tool", "result of a", "result of b"),
        ("assistant", "done"),
    ]


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    fold = SessionFold.of(stored(user(), asks("a", "b"), result("b"), ends("cancelled", "cancelled"), user("next")))
    tool = fold.messages[2]
    assert [b.text for b in tool.blocks if isinstance(b, ToolResult)] == [NEVER_RAN, "result of b"]
    assert [b.is_error for b in tool.blocks if isinstance(b, ToolResult)] == [True, False]
    assert fold.messages[-1].text == "next"


@pytest.mark.parametrize("state", [s for s in NodeState if s.terminal])
def test_only_done_is_no_error(state: NodeState) -> None:
    fold = SessionFold.of(stored(user(), asks("a"), result("a", state=state)))
    [block] = fold.messages[2].blocks
    assert isinstance(block, ToolResult)
    assert block.is_error == (state is not NodeState.DONE)


def test_what_joins_during_a_turn_stands_behind_its_results() -> None:
    fold = SessionFold.of(stored(user(), asks("a"), Steer(text="wait"), Nudge(reason="x", text="mind"), result("a")))
    assert shown(fold)[2:] == [("tool", "result of a"), ("user", "wait"), ("user", "mind")]


def test_context_becomes_part_of_the_users_message() -> None:
    fold = SessionFold.of(stored(user(), Context(text="Now: Monday"), says("hi")))
    assert shown(fold) == [("user", "go", "Now: Monday"), ("assistant", "hi")]
    assert fold.run("r1").has_context


def test_the_first_result_of_a_node_stays_everywhere() -> None:
    fold = SessionFold.of(stored(user(), asks("a"), result("a", "first"), result("a", "second", NodeState.FAILED)))
    assert fold.run("r1").results["a"].text == "first"
    assert shown(fold)[-1] == ("tool", "first")


def test_a_result_that_came_before_its_message_belongs_to_it() -> None:
    """A call that is started while the model still talks may end before its message is logged."""
    fold = SessionFold.of(stored(user(), plan("a"), result("a"), plan("b"), asks("a", "b"), result("b")))
    assert shown(fold)[-1] == ("tool", "result of a", "result of b")


def test_an_output_that_only_fed_others_is_not_repeated() -> None:
    log = stored(user(), asks("a", "b"), result("a", "long"), result("b"), Elided(lines={"a": "[used by b]"}))
    assert shown(SessionFold.of(log))[-1] == ("tool", "[used by b]", "result of b")
    assert shown(SessionFold.of([*log, *stored(result("a", "long"))]))[-1] == ("tool", "[used by b]", "result of b")


def test_open_nodes_are_the_planned_ones_without_a_result() -> None:
    fold = SessionFold.of(stored(user(), asks("a", "b", "c"), plan("a"), plan("b"), plan("c"), result("b")))
    assert [n.node for n in fold.run("r1").open_nodes] == ["a", "c"]


def test_usage_and_cost_are_summed_and_one_unknown_price_makes_the_cost_unknown() -> None:
    known = stored(user(), says("a", 1, cost="0.10"), says("b", 2, cost="0.02"))
    run = SessionFold.of(known).run("r1")
    assert (run.steps, run.usage.total, run.cost) == (2, 22, Decimal("0.12"))
    assert SessionFold.of([*known, *stored(says("c", 3, cost=None))]).run("r1").cost is None


def test_a_run_that_ended_without_an_answer_says_so() -> None:
    fold = SessionFold.of(stored(user(), ends("failed", "error"), ("r2", user("again"))))
    assert shown(fold) == [
        ("user", "go"),
        ("assistant", "[This run ended without an answer: error]"),
        ("user", "again"),
    ]


def test_a_workflows_answer_is_part_of_the_conversation() -> None:
    opened = user("", kind="workflow", workflow="brief")
    fold = SessionFold.of(stored(opened, says(""), ends(answer="Rain at noon"), ("r2", user("and later?"))))
    assert shown(fold) == [("user", "[workflow brief]"), ("assistant", "Rain at noon"), ("user", "and later?")]


def test_a_hidden_workflow_leaves_nothing() -> None:
    opened = user("", kind="workflow", workflow="learn")
    assert shown(SessionFold.of(stored(opened, says(""), ends()))) == []


def test_an_answer_that_was_said_is_not_said_twice() -> None:
    fold = SessionFold.of(stored(user(), says("42"), ends(answer="42")))
    assert shown(fold) == [("user", "go"), ("assistant", "42")]


def test_attachments_are_named_with_their_handles() -> None:
    attachment = Attachment(name="cat.png", media_type="image/png", artifact="a:1")
    assert shown(SessionFold.of(stored(user(attachments=(attachment,))))) == [
        ("user", "go", "[attachment cat.png: image/png, handle a:1]")
    ]


def test_what_was_offered_stays_as_far_as_it_was_chosen() -> None:
    fold = SessionFold.of(
        stored(
            user(),
            Offered(layer="keywords", groups=("notes",), tools=("note_save",)),
            Offered(layer="find_tools", tools=("web_fetch",)),
            Offered(layer="all", groups=("everything",), tools=("x",)),
            Offered(layer="explicit", groups=("files",), tools=("file_read",)),
        )
    )
    assert list(fold.conversation("").offered_groups) == ["notes"]
    assert list(fold.conversation("").offered_tools) == ["web_fetch"]
    assert list(fold.run("r1").offered) == ["note_save", "web_fetch", "x", "file_read"]


def test_the_newest_fact_of_a_name_is_known() -> None:
    rows = [FactSet(name="a", version=v, row={"value": v, "by": "r1"}) for v in (1, 2)]
    assert SessionFold.of(stored(*rows)).facts["a"].version == 2


def test_entries_of_a_newer_version_are_passed_over() -> None:
    newer = decode("5-0", {"t": "dream", "v": "9", "run": "r1", "d": "{}"})
    fields = {"t": "nudge", "v": "1", "run": "r1", "d": '{"reason":"x","text":"y","colour":"red"}'}
    fold = SessionFold.of([*stored(user()), newer, decode("6-0", fields)])
    assert shown(fold) == [("user", "go"), ("user", "y")]
    assert fold.last_id == "6-0"
    assert newer.value is None
    assert newer.type == "dream"


def test_runs_are_told_apart() -> None:
    fold = SessionFold.of(stored(("r1", user()), ("r1", says("a")), ("r1", ends(answer="a")), ("r2", user("b"))))
    assert fold.run("r1").ended is not None
    assert fold.run("r2").ended is None
    assert fold.run("r2").started_ms == 4000
    assert fold.run("r3").message is None
