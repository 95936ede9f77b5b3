"""Time and arithmetic."""

from __future__ import annotations

import difflib
import functools
from datetime import datetime
from fractions import Fraction
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import Field, JsonValue

from shared.contract import Effect, GroupSpec
from shared.errors import ModelError
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools.arithmetic import ArithmeticProblem, evaluate
from workers.tools.when import fold

GROUP = GroupSpec(
    name="utility",
    title="Time and arithmetic",
    keywords={
        "es": (
            "qué hora", "la hora", "hora es", "hora actual", "hora local", "qué día es", "qué fecha", "fecha de hoy",
            "a qué día estamos", "zona horaria", "calcula", "calcular", "calculadora", "cálculo", "cuánto es",
            "cuánto son", "cuántos son", "suma", "sumar", "resta", "restar", "multiplica", "multiplicar", "divide",
            "dividir", "dividido", "por ciento", "porcentaje", "raíz cuadrada", "elevado a",
        ),
        "en": (
            "what time", "time is it", "current time", "local time", "the time in", "what day is", "what date",
            "today's date", "the date today", "time zone", "timezone", "calculate", "calculator", "calculation",
            "how much is", "add up", "subtract", "multiply", "multiplied", "divide", "divided", "percent", "percentage",
            "square root", "compute", "to the power of", "work out",
        ),
    },
    examples={
        "es": (
            "¿qué hora es en Tokio?",
            "¿a qué día estamos?",
            "¿cuánto es 17 por 23?",
            "calcula el 21 % de 350",
            "suma 12,5 y 7,25",
            "dime la raíz cuadrada de 144",
            "¿qué hora es ahora en Buenos Aires?",
        ),
        "en": (
            "what time is it in Tokyo?",
            "what is today's date?",
            "how much is 17 times 23?",
            "work out 21 % of 350",
            "add 12.5 and 7.25",
            "tell me the square root of 144",
            "what time is it now in Buenos Aires?",
        ),
    },
)  # fmt: skip

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
