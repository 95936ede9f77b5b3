"""Everything dies and comes back under load, by a schedule from a seed: nothing is lost, nothing happens twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.monkey import schedule
from tests.chaos.run import play

SECONDS = 60.0
SEED = 3397
"""Every kind of process and server is killed, paused and told to end, some for longer than a lease."""


@pytest.mark.integration
@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_chaos(tmp_path: Path) -> None:
    report = play(SEED, SECONDS, logs=tmp_path / "logs")
    print(report)
    assert report.wrong == []
    assert report.counts["ended"] > 0
    assert report.counts["writes"] > 0
    assert report.counts["taken_over"] > 0


@pytest.mark.property
@given(st.integers(0, 10_000))
def test_a_seed_is_a_schedule(seed: int) -> None:
    acts = schedule(seed, 60.0)
    assert acts == schedule(seed, 60.0)
    assert acts == sorted(acts, key=lambda act: act.at)
    assert all(act.at < 60.0 and act.lasts > 0 for act in acts)
