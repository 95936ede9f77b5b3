"""A Samsung TV in the local network: keys over its WebSocket, its state over HTTP, its volume over UPnP.

The TV asks on its screen, once, whether this remote control may connect, and gives it a token then.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from shared.errors import ModelError
from shared.tool_settings import TvDevice
from workers.context import ToolContext
from workers.tools.service import Service, call
from workers.tools.tv_keys import Key, find_key
from workers.tools.tv_set import Status

if TYPE_CHECKING:
    from samsungtvws import SamsungTVWS

T = TypeVar("T")

_REMOTE_NAME = "Capataz"
_KEY_PAUSE_S = 0.2
"""Between two keys: faster, and a TV drops some."""
_SOURCES = {
    "tv": "KEY_TV",
    "antenna": "KEY_TV",
    "antena": "KEY_TV",
    "hdmi": "KEY_HDMI",
    **{f"hdmi{number}": f"KEY_HDMI{number}" for number in range(1, 5)},
    "av": "KEY_AV1",
    "component": "KEY_COMPONENT1",
    "componentes": "KEY_COMPONENT1",
}
_UPNP_PATH = "/upnp/control/RenderingControl1"
_UPNP_TYPE = "urn:schemas-upnp-org:service:RenderingControl:1"
_UPNP_BYTES = 100_000


class SamsungTv:
    """One TV. The client blocks, so it works in the executor, one connection a call."""

    def __init__(self, ctx: ToolContext, device: TvDevice) -> None:
        self._ctx = ctx
        self._device = device
        self._seconds = max(0.1, min(ctx.settings.tv.timeout_s, ctx.remaining_s))
        slug = re.sub(r"\W+", "-", device.name.casefold())
        self._token_file = device.token_file or ctx.settings.data.dir / f"tv-{slug}.token"

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._ctx.services.blocking, work)

    # --- keys

    def _client(self, token: str | None) -> SamsungTVWS:
        from samsungtvws import SamsungTVWS

        logging.getLogger("samsungtvws").setLevel(logging.WARNING)  # below that it logs tokens
        return SamsungTVWS(
            self._device.host,
            token=token,
            port=self._device.port,
            timeout=self._seconds,
            key_press_delay=_KEY_PAUSE_S,
            name=_REMOTE_NAME,
        )

    def _press(self, codes: Sequence[str], gone: threading.Event) -> None:
        import websocket
        from samsungtvws.exceptions import ConnectionFailure, ResponseError, UnauthorizedError

        name, token = self._device.name, _read_token(self._token_file)
        remote = self._client(token)
        try:
            try:
                remote.open()
            except UnauthorizedError as error:
                hint = f"its user must allow {_REMOTE_NAME} on the TV's screen or in its settings for external devices"
                raise ModelError(
                    f"{name} does not let us in; no key was pressed", hint=hint, code="auth_refused"
                ) from error
            except websocket.WebSocketTimeoutException as error:
                raise ModelError(
                    f"{name} did not answer within {self._seconds:g} s; no key was pressed",
                    hint=f"if its screen asks whether {_REMOTE_NAME} may connect, allow it and try again",
                    code="timed_out",
                ) from error
            except (ConnectionFailure, ResponseError, ValueError, AttributeError, AssertionError) as error:
                raise ModelError(f"{name} answered what no TV says; no key was pressed", code="bad_response") from error
            except (websocket.WebSocketException, OSError) as error:
                raise _unreachable(name) from error
            if remote.token and remote.token != token:
                _write_token(self._token_file, remote.token)
            for sent, code in enumerate(codes):
                if gone.is_set():
                    return
                try:
                    remote.send_key(code)
                except (websocket.WebSocketException, OSError) as error:
                    raise ModelError(
                        f"{name} hung up after {sent} of {len(codes)} keys",
                        hint="look at tv_status before you press them again",
                        code="unreachable",
                    ) from error
        finally:
            remote.close()

    async def _send(self, codes: Sequence[str]) -> None:
        """Presses keys. A call that is cancelled presses no more: its thread looks before each key."""
        gone = threading.Event()
        try:
            await self._in_thread(lambda: self._press(codes, gone))
        except asyncio.CancelledError:
            gone.set()
            raise

    async def press(self, keys: Sequence[Key]) -> None:
        """Presses them one by one."""
        await self._send([code for key in keys for code in key.samsung])

    async def step_volume(self, steps: int) -> None:
        """Presses the volume key."""
        await self.press([find_key("volume_up" if steps > 0 else "volume_down")] * abs(steps))

    async def set_source(self, name: str) -> str:
        """Presses the key of an input; there is none for each. The TV does not tell whether it followed."""
        code = _SOURCES.get(re.sub(r"[\s_-]", "", name.casefold()))
        if code is None:
            raise ModelError(
                f"the remote control has no key for the input {name[:60]!r}",
                hint="inputs with a key are tv, hdmi, hdmi1 to hdmi4, av, component; else press source and the arrows",
                code="unknown_source",
            )
        await self._send([code])
        return name

    # --- state

    def _info(self) -> dict[str, Any] | None:
        """What the TV tells about itself; None if nothing answers."""
        import requests
        from samsungtvws.exceptions import HttpApiError, ResponseError

        try:
            info = self._client(None).rest_device_info()
        except (HttpApiError, requests.RequestException):
            return None
        except (ResponseError, ValueError) as error:
            raise ModelError(f"{self._device.name} answered what no TV says", code="bad_response") from error
        device = info.get("device") if isinstance(info, dict) else None
        return device if isinstance(device, dict) else {}

    async def status(self) -> Status:
        """Power and model by HTTP, volume by UPnP as far as the TV has it."""
        info = await self._in_thread(self._info)
        if info is None:
            return Status(on=False)
        on = str(info.get("PowerState", "on")) == "on"  # old ones do not tell, and answer only when they are on
        model = str(info.get("modelName") or "") or None
        if not on:
            return Status(on=False, model=model)
        try:
            volume, muted = await self._ask("GetVolume", "CurrentVolume"), await self._ask("GetMute", "CurrentMute")
        except ModelError:  # many have UPnP switched off: the rest of the status is still worth having
            return Status(on=True, model=model)
        return Status(on=True, volume=volume, muted=None if muted is None else muted == 1, model=model)

    async def set_power(self, on: bool) -> bool:
        """The power key toggles, so it is pressed only if the TV is not as wanted; one that sleeps is woken up."""
        info = await self._in_thread(self._info)
        is_on = info is not None and str(info.get("PowerState", "on")) == "on"
        if is_on == on:
            return False
        if info is not None:
            await self._send(["KEY_POWER"])
        elif not self._device.mac:
            raise ModelError(
                f"{self._device.name} does not answer, and only a TV whose address is known can be woken up",
                hint="the operator can set mac in tv.devices",
                code="unreachable",
            )
        else:
            await self._in_thread(self._wake)
        return True

    def _wake(self) -> None:
        settings = self._ctx.settings.tv
        packet = b"\xff" * 6 + bytes.fromhex(re.sub(r"[:-]", "", self._device.mac)) * 16
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            try:
                out.sendto(packet, (settings.wake_address, settings.wake_port))
            except OSError as error:
                raise ModelError(f"the network did not take the wake-up packet: {error}", code="unreachable") from error

    # --- volume, by UPnP's RenderingControl: the remote control itself knows no levels

    async def _upnp(self, action: str, arguments: str, *, acts: bool) -> str:
        service = Service(f"{self._device.name} (UPnP)", f"http://{self._device.host}:{self._device.upnp_port}")
        body = (
            '<?xml version="1.0"?><s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"'
            ' s:encodingStyle="http://schemas.xmlsoap.org/soap/encoding/"><s:Body>'
            f'<u:{action} xmlns:u="{_UPNP_TYPE}"><InstanceID>0</InstanceID>{arguments}</u:{action}>'
            "</s:Body></s:Envelope>"
        )
        headers = {"Content-Type": 'text/xml; charset="utf-8"', "SOAPAction": f'"{_UPNP_TYPE}#{action}"'}
        answer = await call(
            self._ctx,
            service,
            "POST",
            _UPNP_PATH,
            seconds=self._seconds,
            max_bytes=_UPNP_BYTES,
            acts=acts,
            content=body,
            headers=headers,
        )
        return answer.body.decode("utf-8", "replace")

    async def _ask(self, action: str, field: str) -> int | None:
        text = await self._upnp(action, "<Channel>Master</Channel>", acts=False)
        found = re.search(rf"<{field}>\s*(\d{{1,3}})\s*</{field}>", text)
        return int(found[1]) if found else None

    async def _set(self, action: str, field: str, value: int, instead: str) -> None:
        try:
            arguments = f"<Channel>Master</Channel><{field}>{value}</{field}>"
            await self._upnp(action, arguments, acts=True)
        except ModelError as error:
            raise ModelError(error.message, hint=instead, code=error.code) from error

    async def set_volume(self, level: int) -> None:
        """Sets the volume; a TV without UPnP can only go up and down."""
        await self._set("SetVolume", "DesiredVolume", level, "tv_volume up and down work by the remote control")

    async def set_muted(self, muted: bool) -> None:
        """Sets it, whatever it was; a TV without UPnP can only be toggled."""
        await self._set("SetMute", "DesiredMute", int(muted), "tv_keys with mute toggles the sound")


def _unreachable(name: str) -> ModelError:
    hint = "it may be off: tv_power switches it on"
    return ModelError(f"{name} cannot be reached, so no key was pressed", hint=hint, code="unreachable")


def _read_token(path: Path) -> str | None:
    try:
        return path.read_text("utf-8").strip() or None
    except OSError:
        return None


def _write_token(path: Path, token: str) -> None:
    """Keeps it for this user alone. Raises ModelError: without it the TV asks again each time."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token)
        temporary.replace(path)
    except OSError as error:
        raise ModelError(
            "the TV's token cannot be kept, so no key was pressed",
            hint="the operator should check token_file in tv.devices",
            code="unwritable",
        ) from error
