"""Slots of schedules, taken once each by any number of claimers."""

import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from shared.errors import UserError
from shared.schedules import INSTALLATION, MAX_PER_USER, Schedule, State, switched
from shared.sql import Database, schedules
from shared.sql.schedules import CLAIM_MS, Firing
from shared.timing import LOOK_BACK_MS, MAX_CATCH_UP, Line, Missed, Timing, plan, read_line

HOUR = 3_600_000
START = 1_800_000_000_000


def a_schedule(id: str = "s1", principal: str = "ana", **values: Any) -> Schedule:
    timing = Timing("UTC", START, every="1h")
    one = Schedule(id, principal, "n", timing, "s", START, prompt="look", tools=("web",), next_ms=START)
    return replace(one, **values)


def put(db: Database, one: Schedule) -> Schedule:
    return db.run_sync(lambda c: schedules.add(c, one))


def take(db: Database, seen: Schedule, mark: str, now_ms: int) -> bool:
    assert seen.next_ms is not None
    todo = plan(seen.timing, seen.policy, seen.next_ms, now_ms)
    return db.run_sync(lambda c: schedules.advance(c, seen, todo, mark, now_ms))


def claim(db: Database, mark: str, now_ms: int) -> list[Firing]:
    return db.run_sync(lambda c: schedules.claim(c, mark, now_ms))


def tick(db: Database, mark: str, now_ms: int) -> list[Firing]:
    """What one run of the workflow does, its messages sent."""
    for one in db.run_sync(lambda c: schedules.due(c, now_ms)):
        take(db, one, mark, now_ms)
    firings = claim(db, mark, now_ms)
    for firing in firings:
        db.run_sync(partial(schedules.sent, firing=firing, now_ms=now_ms))
    return firings


def test_a_schedule_comes_back_as_it_was_put(db: Database) -> None:
    one = a_schedule(
        workflow="", policy=Missed.SKIP, timing=Timing("Europe/Madrid", START, cron="0 7 * * *", until_ms=9)
    )
    assert put(db, one) == one
    assert put(db, replace(one, name="other")) == one
    assert db.run_sync(lambda c: schedules.get(c, "eva", "s1")) is None
    assert db.run_sync(lambda c: schedules.list_schedules(c, "ana")) == [one]


def test_a_user_has_so_many_at_most(db: Database) -> None:
    def fill(conn: Connection) -> None:
        for n in range(MAX_PER_USER):
            schedules.add(conn, a_schedule(f"s{n}"))

    db.run_sync(fill)
    with pytest.raises(UserError, match="the most"):
        put(db, a_schedule("more"))
    assert put(db, a_schedule("s0")).id == "s0"
    put(db, a_schedule("more", "eva"))


def test_of_two_that_saw_the_same_one_takes_it(db: Database) -> None:
    seen = put(db, a_schedule())
    assert db.run_sync(lambda c: schedules.any_due(c, START))
    assert take(db, seen, "r1", START)
    assert not take(db, seen, "r2", START)
    assert [one.slot_ms for one in claim(db, "r1", START)] == [START]
    assert claim(db, "r2", START) == []
    assert not db.run_sync(lambda c: schedules.any_due(c, START))


def test_one_that_was_changed_since_it_was_seen_is_looked_at_again(db: Database) -> None:
    seen = put(db, a_schedule())
    db.run_sync(lambda c: schedules.change(c, "ana", "s1", lambda one: replace(one, name="new")))
    assert not take(db, seen, "r1", START)
    assert [one.schedule.name for one in tick(db, "r1", START)] == ["new"]


def test_a_slot_whose_claimer_died_is_sent_by_another(db: Database) -> None:
    take(db, put(db, a_schedule()), "dead", START)
    assert claim(db, "r2", START + CLAIM_MS - 1) == []
    assert db.run_sync(lambda c: schedules.any_due(c, START + CLAIM_MS))
    (firing,) = claim(db, "r2", START + CLAIM_MS)
    assert firing.slot_ms == START
    db.run_sync(lambda c: schedules.sent(c, firing, START))
    assert claim(db, "r3", START + 10 * CLAIM_MS) == []


