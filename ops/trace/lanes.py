"""Which bars share a lane. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def pack(intervals: Sequence[tuple[float, float]]) -> list[int]:
    """A lane for each half-open interval `[start, end)`, so that those of a lane do not overlap.

    Greedy interval partitioning in order of start, the lowest free lane first: it uses as many lanes as intervals
    overlap at the worst moment, which is the fewest possible. Each interval must have a positive length.
    """
    lanes = [0] * len(intervals)
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    opened = 0
    for index in sorted(range(len(intervals)), key=lambda i: intervals[i][0]):
        start, end = intervals[index]
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lanes[index] = heapq.heappop(free)
        else:
            lanes[index] = opened
            opened += 1
        heapq.heappush(busy, (end, lanes[index]))
    return lanes
