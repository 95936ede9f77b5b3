"""A model server that streams to many sessions at once, in a process of its own and with as little CPU as it can.

It speaks Chat Completions over HTTP/1.1 with chunked answers, and does what the user's message says: `stream NAME of
COUNT tokens TOKENS rate RATE` waits until COUNT requests with that NAME are there, then streams TOKENS tokens to each,
RATE a second, the sessions spread evenly over the time between two tokens. Each token is one event in one write, and
says its number and the moment at which it was written: `number:microseconds` (monotonic clock, hexadecimal).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, cast

import uvloop

TICK_S = 0.002
_ORDER = re.compile(rb"stream (\w+) of (\d+) tokens (\d+) rate (\d+)")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
# As large as those of the public APIs.
_EVENT = (
    'data: {{"id":"chatcmpl-BmWc0Y1l7q8tUvE2","object":"chat.completion.chunk","created":1790000000,"model":"bench",'
    '"system_fingerprint":"fp_a1b2c3d4e5","choices":[{{"index":0,"delta":{},"logprobs":null,"finish_reason":{}}}]}}\n\n'
)
_END = (_EVENT.format("{}", '"stop"') + "data: [DONE]\n\n").encode()
_USED = b'data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":100,"total_tokens":200}}\n\n'


def token(number: int) -> str:
    """The text of a token that is sent now."""
    return f"{number}:{time.monotonic_ns() // 1000:x} "


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@dataclass
class _Order:
    name: str
    count: int
    tokens: int
    rate: int


class _Server(asyncio.Protocol):
    """One connection; answers one request after the other."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._buffer = bytearray()
        self.transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.WriteTransport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, blank, rest = self._buffer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not blank or length is None or len(rest) < int(length[1]):
            return
        orders = list(_ORDER.finditer(rest))
        self._buffer.clear()
        name, count, tokens, rate = orders[-1].groups()
        self._source.take(self, _Order(name.decode(), int(count), int(tokens), int(rate)))

    def say(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)


class _Source:
    def __init__(self, tell: Connection) -> None:
        self._tell = tell
        self._waiting: dict[str, list[_Server]] = defaultdict(list)
        self._playing: set[asyncio.Task[None]] = set()

    def take(self, server: _Server, order: _Order) -> None:
        """Answers a request, together with the others of its name once all are there."""
        server.say(_HEAD)
        there = self._waiting[order.name]
        there.append(server)
        if len(there) == order.count:
            task = asyncio.create_task(self._play(self._waiting.pop(order.name), order))
            self._playing.add(task)
            task.add_done_callback(self._playing.discard)

    async def _play(self, servers: list[_Server], order: _Order) -> None:
        began = time.monotonic()
        self._tell.send(("began", began))
        behind, step = 0.0, 1 / (order.rate * len(servers))
        # The n-th write of all is due n steps after the beginning, whoever it goes to.
        for turn in range(order.tokens * len(servers)):
            due = began + turn * step
            if (early := due - time.monotonic()) > 0:
                await asyncio.sleep(max(early, TICK_S))
            number, place = divmod(turn, len(servers))
            behind = max(behind, time.monotonic() - due)
            event = _EVENT.format(f'{{"content":"{token(number)}"}}', "null")
            servers[place].say(_chunk(event.encode()))
        self._tell.send(("ended", time.monotonic(), behind))
        for server in servers:
            server.say(_chunk(_END + _USED) + b"0\r\n\r\n")


async def _serve(tell: Connection) -> None:
    source = _Source(tell)
    server = await asyncio.get_running_loop().create_server(lambda: _Server(source), "127.0.0.1", 0, backlog=2048)
    tell.send(("port", server.sockets[0].getsockname()[1]))
    await server.serve_forever()


def main(tell: Connection) -> None:
    """Serves until the process is ended. Tells `("port", port)`; then for each name `("began", moment)` and `("ended",
    moment, seconds that the latest write was behind its time)`."""
    run: Any = uvloop.run
    run(_serve(tell))
