"""Parsers and caps hold their promises for any input."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.compress import cap, clean_text, snippet
from workers.tools.arithmetic import ArithmeticProblem, evaluate
from workers.tools.paths import matches
from workers.tools.when import WhenError, parse_when

pytestmark = pytest.mark.property

ZONE = ZoneInfo("Europe/Madrid")
moments = st.datetimes(datetime(2025, 1, 1), datetime(2035, 1, 1)).map(
    lambda at: at.replace(tzinfo=ZONE, microsecond=0)
)
WORDS = (
    "in en at a las la mañana tomorrow hoy today de por y and the next próximo viernes friday mayo may 3 7 30 7:30 25 "
    "pm am minutes horas día semana media half an una noon noche 2026-12-01 29 febrero 31 que viene cuarto menos"
)
words = st.sampled_from(WORDS.split())
scalars = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=400)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=80), inner, max_size=30),
    max_leaves=200,
)


@given(st.lists(words, max_size=8).map(" ".join) | st.text(max_size=60), moments)
def test_a_time_is_ahead_or_a_when_error(text: str, now: datetime) -> None:
    try:
        moment = parse_when(text, now)
    except WhenError:
        return
    assert moment.timestamp() > now.timestamp()
    assert moment.tzinfo is ZONE
    assert parse_when(text.upper(), now) == moment


@given(moments, st.integers(1, 5000))
def test_spans_of_minutes_are_elapsed_time(now: datetime, minutes: int) -> None:
    for text in (f"in {minutes} minutes", f"en {minutes} minutos"):
        assert parse_when(text, now).timestamp() == now.timestamp() + 60 * minutes


@given(moments, st.integers(1, 3000))
def test_iso_reads_back(now: datetime, minutes: int) -> None:
    moment = datetime.fromtimestamp(now.timestamp() + 60 * minutes, ZONE)
    assert parse_when(moment.isoformat(), now).timestamp() == moment.timestamp()


@given(moments, st.integers(0, 23), st.integers(0, 59))
def test_a_bare_time_is_within_a_day(now: datetime, hour: int, minute: int) -> None:
    moment = parse_when(f"at {hour}:{minute:02}", now)
    assert moment - now <= timedelta(days=1, hours=1)
    if moment.utcoffset() == now.utcoffset():
        assert (moment.hour, moment.minute) == (hour, minute)


numbers = st.integers(-999, 999).map(str) | st.decimals(-99, 99, places=2).map(str)


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda three: f"({three[0]} {three[1]} {three[2]})")


@given(st.recursive(numbers, _combined, max_leaves=12))
def test_arithmetic_is_that_of_rational_numbers(expression: str) -> None:
    import re

    exact = re.sub(r"\d+(\.\d+)?", lambda match: f"Fraction('{match[0]}')", expression)
    try:
        expected: Any = eval(exact, {"Fraction": Fraction})
    except ZeroDivisionError:
        with pytest.raises(ArithmeticProblem, match="division by zero"):
            evaluate(expression)
        return
    result = evaluate(expression)
    assert result.number == expected
    assert (
        Fraction(result.text) == expected
        if result.exact
        else abs(Fraction(result.text) - expected) <= abs(expected) / 10**14
    )


@given(st.text(max_size=80) | st.text("0123456789.+-*/^%() ,e", max_size=60))
def test_any_text_is_a_number_or_a_problem(text: str) -> None:
    try:
        result = evaluate(text)
    except ArithmeticProblem:
        return
    assert result.text


@given(json_values, st.integers(200, 3000))
def test_capped_json_is_json_within_the_limit(value: Any, limit: int) -> None:
    text = json.dumps(value, ensure_ascii=False)
    capped, cut = cap(text, limit, "a:0123")
    assert len(capped) <= limit
    assert cut == (len(text) > limit)
    if not cut:
        assert capped == text
    elif isinstance(value, dict | list):
        assert "a:0123" in capped
        assert type(json.loads(capped)) is type(value) or "_cut" in json.loads(capped)


@given(st.text(max_size=3000), st.integers(200, 2000))
def test_capped_text_keeps_both_ends(text: str, limit: int) -> None:
    capped, cut = cap(text, limit)
    assert len(capped) <= limit
    if cut:
        assert capped[:20] == text[:20]
        assert capped[-20:] == text[-20:]


@given(st.text(max_size=500))
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    once = clean_text(text)
    assert clean_text(once) == once
    assert len(once) <= len(text)
    assert len(snippet(text, 40)) <= 40


names = st.lists(st.text("ab", min_size=1, max_size=3), min_size=2, max_size=5)


@given(names, st.data())
def test_a_path_fits_itself_and_any_part_replaced_by_stars(parts: list[str], data: st.DataObject) -> None:
    path = "/".join(parts)
    start = data.draw(st.integers(0, len(parts)))
    end = data.draw(st.integers(start, len(parts)))
    assert matches(path, "/".join([*parts[:start], "**", *parts[end:]]))
    starred = "/".join("*" if data.draw(st.booleans()) else part for part in parts)
    assert matches(path, starred)
    assert not matches(f"{path}/more", starred)
