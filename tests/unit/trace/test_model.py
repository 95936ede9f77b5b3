from __future__ import annotations

import pytest

from ops.trace.model import covered, timeline
from ops.trace.values import NodeBar, Timeline
from shared.contract import NodeState
from shared.entries import Elided, Nudge, Retry, Stored
from shared.errors import UserError
from shared.llm.model import Usage
from tests.unit.trace.support import RUN, T0, Story, crowd, failures, name, node


def story(skew: int = 0) -> Story:
    """One step with two calls, of which the second needs the first; then an answer."""
    told = Story(queued_ms=400)
    told.step(1, 10, 110, 300, "I look.", [node(1, 0, "look_up", key="a"), node(1, 1, "send", needs=[0], text="$1")])
    told.end(460, name(1, 0), start=310, worker="w-a", skew=skew)
    told.end(600, name(1, 1), start=480, worker="w-b", skew=-skew)
    told.step(2, 610, 700, 800, "Found.")
    told.finish(805, "Found.", cost="0.01")
    return told


def bar(found: Timeline, step: int, position: int) -> NodeBar:
    return next(n for n in found.nodes if n.id == name(step, position))


def bar_of(found: Timeline, node_id: str) -> NodeBar:
    return next(n for n in found.nodes if n.id == node_id)


def test_a_run_with_its_events() -> None:
    found = story().timeline()
    assert (found.state, found.finish_reason, found.answer) == ("ended", "stop", "Found.")
    assert (found.started_ms - T0, found.end_ms - T0, found.ended_ms) == (0, 805, T0 + 805)
    assert found.started_ms - found.received_ms == 400
    assert [(s.number, s.started_ms - T0, (s.ended_ms or 0) - T0) for s in found.steps] == [(1, 10, 300), (2, 610, 800)]
    assert found.steps[0].attempts[0].first_ms == T0 + 110
    assert found.steps[0].calls == 2
    second = bar(found, 1, 1)
    assert (second.planned_ms - T0, second.ready_ms - T0) == (300, 460), "ready when what it needs had ended"
    assert (second.wait_ms(found.end_ms), second.run_ms(found.end_ms)) == (20, 120)
    assert found.workers == ("w-a", "w-b")
    assert found.tag("w-b") == "w2"
    assert found.events


def test_figures() -> None:
    figures = story().timeline().figures
    assert (figures.seconds, figures.nodes, figures.workers, figures.steps) == (0.805, 2, 2, 2)
    assert figures.run_ms == 150 + 120
    assert figures.busy_ms == 300
    assert figures.speed_up == 0.9
    assert figures.model_ms == 290 + 190
    assert figures.critical_ms == 290 + 150 + 120 + 190
    assert figures.tokens == 2100
    assert figures.cost == "0.01"


def test_the_log_alone_gives_the_same_nodes_and_says_what_it_inferred() -> None:
    whole, logged = story().timeline(), story().timeline(events=False)
    assert not logged.events
    assert [s.exact for s in logged.steps] == [False, False]
    assert logged.steps[1].started_ms == T0 + 600, "a step cannot begin before the nodes before it have ended"
    strip = {"claims"}
    assert [n.model_dump(exclude=strip) for n in logged.nodes] == [n.model_dump(exclude=strip) for n in whole.nodes]


def test_wrong_clocks_of_workers_shift_nothing() -> None:
    for events in (True, False):
        assert story(skew=90_000).timeline(events=events).nodes == story().timeline(events=events).nodes


def test_broken_attempts_stay_visible() -> None:
    step = failures().timeline().steps[0]
    first, second = step.attempts
    assert (first.number, first.failed, (first.ended_ms or 0) - T0) == (1, "the stream broke off", 480)
    assert (second.number, second.failed, (second.ended_ms or 0) - T0) == (2, "", 1400)
    assert (second.first_ms, second.text_ms) == (T0 + 860, T0 + 1100)


