"""One tick of the clock: whatever is due is put into the inbox of its user, each slot once over any number of workers.

Beat says that it is time and nothing more. Which workflows have which times is read anew from what live workers offer,
so a worker that starts with other schedules needs no restart of beat. A slot is taken by compare-and-set in SQL. What
was taken stays there until its message is in the inbox; if whoever took it died, it is sent again, and the message's id
makes it one run. For a while its answer is looked for, since a message may be refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from sqlalchemy import Connection

from shared.contract import Catalogue
from shared.delivery import channels_of
from shared.errors import StateUnavailable, UserError
from shared.messages import ErrorInfo, Message, Reply
from shared.names import LOCAL_PRINCIPAL
from shared.schedules import INSTALLATION, Schedule, late_note, message, message_id, missed_text, workflow_message
from shared.settings import Settings
from shared.sql import schedules
from shared.sql.schedules import Firing
from shared.state.connection import connect
from shared.state.replies import drop, peek
from shared.timing import Line, given_up, plan, read_line
from workers.context import Services
from workers.tools.schedules import submit
from workers.workflows.notice import notice_message

log = structlog.get_logger(__name__)

Wanted = Callable[[str], Awaitable[bool]]
"""Whether a slot of the workflow has anything to do."""

WATCH_MS = 10 * 60_000
"""For so long after it was sent a message may be found refused. One that is routed later has its refusal in its session
alone."""

PASSING = frozenset({"busy", "too_fast", "memory_full", "archive_unavailable"})
"""Codes of refusals that another try may not meet."""

_BATCH = 100


@dataclass(frozen=True, slots=True)
class Ticked:
    """What a tick did: ids of the messages that were sent, and whose inboxes could not be written to, with why."""

    sent: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


def reply_name(firing: Firing) -> str:
    """Where the answer to a slot's message is waited for, which is the refusal if it is refused."""
    slot = f"{firing.schedule.id}@{firing.slot_ms}"
    return f"slot.{hashlib.sha256(slot.encode()).hexdigest()[:32]}"


def lines_of(catalogue: Catalogue) -> dict[str, Line | None]:
    """The times of all workflows that are offered, None for those without; what cannot be read is logged and left."""
    lines: dict[str, Line | None] = {}
    for one in catalogue.workflows:
        try:
            lines[one.name] = read_line(one.cron, one.timezone)
        except UserError as error:
            log.error("a workflow's schedule cannot be read", workflow=one.name, problem=str(error))
    return lines


async def tick(services: Services, settings: Settings, wanted: Wanted, mark: str) -> Ticked:
    """Serves what is due now, in the name of `mark`. Raises ArchiveUnavailable and StateUnavailable."""
    now_ms = int(services.now() * 1000)
    catalogue = await services.state.catalogue()
    firings = await services.db.run(lambda conn: _take(conn, lines_of(catalogue), mark, now_ms))
    hidden = frozenset(one.name for one in catalogue.workflows if one.hidden)
    sender = _Sender(services, settings, wanted, hidden, now_ms)
    await sender.watch(await services.db.run(schedules.in_doubt))
    return await sender.send(firings)


def _take(conn: Connection, lines: Mapping[str, Line | None], mark: str, now_ms: int) -> list[Firing]:
    """Takes the slots that are due, and what others took and did not send."""
    schedules.follow(conn, lines, now_ms)
    for one in schedules.due(conn, now_ms, list(lines), _BATCH):
        if one.next_ms is not None:
            schedules.advance(conn, one, plan(one.timing, one.policy, one.next_ms, now_ms), mark, now_ms)
    return schedules.claim(conn, mark, now_ms, _BATCH)


