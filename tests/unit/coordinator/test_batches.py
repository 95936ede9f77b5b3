"""How ready nodes are shared out among messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.dispatch.batches import split


@pytest.mark.parametrize(
    ("count", "workers", "most", "sizes"),
    [
        (0, 3, 20, []),
        (1, 3, 20, [1]),
        (5, 1, 20, [5]),
        (5, 2, 20, [3, 2]),
        (20, 2, 20, [10, 10]),
        (45, 1, 20, [15, 15, 15]),
        (45, 2, 20, [15, 15, 15]),
        (3, 8, 20, [1, 1, 1]),
        (4, 0, 20, [4]),
    ],
)
def test_sizes(count: int, workers: int, most: int, sizes: list[int]) -> None:
    assert [len(part) for part in split(range(count), workers, most)] == sizes


@pytest.mark.property
@given(st.lists(st.integers(), max_size=200), st.integers(0, 50), st.integers(1, 30))
def test_nothing_is_lost_or_moved_and_parts_are_even(items: list[int], workers: int, most: int) -> None:
    parts = split(items, workers, most)
    assert [item for part in parts for item in part] == items
    lengths = [len(part) for part in parts]
    assert not items or (0 < min(lengths) <= max(lengths) <= most)
    assert not items or max(lengths) - min(lengths) <= 1
    assert len(parts) <= max(workers, -(-len(items) // most), 1)
    assert len(parts) >= min(workers, len(items))
