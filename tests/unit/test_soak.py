"""When a soak says that something grew."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.soak.samples import SMOOTHED, TOLERANCES, Sample, judged, kind_of


def _flat(name: str, value: float, count: int = 4 * SMOOTHED) -> list[Sample]:
    return [{name: value} for _ in range(count)]


@pytest.mark.parametrize("name", [f"{kind} x" for kind in TOLERANCES])
@given(value=st.floats(0, 1e6))
@pytest.mark.property
def test_what_stays_has_not_grown(name: str, value: float) -> None:
    assert not any(row.grew for row in judged(_flat(name, value)))


@pytest.mark.parametrize("name", [f"{kind} x" for kind in TOLERANCES])
def test_what_doubles_has_grown(name: str) -> None:
    samples = [{name: 1000.0 * (1 + i / 19)} for i in range(20)]
    [row] = judged(samples)
    assert row.grew
    assert "GREW" in str(row)


def test_a_single_peak_is_no_growth_but_is_shown() -> None:
    samples = _flat("fds worker-1", 50.0)
    samples[-2] = {"fds worker-1": 500.0}
    [row] = judged(samples)
    assert (row.grew, row.most) == (False, 500.0)


def test_keys_of_a_kind_that_was_not_there_at_first_count_as_growth() -> None:
    samples = [*_flat("keys state new", 0.0, 10), *_flat("keys state new", 200.0, 10)]
    samples[0] = {}
    [row] = judged(samples)
    assert row.grew


def test_keys_are_counted_by_kind() -> None:
    names = ["capataz:session:a", "capataz:session:a.b-c:log", "capataz:run:r1:ledger", "capataz:inbox", "_kombu.x"]
    assert [kind_of(name) for name in names] == ["session", "session:log", "run:ledger", "inbox", "celery"]
