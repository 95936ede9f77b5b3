"""The HTTP server of the rehearsal model: receives requests, asks the engine, paces the answer onto the socket."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from aiohttp import web

from ops.rehearsal.engine import MODEL, Engine, Reply
from ops.rehearsal.playback import Delta, deltas, limited
from ops.rehearsal.scenario import ErrorSpec, Scenario, load
from ops.rehearsal.wire import Answer, Stream, Wire, encode
from ops.rehearsal.wire_anthropic import AnthropicWire
from ops.rehearsal.wire_openai import OpenAIWire
from shared.errors import OperatorError, UserError

_MAX_BODY_BYTES = 64 * 1024 * 1024
_WRITE_BYTES = 32 * 1024
_STOP_GRACE_S = 0.2


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request that arrived: path, headers (names in lower case), JSON body (None if it was none), and what answered.

    `reply` is None for a request that was refused before a rule was asked.
    """

    path: str
    headers: Mapping[str, str]
    body: Any
    reply: Reply | None
    at: float
    """When it had arrived, on the monotonic clock."""


class RehearsalServer:
    """Plays a scenario over HTTP.

    `port` 0 takes a free one. The last `keep` requests stay in `requests`, oldest first. Everything but the
    constructor is called on the event loop that ran `start`; `on_request` is called there after each recording.
    """

    def __init__(
        self,
        scenario: Scenario | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        keep: int = 100,
        on_request: Callable[[], None] | None = None,
    ) -> None:
        self.requests: deque[Recorded] = deque(maxlen=keep)
        self._host = host
        self._port = port
        self._on_request = on_request
        self._runner: web.AppRunner | None = None
        self.play(load() if scenario is None else scenario)

    @property
    def url(self) -> str:
        """The base URL for clients, with `/v1`. Its port is right once `start` has returned."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}/v1"

    def play(self, scenario: Scenario) -> None:
        """Replaces the scenario; counts of `times` start again."""
        self._engine = Engine(scenario)
        self._used: Counter[int] = Counter()

    async def start(self) -> int:
        """Listens, and returns the port. Raises OperatorError if the address cannot be had."""
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._chat_completions)
        app.router.add_post("/v1/messages", self._messages)
        # A client that goes away ends its handler: else each hung request would stay until the end.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=_STOP_GRACE_S)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError as error:
            await runner.cleanup()
            where = f"{self._host}:{self._port}"
            raise OperatorError(f"cannot listen on {where}: {error}", hint="choose another --host or --port") from error
        self._runner = runner
        self._port = int(runner.addresses[0][1])
        return self._port

    async def stop(self) -> None:
        """Stops listening and ends the requests that are being answered. Harmless if it is not running."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def _models(self, _: web.Request) -> web.Response:
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "capataz", "type": "model"}
        shown = {"display_name": "Rehearsal (a script, not a language model)", "created_at": "1970-01-01T00:00:00Z"}
        page = {"has_more": False, "first_id": MODEL, "last_id": MODEL}
        return _json(200, {"object": "list", "data": [{**model, **shown}], **page})

    async def _chat_completions(self, http: web.Request) -> web.StreamResponse:
        return await self._serve(http, OpenAIWire())

    async def _messages(self, http: web.Request) -> web.StreamResponse:
        return await self._serve(http, AnthropicWire())

    async def _serve(self, http: web.Request, wire: Wire) -> web.StreamResponse:
        raw = await http.read()
        body: Any = None
        try:
            body = _parsed(raw)
            request = wire.parse(body, len(raw))
        except UserError as error:
            self._record(http, body, None)
            return _json(400, wire.error(400, error.message))
        reply = self._engine.reply(request, self._used)
        self._used[reply.rule] += 1
        self._record(http, body, reply)
        if reply.hang_first:
            await _forever()
        if reply.first_token_ms:
            await asyncio.sleep(reply.first_token_ms / 1000)
        if reply.error is not None and (reply.error.after is None or not request.stream):
            return _error(reply.error, wire)
        answer = Answer(reply, secrets.token_hex(6), int(time.time()), request.include_usage)
        if request.stream:
            return await _stream(http, answer, wire)
        if reply.stream_ms:
            await asyncio.sleep(reply.stream_ms / 1000)
        return await _whole(http, answer, wire)

    def _record(self, http: web.Request, body: Any, reply: Reply | None) -> None:
        headers = {name.lower(): value for name, value in http.headers.items()}
        self.requests.append(Recorded(http.path, headers, body, reply, time.monotonic()))
        if self._on_request is not None:
            self._on_request()


async def _stream(http: web.Request, answer: Answer, wire: Wire) -> web.StreamResponse:
    reply = answer.reply
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(http)
    writer = wire.stream(answer)
    said = deltas(reply)
    fault_after = None if reply.error is None else reply.error.after
    ends = [after for after in (reply.cut, reply.hang_after, fault_after) if after is not None]
    await response.write(writer.begin())
    await _say(response, writer, limited(said, min(ends)) if ends else said, reply.stream_ms / 1000 / max(len(said), 1))
    if not ends:
        await response.write(writer.end())
    elif reply.error is not None and fault_after == min(ends):
        await response.write(writer.fault(_error_body(reply.error, wire)))
    elif reply.cut == min(ends):
        await _hang_up(http)
    else:
        await _forever()
    await response.write_eof()
    return response


async def _say(response: web.StreamResponse, writer: Stream, said: list[Delta], pause_s: float) -> None:
    """Writes deltas, the n-th not before n pauses; those that are due at the same moment go out together."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    buffer = bytearray()
    for number, delta in enumerate(said, 1):
        wait = began + number * pause_s - loop.time() if pause_s else 0.0
        if buffer and (wait > 0 or len(buffer) >= _WRITE_BYTES):
            await response.write(bytes(buffer))
            buffer.clear()
        if wait > 0:
            await asyncio.sleep(wait)
        buffer += writer.delta(delta)
    if buffer:
        await response.write(bytes(buffer))


async def _whole(http: web.Request, answer: Answer, wire: Wire) -> web.StreamResponse:
    """The answer in one JSON object; a cut or hang after N characters comes after N bytes of it."""
    body = encode(wire.whole(answer))
    ends = [after for after in (answer.reply.cut, answer.reply.hang_after) if after is not None]
    if not ends:
        return web.Response(body=body, content_type="application/json")
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(body))})
    await response.prepare(http)
    await response.write(body[: min(min(ends), len(body) - 1)])
    return await (_hang_up(http) if answer.reply.cut == min(ends) else _forever())


async def _hang_up(http: web.Request) -> NoReturn:
    """Closes the socket once what was written is out, without the end that HTTP owes the client."""
    if http.transport is not None:
        http.transport.close()
    await _forever()


async def _forever() -> NoReturn:
    """Waits until the handler is cancelled, which the client's leaving and the server's stop both do."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError("nobody resolves this future")


def _error(error: ErrorSpec, wire: Wire) -> web.Response:
    body = _error_body(error, wire)
    response = web.Response(status=error.status, text=body) if isinstance(body, str) else _json(error.status, body)
    response.headers.update(error.headers)
    return response


def _error_body(error: ErrorSpec, wire: Wire) -> Any:
    if error.body is not None:
        return error.body
    return wire.error(error.status, f"rehearsed error {error.status}")


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UserError(f"the body is not JSON: {error}") from error


def _json(status: int, body: Any) -> web.Response:
    return web.Response(status=status, body=encode(body), content_type="application/json")
