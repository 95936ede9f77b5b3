"""TVs: what they are doing, and the keys of their remote controls."""

from __future__ import annotations

import importlib.util
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from shared.contract import Effect, GroupSpec
from shared.errors import ModelError
from shared.settings import Settings
from shared.tool_settings import TvDevice
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import examples_en, examples_es, words_en, words_es
from workers.tools.service import key_of
from workers.tools.timewords import fold
from workers.tools.tv_keys import find_key
from workers.tools.tv_samsung import SamsungTv
from workers.tools.tv_set import Status, TvSet
from workers.tools.tv_smartthings import SmartThingsTv

GROUP = GroupSpec(
    name="tv",
    title="TV",
    keywords={"es": words_es.TV, "en": words_en.TV},
    examples={"es": examples_es.TV, "en": examples_en.TV},
)

_Tv = Annotated[str, Field(description="The TV's name, as tv_list gives it; empty: the only one", max_length=64)]
_PACKAGE = "the client for Samsung TVs is not installed: pip install 'capataz[tv]'"


def _not_usable(settings: Settings, device: TvDevice) -> str | None:
    """What one TV lacks."""
    if device.kind == "samsung":
        return None if importlib.util.find_spec("samsungtvws") is not None else _PACKAGE
    variable = settings.tv.smartthings_token_env
    return None if key_of(variable) else f"the environment variable {variable} is not set: it holds SmartThings' token"


def _no_tv(settings: Settings) -> str | None:
    if not settings.tv.devices:
        return "no TV is configured: set tv.devices"
    reasons = [_not_usable(settings, device) for device in settings.tv.devices]
    return reasons[0] if all(reasons) else None


def _mine(ctx: ToolContext) -> list[TvDevice]:
    return [one for one in ctx.settings.tv.devices if not one.users or ctx.principal in one.users]


def _open(ctx: ToolContext, name: str) -> tuple[TvDevice, TvSet]:
    """The TV that is meant. Raises ModelError: none, not clear which, or it lacks something."""
    devices = _mine(ctx)
    found = [one for one in devices if fold(one.name) == fold(name)] if name else devices
    if len(found) != 1:
        known = ", ".join(one.name for one in devices) or "none"
        what = f"there is no TV {name!r}" if name and devices else "it is not clear which TV is meant"
        raise ModelError(what if devices else "no TV is there for this user", hint=f"TVs: {known}", code="unknown_tv")
    device = found[0]
    if (reason := _not_usable(ctx.settings, device)) is not None:
        raise ModelError(f"{device.name} cannot be used: {reason}", hint="tell the user", code="not_configured")
    return device, SamsungTv(ctx, device) if device.kind == "samsung" else SmartThingsTv(ctx, device)


@tool(
    group="tv",
    effect=Effect.READ,
    timeout_s=10.0,
    requires=_no_tv,
    keywords={"es": ("qué teles",), "en": ("which tvs",)},
    examples={"es": ("¿qué teles hay?",), "en": ("which TVs are there?",)},
)
async def tv_list(ctx: ToolContext) -> ToolOutput:
    """Lists the TVs that can be controlled, by name."""
    devices = _mine(ctx)
    lines = [f"- {one.name} ({one.kind})" for one in devices]
    tvs: list[JsonValue] = [{"name": one.name, "kind": one.kind} for one in devices]
    return ToolOutput({"tvs": tvs}, "\n".join(lines) or "There is no TV for this user.")


def _described(name: str, status: Status) -> str:
    power = {True: "on", False: "off, or it cannot be reached", None: "not telling whether it is on"}[status.on]
    parts = [f"{name} is {power}"]
    if status.volume is not None:
        parts.append(f"volume {status.volume}")
    if status.muted:
        parts.append("muted")
    if status.source:
        parts.append(f"input {status.source}")
    if status.channel:
        parts.append(f"channel {status.channel}")
    if status.sources:
        parts.append(f"inputs: {', '.join(status.sources)}")
    return "; ".join(parts) + "."


@tool(
    group="tv",
    effect=Effect.READ,
    requires=_no_tv,
    keywords={"es": ("está encendida", "qué canal"), "en": ("is it on", "which channel")},
    examples={"es": ("¿está encendida la tele?",), "en": ("is the TV on?",)},
)
async def tv_status(ctx: ToolContext, tv: _Tv = "") -> ToolOutput:
    """Tells whether a TV is on, and its volume, input and channel as far as it says."""
    device, one = _open(ctx, tv)
    status = await one.status()
    value: dict[str, JsonValue] = {
        "name": device.name,
        "on": status.on,
        "volume": status.volume,
        "muted": status.muted,
        "source": status.source,
        "sources": [*status.sources],
        "channel": status.channel,
        "model": status.model,
    }
    return ToolOutput(value, _described(device.name, status))


