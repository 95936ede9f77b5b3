"""When schedules are due, over changes of the clock, and what is done about missed slots. A simulated clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import UserError
from shared.schedules import (
    Schedule,
    State,
    late_note,
    message,
    message_id,
    note_and_prompt,
    retimed,
    started,
    switched,
)
from shared.timing import GRACE_MS, LOOK_BACK_MS, MAX_CATCH_UP, Line, Missed, Plan, Timing, given_up, plan, read_line

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def ms(text: str) -> int:
    """An ISO time with an offset, in milliseconds."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def local(timing: Timing, after: str, count: int) -> list[str]:
    """The next slots, on the wall clock with its offset."""
    slots, at = [], ms(after)
    for _ in range(count):
        following = timing.next_after(at)
        assert following is not None
        at = following
        slots.append(datetime.fromtimestamp(at / 1000, ZoneInfo(timing.zone)).strftime("%m-%d %H:%M %z"))
    return slots


MADRID, NEW_YORK = "Europe/Madrid", "America/New_York"

# In Madrid 2027 the hour from 02:00 does not exist on March 28 and exists twice on October 31; in New York on March 14
# and November 7, there the hour from 01:00 exists twice.
CHANGES = [
    ("a brief stays at seven", MADRID, "0 7 * * *", "2027-03-26T12:00Z", ["03-27 07:00 +0100", "03-28 07:00 +0200"]),
    ("in autumn too", MADRID, "0 7 * * *", "2027-10-29T12:00Z", ["10-30 07:00 +0200", "10-31 07:00 +0100"]),
    (
        "skipped: when they jumped",
        MADRID,
        "30 2 * * *",
        "2027-03-27T12:00Z",
        ["03-28 03:00 +0200", "03-29 02:30 +0200"],
    ),
    ("twice: the first", MADRID, "30 2 * * *", "2027-10-30T12:00Z", ["10-31 02:30 +0200", "11-01 02:30 +0100"]),
    ("from within the second", MADRID, "30 2 * * *", "2027-10-31T01:10Z", ["11-01 02:30 +0100"]),
    ("several skipped: once", MADRID, "0,30 2 * * *", "2027-03-27T12:00Z", ["03-28 03:00 +0200", "03-29 02:00 +0200"]),
    (
        "each hour that exists",
        MADRID,
        "15 * * * *",
        "2027-10-31T00:00Z",
        ["10-31 02:15 +0200", "10-31 02:15 +0100", "10-31 03:15 +0100"],
    ),
    ("none that does not", MADRID, "15 * * * *", "2027-03-28T00:00Z", ["03-28 01:15 +0100", "03-28 03:15 +0200"]),
    ("seven there", NEW_YORK, "0 7 * * *", "2027-03-12T18:00Z", ["03-13 07:00 -0500", "03-14 07:00 -0400"]),
    ("skipped there", NEW_YORK, "30 2 * * *", "2027-03-13T18:00Z", ["03-14 03:00 -0400", "03-15 02:30 -0400"]),
    ("twice there", NEW_YORK, "30 1 * * *", "2027-11-06T18:00Z", ["11-07 01:30 -0400", "11-08 01:30 -0500"]),
    ("weekdays over it", NEW_YORK, "0 9 * * 1-5", "2027-11-05T18:00Z", ["11-08 09:00 -0500", "11-09 09:00 -0500"]),
]


@pytest.mark.parametrize(
    ("zone", "cron", "after", "expected"), [one[1:] for one in CHANGES], ids=[c[0] for c in CHANGES]
)
def test_cron_over_changes_of_the_clock(zone: str, cron: str, after: str, expected: list[str]) -> None:
    timing = Timing(zone, 0, cron=cron)
    assert local(timing, after, len(expected)) == expected


@pytest.mark.parametrize(
    ("zone", "every", "start", "expected"),
    [
        (MADRID, "1d", "2027-03-27T02:30+01:00", ["03-27 02:30 +0100", "03-28 03:30 +0200", "03-29 02:30 +0200"]),
        (MADRID, "1d", "2027-10-30T02:30+02:00", ["10-30 02:30 +0200", "10-31 02:30 +0200", "11-01 02:30 +0100"]),
        (MADRID, "2w", "2027-03-20T08:00+01:00", ["03-20 08:00 +0100", "04-03 08:00 +0200"]),
        (MADRID, "1h", "2027-10-31T02:00+02:00", ["10-31 02:00 +0200", "10-31 02:00 +0100", "10-31 03:00 +0100"]),
        (NEW_YORK, "2d", "2027-11-06T01:30-04:00", ["11-06 01:30 -0400", "11-08 01:30 -0500"]),
        (NEW_YORK, "90m", "2027-03-14T01:00-05:00", ["03-14 01:00 -0500", "03-14 03:30 -0400", "03-14 05:00 -0400"]),
    ],
)
def test_intervals_over_changes_of_the_clock(zone: str, every: str, start: str, expected: list[str]) -> None:
    timing = Timing(zone, ms(start), every=every)
    assert local(timing, "2027-01-01T00:00Z", len(expected)) == expected