def test_every_state_is_kept_with_its_times() -> None:
    found = failures().timeline()
    states = {n.state for n in found.nodes}
    assert states == set(NodeState) - {NodeState.PLANNED, NodeState.RUNNING}
    assert bar(found, 1, 4).started_ms is None, "a skipped node never ran"
    unknown = bar(found, 1, 3)
    assert (unknown.started_ms, unknown.ended_ms) == (T0 + 1800, T0 + 4100), "the claim tells when it began"
    assert found.error == "asked to end"
    assert [m.kind for m in found.marks] == ["connection", "node_requeued"]


def test_a_run_that_goes_on_reaches_to_now() -> None:
    told = Story()
    told.step(1, 10, 50, 100, calls=[node(1, 0), node(1, 1), node(1, 2)])
    told.claim(120, name(1, 0), "w")
    told.end(200, name(1, 1), start=120, worker="w")
    found = told.timeline(now=900)
    assert (found.state, found.ended_ms, found.end_ms) == ("running", None, T0 + 900)
    assert [n.state for n in found.nodes] == [NodeState.RUNNING, NodeState.DONE, NodeState.PLANNED]
    assert bar(found, 1, 0).run_ms(found.end_ms) == 780
    assert bar(found, 1, 2).wait_ms(found.end_ms) == 800


def test_without_events_the_logged_lengths_of_attempts_count() -> None:
    told = Story()
    retry = Retry(provider="q", model="z", attempt=1, code="overloaded", usage=Usage(input=7), cost="0.5", took_ms=200)
    told.answer(1, 1000, attempt=2, first_ms=100, took_ms=400, cost="1", retries=(retry,))
    told.finish(1001)
    (step,) = told.timeline(events=False).steps
    assert [(a.model, a.started_ms - T0, (a.ended_ms or 0) - T0, a.failed) for a in step.attempts] == [
        ("q/z", 0, 200, "overloaded"),
        ("p/m", 600, 1000, ""),
    ]
    assert step.attempts[1].first_ms == T0 + 700
    assert (step.tokens_in, step.tokens_out, step.cost) == (1007, 50, "1.5")


def test_a_stream_of_calls_alone_has_its_first_token_from_the_log() -> None:
    told = Story()
    told.event(50, "step.started", step=1, attempt=1, model="p/m")
    told.answer(1, 400, calls=[node(1, 0)], first_ms=120, took_ms=348)
    assert told.timeline().steps[0].attempts[0].first_ms == T0 + 170


def test_a_node_that_is_logged_again_when_it_is_ready_was_planned_before() -> None:
    told = Story()
    second = node(1, 1, needs=[0], text="$1")
    told.step(1, 10, 50, 100, calls=[node(1, 0), second])
    told.end(300, name(1, 0), start=110, worker="w")
    told.plan(305, second.model_copy(update={"args_hash": "now"}))
    told.end(400, name(1, 1), start=310, worker="w")
    found = told.timeline(now=500)
    assert (bar(found, 1, 1).planned_ms, bar(found, 1, 1).ready_ms) == (T0 + 100, T0 + 300)
    assert found.figures.nodes == 2


def test_early_nodes_that_nobody_adopted_are_told_and_hold_nobody_up() -> None:
    told = Story()
    told.event(10, "step.started", step=1, attempt=1, model="p/m")
    kept, lost = (node(1, i).model_copy(update={"node": f"{RUN}.1.1.{i}e"}) for i in (0, 1))
    told.plan(40, kept)
    told.plan(60, lost)
    told.answer(1, 200, attempt=2, calls=[kept])
    told.end(240, kept.node, start=45, worker="w")
    told.end(900, lost.node, start=65, worker="w")
    told.step(2, 245, 260, 300, "Done.")
    told.finish(901)
    found = told.timeline()
    assert [(n.id, n.adopted, n.planned_ms - T0) for n in found.nodes] == [
        (kept.node, True, 40),
        (lost.node, False, 60),
    ]
    assert found.critical == ("step:1", kept.node, "step:2"), "nothing waited for the other one"
    assert bar_of(found, kept.node).started_ms == T0 + 45, "it ran while the model still streamed"


