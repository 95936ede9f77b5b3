from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.trace.lanes import pack

_INTERVALS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda t: (float(t[0]), float(t[0] + t[1]))), max_size=60
)


@pytest.mark.property
@given(_INTERVALS)
def test_lanes_do_not_overlap_and_are_the_fewest(intervals: list[tuple[float, float]]) -> None:
    lanes = pack(intervals)
    for i, (start, end) in enumerate(intervals):
        for j in range(i):
            if lanes[i] == lanes[j]:
                assert end <= intervals[j][0] or intervals[j][1] <= start, (intervals[i], intervals[j])
    depth = max((sum(s <= at < e for s, e in intervals) for at, _ in intervals), default=0)
    assert len(set(lanes)) == depth, "no schedule needs fewer lanes than overlap at the worst moment"
    assert set(lanes) == set(range(depth)), "no lane is left out"


def test_what_begins_together_keeps_its_order_and_what_touches_shares() -> None:
    assert pack([(0, 5), (0, 2), (0, 9)]) == [0, 1, 2]
    assert pack([(0, 5), (5, 9)]) == [0, 0]
    assert pack([(0, 5), (0, 3), (4, 6), (5, 7)]) == [0, 1, 1, 0]