def test_what_is_off_or_gone_is_not_sent(db: Database) -> None:
    for id in ("s1", "s2"):
        take(db, put(db, a_schedule(id)), "r1", START)
    off = db.run_sync(lambda c: schedules.change(c, "ana", "s1", lambda one: switched(one, False, START)))
    assert off is not None
    assert off.state is State.OFF
    assert db.run_sync(lambda c: schedules.remove(c, "eva", "s2")) is False
    assert db.run_sync(lambda c: schedules.remove(c, "ana", "s2")) is True
    assert claim(db, "r1", START) == []
    assert not db.run_sync(lambda c: schedules.any_due(c, START + 9 * HOUR))


def test_a_one_off_is_done_and_what_is_given_up_counts(db: Database) -> None:
    put(db, a_schedule(timing=Timing("UTC", START)))
    (firing,) = tick(db, "r1", START)
    take(db, put(db, a_schedule("s2")), "r1", START)
    (other,) = claim(db, "r1", START)
    db.run_sync(lambda c: schedules.gave_up(c, other))
    db.run_sync(lambda c: schedules.gave_up(c, other))
    found = {one.id: one for one in db.run_sync(lambda c: schedules.list_schedules(c, "ana"))}
    assert (found["s1"].state, found["s1"].next_ms, found["s1"].last_ms) == (State.DONE, None, firing.slot_ms)
    assert (found["s2"].state, found["s2"].missed) == (State.ON, 1)


def test_slots_that_cannot_be_sent_do_not_pile_up(db: Database) -> None:
    put(db, a_schedule())
    for n in range(MAX_CATCH_UP + 10):
        (one,) = db.run_sync(partial(schedules.due, now_ms=START + n * HOUR))
        take(db, one, f"r{n}", START + n * HOUR)
    late = claim(db, "r", START + 1000 * HOUR)
    assert [one.slot_ms for one in late] == [START + n * HOUR for n in range(10, MAX_CATCH_UP + 10)]


