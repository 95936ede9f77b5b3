"""One run in this process: its lease, its fold, and the ways to change both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from coordinator.events import EventWriter
from shared.contract import NodeResult
from shared.entries import NodeEnded, Steer, Stored
from shared.errors import CapatazError
from shared.fold import Conversation, RunFold, SessionFold
from shared.messages import QueuedMessage, Reply
from shared.state.changes import Change
from shared.state.runs import Lease, RunState

T = TypeVar("T")


class RunCancelled(CapatazError):
    """The run was asked to end."""

    code = "cancelled"


class Parked(Exception):
    """The run only waits, and need not be in any process meanwhile.

    `nodes` are those it waits for, `until_ms` (0: never) is when it goes on by itself, `clock_stops` says that the
    time does not count as the run's own.
    """

    def __init__(self, nodes: Sequence[str], until_ms: int, *, clock_stops: bool) -> None:
        super().__init__(f"parked: {', '.join(nodes)}")
        self.nodes = tuple(nodes)
        self.until_ms = until_ms
        self.clock_stops = clock_stops


class Handle:
    """What the loop works with. All writes go through `commit` and `finish`, one at a time."""

    def __init__(self, lease: Lease, state: RunState, fold: SessionFold, events: EventWriter) -> None:
        self.lease = lease
        self.state = state
        self.replies: tuple[str, ...] = ()
        """Names of the lists on which the run's reply is waited for, as far as known when this process took it."""
        self.session = fold
        self.events = events
        self.mail = asyncio.Event()
        self.answers = asyncio.Event()
        """Mail has been read that the loop is to act on; a cancel raises instead."""
        self.nodes_changed = asyncio.Event()
        self.mail.set()  # whatever came before this process took the run
        self._lock = asyncio.Lock()
        self._early: asyncio.Task[list[str]] | None = None
        self._pledge: asyncio.Future[None] | None = None
        self._carried: Change | None = None
        self._pending_mail: list[dict[str, Any]] = []

    @property
    def run(self) -> RunFold:
        """What this run has done so far."""
        return self.session.run(self.lease.run)

    @property
    def thread(self) -> Conversation:
        """The conversation that this run is part of."""
        return self.session.conversation(self.lease.run)

    @property
    def message(self) -> QueuedMessage:
        """The message that opened the run."""
        message = self.run.message
        if message is None:
            raise CapatazError(f"the log of {self.lease.session} does not hold the message of {self.lease.run}")
        return message

    async def commit(self, change: Change) -> None:
        """Applies a change to the fold and to the state; events written before come before its events.

        When the state refuses it, the run is not ours any more, and this fold is thrown away with it.
        """
        self._apply(change)
        await self._append(self._with_carried(change))
        if change.ends:
            await self.fetch([node for node, _, _ in change.ends])

    async def commit_soon(self, change: Change) -> None:
        """Like `commit`, but returns at once: the next change, or the end of the run, waits for this one and raises
        its error. For what nobody has acted on yet."""
        if not self.events.idle:
            return await self.commit(change)
        self._apply(change)
        self._early = asyncio.create_task(self._append(self._with_carried(change)))
        self.events.hold(self._early)
        return None

    def carry(self, change: Change) -> None:
        """Applies a change to the fold, and lets it travel with the next one, or with the end of the run: for what
        nobody is to act on before that. If this process dies meanwhile, it has not happened."""
        self._apply(change)
        self._carried = change.behind(self._carried)

    def _with_carried(self, change: Change) -> Change:
        """The change behind what has been carried until now. What is carried while it waits goes behind it."""
        carried, self._carried = self._carried, None
        return change.behind(carried)

    def pledge(self, work: Awaitable[None]) -> None:
        """Begins what must be done before anything more of this run is written: changes wait for it and raise its
        error. If it fails, that ends whatever is raced against a cancel."""
        self._pledge = asyncio.ensure_future(work)
        self._pledge.add_done_callback(self._pledged)

    def _pledged(self, pledge: asyncio.Future[None]) -> None:
        if not pledge.cancelled() and pledge.exception() is not None:
            self.mail.set()  # so that it is looked at

    async def kept(self) -> None:
        """Returns when what was pledged is done. Raises its error."""
        if self._pledge is not None:
            await asyncio.shield(self._pledge)

    def _apply(self, change: Change) -> None:
        for entry in (*change.entries, *change.nodes):
            self.session.apply(Stored.model_construct(id="", run=self.lease.run, type=entry.T, value=entry))

    async def _append(self, change: Change) -> list[str]:
        await self.kept()
        await self._settled()
        await self.events.flush()
        return await self._carry_through(self.state.append(self.lease, change))

    async def _carry_through(self, work: Awaitable[T]) -> T:
        """Awaits a change, which goes on to its end whoever gives up on it: else its number would be used twice."""
        task = asyncio.ensure_future(self._in_turn(work))
        task.add_done_callback(_heard)
        return await asyncio.shield(task)

    async def _in_turn(self, work: Awaitable[T]) -> T:
        async with self._lock:
            return await work

    async def _settled(self) -> None:
        """Waits for a change that was committed soon, raising its error."""
        early = self._early
        if early is not None and early is not asyncio.current_task():
            self._early = None
            await early

    async def _over(self) -> None:
        """The same, however that change ended: if the run is not ours any more, its end will not be accepted either."""
        early, self._early = self._early, None
        if early is not None:
            await asyncio.wait({early})
            _heard(early)

    async def fetch(self, nodes: list[str]) -> dict[str, NodeResult]:
        """Reads the results of those nodes that have ended, into the fold."""
        results = await self.state.results(self.lease.run, nodes)
        for node, result in results.items():
            entry = NodeEnded(node=node, result=result)
            self.session.apply(Stored.model_construct(id="", run=self.lease.run, type=entry.T, value=entry))
        return results

    async def finish(
        self,
        change: Change,
        reply: Reply,
        *,
        follow_ups: Sequence[QueuedMessage] = (),
        up: tuple[str, str, NodeResult] | None = None,
        force: bool = False,
    ) -> bool:
        """Ends the run, and the node `up` that waits for it; False if mail arrived that must be read first."""
        if force:  # whatever kept a change from being written must not keep the run from its end
            await self._over()
        else:
            await self.kept()
            await self._settled()
        await self.events.flush()
        whole = change.behind(self._carried)
        work = self.state.finish(self.lease, whole, reply, follow_ups=follow_ups, up=up, force=force)
        ended = await self._carry_through(work)
        if ended:
            self._carried = None
        else:
            self.mail.set()
        return ended

    async def park(self, parked: Parked) -> bool:
        """Gives the run back until something happens; False if something has, and it is still ours."""
        if self._carried is not None:
            await self.commit(Change())
        await self.kept()
        await self._settled()
        await self.events.flush()
        state = self.state
        work = state.park(self.lease, parked.nodes, parked.until_ms, clock_stops=parked.clock_stops)
        gone = await self._carry_through(work)
        if not gone:
            self.mail.set()
            await self.fetch(list(parked.nodes))
        return gone

    async def check_mail(self) -> None:
        """Reads the mailbox. Raises RunCancelled for a cancel, and what a pledge failed with; keeps the rest for
        `take_mail`."""
        self.mail.clear()
        if self._pledge is not None and self._pledge.done():
            await self.kept()
        mails = await self.state.mail(self.lease.run)
        self._pending_mail = mails
        for mail in mails:
            if mail.get("kind") == "cancel":
                raise RunCancelled(str(mail.get("reason") or mail.get("text") or "cancelled"))
        if mails:
            self.answers.set()

    async def take_mail(self, decide: Callable[[dict[str, Any], Change], bool]) -> Change | None:
        """Logs what the mailbox holds, and takes it out of it. Messages that joined the run are for the model; for
        all else `decide` adds to the change what it brings, or says that nothing waits for it."""
        if not self.mail.is_set() and not self._pending_mail:
            return None
        await self.check_mail()
        mails, self._pending_mail = self._pending_mail, []
        self.answers.clear()
        if not mails:
            return None
        change = Change(mail_read=len(mails))
        for mail in mails:
            if mail.get("kind") == "steer":
                change.entries.append(Steer(text=str(mail.get("text", "")), id=str(mail.get("id", ""))))
                change.event("notice", code="steered", text="a new message joined the run")
            elif not decide(mail, change):
                change.event("notice", code="ignored", text=f"nothing in this run waits for '{mail.get('kind')}'")
        await self.commit(change)
        return change

    async def race(self, work: Awaitable[T]) -> T:
        """Awaits `work`, but ends it and raises RunCancelled as soon as a cancel arrives."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                bell = asyncio.ensure_future(self.mail.wait())
                try:
                    await asyncio.wait({task, bell}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    bell.cancel()
                if self.mail.is_set() and not task.done():
                    await self.check_mail()
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


def _heard(task: asyncio.Future[Any]) -> None:
    """How a change ended may be of interest to nobody any more; that is no error of its own."""
    if not task.cancelled():
        task.exception()
