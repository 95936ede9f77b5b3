"""What a run does next, row by row."""

from __future__ import annotations

from decimal import Decimal

import pytest

from coordinator.loop.decide import (
    FORCED,
    MOST_CONTINUATIONS,
    Action,
    CallModel,
    Collect,
    Finished,
    Limits,
    Tell,
    answer_text,
    decide,
    spent,
)
from shared.contract import NodeResult, NodeState
from shared.entries import Assistant, LogEntry, Node, NodeEnded, Nudge, Steer, UserMessage
from shared.fold import RunFold
from shared.llm.model import Finish, Message, TextBlock, ToolCall, Usage
from shared.messages import Budget
from shared.settings import BudgetSettings

LIMITS = Limits(steps=10, seconds=100.0, tokens=0, dollars=Decimal(0))


def run_of(*entries: LogEntry, usage: Usage | None = None, cost: Decimal | None = Decimal(0)) -> RunFold:
    """A run whose fold holds these entries."""
    run = RunFold("r", usage=usage or Usage(), cost=cost, last=UserMessage.T)
    for entry in entries:
        match entry:
            case Assistant():
                run.assistants.append(entry)
            case Node():
                run.nodes[entry.node] = entry
                continue
            case NodeEnded():
                run.results[entry.node] = entry.result
            case Nudge():
                run.nudges.append(entry)
                if entry.reason == "broken_call":
                    run.broken_steps.append(run.steps)
        run.last = entry.T
    return run


def says(text: str, finish: Finish = Finish.STOP) -> Assistant:
    return Assistant(
        step=1, attempt=1, message=Message(role="assistant", blocks=(TextBlock(text=text),)), finish=finish
    )


def asks(*nodes: str) -> Assistant:
    calls = tuple(ToolCall(id=n, name="probe", arguments={}) for n in nodes)
    return Assistant(step=1, attempt=1, message=Message(role="assistant", blocks=calls), finish=Finish.TOOL_CALLS)


def node(name: str) -> Node:
    return Node(node=name, step=1, position=0, tool="probe")


def done(name: str) -> NodeEnded:
    return NodeEnded(node=name, result=NodeResult(state=NodeState.DONE))


def told(reason: str) -> Nudge:
    return Nudge(reason=reason, text="…")


CUT = says("half ", Finish.LENGTH)
EMPTY = says("")

ROWS: list[tuple[str, RunFold, Action | str]] = [
    ("a new run", run_of(), CallModel()),
    ("open nodes", run_of(asks("a", "b"), node("a"), node("b"), done("a")), Collect((node("b"),))),
    ("all results are there", run_of(asks("a"), node("a"), done("a")), CallModel()),
    ("an answer", run_of(says("42")), Finished("stop", "42")),
    ("an answer with an unknown label", run_of(says("42", Finish.UNKNOWN)), Finished("stop", "42")),
    ("a steer came after the answer", run_of(says("42"), Steer(text="and?")), CallModel()),
    ("an answer that is cut", run_of(CUT), "continue"),
    ("the piece that continues it", run_of(CUT, told("continue"), says("whole")), Finished("stop", "half whole")),
    (
        "cut too often",
        run_of(CUT, *[e for _ in range(MOST_CONTINUATIONS) for e in (told("continue"), CUT)]),
        Finished("length", "half " * (MOST_CONTINUATIONS + 1)),
    ),
    ("an empty answer", run_of(EMPTY), "empty"),
    ("empty again", run_of(EMPTY, told("empty"), EMPTY), "empty_answers"),
    ("a call as text", run_of(says('{"name": "f", "arguments": {}}')), "call_as_text"),
    ("a call as text again", run_of(told("call_as_text"), says('{"name": "f", "arguments": {}}')), "empty"),
    ("a call as text although forced", run_of(told("loop"), says('{"name": "f", "arguments": {}}')), "plain_answer"),
    ("empty although forced", run_of(told("empty_answers"), EMPTY), "plain_answer"),
    (
        "empty even in plain words",
        run_of(told("empty_answers"), EMPTY, told("plain_answer"), EMPTY),
        Finished("empty_answers", "", "failed"),
    ),
    ("filtered", run_of(says("I", Finish.CONTENT_FILTER)), Finished("content_filter", "I", "failed")),
    ("filtered without a word", run_of(says("", Finish.CONTENT_FILTER)), Finished("content_filter", "", "failed")),
    ("a broken call", run_of(EMPTY, told("broken_call")), CallModel()),
    ("broken calls without end", run_of(*[e for _ in range(3) for e in (EMPTY, told("broken_call"))]), "broken_calls"),
    (
        "broken calls with good steps between",
        run_of(*[e for _ in range(3) for e in (EMPTY, told("broken_call"), says("a"), told("continue"))]),
        CallModel(),
    ),
    ("the forced answer is cut", run_of(told("budget_steps"), CUT), "continue"),
    ("and asked for again", run_of(told("budget_steps"), CUT, told("continue")), CallModel(forced=True)),
    ("whitespace is no answer", run_of(says(" \n")), "empty"),
]