def test_two_beats_and_three_workers_fire_a_slot_once(db: Database) -> None:
    """Five runs at once, each of which sees everything: as many schedules as there are are fired, once each."""
    for n in range(20):
        put(db, a_schedule(f"s{n:02}"))
    fired: list[str] = []
    start = threading.Barrier(5)

    def run(mark: str) -> None:
        start.wait()
        for round in range(3):
            fired.extend(one.schedule.id for one in tick(db, f"{mark}.{round}", START))

    threads = [threading.Thread(target=run, args=(f"r{n}",)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(fired) == [f"s{n:02}" for n in range(20)]


CRONS = ("* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *", "0,30 1-3 * * *", "15 7 * * 1-5", "0 12 31 * *")
TIMINGS = st.one_of(
    st.builds(
        Timing, st.sampled_from(["Europe/Madrid", "America/New_York", "UTC"]), st.just(0), st.sampled_from(CRONS)
    ),
    st.builds(
        Timing,
        st.sampled_from(["Europe/Madrid", "America/New_York"]),
        st.integers(START - 10**9, START + 10**9),
        st.just(""),
        st.sampled_from(["1m", "13m", "1h", "36h", "1d", "2d", "1w"]),
    ),
)
# Ticks of a claimer: how much later than the tick before, who, and whether it acts on what the one before it saw.
TICKS = st.lists(
    st.tuples(st.integers(0, 12 * HOUR), st.sampled_from(["a", "b", "c"]), st.booleans()), min_size=1, max_size=12
)


@pytest.mark.property
@settings(max_examples=25, deadline=None)
@given(timing=TIMINGS, start=st.sampled_from([1_806_100_000_000, 1_806_000_000_000, 1_825_000_000_000]), ticks=TICKS)
def test_each_slot_is_fired_once_and_in_order(timing: Timing, start: int, ticks: list[tuple[int, str, bool]]) -> None:
    first = timing.next_after(start)
    assert first is not None
    with TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{Path(folder) / 'archive.db'}")
        try:
            database.migrate()
            put(database, a_schedule(timing=timing, next_ms=first, policy=Missed.RUN_ALL))
            fired, now_ms = _play(database, start, ticks)
            (left,) = database.run_sync(lambda c: schedules.list_schedules(c, "ana"))
        finally:
            database.close()
    expected = []
    for slot in timing.slots(start):
        if slot > now_ms:
            break
        expected.append(slot)
    assert fired == sorted(set(fired))
    assert set(fired) <= set(expected)
    assert len(fired) + left.missed == len(expected)
    assert left.next_ms == timing.next_after(max(now_ms, start))


def _play(database: Database, now_ms: int, ticks: list[tuple[int, str, bool]]) -> tuple[list[int], int]:
    """The slots that were fired by all claimers, in the order in which they were; and the time at the end."""
    fired: list[int] = []
    stale: list[Schedule] = []
    for n, (later, who, acts_late) in enumerate(ticks):
        now_ms += later
        current = database.run_sync(partial(schedules.due, now_ms=now_ms))
        for one in [*current, *(stale if acts_late else ())]:
            if one.next_ms is not None and one.next_ms <= now_ms:
                take(database, one, f"{who}{n}", now_ms)
        stale = current
        fired += [one.slot_ms for one in tick(database, f"{who}{n}", now_ms)]
    return fired, now_ms


def test_what_is_given_up_is_no_older_than_ids_are_known() -> None:
    from shared.settings import Settings

    assert Settings().limits.dedupe_ttl_s * 1000 > LOOK_BACK_MS


def line(text: str) -> Line:
    found = read_line(text, "Europe/Madrid")
    assert found is not None
    return found


def follow(db: Database, lines: dict[str, Line | None], now_ms: int) -> dict[str, Schedule]:
    db.run_sync(lambda c: schedules.follow(c, lines, now_ms))
    return {one.workflow: one for one in db.run_sync(lambda c: schedules.list_schedules(c, INSTALLATION))}


def test_schedules_of_workflows_follow_what_is_offered(db: Database) -> None:
    hourly, daily = line("every 1h"), line("0 7 * * * skip")
    found = follow(db, {"a": hourly, "b": daily, "c": None}, START)
    assert set(found) == {"a", "b"}
    assert (found["b"].policy, found["b"].timing.zone) == (Missed.SKIP, "Europe/Madrid")
    assert found["a"].next_ms == hourly.timing.next_after(START)
    # The same again changes nothing, also when a slot has come meanwhile.
    assert follow(db, {"a": hourly, "b": daily}, START + 3 * HOUR) == found
    # Other times go on from now; another policy leaves the next slot; nothing takes the schedule away.
    changed = follow(db, {"a": line("every 2h"), "b": line("0 7 * * *")}, START + 3 * HOUR)
    assert changed["a"].next_ms == line("every 2h").timing.next_after(START + 3 * HOUR)
    assert (changed["b"].policy, changed["b"].next_ms) == (Missed.RUN_ONCE, found["b"].next_ms)
    assert set(follow(db, {"a": None, "b": daily}, START + 3 * HOUR)) == {"b"}
    # Users have nothing to do with them.
    assert db.run_sync(lambda c: schedules.list_schedules(c, "owner")) == []


def test_workflows_that_nobody_offers_wait_and_are_forgotten_at_last(db: Database) -> None:
    lines: dict[str, Line | None] = {"a": line("every 1h")}
    before = follow(db, lines, START)
    assert follow(db, {}, START + 2 * HOUR) == before
    assert db.run_sync(lambda c: schedules.due(c, START + 2 * HOUR)) == []
    (due,) = db.run_sync(lambda c: schedules.due(c, START + 2 * HOUR, ["a"]))
    assert due.next_ms == before["a"].next_ms
    assert follow(db, {}, START + LOOK_BACK_MS + 2 * HOUR) == {}


def test_a_time_that_has_passed_when_it_is_first_seen_is_done(db: Database) -> None:
    once: dict[str, Line | None] = {"a": line("at 2020-01-01T10:00")}
    assert follow(db, once, START)["a"].state is State.DONE
    assert follow(db, once, START + HOUR)["a"].state is State.DONE


def test_a_message_that_was_sent_is_in_doubt_until_it_is_settled(db: Database) -> None:
    put(db, a_schedule())
    (firing,) = tick(db, "r1", START)
    (sent,) = db.run_sync(schedules.in_doubt)
    assert (sent.slot_ms, sent.sent_ms) == (START, START)
    assert claim(db, "r2", START + 10 * CLAIM_MS) == []  # nobody sends it again by itself
    db.run_sync(lambda c: schedules.refused(c, firing, START + 1))
    assert db.run_sync(schedules.in_doubt) == []
    assert claim(db, "r2", START + CLAIM_MS) == []
    assert [one.slot_ms for one in claim(db, "r2", START + 1 + CLAIM_MS)] == [START]
    db.run_sync(lambda c: schedules.settled(c, firing))
    assert claim(db, "r3", START + 10 * CLAIM_MS) == []
