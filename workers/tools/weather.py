"""The weather by Open-Meteo: now, and the days to come, of a place by its name."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, JsonValue

from shared.contract import Effect
from shared.errors import ModelError
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools.service import Service, call, malformed

_CURRENT = (
    "temperature_2m",
    "apparent_temperature",
    "relative_humidity_2m",
    "precipitation",
    "weather_code",
    "wind_speed_10m",
)
_DAILY = (
    "weather_code",
    "temperature_2m_max",
    "temperature_2m_min",
    "precipitation_sum",
    "precipitation_probability_max",
)
_SKY = {
    0: "clear", 1: "mostly clear", 2: "partly cloudy", 3: "overcast", 45: "fog", 48: "freezing fog",
    51: "light drizzle", 53: "drizzle", 55: "heavy drizzle", 56: "freezing drizzle", 57: "freezing drizzle",
    61: "light rain", 63: "rain", 65: "heavy rain", 66: "freezing rain", 67: "freezing rain", 71: "light snow",
    73: "snow", 75: "heavy snow", 77: "snow grains", 80: "light showers", 81: "showers", 82: "violent showers",
    85: "snow showers", 86: "heavy snow showers", 95: "thunderstorm", 96: "thunderstorm with hail",
    99: "thunderstorm with hail",
}  # fmt: skip


def sky(code: Any) -> str:
    """The words for a WMO weather code."""
    return _SKY.get(int(code), f"weather code {code}") if isinstance(code, int | float) else "unknown"


async def _json(ctx: ToolContext, service: Service, params: dict[str, Any]) -> dict[str, Any]:
    settings = ctx.settings.web
    found = await call(ctx, service, "GET", "", seconds=settings.timeout_s, max_bytes=settings.max_bytes, params=params)
    answer = found.json(service)
    if not isinstance(answer, dict):
        raise malformed(service, "its JSON is not an object")
    return answer


@tool(
    group="web",
    effect=Effect.READ,
    untrusted=True,
    keywords={"es": ("clima", "pronóstico"), "en": ("weather", "forecast")},
    examples={"es": ("¿qué tiempo hace en Vigo?",), "en": ("what is the weather in York?",)},
)
async def weather_get(
    ctx: ToolContext,
    place: Annotated[str, Field(description='Town, such as "Bilbao" or "Springfield, Illinois"', min_length=2)],
    days: Annotated[int, Field(description="How many days of forecast, today included", ge=1, le=14)] = 3,
) -> ToolOutput:
    """Says the weather of a place now and in the days to come: sky, degrees Celsius, rain, wind."""
    found = await _located(ctx, place)
    service = Service("the weather service", ctx.settings.web.weather_url)
    params = {
        "latitude": found["latitude"],
        "longitude": found["longitude"],
        "current": ",".join(_CURRENT),
        "daily": ",".join(_DAILY),
        "timezone": "auto",
        "forecast_days": days,
    }
    answer = await _json(ctx, service, params)
    now, daily = answer.get("current"), answer.get("daily")
    columns = [daily.get(key) for key in ("time", *_DAILY)] if isinstance(daily, dict) else []
    if not isinstance(now, dict) or not columns or not all(isinstance(column, list) for column in columns):
        raise malformed(service, "it holds no weather")
    name = ", ".join(str(found[key]) for key in ("name", "admin1", "country") if found.get(key))
    rows = [
        dict(zip(("day", "code", "max", "min", "rain_mm", "rain_percent"), row, strict=True))
        for row in zip(*columns, strict=False)
    ]
    forecast: list[JsonValue] = [{**row, "sky": sky(row["code"])} for row in rows]
    value: dict[str, JsonValue] = {"place": name, "now": {**now, "sky": sky(now.get("weather_code"))}, "days": forecast}
    return ToolOutput(value, "\n".join([_now_line(name, now), *map(_day_line, rows)]))


async def _located(ctx: ToolContext, place: str) -> dict[str, Any]:
    """The first place of that name; what stands behind a comma chooses among several."""
    service = Service("the place search", ctx.settings.web.geocoding_url)
    name, _, more = place.partition(",")
    answer = await _json(ctx, service, {"name": name.strip(), "count": 10, "language": "en", "format": "json"})
    results = answer.get("results") or []
    found = [one for one in results if isinstance(one, dict) and "latitude" in one and "longitude" in one]
    if not found:
        raise ModelError(f"no place is called {place!r}", hint="try the town's name alone", code="not_found")
    wanted = more.strip().casefold()
    regions = ("admin1", "admin2", "country", "country_code")
    fits = (one for one in found if wanted and any(str(one.get(key, "")).casefold() == wanted for key in regions))
    return next(fits, found[0])


def _now_line(name: str, now: dict[str, Any]) -> str:
    return (
        f"{name}, {now.get('time', 'now')} local: {sky(now.get('weather_code'))}, {now.get('temperature_2m')} °C "
        f"(feels like {now.get('apparent_temperature')}), humidity {now.get('relative_humidity_2m')} %, "
        f"wind {now.get('wind_speed_10m')} km/h, rain {now.get('precipitation')} mm"
    )


def _day_line(row: dict[str, Any]) -> str:
    return (
        f"{row['day']}: {sky(row['code'])}, {row['min']} to {row['max']} °C, rain {row['rain_mm']} mm "
        f"(probability {row['rain_percent']} %)"
    )
