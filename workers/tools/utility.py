"""Time, dates, arithmetic and units."""

from __future__ import annotations

import difflib
import functools
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import Field, JsonValue

from shared.contract import Effect, GroupSpec
from shared.errors import ModelError
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import examples_en, examples_es, words_en, words_es
from workers.tools.arithmetic import ArithmeticProblem, evaluate, written
from workers.tools.days import add_months, find_day, past_day
from workers.tools.timewords import WhenError, plain
from workers.tools.units import UnitProblem, convert, find_unit
from workers.tools.when import fold

GROUP = GroupSpec(
    name="utility",
    title="Time, dates, arithmetic and units",
    keywords={"es": words_es.UTILITY, "en": words_en.UTILITY},
    examples={"es": examples_es.UTILITY, "en": examples_en.UTILITY},
)

_SAFE_INTEGER = 2**53
_ALIASES = {
    "tokio": "Asia/Tokyo",
    "londres": "Europe/London",
    "nueva york": "America/New_York",
    "pekin": "Asia/Shanghai",
    "beijing": "Asia/Shanghai",
    "moscu": "Europe/Moscow",
    "roma": "Europe/Rome",
    "berna": "Europe/Zurich",
    "viena": "Europe/Vienna",
    "lisboa": "Europe/Lisbon",
    "bruselas": "Europe/Brussels",
    "atenas": "Europe/Athens",
    "estambul": "Europe/Istanbul",
    "el cairo": "Africa/Cairo",
    "ciudad de mexico": "America/Mexico_City",
    "la habana": "America/Havana",
    "sidney": "Australia/Sydney",
    "sevilla": "Europe/Madrid",
    "barcelona": "Europe/Madrid",
    "valencia": "Europe/Madrid",
    "san francisco": "America/Los_Angeles",
    "gmt": "UTC",
    "z": "UTC",
}


@functools.cache
def _zones() -> dict[str, list[str]]:
    """Folded full names and folded city names -> zones."""
    found: dict[str, list[str]] = {}
    for name in sorted(available_timezones()):
        for key in {fold(name), fold(name.rsplit("/", 1)[-1].replace("_", " "))}:
            found.setdefault(key, []).append(name)
    return found


def find_zone(name: str) -> ZoneInfo:
    """The zone of an IANA name or of a city that names one. Raises ModelError with the closest names."""
    folded = fold(name.replace("_", " "))
    exact = fold(name)
    candidates = _zones().get(exact) or _zones().get(folded) or [_ALIASES.get(folded, "")]
    try:
        return ZoneInfo(candidates[0])
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        close = [_zones()[key][0] for key in difflib.get_close_matches(folded, _zones(), 3, 0.6)]
        raise ModelError(
            f"{name!r} is no time zone",
            hint=f"such as {', '.join(close)}" if close else "use an IANA name such as Europe/Madrid",
            code="bad_arguments",
        ) from error


@tool(
    group="utility",
    effect=Effect.READ,
    timeout_s=5.0,
    keywords={"es": ("hora", "fecha", "día"), "en": ("time", "date", "day", "clock")},
    examples={"es": ("¿qué hora es en Lima?",), "en": ("what time is it in Lima?",)},
)
async def time_now(
    ctx: ToolContext,
    timezone: Annotated[str, Field(description="IANA zone such as Europe/Madrid, or a city; empty: the user's")] = "",
) -> ToolOutput:
    """Tells the present date, time and day of the week in a time zone."""
    zone = find_zone(timezone or ctx.settings.workflows.timezone)
    now = datetime.fromtimestamp(ctx.services.now(), zone)
    value: dict[str, JsonValue] = {
        "timezone": zone.key,
        "iso": now.isoformat(timespec="seconds"),
        "date": now.date().isoformat(),
        "time": f"{now:%H:%M:%S}",
        "weekday": f"{now:%A}",
    }
    return ToolOutput(value, f"{now:%A %Y-%m-%d %H:%M:%S} in {zone.key} (UTC{now.isoformat()[-6:]})")


@tool(
    group="utility",
    effect=Effect.READ,
    timeout_s=5.0,
    keywords={
        "es": ("calcula", "cuánto", "suma", "porcentaje"),
        "en": ("calculate", "how much", "sum", "percent", "math"),
    },
    examples={"es": ("¿cuánto es el 15% de 80?",), "en": ("what is 15% of 80?",)},
)
def calculate(
    ctx: ToolContext,
    expression: Annotated[
        str,
        Field(
            description="Such as 17*23, 15% of 80, 2^10, sqrt(2), round(7/3, 2); decimals with a point", min_length=1
        ),
    ],
) -> ToolOutput:
    """Computes an arithmetic expression exactly where that is possible."""
    try:
        result = evaluate(expression)
    except ArithmeticProblem as error:
        raise ModelError(f"{expression[:100]!r} was not computed: {error}", code="bad_arguments") from error
    number: int | float | str
    if isinstance(result.number, Fraction) and result.number.denominator == 1:
        number = result.number.numerator if abs(result.number) < _SAFE_INTEGER else result.text
    else:
        try:
            number = float(result.number) if result.number == 0 or float(result.number) != 0.0 else result.text
        except OverflowError:
            number = result.text
    sign = "=" if result.exact else "≈"
    return ToolOutput(
        {"result": number, "text": result.text, "exact": result.exact}, f"{expression.strip()} {sign} {result.text}"
    )