def test_one_off_and_until() -> None:
    once = Timing("UTC", 1000)
    assert (once.next_after(999), once.next_after(1000)) == (1000, None)
    bounded = Timing("UTC", 0, every="1h", until_ms=2 * HOUR)
    assert list(bounded.slots(-1)) == [0, HOUR, 2 * HOUR]
    assert Timing("UTC", 5 * DAY, cron="0 0 * * *").next_after(0) == 5 * DAY


@pytest.mark.parametrize(
    ("timing", "problem"),
    [
        (Timing("UTC", 0, cron="0 7 * *"), "five fields"),
        (Timing("UTC", 0, cron="0 0 7 * * *"), "five fields"),
        (Timing("UTC", 0, cron="61 7 * * *"), "minute"),
        (Timing("UTC", 0, every="7x"), "interval"),
        (Timing("UTC", 0, every="0m"), "interval"),
        (Timing("Mars/Base", 0, cron="0 7 * * *"), "no time zone"),
    ],
)
def test_what_cannot_be_read_is_refused(timing: Timing, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        timing.check()


HOURLY = Timing("UTC", 0, every="1h")
DOWN = 100 * HOUR + 30 * MINUTE
"""Now, when the slot at 100 h is half an hour late."""


@pytest.mark.parametrize(
    ("policy", "next_ms", "now_ms", "expected"),
    [
        # In time, by a few minutes: not missed.
        (Missed.SKIP, 100 * HOUR, 100 * HOUR + GRACE_MS, Plan((100 * HOUR,), 0, 101 * HOUR)),
        # Beat was down for an hour.
        (Missed.SKIP, 100 * HOUR, DOWN, Plan((100 * HOUR,), 0, 101 * HOUR)),
        (Missed.RUN_ONCE, 100 * HOUR, DOWN, Plan((100 * HOUR,), 0, 101 * HOUR)),
        (Missed.RUN_ALL, 100 * HOUR, DOWN, Plan((100 * HOUR,), 0, 101 * HOUR)),
        # For three.
        (Missed.SKIP, 98 * HOUR, DOWN, Plan((100 * HOUR,), 2, 101 * HOUR)),
        (Missed.SKIP, 98 * HOUR, 100 * HOUR, Plan((100 * HOUR,), 2, 101 * HOUR)),
        (Missed.RUN_ONCE, 98 * HOUR, DOWN, Plan((100 * HOUR,), 2, 101 * HOUR)),
        (Missed.RUN_ALL, 98 * HOUR, DOWN, Plan((98 * HOUR, 99 * HOUR, 100 * HOUR), 0, 101 * HOUR)),
        # For longer than is made up for.
        (
            Missed.RUN_ALL,
            50 * HOUR,
            DOWN,
            Plan(tuple(h * HOUR for h in range(101 - MAX_CATCH_UP, 101)), 51 - MAX_CATCH_UP, 101 * HOUR),
        ),
    ],
)
def test_missed_slots(policy: Missed, next_ms: int, now_ms: int, expected: Plan) -> None:
    assert plan(HOURLY, policy, next_ms, now_ms) == expected


@pytest.mark.parametrize("policy", list(Missed))
def test_what_is_older_than_we_look_is_given_up(policy: Missed) -> None:
    assert plan(Timing("UTC", 10), policy, 10, 11 + LOOK_BACK_MS) == Plan((10,), 0, None)
    assert given_up(policy, 10, 11 + LOOK_BACK_MS)
    assert plan(Timing("UTC", 10), policy, 10, 10 + LOOK_BACK_MS) == Plan((10,), 0, None)
    assert given_up(policy, 10, 10 + LOOK_BACK_MS) == (policy is Missed.SKIP)
    assert not given_up(policy, 10, 10 + GRACE_MS)


@pytest.mark.parametrize(
    ("text", "timing", "policy"),
    [
        ("0 7 * * 1-5", Timing("UTC", 1_704_067_200_000, cron="0 7 * * 1-5"), Missed.RUN_ONCE),
        ("0 7 * * * Europe/Madrid", Timing(MADRID, 1_704_063_600_000, cron="0 7 * * *"), Missed.RUN_ONCE),
        ("*/5 * * * */2 skip", Timing("UTC", 1_704_067_200_000, cron="*/5 * * * */2"), Missed.SKIP),
        ("every 5s", Timing("UTC", 1_704_067_200_000, every="5s"), Missed.RUN_ONCE),
        ("every 2w America/New_York run_all", Timing(NEW_YORK, 1_704_085_200_000, every="2w"), Missed.RUN_ALL),
        ("at 2026-12-24T18:00 Europe/Madrid", Timing(MADRID, 1_798_131_600_000), Missed.RUN_ONCE),
        ("at 2026-12-24T18:00Z skip", Timing("UTC", 1_798_135_200_000), Missed.SKIP),
    ],
)
def test_lines(text: str, timing: Timing, policy: Missed) -> None:
    assert read_line(text, "UTC") == Line(timing, policy)


@pytest.mark.parametrize("text", ["", "  ", "off"])
def test_lines_without_a_schedule(text: str) -> None:
    assert read_line(text, "UTC") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0 7 * *", "cannot be read"),
        ("0 7 * * * Mars/Base", "no time zone"),
        ("0 7 * * 9", "day-of-week"),
        ("every", "cannot be read"),
        ("every 3x", "interval"),
        ("at noon", "ISO time"),
        ("skip", "cannot be read"),
        ("off skip", "cannot be read"),
        ("0 7 * * * UTC skip skip", "cannot be read"),
    ],
)
def test_lines_that_cannot_be_read(text: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        read_line(text, "UTC")


@pytest.mark.property
@given(st.text(alphabet="0123456789*/,- everyatoffskiprun_oncedmhswUTCEurope/Madrid", max_size=40))
def test_a_line_is_read_or_refused(text: str) -> None:
    try:
        line = read_line(text, "Europe/Madrid")
    except UserError:
        return
    if line is not None:
        line.timing.check()
        following = line.timing.next_after(ms("2027-01-01T00:00Z"))
        assert following is None or following > ms("2027-01-01T00:00Z")


def a_schedule(**values: Any) -> Schedule:
    one = Schedule("s1", "ana", "n", HOURLY, "s", 0, prompt="look", tools=("web",), next_ms=HOUR)
    return replace(one, **values)


def test_off_makes_up_for_nothing() -> None:
    off = switched(a_schedule(), on=False, now_ms=10)
    assert off.state is State.OFF
    assert switched(off, on=True, now_ms=10 * HOUR).next_ms == 11 * HOUR
    same = a_schedule()
    assert switched(same, on=True, now_ms=10 * HOUR) is same
    moved = retimed(off, Timing("UTC", 0, every="2h"), 9 * HOUR)
    assert (moved.state, moved.next_ms) == (State.OFF, 10 * HOUR)
    with pytest.raises(UserError, match="no such time ahead"):
        switched(a_schedule(timing=Timing("UTC", 5), state=State.DONE, next_ms=None), on=True, now_ms=10)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"prompt": ""}, "a workflow or a prompt"),
        ({"workflow": "brief"}, "a workflow or a prompt"),
        ({"tools": ()}, "names its tools"),
        ({"params": {"a": 1}}, "no parameters"),
        ({"prompt": "", "workflow": "brief"}, "tools of its own"),
        ({"session": "a b"}, "no valid name"),
        ({"tools": ("a b",)}, "no name of a tool"),
        ({"prompt": "x" * 9000}, "at most"),
    ],
)
def test_what_could_never_run_is_refused(values: dict[str, object], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        started(a_schedule(**values), 0)


def test_messages_name_their_slot_and_say_that_they_are_late() -> None:
    one = a_schedule(timing=Timing(MADRID, 0, cron="0 7 * * *"))
    slot = ms("2026-12-01T07:00+01:00")
    assert message_id("s1", slot) == "schedule-s1@2026-12-01T06:00:00Z"
    assert late_note(one, slot, 0, slot + MINUTE) == ""
    note = late_note(one, slot, 3, slot + HOUR + 5 * MINUTE)
    assert (
        note == "Scheduled for 2026-12-01 07:00 (Europe/Madrid); it comes 1 h 5 min late; 3 earlier times were missed"
    )
    prompt = message(one, "id1", note=note)
    assert note_and_prompt(prompt.text) == (note, "look")
    assert note_and_prompt("[a list]\n\nlook") == ("", "[a list]\n\nlook")
    assert (prompt.text, prompt.tools, prompt.approvals) == (f"[{note}]\n\nlook", ("web",), "deny")
    flow = message(a_schedule(prompt="", tools=(), workflow="brief", params={"a": 1}), "id1")
    assert (flow.kind, flow.workflow, flow.params, flow.approvals) == ("workflow", "brief", {"a": 1}, "deny")


def test_words() -> None:
    assert Timing("UTC", 0, cron="0 7 * * *").words() == "cron 0 7 * * * (UTC)"
    assert Timing("UTC", 0, every="1d", until_ms=int(timedelta(days=1).total_seconds() * 1000)).words() == (
        "every day until 1970-01-02 00:00"
    )
    assert Timing("UTC", 0).words() == "once"