@tool(
    group="tv",
    effect=Effect.WRITE,
    requires=_no_tv,
    keywords={"es": ("pulsa", "canal", "pausa", "menú"), "en": ("press", "channel", "pause", "menu")},
    examples={"es": ("pon el canal 5",), "en": ("put on channel 5",)},
)
async def tv_keys(
    ctx: ToolContext,
    keys: Annotated[
        list[str],
        Field(
            description="In order: up, down, left, right, ok, back, home, menu, play, pause, stop, channel_up,"
            " channel_down, guide, info … or a channel's number",
            min_length=1,
            max_length=20,
        ),
    ],
    tv: _Tv = "",
) -> ToolOutput:
    """Presses keys of a TV's remote control, one after the other."""
    found = [find_key(key) for key in keys]
    device, one = _open(ctx, tv)
    await one.press(found)
    names: list[JsonValue] = [key.name for key in found]
    return ToolOutput({"name": device.name, "keys": names}, f"Pressed on {device.name}: {', '.join(map(str, names))}.")


@tool(
    group="tv",
    effect=Effect.WRITE,
    requires=_no_tv,
    keywords={"es": ("volumen", "sonido", "silencia"), "en": ("volume", "sound", "mute")},
    examples={"es": ("sube el volumen",), "en": ("turn the volume up",)},
)
async def tv_volume(
    ctx: ToolContext,
    action: Annotated[Literal["set", "up", "down", "mute", "unmute"], Field(description="What to do")],
    level: Annotated[int | None, Field(description="For set: 0 to 100", ge=0, le=100)] = None,
    steps: Annotated[int, Field(description="For up and down: how much", ge=1, le=20)] = 2,
    tv: _Tv = "",
) -> ToolOutput:
    """Makes a TV louder or quieter, sets its volume, or takes its sound away and gives it back."""
    if (action == "set") != (level is not None):
        raise ModelError("set needs a level, and nothing else takes one", code="bad_arguments")
    device, one = _open(ctx, tv)
    if level is not None:
        await one.set_volume(level)
        done = f"The volume of {device.name} is set to {level}."
    elif action in ("up", "down"):
        await one.step_volume(steps if action == "up" else -steps)
        done = f"{device.name} is {steps} steps {'louder' if action == 'up' else 'quieter'}."
    else:
        await one.set_muted(action == "mute")
        done = f"{device.name} is {'muted' if action == 'mute' else 'to be heard again'}."
    return ToolOutput({"name": device.name, "action": action, "level": level}, done)


@tool(
    group="tv",
    effect=Effect.IDEMPOTENT,
    requires=_no_tv,
    keywords={"es": ("hdmi", "entrada", "fuente"), "en": ("hdmi", "input", "source")},
    examples={"es": ("pon la entrada HDMI 1",), "en": ("switch to the input HDMI 1",)},
)
async def tv_source(
    ctx: ToolContext,
    source: Annotated[
        str, Field(description="Such as HDMI1 or TV; tv_status may list them", min_length=1, max_length=60)
    ],
    tv: _Tv = "",
) -> ToolOutput:
    """Switches a TV to an input."""
    device, one = _open(ctx, tv)
    chosen = await one.set_source(source)
    return ToolOutput({"name": device.name, "source": chosen}, f"{device.name} was switched to {chosen}.")


@tool(
    group="tv",
    effect=Effect.WRITE,
    requires=_no_tv,
    keywords={"es": ("enciende", "apaga"), "en": ("turn on", "turn off", "switch off")},
    examples={"es": ("apaga la tele",), "en": ("turn the TV off",)},
)
async def tv_power(
    ctx: ToolContext,
    on: Annotated[bool, Field(description="True switches it on, false off")],
    tv: _Tv = "",
) -> ToolOutput:
    """Switches a TV on or off."""
    device, one = _open(ctx, tv)
    changed = await one.set_power(on)
    state = "on" if on else "off"
    text = f"{device.name} was told to go {state}." if changed else f"{device.name} was {state} already."
    return ToolOutput({"name": device.name, "on": on, "changed": changed}, text)
