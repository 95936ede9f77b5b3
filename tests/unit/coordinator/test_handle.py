"""What a run waits for before it writes, and what travels with its next change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from coordinator.events import EventWriter
from coordinator.handle import Handle
from shared.entries import Assistant, Nudge, Stored, UserMessage
from shared.errors import ArchiveUnavailable
from shared.fold import SessionFold
from shared.llm.model import Finish, Message, TextBlock
from shared.messages import Reply
from shared.state.changes import Change
from shared.state.runs import Lease, RunState

OPENED = UserMessage(run="r", principal="owner", session="s", received_ms=1, text="hi")
SAID = Message(role="assistant", blocks=(TextBlock(text="done"),))
ANSWER = Assistant(step=1, attempt=1, message=SAID, finish=Finish.STOP)
REPLY = Reply(ok=True, run="r", session="s")


class State:
    """Takes down what is written."""

    def __init__(self) -> None:
        self.written: list[tuple[str, list[str], list[str]]] = []
        self.mails: list[dict[str, Any]] = []
        self.refuses = False

    async def append(self, lease: Lease, change: Change) -> list[str]:
        self._take("append", change)
        return []

    async def finish(self, lease: Lease, change: Change, reply: Reply, **_: Any) -> bool:
        if self.refuses:
            return False
        self._take("finish", change)
        return True

    async def mail(self, run: str) -> list[dict[str, Any]]:
        return self.mails

    def _take(self, how: str, change: Change) -> None:
        self.written.append((how, [e.T for e in change.entries], [kind for kind, _ in change.events]))


class Events:
    """Writes nothing."""

    idle = True

    def hold(self, task: asyncio.Task[Any]) -> None:
        """Holds nothing."""

    async def flush(self) -> None:
        """Everything is written."""


def play(scene: Callable[[Handle, State], Awaitable[None]]) -> None:
    async def main() -> None:
        state = State()
        fold = SessionFold.of([Stored(id="1-0", run="r", type=OPENED.T, value=OPENED)])
        lease = Lease("r", "s", "owner", "c1", "n")
        await scene(Handle(lease, cast(RunState, state), fold, cast(EventWriter, Events())), state)

    asyncio.run(main())


def nudge(text: str) -> Change:
    change = Change(entries=[Nudge(reason="empty", text=text)])
    change.event("notice", code="empty", text=text)
    return change


def test_what_is_carried_is_in_the_fold_at_once_and_in_the_log_with_the_end() -> None:
    async def scene(handle: Handle, state: State) -> None:
        change = Change(entries=[ANSWER])
        change.event("usage")
        handle.carry(change)
        assert handle.run.assistants == [ANSWER]
        assert state.written == []
        end = Change()
        end.event("run.finished")
        assert await handle.finish(end, REPLY)
        assert state.written == [("finish", [Assistant.T], ["usage", "run.finished"])]

    play(scene)


def test_what_is_carried_goes_before_the_next_change_and_once() -> None:
    async def scene(handle: Handle, state: State) -> None:
        handle.carry(Change(entries=[ANSWER]))
        await handle.commit(nudge("go on"))
        await handle.commit(nudge("again"))
        assert [entries for _, entries, _ in state.written] == [[Assistant.T, Nudge.T], [Nudge.T]]

    play(scene)


def test_an_end_that_was_refused_keeps_what_is_carried() -> None:
    async def scene(handle: Handle, state: State) -> None:
        handle.carry(Change(entries=[ANSWER]))
        state.refuses = True
        assert not await handle.finish(Change(), REPLY)
        await handle.commit(nudge("mail"))
        assert state.written == [("append", [Assistant.T, Nudge.T], ["notice"])]

    play(scene)


def test_nothing_is_written_before_a_pledge_is_kept() -> None:
    async def scene(handle: Handle, state: State) -> None:
        row = asyncio.Event()

        async def work() -> None:
            await row.wait()

        handle.pledge(work())
        await handle.commit_soon(nudge("first"))
        second = asyncio.ensure_future(handle.commit(nudge("second")))
        for _ in range(10):
            await asyncio.sleep(0)
        assert state.written == []
        row.set()
        await second
        assert len(state.written) == 2

    play(scene)


def test_a_broken_pledge_ends_what_runs_and_lets_the_run_end() -> None:
    async def scene(handle: Handle, state: State) -> None:
        async def fail() -> None:
            raise ArchiveUnavailable("the disk is full")

        handle.pledge(fail())
        await handle.commit_soon(nudge("opening"))
        with pytest.raises(ArchiveUnavailable):
            await handle.race(asyncio.Event().wait())  # a model that would never answer
        assert state.written == []
        assert await handle.finish(nudge("failed"), REPLY, force=True)
        assert state.written == [("finish", [Nudge.T], ["notice"])]

    play(scene)


def test_an_end_that_is_not_forced_needs_the_pledge() -> None:
    async def scene(handle: Handle, state: State) -> None:
        async def fail() -> None:
            raise ArchiveUnavailable("the disk is full")

        handle.pledge(fail())
        with pytest.raises(ArchiveUnavailable):
            await handle.finish(Change(), REPLY)
        with pytest.raises(ArchiveUnavailable):
            await handle.commit(nudge("x"))
        assert state.written == []

    play(scene)


def test_what_is_carried_later_does_not_overtake_a_change_that_waits() -> None:
    """The model may have answered before the row of the run is there, for which the run's first change waits."""

    async def scene(handle: Handle, state: State) -> None:
        row = asyncio.Event()

        async def written() -> None:
            await row.wait()

        handle.pledge(written())
        await handle.commit_soon(nudge("first"))
        await asyncio.sleep(0)
        handle.carry(Change(entries=[ANSWER]))
        row.set()
        assert await handle.finish(Change(), REPLY)
        assert [entries for _, entries, _ in state.written] == [[Nudge.T], [Assistant.T]]

    play(scene)
