"""The loop guard on generated runs: work goes on, circles end."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.loop.guard import Call, LoopGuard
from shared.contract import Effect, NodeResult, NodeState

pytestmark = pytest.mark.property

WORDS = ("a", "b", "c", "d")


def done(text: str) -> NodeResult:
    return NodeResult(state=NodeState.DONE, text=text)


@given(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True), min_size=100, max_size=100))
@settings(max_examples=100, deadline=None)
def test_a_run_in_a_world_that_never_changes_comes_to_an_end(steps: list[list[str]]) -> None:
    """However the model chooses among four reading calls: three runs and a few notes each, then it is over."""
    guard = LoopGuard()
    for step in steps:
        calls = [Call.of("read", {"word": word}) for word in step]
        verdicts = guard.check(calls)
        if any(v.action == "end" for v in verdicts):
            return
        results = [done(w) if v.action == "run" else v.result for w, v in zip(step, verdicts, strict=True)]
        guard.observe(zip(calls, results, strict=True))
    pytest.fail("a hundred steps without an end")


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=60))
@settings(deadline=None)
def test_results_that_always_change_are_never_a_loop(calls: list[str]) -> None:
    guard = LoopGuard()
    for number, word in enumerate(calls):
        call = Call.of("poll", {"of": word})
        assert guard.check([call])[0].action == "run"
        guard.observe([(call, done(f"{word} at {number}"))])


@given(
    st.lists(st.text(max_size=6), min_size=1, max_size=40, unique=True),
    st.sampled_from([Effect.WRITE, Effect.IDEMPOTENT]),
)
@settings(deadline=None)
def test_deeds_that_were_not_done_before_are_never_a_loop(texts: list[str], effect: Effect) -> None:
    guard = LoopGuard()
    for text in texts:
        call = Call.of("say", {"text": text}, effect)
        assert guard.check([call])[0].action == "run"
        guard.observe([(call, done("ok"))])


@given(st.dictionaries(st.sampled_from(WORDS), st.integers() | st.text(max_size=4), min_size=2))
def test_the_order_of_arguments_is_no_difference(args: dict[str, object]) -> None:
    assert Call.of("t", args) == Call.of("t", dict(reversed(list(args.items()))))