@dataclass
class _Sender:
    """Puts messages into inboxes. One that refuses holds up no other."""

    services: Services
    settings: Settings
    wanted: Wanted
    hidden: frozenset[str]
    now_ms: int
    sent: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    async def send(self, firings: Sequence[Firing]) -> Ticked:
        """Sends what was taken."""
        for firing in firings:
            principal = firing.schedule.principal or LOCAL_PRINCIPAL
            if principal in self.refused:
                continue
            try:
                await self._send_one(firing, principal)
            except StateUnavailable as error:  # perhaps of this user's inbox only
                self.refused[principal] = str(error)
        return Ticked(tuple(self.sent), self.refused)

    async def _send_one(self, firing: Firing, principal: str) -> None:
        """Sends a slot's message, or word that it was missed, and notes that it is sent."""
        one = firing.schedule
        missed = given_up(one.policy, firing.slot_ms, self.now_ms)
        own = one.principal == INSTALLATION and one.workflow in self.hidden  # the system's own; it tells nobody
        what: Message | None
        if missed:
            what = None if own else self._told(firing, principal)
        elif one.principal != INSTALLATION:
            what = message(
                one, message_id(one.id, firing.slot_ms), note=self._note(firing), deliver=self._channels(one, principal)
            )
        elif await self.wanted(one.workflow):
            what = workflow_message(
                one.workflow,
                firing.slot_ms,
                "" if own else self.settings.workflows.session,
                note="" if own else self._note(firing),
                deliver=() if own else self._channels(one, principal),
            )
        else:
            what = None
        if what is not None:
            if not missed:
                what = what.model_copy(update={"reply_to": reply_name(firing)})
            await submit(self.settings.redis.url, principal, what)
            self.sent.append(str(what.id))
        await self.services.db.run(lambda conn: self._done(conn, firing, what, missed))

    def _done(self, conn: Connection, firing: Firing, what: Message | None, missed: bool) -> None:
        if missed:
            schedules.gave_up(conn, firing)
        elif what is None:
            schedules.settled(conn, firing)
        else:
            schedules.sent(conn, firing, self.now_ms)

    async def watch(self, firings: Sequence[Firing]) -> None:
        """Looks what became of messages that were sent: one that was refused for the moment is sent again, of one that
        was refused for good the user is told."""
        if not firings:
            return
        done = []
        replies = await answers(self.settings.redis.url, [reply_name(one) for one in firings])
        for firing, reply in zip(firings, replies, strict=True):
            try:
                if await self._judge(firing, reply):
                    done.append(reply_name(firing))
            except StateUnavailable as error:  # perhaps of this user's inbox only
                self.refused[firing.schedule.principal or LOCAL_PRINCIPAL] = str(error)
        # Only now: whoever dies before it finds the answers again.
        await forget_answers(self.settings.redis.url, done)

    async def _judge(self, firing: Firing, reply: Reply | None) -> bool:
        """Does what the answer to a slot's message asks for; False if there is none yet."""
        db = self.services.db
        if reply is None:
            if self.now_ms - (firing.sent_ms or 0) > WATCH_MS:
                await db.run(lambda conn: schedules.settled(conn, firing))
            return False
        if reply.error is not None and not reply.run:
            if reply.error.code in PASSING:
                await db.run(lambda conn: schedules.refused(conn, firing, self.now_ms))
                return True
            await self._tell_refusal(firing, reply.error)
        await db.run(lambda conn: schedules.settled(conn, firing))
        return True

    async def _tell_refusal(self, firing: Firing, refusal: ErrorInfo) -> None:
        one, principal = firing.schedule, firing.schedule.principal or LOCAL_PRINCIPAL
        text = f"{one.name} did not run: {refusal.message}" + (f" ({refusal.hint})" if refusal.hint else "")
        told = self._notice(firing, f"refused:{message_id(one.id, firing.slot_ms)}", text, principal)
        await submit(self.settings.redis.url, principal, told)

    def _note(self, firing: Firing) -> str:
        return late_note(firing.schedule, firing.slot_ms, firing.passed, self.now_ms)

    def _told(self, firing: Firing, principal: str) -> Message:
        """Word of slots that will not run."""
        text = missed_text(firing.schedule, firing.passed + 1, firing.slot_ms)
        return self._notice(firing, f"missed:{message_id(firing.schedule.id, firing.slot_ms)}", text, principal)

    def _notice(self, firing: Firing, id: str, text: str, principal: str) -> Message:
        session = firing.schedule.session or self.settings.workflows.session
        return notice_message(text, session=session, id=id, deliver=self._channels(firing.schedule, principal))

    def _channels(self, one: Schedule, principal: str) -> tuple[str, ...]:
        return channels_of(self.settings, principal, one.deliver, one.workflow)


async def answers(redis_url: str, names: Sequence[str]) -> list[Reply | None]:
    """The answers that have come meanwhile. Raises StateUnavailable."""
    async with connect(redis_url) as redis:
        return await peek(redis, names)


async def forget_answers(redis_url: str, names: Sequence[str]) -> None:
    """Takes them off their lists. Raises StateUnavailable."""
    if names:
        async with connect(redis_url) as redis:
            for name in names:
                await drop(redis, name)