@tool(
    group="utility",
    effect=Effect.READ,
    timeout_s=5.0,
    keywords={"es": ("convierte", "unidades"), "en": ("convert", "units")},
    examples={"es": ("pasa 30 millas a kilómetros",), "en": ("convert 30 miles to kilometres",)},
)
def convert_units(
    ctx: ToolContext,
    value: Annotated[str, Field(description="A number, or an expression for calculate", min_length=1)],
    source: Annotated[str, Field(description="Unit of the value: symbol or name, such as mi, libras, °F, kWh, mpg")],
    target: Annotated[str, Field(description="Unit that is wanted")],
) -> ToolOutput:
    """Converts a quantity from one unit of measurement to another (no currencies)."""
    try:
        given = evaluate(value).number
        one, other = find_unit(source), find_unit(target)
        found = convert(Fraction(given), one, other)
    except (ArithmeticProblem, UnitProblem) as error:
        raise ModelError(f"nothing was converted: {error}", code="bad_arguments") from error
    text, exact = written(found if (one.exact and other.exact) or one == other else float(found))
    result = f"{value.strip()} {one.symbol} {'=' if exact else '≈'} {text} {other.symbol}"
    return ToolOutput({"result": float(found), "text": text, "unit": other.symbol}, result)


@tool(
    group="utility",
    effect=Effect.READ,
    timeout_s=5.0,
    keywords={"es": ("días faltan", "días entre", "qué día cae"), "en": ("days until", "days between", "weekday of")},
    examples={"es": ("¿cuántos días faltan para navidad?",), "en": ("how many days until christmas?",)},
)
async def date_calc(
    ctx: ToolContext,
    start: Annotated[str, Field(description="A day: 2026-03-01, today, next friday, 3 de mayo; empty: today")] = "",
    until: Annotated[str, Field(description="Another day, to count the days between")] = "",
    days: Annotated[int, Field(description="Days to add; negative: back", ge=-200_000, le=200_000)] = 0,
    months: Annotated[int, Field(description="Months to add; negative: back", ge=-6_000, le=6_000)] = 0,
) -> ToolOutput:
    """Tells weekday and week of a day, adds days and months to it, and counts the days up to another day."""
    today = datetime.fromtimestamp(ctx.services.now(), find_zone(ctx.settings.workflows.timezone)).date()
    try:
        first = add_months(_day(start, today), months) + timedelta(days=days)
        last = _day(until, today) if until else None
    except (WhenError, ValueError, OverflowError) as error:
        raise ModelError(f"no such date: {error}", hint="write days as 2026-03-01", code="bad_arguments") from error
    value: dict[str, JsonValue] = {
        "date": first.isoformat(),
        "weekday": f"{first:%A}",
        "week": first.isocalendar().week,
    }
    text = f"{first} is a {first:%A}, in ISO week {first.isocalendar().week}"
    if last is not None:
        between, working = (last - first).days, _working_days(first, last)
        value |= {"until": last.isoformat(), "days": between, "working_days": working}
        weeks, rest = divmod(abs(between), 7)
        text += f"\n{first} to {last} ({last:%A}): {between} days ({weeks} weeks and {rest} days; {working} Mon-Fri)"
    return ToolOutput(value, text)


def _day(said: str, today: date) -> date:
    """A day in words; one without a year lies ahead."""
    words = plain(said)
    if not words:
        return today
    if len(words) == len("2026-03-01") and words[4] == words[7] == "-":
        return date.fromisoformat(words)
    ahead = next((day for day in find_day(words, today) or () if day >= today), None)
    day = ahead or past_day(words, today)
    if day is None:
        raise WhenError(f"cannot read a day from {said[:60]!r}")
    return day


def _working_days(first: date, last: date) -> int:
    """Mondays to Fridays from the first day on, the last one not counted; holidays are not known here."""
    low, high = min(first, last), max(first, last)
    weeks, rest = divmod((high - low).days, 7)
    return weeks * 5 + sum((low.weekday() + n) % 7 < 5 for n in range(rest))