def test_a_plan_holds_its_steps_and_counts_once() -> None:
    told = Story()
    plan = node(1, 0, "plan")
    told.step(1, 10, None, 100, calls=[plan])
    ids = [f"{plan.node}.{i}" for i in (1, 2)]
    first, second = (
        node(1, i, "look_up", q=i).model_copy(update={"node": ids[i], "needs": tuple(ids[:i]), "call": False})
        for i in (0, 1)
    )
    told.plan(105, first)
    told.end(300, ids[0], start=110, worker="w")
    told.plan(305, second)
    told.end(500, ids[1], start=310, worker="w")
    told.log(505, Elided(lines={ids[0]: "elided"}))
    told.end(510, plan.node, text="both")
    told.step(2, 515, 520, 600, "Done.")
    told.finish(605)
    found = told.timeline()
    assert [n.id for n in found.nodes] == [plan.node, *ids]
    assert found.nodes[0].holds == tuple(ids)
    assert [n.owner for n in found.nodes[1:]] == [plan.node] * 2
    assert [n.elided for n in found.nodes] == [False, True, False]
    assert found.figures.run_ms == 190 + 190
    assert found.critical == ("step:1", *ids, "step:2")
    assert found.figures.critical_ms == 90 + 190 + 190 + 85


def test_a_step_whose_run_ended_first() -> None:
    told = Story()
    told.event(10, "step.started", step=1, attempt=1, model="p/m")
    told.finish(500, "", state="failed", finish_reason="error", error={"code": "x", "message": "no model"})
    (step,) = told.timeline().steps
    assert (step.ended_ms, step.attempts[0].failed) == (T0 + 500, "the run ended first")


def test_a_takeover_shows_the_stream_that_was_lost() -> None:
    told = Story()
    told.event(10, "step.started", step=1, attempt=1, model="p/m")
    told.step(1, 5000, 5100, 5300, "Hello")
    attempts = told.timeline().steps[0].attempts
    assert [(a.started_ms - T0, bool(a.failed)) for a in attempts] == [(10, True), (5000, False)]


def test_a_node_that_the_coordinator_did_itself() -> None:
    told = Story("nightly", kind="workflow")
    told.plan(5, node(0, 0, "collect").model_copy(update={"call": False}))
    told.end(50, name(0, 0), start=10, worker="w")
    told.event(55, "step.started", step=1, attempt=1, model="p/m")
    told.plan(52, node(0, 1, "model:step", needs=[0]).model_copy(update={"call": False}))
    told.answer(1, 400)
    told.end(400, name(0, 1))
    told.finish(405)
    found = told.timeline()
    assert found.title == "nightly"
    assert bar(found, 0, 1).run_ms(found.end_ms) == 348
    assert found.critical == (name(0, 0), name(0, 1)), "a model step of a workflow counts once, as a node"
    assert found.figures.critical_ms == 40 + 348


def test_a_notice_that_mirrors_a_nudge_is_told_once() -> None:
    told = Story()
    told.log(30, Nudge(reason="loop", text="You repeat yourself."))
    told.event(30, "notice", code="loop", text="You repeat yourself.")
    told.event(40, "approval.requested", node="n", tool="shell")
    told.finish(50)
    assert [(m.kind, m.text) for m in told.timeline().marks] == [
        ("loop", "You repeat yourself."),
        ("approval", "shell"),
    ]


def test_other_runs_of_the_session_are_passed_over() -> None:
    told = story()
    before = told.timeline()
    told.log(2000, Nudge(reason="other", text="of another run"), run="r2")
    told.log(2000, node(9, 0), run="r2")
    assert told.timeline() == before


def test_entries_of_a_newer_version_are_passed_over() -> None:
    told = story()
    before = told.timeline()
    told.entries.insert(1, Stored(id=f"{T0}-99", run=RUN, type="of.tomorrow", value=None))
    assert told.timeline() == before


def test_an_unknown_run() -> None:
    with pytest.raises(UserError, match="no run r9"):
        timeline("r9", story().entries)


def test_two_hundred_nodes() -> None:
    found = crowd().timeline()
    assert found.figures.nodes == 200
    assert found.figures.speed_up is not None
    assert 15 < found.figures.speed_up <= 32, "32 ran at once"
    assert found.figures.critical_ms <= found.figures.seconds * 1000


def test_covered_is_the_length_of_the_union() -> None:
    assert covered([(0, 10), (5, 8), (20, 30), (25, 40)]) == 30
    assert covered([]) == 0
