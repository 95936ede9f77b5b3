"""A TV over the SmartThings cloud: its status is JSON by capability, its commands are posted the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from shared.errors import ModelError
from shared.tool_settings import TvDevice
from workers.context import ToolContext
from workers.tools.service import Service, call, key_of, malformed
from workers.tools.timewords import fold
from workers.tools.tv_keys import Key, find_key
from workers.tools.tv_set import Status

_MAX_BYTES = 2_000_000


def _plain(text: str) -> str:
    return "".join(fold(text).split()).replace("-", "")


class SmartThingsTv:
    """One device of an account."""

    def __init__(self, ctx: ToolContext, device: TvDevice) -> None:
        settings = ctx.settings.tv
        self._ctx = ctx
        self._path = f"/devices/{quote(device.device_id, safe='')}"
        key = key_of(settings.smartthings_token_env)
        self._service = Service("SmartThings", settings.smartthings_url.rstrip("/"), key)
        self._seconds = settings.timeout_s

    async def _call(self, method: str, path: str, **request: Any) -> Any:
        answer = await call(
            self._ctx,
            self._service,
            method,
            self._path + path,
            seconds=self._seconds,
            max_bytes=_MAX_BYTES,
            acts=method == "POST",
            **request,
        )
        return answer.json(self._service)

    async def _main(self) -> dict[str, Any]:
        answer = await self._call("GET", "/status")
        try:
            main = answer["components"]["main"]
        except (KeyError, TypeError) as error:
            raise malformed(self._service, "there is no main component in it") from error
        if not isinstance(main, dict):
            raise malformed(self._service, "its main component is no object")
        return main

    async def _send(self, *commands: tuple[str, str, tuple[Any, ...]]) -> None:
        body = {
            "commands": [
                {"component": "main", "capability": capability, "command": command, "arguments": list(arguments)}
                for capability, command, arguments in commands
            ]
        }
        answer = await self._call("POST", "/commands", json=body)
        results = answer.get("results") if isinstance(answer, dict) else None
        failed = [r for r in results or () if isinstance(r, dict) and r.get("status") in ("FAILED", "REJECTED")]
        if failed:
            raise ModelError("the TV did not take the command", hint="is it on? tv_status tells", code="refused")

    async def status(self) -> Status:
        """Reads the device's attributes; one that SmartThings cannot reach is off."""
        main = await self._main()
        health = await self._call("GET", "/health")
        offline = isinstance(health, dict) and health.get("state") == "OFFLINE"
        power, volume, muted = (
            _value(main, *names) for names in (("switch", "switch"), ("audioVolume", "volume"), ("audioMute", "mute"))
        )
        source = _value(main, "samsungvd.mediaInputSource", "inputSource") or _value(
            main, "mediaInputSource", "inputSource"
        )
        channel = _value(main, "tvChannel", "tvChannel")
        return Status(
            on=False if offline else (power == "on" if power in ("on", "off") else None),
            volume=volume if isinstance(volume, int) else None,
            muted=muted == "muted" if muted in ("muted", "unmuted") else None,
            source=str(source) if source else None,
            sources=tuple(name for _, name in _sources(main)[1]),
            channel=str(channel) if channel else None,
        )

    async def press(self, keys: Sequence[Key]) -> None:
        """Sends them in one request, which SmartThings carries out in order."""
        if missing := [key.name for key in keys if key.cloud is None]:
            raise ModelError(
                f"SmartThings has no key for {', '.join(missing)}, so none was pressed",
                hint="use other keys",
                code="unknown_key",
            )
        await self._send(*(key.cloud for key in keys if key.cloud is not None))

    async def set_volume(self, level: int) -> None:
        """Sets the volume."""
        await self._send(("audioVolume", "setVolume", (level,)))

    async def step_volume(self, steps: int) -> None:
        """Presses the volume key."""
        await self.press([find_key("volume_up" if steps > 0 else "volume_down")] * abs(steps))

    async def set_muted(self, muted: bool) -> None:
        """Sets it, whatever it was."""
        await self._send(("audioMute", "mute" if muted else "unmute", ()))

    async def set_source(self, name: str) -> str:
        """Takes the input whose id or name it is. Raises ModelError with the inputs that there are."""
        capability, sources = _sources(await self._main())
        for source, title in sources:
            if _plain(name) in (_plain(source), _plain(title)):
                await self._send((capability, "setInputSource", (source,)))
                return title
        known = ", ".join(title for _, title in sources) or "none that it tells of"
        raise ModelError(f"the TV has no input {name[:60]!r}", hint=f"inputs are: {known}", code="unknown_source")

    async def set_power(self, on: bool) -> bool:
        """Sets it; both ways are safe to repeat."""
        before = (await self.status()).on
        await self._send(("switch", "on" if on else "off", ()))
        return before is not on


def _value(main: dict[str, Any], capability: str, attribute: str) -> Any:
    found = main.get(capability)
    found = found.get(attribute) if isinstance(found, dict) else None
    return found.get("value") if isinstance(found, dict) else None


def _sources(main: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """The capability that switches inputs, and the inputs as (id, name). Newer TVs have Samsung's own capability."""
    own = _value(main, "samsungvd.mediaInputSource", "supportedInputSourcesMap")
    if isinstance(own, list):
        rows = [row for row in own if isinstance(row, dict) and row.get("id")]
        return "samsungvd.mediaInputSource", [(str(row["id"]), str(row.get("name") or row["id"])) for row in rows]
    listed = _value(main, "mediaInputSource", "supportedInputSources")
    return "mediaInputSource", [(str(one), str(one)) for one in listed] if isinstance(listed, list) else []
