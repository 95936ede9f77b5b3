"""The loop guard against a table of traces, and rebuilt from the log after every step of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from coordinator.loop.guard import (
    LOOP_ENDED,
    REPEATED,
    Call,
    LoopGuard,
    Verdict,
    ending_text,
    loop_ended,
)
from shared.contract import Effect, NodeError, NodeResult, NodeState
from shared.entries import Assistant, Node
from shared.fold import RunFold
from shared.llm.model import Finish, Message, ToolCall

TABLE = yaml.safe_load((Path(__file__).parents[2] / "data" / "loop_traces.yaml").read_text("utf-8"))
TRACES = TABLE["traces"]
Step = list[tuple[Call, NodeResult]]


def call_of(row: list[Any]) -> Call:
    return Call.of(row[0], row[1], Effect(TABLE["effects"].get(row[0], "read")), judged="needs" not in row[4:])


def result_of(text: str) -> NodeResult:
    if text == "!skipped":
        return NodeResult(state=NodeState.SKIPPED, text="skipped")
    if text.startswith("!"):
        error = NodeError(code=text[1:], message=text)
        return NodeResult(state=NodeState.FAILED, text=text, error=error)
    return NodeResult(state=NodeState.DONE, text=text)


def log_step(run: RunFold, number: int, rows: list[list[Any]], results: list[NodeResult]) -> None:
    calls = []
    for position, (row, result) in enumerate(zip(rows, results, strict=True)):
        node = f"r.{number}.1.{position}"
        call = call_of(row)
        run.nodes[node] = Node(
            node=node,
            step=number,
            position=position,
            tool=row[0],
            args=row[1],
            effect=call.effect,
            needs=() if call.judged else (f"r.{number}.1.0",),
        )
        run.results[node] = result
        calls.append(ToolCall(id=node, name=row[0], arguments=row[1]))
    message = Message(role="assistant", blocks=tuple(calls))
    run.assistants.append(Assistant(step=number, attempt=1, message=message, finish=Finish.TOOL_CALLS))


def test_the_table_is_large_and_its_names_differ() -> None:
    assert len({t["name"] for t in TRACES}) == len(TRACES) >= 30


@pytest.mark.parametrize("trace", TRACES, ids=lambda t: t["name"])
def test_a_sensible_person_would_agree(trace: dict[str, Any]) -> None:
    guard, run = LoopGuard(), RunFold("r")
    for number, rows in enumerate(trace["steps"], 1):
        calls = [call_of(row) for row in rows]
        verdicts = guard.check(calls)
        assert [v.action for v in verdicts] == [row[3] for row in rows], f"step {number}"
        assert LoopGuard.of(run).check(calls) == verdicts, "a guard rebuilt from the log judges differently"
        results = [
            result_of(row[2]) if verdict.action == "run" else verdict.result
            for row, verdict in zip(rows, verdicts, strict=True)
        ]
        guard.observe(zip(calls, results, strict=True))
        log_step(run, number, rows, results)
        assert loop_ended(run) == any(v.action == "end" for v in verdicts)


def repeated(times: int, result: str = "nothing found") -> LoopGuard:
    guard = LoopGuard()
    for _ in range(times):
        guard.observe([(Call.of("search", {"q": "x"}), result_of(result))])
    return guard


def test_checking_changes_nothing() -> None:
    guard = repeated(3)
    call = Call.of("search", {"q": "x"})
    assert guard.check([call]) == guard.check([call])


def test_the_note_carries_the_earlier_result_and_goes_back_as_a_refusal() -> None:
    verdict = repeated(3).check([Call.of("search", {"q": "x"})])[0]
    assert (verdict.action, verdict.reason) == ("note", "repeated")
    assert "nothing found" in verdict.text
    assert "3 times" in verdict.text
    assert verdict.result.state is NodeState.REFUSED
    assert verdict.result.error is not None
    assert verdict.result.error.code == REPEATED


def test_a_long_earlier_result_is_quoted_in_part() -> None:
    assert len(repeated(3, "y" * 50_000).check([Call.of("search", {"q": "x"})])[0].text) < 3000


def test_the_end_names_the_calls_and_what_they_returned() -> None:
    guard = repeated(3)
    call = Call.of("search", {"q": "x"})
    for expected in ("note", "end"):
        verdict = guard.check([call])[0]
        assert verdict.action == expected
        guard.observe([(call, verdict.result)])
    assert verdict.result.error is not None
    assert verdict.result.error.code == LOOP_ENDED
    (report,) = guard.report
    assert report.times == 5
    text = ending_text(guard.report)
    assert 'search({"q":"x"}), 5 times' in text
    assert "nothing found" in text


def test_a_run_without_circles_reports_none() -> None:
    assert repeated(3).report == []


def test_a_duplicate_within_one_message_is_no_circle_of_the_run() -> None:
    guard = LoopGuard()
    calls = [Call.of("search", {"q": "x"})] * 5
    for actions in (["run"] * 3 + ["note"] * 2,) * 3:
        verdicts = guard.check(calls)
        assert [v.action for v in verdicts] == actions
        guard.observe(
            [(c, result_of("r") if v.action == "run" else v.result) for c, v in zip(calls, verdicts, strict=True)]
        )
    assert guard.report == []
    assert {v.action for v in guard.check(calls)} == {"note"}


def test_220_times_the_same_shell_command_ends_at_the_fifth() -> None:
    guard = LoopGuard()
    for number in range(220):
        args = {"cmd": "echo noop", "timeout": 5} if number % 2 else {"timeout": 5, "cmd": "echo noop"}
        call = Call.of("shell", args, Effect.WRITE)
        verdict = guard.check([call])[0]
        if verdict.action == "end":
            break
        guard.observe([(call, result_of("noop") if verdict.action == "run" else verdict.result)])
    assert number == 4


def test_792_different_calls_of_one_turn_are_all_run() -> None:
    calls = [Call.of("fetch", {"page": n}) for n in range(792)]
    assert LoopGuard().check(calls) == [Verdict()] * 792


def test_error_texts_with_changing_numbers_are_the_same_failure() -> None:
    guard = LoopGuard()
    call = Call.of("fetch", {"url": "u"})
    for seconds in ("30.01", "30.02", "30.07"):
        error = NodeError(code="timeout", message=f"no answer after {seconds} s")
        guard.observe([(call, NodeResult(state=NodeState.FAILED, text=error.message, error=error))])
    assert guard.check([call])[0].action == "note"


def test_calls_without_a_result_yet_do_not_count_after_a_takeover() -> None:
    run = RunFold("r")
    for number in range(1, 4):
        log_step(run, number, [["search", {"q": "x"}, "r", "run"]], [result_of("r")])
    del run.results["r.3.1.0"]
    assert LoopGuard.of(run).check([Call.of("search", {"q": "x"})])[0].action == "run"
