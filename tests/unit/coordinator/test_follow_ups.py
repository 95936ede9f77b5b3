"""What follows a run: a lesson, deliveries on the channels of its message, word of a delivery that failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.loop.follow_ups import failure_text, follow_ups
from shared.contract import NodeResult, NodeState, WorkflowSpec
from shared.delivery import MAX_TEXT
from shared.ids import is_name
from shared.messages import ErrorInfo, QueuedMessage
from shared.names import MAX_PRINCIPAL, day_session
from shared.settings import Settings

ERROR = ErrorInfo(code="timed_out", message="it took too long", hint="ask again")
OFFERED = ("learn", "deliver", "notice", "brief")


def _follow(
    state: str = "ended",
    answer: str = "It rains.",
    error: ErrorInfo | None = None,
    *,
    offered: tuple[str, ...] = OFFERED,
    results: tuple[NodeState, ...] = (),
    **message: Any,
) -> list[QueuedMessage]:
    values = {"run": "r1", "principal": "ana", "session": "sofa", "received_ms": 1, "text": "weather?", **message}
    specs = {name: WorkflowSpec(name=name, title=name.title(), steps=(), result="") for name in offered}
    handle: Any = SimpleNamespace(
        message=QueuedMessage(**values),
        lease=SimpleNamespace(run="r1", session="sofa"),
        session=SimpleNamespace(runs={"r1": SimpleNamespace(ended=None, message=None)}),
        run=SimpleNamespace(results={str(n): NodeResult(state=one) for n, one in enumerate(results)}),
    )
    services: Any = SimpleNamespace(settings=Settings(), directory=SimpleNamespace(workflow=specs.get))
    return follow_ups(handle, services, state, answer, error)


def test_each_channel_gets_a_message_of_its_own() -> None:
    first, second = _follow(deliver=("phone", "hook"))
    assert (first.workflow, first.principal) == ("deliver", "ana")
    assert first.session == day_session("deliver", first.received_ms, "ana")
    assert first.params == {
        "run": "r1", "session": "sofa", "title": "weather?", "text": "It rains.", "channel": "phone",
        "delivery": "r1.phone",
    }  # fmt: skip
    assert second.params["delivery"] == "r1.hook"
    assert first.run != second.run
    assert first.deliver == ()


def test_a_workflow_is_called_by_its_title_and_a_late_prompt_by_its_words() -> None:
    (flow,) = _follow(kind="workflow", workflow="brief", text="", deliver=("phone",))
    assert flow.params["title"] == "Brief"
    (late,) = _follow(text="[Scheduled for …; it comes 2 h late]\n\nLook at [the]\n\nmail", deliver=("phone",))
    assert late.params["title"] == "Look at [the] mail"
    assert late.params["text"] == "[Scheduled for …; it comes 2 h late]\n\nIt rains."  # whoever reads it there knows


def test_a_failure_is_delivered_too() -> None:
    (one,) = _follow("failed", "", ERROR, deliver=("phone",))
    assert one.params["text"] == "It failed: it took too long (ask again)"
    assert failure_text(ERROR, "so far") == "It failed: it took too long (ask again)\n\nso far"


@pytest.mark.parametrize(
    ("state", "answer", "more"),
    [
        ("ended", "  ", {}),
        ("cancelled", "half", {}),
        ("ended", "x", {"parent": "r0.1.0.0"}),
        ("ended", "x", {"offered": ("notice",)}),
    ],
    ids=["silent", "cancelled", "subagent", "nobody offers it"],
)
def test_what_is_not_delivered(state: str, answer: str, more: dict[str, Any]) -> None:
    error = ErrorInfo(code="cancelled", message="no") if state == "cancelled" else None
    assert _follow(state, answer, error, deliver=("phone",), **more) == []


def test_a_text_without_end_is_cut_where_it_is_queued() -> None:
    (one,) = _follow(answer="x" * (MAX_TEXT + 1), deliver=("phone",))
    assert len(str(one.params["text"])) == MAX_TEXT


def test_a_delivery_that_failed_as_a_run_is_told_in_the_session_of_the_result() -> None:
    params = {"delivery": "r0.phone", "channel": "phone", "session": "kitchen"}
    values: dict[str, Any] = {"kind": "workflow", "workflow": "deliver", "params": params}
    (told,) = _follow("failed", "", ERROR, **values)
    assert (told.workflow, told.session) == ("notice", "kitchen")
    assert told.params == {"text": "The result could perhaps not be delivered on the channel phone: it took too long"}
    assert _follow("ended", "", **values) == []
    assert _follow("failed", "", ERROR, **values | {"params": {"delivery": "r0.phone"}}) == []  # a later try


def test_a_lesson_goes_beside_a_delivery_if_tools_ran() -> None:
    found = _follow(results=(NodeState.DONE,), deliver=("phone",))
    assert [one.workflow for one in found] == ["learn", "deliver"]
    assert found[0].params == {"run": "r1", "session": "sofa"}
    assert _follow(results=(NodeState.REFUSED, NodeState.CANCELLED)) == []
    assert _follow(results=(NodeState.DONE,), kind="workflow", workflow="brief") == []
    assert [one.workflow for one in _follow("failed", "", ERROR, results=(NodeState.DONE,))] == ["learn"]


@pytest.mark.parametrize(("principal", "session"), [("ana", ".learn.2026-11-30.ana"), ("", ".learn.2026-11-30")])
def test_a_hidden_workflow_has_a_session_for_each_day(principal: str, session: str) -> None:
    midnight = 1_796_083_200_000
    assert day_session("learn", midnight - 1, principal) == session
    assert day_session("learn", midnight, principal) == session.replace("11-30", "12-01")
    assert is_name(day_session("learn", midnight, "a" * MAX_PRINCIPAL))
