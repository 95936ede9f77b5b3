"""Random workflows, carried out in random order, against the meaning of their declarations in a few lines."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.graph.steps import Fate, StepGraph
from shared.contract import NodeState, OnError, StepSpec, WorkflowSpec

pytestmark = pytest.mark.property

D, F, S, U = NodeState.DONE, NodeState.FAILED, NodeState.SKIPPED, NodeState.OUTCOME_UNKNOWN


@dataclass(frozen=True)
class Case:
    """A workflow, and how each step would end if it ran: done, failed, skipped by its condition, or unknown."""

    spec: WorkflowSpec
    would: dict[str, NodeState]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    count = draw(st.integers(1, 9))
    names = [f"s{i}" for i in range(count)]
    stand_ins: dict[str, str] = {}
    steps: list[StepSpec] = []
    for i, name in enumerate(names):
        possible = [n for n in names[:i] if n not in stand_ins.values()]
        needs = tuple(draw(st.lists(st.sampled_from(possible), unique=True, max_size=3))) if possible else ()
        optional = tuple(n for n in needs if draw(st.booleans()))
        on_error = OnError(do=draw(st.sampled_from(["fail", "skip", "value"])), value=1)
        free = [s.id for s in steps if s.id not in stand_ins and s.id not in stand_ins.values()]
        # A stand-in must come before whatever needs the step that it stands in for.
        owners = [o for o in free if not any(o in s.needs for s in steps)]
        if owners and draw(st.integers(0, 3)) == 0:
            owner = draw(st.sampled_from(owners))
            stand_ins[owner] = name
            needs = tuple(n for n in needs if n != owner)
            optional = tuple(n for n in optional if n != owner)
        steps.append(StepSpec(id=name, kind="code", needs=needs, optional=optional, on_error=on_error))
    steps = [
        s.model_copy(update={"on_error": OnError(do="step", step=stand_ins[s.id])}) if s.id in stand_ins else s
        for s in steps
    ]
    order = draw(st.permutations(steps))
    would = {name: draw(st.sampled_from([D, D, D, F, S, U])) for name in names}
    result = draw(st.sampled_from(names))
    return Case(WorkflowSpec(name="w", title="", steps=tuple(order), result=result), would)


def meaning(case: Case) -> dict[str, NodeState] | None:
    """How each step ends, by the words of the declarations alone; None if the workflow fails."""
    steps = {s.id: s for s in case.spec.steps}
    owner_of = {s.on_error.step: s.id for s in case.spec.steps if s.on_error.do == "step"}
    ends: dict[str, NodeState] = {}

    def gives(name: str) -> str:
        """value, nothing or absent, for those that need it."""
        if end(name) is not F:
            return "value" if end(name) is D else "absent"
        how = steps[name].on_error
        return gives(how.step) if how.do == "step" else {"value": "value", "skip": "nothing"}[how.do]

    def end(name: str) -> NodeState:
        if name not in ends:
            step, owner = steps[name], owner_of.get(name)
            idle = owner is not None and end(owner) is not F
            lacking = any(gives(n) == "absent" for n in step.needs if n not in step.optional)
            ends[name] = S if idle or lacking else case.would[name]
            if ends[name] is U or (ends[name] is F and step.on_error.do == "fail"):
                raise LookupError(name)
        return ends[name]

    try:
        return {name: end(name) for name in steps}
    except LookupError:
        return None


def carried_out(case: Case, data: st.DataObject) -> tuple[dict[str, NodeState], StepGraph]:
    """The workflow as the loop does it, with the ends of steps in any order."""
    graph = StepGraph(case.spec)
    ended: dict[str, NodeState] = {}
    running: list[str] = []
    while len(ended) < len(graph.steps):
        outlook = graph.outlook(ended, running)
        assert not set(outlook.start) & set(outlook.skip), "a step starts or is skipped"
        for step in (*outlook.start, *outlook.skip):
            assert step not in ended
            assert step not in running
        for step in outlook.start:
            assert not graph.failed(ended), "nothing begins behind a failure"
            assert all(graph.fate(need, ended) is not None for need in graph.steps[step].needs), "needs come first"
        ended.update(dict.fromkeys(outlook.skip, S))
        running += outlook.start
        if running:
            step = running.pop(data.draw(st.integers(0, len(running) - 1)))
            ended[step] = case.would[step]
        else:
            assert outlook.skip, "it goes on, or it is over"
    return ended, graph


@given(cases(), st.data())
@settings(max_examples=300)
def test_every_order_comes_to_what_was_declared(case: Case, data: st.DataObject) -> None:
    ended, graph = carried_out(case, data)
    assert ended.keys() == graph.steps.keys(), "each step has one end"
    expected = meaning(case)
    if expected is None:
        culprit = graph.failed(ended)
        assert culprit
        assert case.would[culprit] in (F, U)
        return
    assert ended == expected
    assert graph.failed(ended) == ""
    for step in graph.steps:
        fate = graph.fate(step, ended)
        assert fate in (Fate.VALUE, Fate.NOTHING, Fate.ABSENT)
        source = graph.source(step, ended)
        assert (source.step != "" or source.value == 1) == (fate is Fate.VALUE)
        assert not source.step or ended[source.step] is D


@given(cases(), st.data())
@settings(max_examples=100)
def test_what_was_taken_over_goes_on_the_same(case: Case, data: st.DataObject) -> None:
    """Asked anew with what has ended until then, it says the same: nothing is kept between questions."""
    ended, graph = carried_out(case, data)
    some = dict(data.draw(st.permutations(list(ended.items())))[: data.draw(st.integers(0, len(ended)))])
    assert StepGraph(case.spec).outlook(some, ()) == graph.outlook(some, ())


@given(cases(), st.data())
@settings(max_examples=100)
def test_a_reason_to_stop_skips_all_that_has_not_begun(case: Case, data: st.DataObject) -> None:
    graph = StepGraph(case.spec)
    begun = data.draw(st.sets(st.sampled_from(list(graph.steps))))
    outlook = graph.outlook({}, begun, "time is up")
    assert outlook.start == ()
    assert set(outlook.skip) == graph.steps.keys() - begun
