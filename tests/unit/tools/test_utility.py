from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import ModelError
from workers.tools.units import _EXACT, UnitProblem, convert, find_unit


@pytest.mark.parametrize(
    ("value", "source", "target", "text"),
    [
        ("1", "mi", "km", "1.609344"),
        ("150", "libras", "kg", "68.0388555"),
        ("100", "°F", "°C", "37.7777777777778"),
        ("-40", "celsius", "fahrenheit", "-40"),
        ("0", "K", "°C", "-273.15"),
        ("5'", "ft", "in", ""),
        ("5", "pies", "pulgadas", "60"),
        ("1", "kWh", "MJ", ""),
        ("1", "kWh", "kJ", "3600"),
        ("100", "km/h", "mph", "62.1371192237334"),
        ("30", "mpg", "l/100km", "7.84048611111111"),
        ("8 l", "l", "ml", ""),
        ("2+3", "tazas", "ml", "1182.9411825"),
        ("1", "GiB", "MB", "1073.741824"),
        ("8", "Mbit", "MB", "1"),
        ("1", "hectárea", "m2", "10000"),
        ("180", "grados", "rad", "3.14159265358979"),
        ("2", "stone", "lb", "28"),
        ("1", "m", "kg", ""),
        ("-300", "°C", "K", ""),
    ],
)
def test_conversions(bench: Any, value: str, source: str, target: str, text: str) -> None:
    if text:
        found = bench.run("convert_units", value=value, source=source, target=target)
        assert found.value["text"] == text
        assert found.value["result"] == pytest.approx(float(text))
    else:
        with pytest.raises(ModelError, match="nothing was converted"):
            bench.run("convert_units", value=value, source=source, target=target)


def test_case_matters_only_where_two_units_differ_by_it() -> None:
    assert [find_unit(name).symbol for name in ("mb", "MB", "Km", "KG", "GRADOS", "W", "w")] == [
        "MB", "MB", "km", "kg", "deg", "W", "W",
    ]  # fmt: skip
    with pytest.raises(UnitProblem, match="kilogram"):
        find_unit("kilogam")


@pytest.mark.property
@given(st.data(), st.fractions(1, 10**6))
def test_there_and_back_is_the_same(data: st.DataObject, value: Fraction) -> None:
    one = data.draw(st.sampled_from(list(_EXACT.values())))
    other = data.draw(st.sampled_from([unit for unit in _EXACT.values() if unit.dimension == one.dimension]))
    assert convert(convert(value, one, other), other, one) == value


def test_dates(bench: Any) -> None:
    assert bench.run("date_calc").seen == "2026-11-10 is a Tuesday, in ISO week 46"
    found = bench.run("date_calc", until="navidad")
    assert (found.value["days"], found.value["working_days"]) == (45, 33)
    assert "6 weeks and 3 days" in found.seen
    assert bench.run("date_calc", start="2026-01-31", months=1).value["date"] == "2026-02-28"
    assert bench.run("date_calc", start="hoy", days=-45).value["weekday"] == "Saturday"
    assert bench.run("date_calc", start="2026-12-24", until="2026-11-10").value["days"] == -44
    assert bench.run("date_calc", start="ayer").value["date"] == "2026-11-09"
    for bad in ("2026-02-30", "whenever", "31 de abril"):
        with pytest.raises(ModelError, match="no such date"):
            bench.run("date_calc", start=bad)
    with pytest.raises(ModelError, match="no such date"):
        bench.run("date_calc", days=200_000, months=6_000, start="9990-01-01")