@pytest.mark.parametrize(("run", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_comes_next(run: RunFold, expected: Action | str) -> None:
    found = decide(run, LIMITS, 1.0)
    if isinstance(expected, str):
        assert isinstance(found, Tell)
        assert found.reason == expected
        assert found.text
    else:
        assert found == expected


@pytest.mark.parametrize("reason", FORCED)
def test_a_forcing_nudge_gives_one_last_call_without_tools(reason: str) -> None:
    assert decide(run_of(told(reason)), LIMITS, 1.0) == CallModel(forced=True)
    assert decide(run_of(told(reason), says("best guess")), LIMITS, 1.0) == Finished(reason, "best guess")


@pytest.mark.parametrize(
    ("limits", "run", "age_s", "reason"),
    [
        (Limits(1, 100.0, 0, Decimal(0)), run_of(asks("a"), node("a"), done("a")), 0.0, "budget_steps"),
        (Limits(9, 100.0, 0, Decimal(0)), run_of(), 100.0, "budget_seconds"),
        (Limits(9, 100.0, 50, Decimal(0)), run_of(usage=Usage(input=49, cache_read=1)), 0.0, "budget_tokens"),
        (Limits(9, 100.0, 0, Decimal("0.5")), run_of(cost=Decimal("0.5")), 0.0, "budget_dollars"),
    ],
)
def test_a_budget_that_is_used_up(limits: Limits, run: RunFold, age_s: float, reason: str) -> None:
    found = decide(run, limits, age_s)
    assert isinstance(found, Tell)
    assert found.reason == reason
    assert reason in FORCED


def test_open_nodes_come_before_a_spent_budget() -> None:
    run = run_of(asks("a"), node("a"))
    assert decide(run, Limits(1, 1.0, 1, Decimal(1)), 99.0) == Collect((node("a"),))


def test_a_finished_answer_is_not_lost_to_a_spent_budget() -> None:
    assert decide(run_of(says("42")), Limits(1, 1.0, 0, Decimal(0)), 99.0) == Finished("stop", "42")


def test_nothing_is_spent_within_the_bounds() -> None:
    run = run_of(says("x"), usage=Usage(input=10**9), cost=Decimal(1000))
    assert spent(run, LIMITS, 99.9) == ""
    assert spent(run_of(cost=None), Limits(9, 9.0, 0, Decimal(1)), 0.0) == ""


DEFAULT = BudgetSettings(steps=90, seconds=900.0, tokens=1000, dollars=1.0)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Budget(), (90, 900.0, 1000, "1.0")),
        (Budget(steps=3, seconds=5.0, tokens=10, dollars=0.25), (3, 5.0, 10, "0.25")),
        (Budget(tokens=10**9, dollars=99.0), (90, 900.0, 1000, "1.0")),
    ],
)
def test_limits_of_a_run(wanted: Budget, expected: tuple[int, float, int, str]) -> None:
    limits = Limits.of(DEFAULT, wanted)
    assert limits == Limits(expected[0], expected[1], expected[2], Decimal(expected[3]))


def test_a_wish_bounds_where_the_default_does_not() -> None:
    limits = Limits.of(BudgetSettings(), Budget(tokens=10, dollars=0.5))
    assert (limits.tokens, limits.dollars) == (10, Decimal("0.5"))


def test_only_the_last_answer_counts_with_the_pieces_in_front_of_it() -> None:
    assert answer_text(run_of(says("first"), says("half ", Finish.LENGTH), says("whole"))) == "half whole"
    assert answer_text(run_of(asks("a"), says("after the tool"))) == "after the tool"
    assert answer_text(run_of()) == ""


def test_results_that_were_there_before_their_message_are_results() -> None:
    run = run_of(node("a"), done("a"), asks("a"))
    assert decide(run, LIMITS, 0.0) == CallModel()
