"""Schedules of users and of workflows: made, changed, and their slots claimed once each by any number of claimers.

A slot is taken by compare-and-set of `next_ms` and the version, in the transaction that puts down a *firing* for it. A
firing stays until its message is in the inbox, so that one whose claimer died is claimed again and sent again, with the
same message id; and for a while longer, in which the message may be refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, delete, exists, func, or_, select, update

from shared.errors import UserError
from shared.schedules import INSTALLATION, MAX_PER_USER, Schedule, State, of_workflow
from shared.sql.tables import insert, schedule_firings, schedules
from shared.timing import LOOK_BACK_MS, MAX_CATCH_UP, Line, Missed, Plan, Timing

CLAIM_MS: Final = 60_000
"""After so long somebody else may claim a firing that has been claimed and is not sent yet."""

_TIMING: Final = ("zone", "start_ms", "cron", "every", "until_ms")


@dataclass(frozen=True, slots=True)
class Firing:
    """A slot of a schedule whose message has to be sent, or was at `sent_ms`; `passed` slots before it were passed
    over."""

    schedule: Schedule
    slot_ms: int
    passed: int
    sent_ms: int | None = None


def _schedule(row: Row[Any]) -> Schedule:
    values = {column.name: row._mapping[column] for column in schedules.c}
    timing = Timing(**{name: values.pop(name) for name in _TIMING})
    values |= {"state": State(row.state), "policy": Missed(row.policy), "tools": tuple(row.tools)}
    values["deliver"] = tuple(row.deliver or ())
    return Schedule(**values, timing=timing)


def _values(one: Schedule) -> dict[str, Any]:
    values = asdict(one)
    values |= values.pop("timing")
    return values | {
        "state": one.state.value,
        "policy": one.policy.value,
        "tools": list(one.tools),
        "deliver": list(one.deliver),
    }


def _owned(principal: str, schedule: str) -> ColumnElement[bool]:
    return (schedules.c.id == schedule) & (schedules.c.principal == principal)


def add(conn: Connection, one: Schedule) -> Schedule:
    """Puts down a new schedule; with an id that the user has already, the one that is there.

    Raises UserError if the user has `MAX_PER_USER` schedules, or the id is another user's.
    """
    if (known := get(conn, one.principal, one.id)) is not None:
        return known
    count = conn.execute(select(func.count()).where(schedules.c.principal == one.principal)).scalar_one()
    if count >= MAX_PER_USER:
        raise UserError(f"there are {count} schedules already, the most that a user may have", hint="delete some first")
    conn.execute(insert(conn, schedules).values(**_values(one)).on_conflict_do_nothing(index_elements=["id"]))
    if (put := get(conn, one.principal, one.id)) is None:
        raise UserError(f"the id {one.id} is taken", hint="choose another, or none")
    return put


def get(conn: Connection, principal: str, schedule: str) -> Schedule | None:
    """One schedule of the user."""
    row = conn.execute(select(schedules).where(_owned(principal, schedule))).one_or_none()
    return _schedule(row) if row else None


def list_schedules(conn: Connection, principal: str) -> list[Schedule]:
    """All schedules of a user, the next due first, those that are not due any more last."""
    mine = select(schedules).where(schedules.c.principal == principal)
    return [_schedule(row) for row in conn.execute(mine.order_by(schedules.c.next_ms.nulls_last(), schedules.c.id))]


def change(conn: Connection, principal: str, schedule: str, edit: Callable[[Schedule], Schedule]) -> Schedule | None:
    """Stores what `edit` makes of the schedule; None if the user has no such one.

    Slots of one that is off from now on are not sent any more. Raises what `edit` raises.
    """
    row = conn.execute(select(schedules).where(_owned(principal, schedule)).with_for_update()).one_or_none()
    if row is None:
        return None
    one = _schedule(row)
    new = replace(edit(one), id=one.id, principal=one.principal, version=one.version + 1)
    conn.execute(update(schedules).where(schedules.c.id == one.id).values(**_values(new)))
    if new.state is State.OFF:
        conn.execute(delete(schedule_firings).where(schedule_firings.c.schedule == one.id))
    return new


def remove(conn: Connection, principal: str, schedule: str) -> bool:
    """Removes a schedule and what of it has not been sent; False if the user has no such one."""
    gone = conn.execute(delete(schedules).where(_owned(principal, schedule))).rowcount > 0
    if gone:
        conn.execute(delete(schedule_firings).where(schedule_firings.c.schedule == schedule))
    return gone


def follow(conn: Connection, lines: Mapping[str, Line | None], now_ms: int) -> None:
    """Brings the schedules of workflows up to date with what live workers offer: workflow -> its times, None for none.

    One that is new or has other times goes on at its next slot. Those of workflows that nobody offers at the moment
    stay, so that their policy says what becomes of slots when they are offered again; for six days, then they go.
    """
    rows = conn.execute(select(schedules).where(schedules.c.principal == INSTALLATION))
    known = {row.workflow: _schedule(row) for row in rows}
    for name, line in lines.items():
        one = known.get(name)
        if line is None:
            if one is not None:
                remove(conn, INSTALLATION, one.id)
            continue
        new = of_workflow(name, line, now_ms)
        if one is None:
            row = insert(conn, schedules).values(**_values(new))
            conn.execute(row.on_conflict_do_nothing(index_elements=["id"]))
        elif one.timing != new.timing:
            change(conn, INSTALLATION, one.id, lambda old, new=new: replace(new, missed=old.missed))  # type: ignore[misc]
        elif one.policy is not new.policy:
            conn.execute(update(schedules).where(schedules.c.id == one.id).values(policy=new.policy.value))
    for name, one in known.items():
        if name not in lines and (one.next_ms is None or one.next_ms < now_ms - LOOK_BACK_MS):
            remove(conn, INSTALLATION, one.id)


def _due(now_ms: int) -> ColumnElement[bool]:
    return (schedules.c.state == State.ON.value) & (schedules.c.next_ms <= now_ms)


def _claimable(now_ms: int) -> ColumnElement[bool]:
    table = schedule_firings
    return table.c.sent_ms.is_(None) & or_(table.c.claim.is_(None), table.c.claimed_ms <= now_ms - CLAIM_MS)


def any_due(conn: Connection, now_ms: int) -> bool:
    """True if a schedule is due, or a firing waits that nobody is sending."""
    found = or_(exists().where(_due(now_ms)), exists().where(_claimable(now_ms)))
    return bool(conn.execute(select(found)).scalar())


def due(conn: Connection, now_ms: int, offered: Collection[str] = (), limit: int = 100) -> list[Schedule]:
    """Schedules of all users that are due, and of the workflows that are `offered`, the first due first."""
    live = or_(schedules.c.principal != INSTALLATION, schedules.c.workflow.in_(offered))
    query = select(schedules).where(_due(now_ms), live).order_by(schedules.c.next_ms, schedules.c.id)
    return [_schedule(row) for row in conn.execute(query.limit(limit))]


def advance(conn: Connection, seen: Schedule, plan: Plan, mark: str, now_ms: int) -> bool:
    """Takes the slots of the plan for `mark`, and moves the schedule on.

    False, and nothing happens, if the schedule is no longer as it was seen: somebody else took them, or it was changed.
    """
    done = State.ON if plan.next_ms is not None else State.DONE
    moved = conn.execute(
        update(schedules)
        .where(
            _owned(seen.principal, seen.id),
            schedules.c.state == State.ON.value,
            schedules.c.next_ms == seen.next_ms,
            schedules.c.version == seen.version,
        )
        .values(
            next_ms=plan.next_ms,
            state=done.value,
            missed=schedules.c.missed + plan.passed,
            last_ms=plan.slots[-1] if plan.slots else seen.last_ms,
        )
    )
    if not moved.rowcount:
        return False
    for slot in plan.slots:
        values = {"schedule": seen.id, "slot_ms": slot, "passed": plan.passed if slot == plan.slots[0] else 0}
        firing = insert(conn, schedule_firings).values(**values, claim=mark, claimed_ms=now_ms)
        conn.execute(firing.on_conflict_do_nothing(index_elements=["schedule", "slot_ms"]))
    if plan.slots:
        _trim(conn, seen.id)
    return True


def _trim(conn: Connection, schedule: str) -> None:
    """Keeps the newest firings: an inbox that nobody may write to must not make them grow for ever."""
    mine = schedule_firings.c.schedule == schedule
    newest = select(schedule_firings.c.slot_ms).where(mine).order_by(schedule_firings.c.slot_ms.desc())
    kept = conn.execute(newest.limit(MAX_CATCH_UP)).scalars().all()
    conn.execute(delete(schedule_firings).where(mine, schedule_firings.c.slot_ms < kept[-1]))


def claim(conn: Connection, mark: str, now_ms: int, limit: int = 100) -> list[Firing]:
    """Claims firings for `mark` that nobody is sending; with those that it has already, in the order of slots."""
    table = schedule_firings
    free = or_(_claimable(now_ms), table.c.claim == mark)
    found = select(table.c.schedule, table.c.slot_ms).where(free).order_by(table.c.slot_ms, table.c.schedule)
    for schedule, slot_ms in conn.execute(found.limit(limit)).all():
        # The condition once more: PostgreSQL looks at it again when it had to wait for another claimer.
        one = (table.c.schedule == schedule) & (table.c.slot_ms == slot_ms)
        conn.execute(update(table).where(one, free).values(claim=mark, claimed_ms=now_ms))
    return _firings(conn, (table.c.claim == mark) & table.c.sent_ms.is_(None), limit)


def _firings(conn: Connection, which: ColumnElement[bool], limit: int) -> list[Firing]:
    table = schedule_firings
    query = (
        select(schedules, table.c.slot_ms, table.c.passed, table.c.sent_ms)
        .join_from(table, schedules, table.c.schedule == schedules.c.id)
        .where(which)
        .order_by(table.c.slot_ms, table.c.schedule)
    )
    return [Firing(_schedule(row), row.slot_ms, row.passed, row.sent_ms) for row in conn.execute(query.limit(limit))]


def sent(conn: Connection, firing: Firing, now_ms: int) -> None:
    """The message of the firing is in the inbox."""
    conn.execute(update(schedule_firings).where(_same(firing)).values(sent_ms=now_ms))


def in_doubt(conn: Connection, limit: int = 1000) -> list[Firing]:
    """Firings whose messages were sent and may yet be refused, the oldest slot first."""
    return _firings(conn, schedule_firings.c.sent_ms.is_not(None), limit)


def settled(conn: Connection, firing: Firing) -> None:
    """Nothing is left to be done about the firing."""
    _forget(conn, firing)


def refused(conn: Connection, firing: Firing, now_ms: int) -> None:
    """The message of the firing was refused for the moment: it is sent again after `CLAIM_MS`."""
    again = {"sent_ms": None, "claim": "", "claimed_ms": now_ms}
    conn.execute(update(schedule_firings).where(_same(firing)).values(**again))


def gave_up(conn: Connection, firing: Firing) -> None:
    """The firing will not be sent; its slot counts as missed."""
    if _forget(conn, firing):
        one = schedules.c.id == firing.schedule.id
        conn.execute(update(schedules).where(one).values(missed=schedules.c.missed + 1))


def _same(firing: Firing) -> ColumnElement[bool]:
    table = schedule_firings
    return (table.c.schedule == firing.schedule.id) & (table.c.slot_ms == firing.slot_ms)


def _forget(conn: Connection, firing: Firing) -> bool:
    return conn.execute(delete(schedule_firings).where(_same(firing))).rowcount > 0
