"""When a process counts as stuck."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.supervisor.pulses import MOST_STEP_S, START_S, Pulses


def looks(pulses: Pulses, *rows: tuple[float, int, bool] | None, begin: float = 0.0) -> list[bool]:
    """Looks at one process once a second (or after the given step); None: the state is away. Stuck each time?"""
    now, found = begin, []
    for row in rows:
        now += row[0] if row else 1.0
        found.append("w" in pulses.look(now, {"w": row[1:]} if row else None))
    return found


def test_silence_after_a_heartbeat_is_counted() -> None:
    beats, silent = (1.0, 7, True), (1.0, 7, False)
    assert looks(Pulses(3.0), beats, *[silent] * 4) == [False, False, False, False, True]
    assert looks(Pulses(3.0), beats, silent, silent, beats, silent, silent, silent) == [False] * 7


def test_a_process_that_starts_has_more_time() -> None:
    silent = (1.0, 7, False)
    found = looks(Pulses(3.0), *[silent] * (int(START_S) + 2))
    assert found[-1]
    assert not any(found[:-1])


def test_a_new_process_begins_anew() -> None:
    assert not any(looks(Pulses(2.0), (1.0, 7, True), (1.0, 7, False), (1.0, 7, False), *[(1.0, 8, False)] * 9))


def test_who_has_not_looked_knows_nothing() -> None:
    """The supervisor itself was paused, or the state was away: nobody is replaced for that."""
    assert looks(Pulses(5.0), (1.0, 7, True), (3600.0, 7, False), (1.0, 7, False)) == [False] * 3
    assert not any(looks(Pulses(2.0), (1.0, 7, True), *[(1.0, 7, False), (1.0, 7, False), None] * 5))


@pytest.mark.property
@given(st.lists(st.tuples(st.floats(0.1, 5.0), st.booleans()), max_size=60), st.floats(1.0, 10.0))
def test_stuck_is_silence_for_longer_than_allowed(rows: list[tuple[float, bool]], stuck_s: float) -> None:
    pulses = Pulses(stuck_s)
    pulses.look(0.0, {"w": (7, True)})
    now = silent = 0.0
    for step, beats in rows:
        now += step
        silent = 0.0 if beats else silent + step
        found = pulses.look(now, {"w": (7, beats)})
        if found:
            assert silent > stuck_s
        if silent == 0.0:
            assert not found
        if not beats and step <= MOST_STEP_S:
            assert bool(found) or silent <= stuck_s or any(s > MOST_STEP_S for s, _ in rows)
