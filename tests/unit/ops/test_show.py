import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.cli.common import clean
from ops.cli.demo import Outcome, _judge, found_facts
from ops.cli.show import EventPrinter
from ops.supervisor.child import Row, State
from ops.supervisor.report import duration, status_line
from shared.entries import EVENT_TYPES, Event
from shared.messages import ErrorInfo, Reply


def _show(*events: tuple[str, dict[str, object]], colour: bool = False) -> tuple[str, EventPrinter]:
    out: list[str] = []
    printer = EventPrinter(out.append, colour)
    for kind, data in events:
        printer.show(Event(id="1-0", type=kind, run="r", data=data))
    return "".join(out), printer


def test_a_turn_reads_like_a_conversation() -> None:
    text, printer = _show(
        ("thinking.delta", {"text": "hm"}),
        ("text.delta", {"text": "I will "}),
        ("text.delta", {"text": "look."}),
        ("node.planned", {"node": "n1", "tool": "file_read", "args": {"path": "a.md"}}),
        (
            "node.finished",
            {"node": "n1", "tool": "file_read", "state": "done", "started_ms": 1000, "ended_ms": 1250, "worker": "w1"},
        ),
        ("step.started", {}),
        ("text.delta", {"text": "Done."}),
    )
    assert text.split("\n") == [
        "hm",
        "I will look.",
        '  → file_read {"path": "a.md"}',
        "  ✓ file_read a.md  250 ms  on w1",
        "Done.",
    ]
    assert printer.nodes == {"n1": "done"}
    assert printer.workers == {"w1"}
    assert printer.streamed == "Done."


def test_a_failed_node_says_why() -> None:
    text, _ = _show(
        ("node.finished", {"node": "n", "tool": "t", "state": "failed", "error": {"message": "no such file"}})
    )
    assert "✗ t failed: no such file" in text


def test_a_restarted_step_forgets_what_was_streamed() -> None:
    _, printer = _show(("text.delta", {"text": "half"}), ("step.restarted", {}), ("text.delta", {"text": "whole"}))
    assert printer.streamed == "whole"


def test_only_a_terminal_gets_colour_and_nobody_gets_control_codes() -> None:
    plain, _ = _show(("thinking.delta", {"text": "x\x1b[2J"}))
    assert "\x1b" not in plain
    coloured, _ = _show(("thinking.delta", {"text": "x\x1b[2J"}), colour=True)
    assert coloured == "\x1b[2mx�[2J\x1b[0m"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda c: st.lists(c) | st.dictionaries(st.text(), c),
    max_leaves=5,
)
_KEYS = st.sampled_from(
    [
        "text",
        "node",
        "tool",
        "args",
        "state",
        "error",
        "groups",
        "options",
        "path",
        "allowed",
        "worker",
        "started_ms",
        "ended_ms",
        "x",
    ]
)


@pytest.mark.property
@given(st.lists(st.tuples(st.sampled_from([*EVENT_TYPES, "later.type"]), st.dictionaries(_KEYS, _JSON)), max_size=8))
def test_no_event_breaks_the_display_or_the_terminal(events: list[tuple[str, dict[str, object]]]) -> None:
    text, _ = _show(*events)
    assert text == clean(text)


def test_facts_are_found_in_any_spelling() -> None:
    facts = [{"name": "a", "any_of": ["9.80", "9,80"]}, {"name": "b", "any_of": ["63 %"]}]
    assert found_facts("it costs 9,80 euros", facts) == ["a"]


@pytest.mark.parametrize(
    ("answer", "states", "rehearsal", "reason"),
    [
        ("nothing", ["done"], True, "the answer lacks"),
        ("nothing", ["done"], False, ""),
        ("nothing", ["done", "failed"], True, "1 of 2 nodes"),
        ("nothing", ["done", "failed"], False, ""),
    ],
)
def test_a_rehearsal_must_state_every_fact(answer: str, states: list[str], rehearsal: bool, reason: str) -> None:
    printer = EventPrinter(lambda _text: None, nodes={str(i): state for i, state in enumerate(states)})
    outcome = _judge(Reply(ok=True, answer=answer), printer, "m", rehearsal=rehearsal, seconds=1.0)
    assert outcome.reason.startswith(reason)
    assert bool(outcome.reason) is bool(reason)


def test_the_demos_last_line() -> None:
    good = Outcome("rehearsal", 12, 2, 9.44, 9, 9)
    assert good.line == "demo: ok model=rehearsal nodes=12 workers=2 seconds=9.4"
    assert Outcome("m", 0, 0, 0.0, 0, 9, "no answer").line == "demo: failed no answer"


def test_the_close_prints_what_was_not_streamed_once() -> None:
    from ops.cli.talk import close

    for streamed, expected in (("42", ""), ("", "42\n")):
        out: list[str] = []
        printer = EventPrinter(out.append, streamed=streamed)
        close(printer, Reply(ok=True, answer="42", finish_reason="stop", session="s", usage={"input": 2, "output": 3}))
        assert "".join(out) == f"{expected}-- stop · 0.0 s · 5 tokens · session s\n"
    out = []
    close(EventPrinter(out.append), Reply(ok=False, error=ErrorInfo(code="c", message="broke", hint="mend it")))
    assert out[:2] == ["failed: broke\n", "mend it\n"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(7, "7s"), (192, "3m12s"), (18183, "5h03m"), (187200, "2d04h"), (-3, "0s")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_status_line_has_everything() -> None:
    line = status_line(Row("worker-1", "worker", 12, State.BACKING_OFF, 100.0, 3, "ended with code 1"), 107.0)
    assert " ".join(line.split()) == "worker-1 pid 12 backing off 7s restarts 3 ended with code 1"
