"""An HTTP server that sends exactly the bytes that a test wants, when it wants them."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"

Script = Callable[["Peer"], Awaitable[None]]


@dataclass
class Peer:
    """One connection: the request that came, and ways to answer. `gone` is set once the client has hung up."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    head: str = ""
    body: Any = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    async def chunk(self, raw: bytes) -> None:
        await self.send(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")

    async def hang(self) -> None:
        """Keeps the connection open and silent until the client closes it."""
        await self.reader.read()
        self.gone.set()

    def reset(self) -> None:
        """Breaks the connection with a RST."""
        self.writer.transport.abort()


@dataclass
class Server:
    url: str
    requests: list[Peer] = field(default_factory=list)
    connections: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def serve(*scripts: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Runs one script per request; the last one again for further requests."""
    tasks: set[asyncio.Task[None]] = set()
    errors: list[BaseException] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                raw = await reader.readexactly(int(lengths[0].split(b":")[1])) if lengths else b""
                peer = Peer(reader, writer, head.decode("latin-1"), json.loads(raw))
                server.requests.append(peer)
                server.asked.set()
                await scripts[min(len(server.requests), len(scripts)) - 1](peer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - shown by the test below
            errors.append(error)
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(handle(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    port = listener.sockets[0].getsockname()[1]
    server = Server(f"{'https' if tls else 'http'}://127.0.0.1:{port}/v1")
    try:
        yield server
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not errors, errors


def reply(status: str, body: bytes = b"", *headers: str) -> Script:
    """A whole answer with its length."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
    raw = "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    async def script(peer: Peer) -> None:
        await peer.send(raw)

    return script


def stream(*pieces: bytes, end: bool = True) -> Script:
    """A chunked event stream, a chunk a piece."""

    async def script(peer: Peer) -> None:
        await peer.send(STREAM)
        for piece in pieces:
            await peer.chunk(piece)
        if end:
            await peer.send(END)
        else:
            await peer.hang()

    return script
