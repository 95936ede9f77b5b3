"""A Samsung TV in a thread: its WebSocket remote control, its REST status, and UPnP's RenderingControl."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from types import TracebackType
from typing import Any

from aiohttp import WSMsgType, web

TOKEN = "12345678"
_UPNP = "urn:schemas-upnp-org:service:RenderingControl:1"


class SamsungTvServer:
    """Speaks what a TV of 2018 and later speaks; `keys` are those pressed. `greet` is what it says on connecting:
    `connect`, `unauthorized`, `silent`, `nonsense`, or `hang up` after the first key."""

    def __init__(self) -> None:
        self.greet = "connect"
        self.power = "on"
        self.volume = 12
        self.muted = False
        self.upnp = True
        self.keys: list[str] = []
        self.names: list[str] = []
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._runner: web.AppRunner | None = None

    async def _info(self, request: web.Request) -> web.Response:
        device = {"modelName": "QE55Q7F", "PowerState": self.power, "name": "[TV] Salon", "TokenAuthSupport": "true"}
        return web.json_response({"device": device, "id": "uuid:1", "isSupport": "{}", "version": "2.0.25"})

    async def _remote(self, request: web.Request) -> web.StreamResponse:
        self.names.append(request.query["name"])
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        if self.greet == "nonsense":
            await socket.send_str("hello")
        elif self.greet == "unauthorized":
            await socket.send_str(json.dumps({"event": "ms.channel.unauthorized"}))
        elif self.greet != "silent":
            await socket.send_str(json.dumps({"event": "ms.channel.connect", "data": {"id": "1", "token": TOKEN}}))
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                break
            sent = json.loads(message.data)
            assert sent["method"] == "ms.remote.control"
            assert sent["params"]["TypeOfRemote"] == "SendRemoteKey"
            assert sent["params"]["Cmd"] == "Click"
            self.keys.append(sent["params"]["DataOfCmd"])
            if sent["params"]["DataOfCmd"] == "KEY_POWER":
                self.power = "standby" if self.power == "on" else "on"
            if self.greet == "hang up":
                assert request.transport is not None
                request.transport.abort()
                break
        return socket

    async def _render(self, request: web.Request) -> web.Response:
        if not self.upnp:
            return web.Response(status=404)
        action = request.headers["SOAPAction"].strip('"').removeprefix(f"{_UPNP}#")
        body = await request.text()
        assert f"<u:{action} " in body
        value = ""
        if action == "SetVolume":
            self.volume = int(re.findall(r"<DesiredVolume>(\d+)</DesiredVolume>", body)[0])
        elif action == "SetMute":
            self.muted = "<DesiredMute>1</DesiredMute>" in body
        elif action == "GetVolume":
            value = f"<CurrentVolume>{self.volume}</CurrentVolume>"
        elif action == "GetMute":
            value = f"<CurrentMute>{int(self.muted)}</CurrentMute>"
        text = (
            f'<?xml version="1.0"?><s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body>'
            f'<u:{action}Response xmlns:u="{_UPNP}">{value}</u:{action}Response></s:Body></s:Envelope>'
        )
        return web.Response(text=text, content_type="text/xml")

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_get("/api/v2/", self._info)
        app.router.add_get("/api/v2/channels/samsung.remote.control", self._remote)
        app.router.add_post("/upnp/control/RenderingControl1", self._render)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    def _call(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)

    def __enter__(self) -> SamsungTvServer:
        self._thread.start()
        self._call(self._start())
        return self

    def stop(self) -> None:
        """The TV is unplugged."""
        if self._runner is not None:
            self._call(self._runner.cleanup())
            self._runner = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
