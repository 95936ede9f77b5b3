from hypothesis import given
from hypothesis import strategies as st

from ops.supervisor.backoff import LOUD_DEATHS, Backoff


def test_delays_double_up_to_the_bound() -> None:
    backoff = Backoff(first_s=1.0, most_s=5.0)
    assert [backoff.died(now, 0.1).delay_s for now in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_long_life_is_forgiven() -> None:
    backoff = Backoff(first_s=1.0)
    backoff.died(0.0, 0.1)
    backoff.died(2.0, 0.1)
    assert backoff.died(100.0, 61.0).delay_s == 1.0


def test_loud_only_for_five_deaths_within_a_minute() -> None:
    quick = Backoff()
    assert [quick.died(now, 0.0).loud for now in (0, 1, 3, 7, 15)] == [False] * 4 + [True]
    slow = Backoff()
    assert not any(slow.died(20.0 * i, 19.0).loud for i in range(20))


@given(st.lists(st.floats(0, 50), min_size=1, max_size=200))
def test_delay_is_bounded_and_never_zero(lives: list[float]) -> None:
    backoff, now = Backoff(), 0.0
    for lived in lives:
        now += lived
        verdict = backoff.died(now, lived)
        assert 0 < verdict.delay_s <= backoff.most_s
        now += verdict.delay_s
    assert LOUD_DEATHS == 5
