"""The feed of a process: what goes together, in which order, and what becomes of it when Redis is away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
import redis.exceptions
from hypothesis import given
from hypothesis import strategies as st

from coordinator.events import MANY, MOST_PER_CALL, EventWriter
from shared.settings import LimitSettings
from shared.state.pipeline import Pipeliner

LIMITS = LimitSettings()


class Told(NamedTuple):
    session: str
    kind: str
    run: str
    data: dict[str, Any]


class FakePipe(Pipeliner):
    """Takes the calls of `tell`. With `closed`, no call is answered until `open`."""

    def __init__(self, *, closed: bool = False) -> None:
        self.calls: list[list[Told]] = []
        self.error: Exception | None = None
        self._answer = asyncio.Event()
        if not closed:
            self._answer.set()

    def open(self) -> None:
        self._answer.set()

    async def execute(self, *command: Any) -> Any:
        name, _, _, _, text = command
        assert name == "EVALSHA"
        lines = text.removesuffix("\n").split("\n")
        rows = [lines[i : i + 4] for i in range(0, len(lines), 4)]
        self.calls.append([Told(sid, kind, run, json.loads(data)) for sid, kind, run, data in rows])
        await self._answer.wait()
        if self.error is not None:
            raise self.error
        return len(rows)

    @property
    def told(self) -> list[Told]:
        return [event for call in self.calls for event in call]


def writer(pipe: FakePipe, name: str = "a") -> EventWriter:
    return EventWriter(pipe, f"s-{name}", f"r-{name}", LIMITS)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            await test()

    asyncio.run(bounded())


async def _until(ready: Callable[[], bool]) -> None:
    while not ready():  # noqa: ASYNC110
        await asyncio.sleep(0)


def test_the_first_event_goes_at_once() -> None:
    async def test() -> None:
        pipe = FakePipe(closed=True)
        writer(pipe).delta("text.delta", 1, "hello")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert pipe.told == [Told("s-a", "text.delta", "r-a", {"attempt": 1, "text": "hello"})]

    run(test)


def test_what_comes_during_a_call_goes_with_the_next_one_whoever_says_it() -> None:
    async def test() -> None:
        pipe = FakePipe(closed=True)
        one, two = writer(pipe, "a"), writer(pipe, "b")
        one.delta("text.delta", 1, "1")
        await _until(lambda: len(pipe.calls) == 1)
        one.delta("text.delta", 1, "2")
        two.delta("text.delta", 1, "x")
        one.delta("text.delta", 1, "3")
        pipe.open()
        await one.flush()
        await two.flush()
        assert [len(call) for call in pipe.calls] == [1, 2]
        assert [(t.session, t.data["text"]) for t in pipe.calls[1]] == [("s-a", "23"), ("s-b", "x")]

    run(test)


def test_a_busy_feed_pauses_between_calls_unless_somebody_waits() -> None:
    async def test() -> None:
        pipe = FakePipe()
        one = writer(pipe)
        for n in range(MANY):
            one.write("notice", code="x", n=n)
        await _until(lambda: len(pipe.calls) == 1)
        await asyncio.sleep(0)
        one.write("notice", code="y")
        await asyncio.sleep(0)
        assert len(pipe.calls) == 1
        await one.flush()
        assert [len(call) for call in pipe.calls] == [MANY, 1]

    run(test)


def test_a_pause_ends_by_itself() -> None:
    async def test() -> None:
        pipe = FakePipe()
        one = writer(pipe)
        for n in range(MANY):
            one.write("notice", code="x", n=n)
        await _until(lambda: len(pipe.calls) == 1)
        one.write("notice", code="y")
        while not one.idle:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert len(pipe.calls) == 2

    run(test)


def test_a_call_has_a_bound() -> None:
    async def test() -> None:
        pipe = FakePipe()
        one = writer(pipe)
        for n in range(MOST_PER_CALL + 1):
            one.write("notice", code="x", n=n)
        await one.flush()
        assert [len(call) for call in pipe.calls] == [MOST_PER_CALL, 1]
        assert [t.data["n"] for t in pipe.told] == list(range(MOST_PER_CALL + 1))

    run(test)


@pytest.mark.parametrize("error", [redis.exceptions.ConnectionError("gone"), redis.exceptions.OutOfMemoryError("OOM")])
def test_events_are_lost_once_and_the_feed_goes_on(error: Exception) -> None:
    async def test() -> None:
        pipe = FakePipe()
        pipe.error = error
        one = writer(pipe)
        one.write("notice", code="lost")
        await one.flush()
        pipe.error = None
        one.write("notice", code="kept")
        await one.flush()
        assert [t.data["code"] for t in pipe.told] == ["lost", "kept"]  # not sent a second time

    run(test)


def test_a_fault_of_ours_does_not_stop_the_feed() -> None:
    async def test() -> None:
        pipe = FakePipe()
        pipe.error = RuntimeError("the pipeline broke")
        one = writer(pipe)
        one.write("notice", code="lost")
        await one.flush()
        pipe.error = None
        one.write("notice", code="kept")
        await one.flush()
        assert one.idle
        assert len(pipe.calls) == 2

    run(test)


def test_held_events_come_after_the_task_however_it_ends() -> None:
    async def test() -> None:
        pipe = FakePipe()
        one = writer(pipe)
        go = asyncio.Event()

        async def fails() -> None:
            await go.wait()
            raise ValueError

        gate = asyncio.create_task(fails())
        one.hold(gate)
        one.delta("text.delta", 1, "a")
        one.delta("text.delta", 1, "b")
        await asyncio.sleep(0)
        assert (pipe.calls, one.idle) == ([], False)
        go.set()
        await one.flush()
        assert isinstance(gate.exception(), ValueError)
        assert [t.data["text"] for t in pipe.told] == ["ab"]

    run(test)


def test_the_task_that_events_are_held_for_does_not_wait_for_them() -> None:
    async def test() -> None:
        pipe = FakePipe()
        one = writer(pipe)
        gate = asyncio.create_task(one.flush())
        one.hold(gate)
        one.write("notice", code="repaired")  # before the task has begun
        await gate
        await one.flush()
        assert [t.data["code"] for t in pipe.told] == ["repaired"]

    run(test)


said = st.tuples(
    st.integers(0, 2), st.sampled_from(["text.delta", "thinking.delta", "notice"]), st.integers(1, 2), st.text()
)


@given(st.lists(st.one_of(said, st.none())))
@pytest.mark.property
def test_each_run_reads_what_it_said_in_order(script: list[tuple[int, str, int, str] | None]) -> None:
    """`None` lets the loop turn, so that calls begin and end anywhere."""

    async def test() -> None:
        pipe = FakePipe()
        writers = [writer(pipe, str(n)) for n in range(3)]
        expected: list[list[tuple[str, int, str]]] = [[], [], []]
        for line in script:
            if line is None:
                await asyncio.sleep(0)
                continue
            who, kind, attempt, text = line
            if kind == "notice":
                writers[who].write("notice", attempt=attempt, text=text)
            else:
                writers[who].delta(kind, attempt, text)
            expected[who].append((kind, attempt, text))
        for one in writers:
            await one.flush()
        for number, lines in enumerate(expected):
            told = [(t.kind, t.data["attempt"], t.data["text"]) for t in pipe.told if t.session == f"s-{number}"]
            assert _joined(told) == _joined(lines)
            assert sum(kind == "notice" for kind, _, _ in told) == sum(kind == "notice" for kind, _, _ in lines)

    run(test)


def _joined(lines: list[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    """Deltas of one kind and attempt side by side as one."""
    out: list[tuple[str, int, str]] = []
    for kind, attempt, text in lines:
        if out and kind != "notice" and out[-1][:2] == (kind, attempt):
            out[-1] = (kind, attempt, out[-1][2] + text)
        else:
            out.append((kind, attempt, text))
    return out
