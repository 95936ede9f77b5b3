"""The model client: the only part of the package with sockets and clocks.

One path for every dialect: bytes from the transport, `sse` into events, the dialect's decoder into items.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

import httpx

from shared.llm.dialects import Decoder, Encoded, dialect_of, prepare
from shared.llm.errors import CutStream, LlmError, NotFound, ServerFault, Timeout, TimeoutKind, from_response
from shared.llm.model import Completion, Request, StreamItem
from shared.llm.provider import Provider
from shared.llm.sse import SseParser
from shared.llm.transport import TRANSPORT_ERRORS, HttpPool, body_chunks, build, mapped
from shared.llm.usage import estimate
from shared.settings import ModelSettings

_log = logging.getLogger("capataz.llm")

MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
_MAX_ERROR_BYTES = 64 * 1024
_ERROR_BODY_S = 5.0
_DRAIN_S = 0.05


@dataclass(frozen=True)
class Timeouts:
    """Deadlines in seconds. `first_token` and `total` count from the start of the call.

    `idle` bounds the silence between two pieces of content, `grace` the wait for usage after the model has
    finished. Comments and pings of the server are silence.
    """

    connect: float = 10.0
    first_token: float = 60.0
    idle: float = 30.0
    total: float = 300.0
    grace: float = 1.0

    @classmethod
    def of(cls, settings: ModelSettings) -> Timeouts:
        """Those of the settings."""
        return cls(settings.connect_s, settings.first_token_s, settings.idle_s, settings.total_s)


class ModelClient:
    """Calls models. One per process serves any number of calls at once; make it anywhere, use it in a loop."""

    def __init__(self, *, timeouts: Timeouts = Timeouts()) -> None:
        self._timeouts = timeouts
        self._pool = HttpPool(timeouts.connect)

    async def stream(self, provider: Provider, request: Request) -> AsyncGenerator[StreamItem, None]:
        """Makes one attempt and yields its items as they arrive; the last one is the Completion.

        Raises LlmError, with what arrived before as `partial_text`. Cancelling, or closing the generator, closes
        the connection: wrap it in `contextlib.aclosing` if you may leave it early.
        """
        encoded = prepare(provider, request)
        for notice in encoded.notices:
            _log.warning("%s/%s: %s", provider.name, request.model, notice)
        decoder = dialect_of(provider.dialect).decoder(provider, encoded.names)
        watch = _Watch(self._timeouts, whole=not provider.switches.stream)
        billed = False
        try:
            response = await self._send(provider, encoded, watch)
            try:
                if not response.is_success:
                    raise await _failure(response)
                billed = True
                async with aclosing(_items(response, decoder, watch)) as items:
                    async for item in items:
                        yield _with_usage(item, request)
            finally:
                await response.aclose()
        except LlmError as error:
            error.provider = provider.name
            error.partial_text = error.partial_text or decoder.partial_text
            if billed:
                error.usage = decoder.usage or estimate(request, partial=decoder.partial_text)
            if provider.api_key is not None:  # some gateways quote the key
                error.message = error.message.replace(provider.api_key.get_secret_value(), "***")
            raise

    async def complete(self, provider: Provider, request: Request) -> Completion:
        """Makes one attempt and returns the whole answer. Raises LlmError."""
        async with aclosing(self.stream(provider, request)) as items:
            async for item in items:
                if isinstance(item, Completion):
                    return item
        raise CutStream("the stream ended without a completion")

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._pool.aclose()

    async def _send(self, provider: Provider, encoded: Encoded, watch: _Watch) -> httpx.Response:
        client = self._pool.client
        body = json.dumps(encoded.body, ensure_ascii=False, separators=(",", ":")).encode()
        auth = dialect_of(provider.dialect).auth
        sent = build(client, provider, encoded.path, encoded.headers, body, auth)
        seconds, kind = watch.first()
        try:
            async with asyncio.timeout(seconds):
                return await client.send(sent, stream=True)
        except TimeoutError as error:
            raise Timeout(kind, watch.limit(kind)) from error
        except TRANSPORT_ERRORS as error:
            raise mapped(error, connect_s=self._timeouts.connect, answered=False) from error


def _with_usage(item: StreamItem, request: Request) -> StreamItem:
    """The item; a Completion whose provider never counted gets an estimate, so that budgets hold."""
    if isinstance(item, Completion) and item.usage is None:
        return item.model_copy(update={"usage": estimate(request, item)})
    return item


async def _items(response: httpx.Response, decoder: Decoder, watch: _Watch) -> AsyncGenerator[StreamItem, None]:
    chunks = body_chunks(response)
    head = b""
    while not head.strip():
        chunk = await watch.read(chunks, decoder)
        if chunk is None:
            raise CutStream("the answer has no body")
        head += chunk
        if len(head) > _MAX_ERROR_BYTES:
            raise ServerFault("the answer is nothing but blank space", code="not_an_api")
    # What it is decides, not what its content type says: servers mislabel both ways.
    first = head.lstrip()[:1]
    if first == b"<":
        raise NotFound("an HTML page came instead of an answer", code="not_an_api", hint="is base_url a model API?")
    if first in (b"{", b"["):
        items = decoder.document(await _document(head, chunks, decoder, watch))
        for item in items + decoder.close():
            yield item
        return
    async with aclosing(_events(head, chunks, decoder, watch)) as streamed:
        async for item in streamed:
            yield item


async def _events(
    head: bytes, chunks: AsyncIterator[bytes], decoder: Decoder, watch: _Watch
) -> AsyncGenerator[StreamItem, None]:
    parser = SseParser()
    chunk: bytes | None = head
    while True:
        for event in parser.close() if chunk is None else parser.feed(chunk):
            for item in decoder.feed(event):
                yield item
        if chunk is None or decoder.done:
            break
        chunk = await watch.read(chunks, decoder)
    for item in decoder.close():
        yield item
    if chunk is not None:
        await _drain(chunks)


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Reads the end of a body whose content is over, so that the connection can be used again."""
    try:
        async with asyncio.timeout(_DRAIN_S):
            async for _ in chunks:
                pass
    except TRANSPORT_ERRORS:  # a TimeoutError is one of them; the answer is complete either way
        pass


async def _document(head: bytes, chunks: AsyncIterator[bytes], decoder: Decoder, watch: _Watch) -> object:
    watch.whole = True
    parts, size = [head], len(head)
    while (chunk := await watch.read(chunks, decoder)) is not None:
        parts.append(chunk)
        size += len(chunk)
        if size > MAX_DOCUMENT_BYTES:
            raise ServerFault(f"the answer has more than {MAX_DOCUMENT_BYTES} bytes", code="event_too_large")
    text = b"".join(parts).decode("utf-8", "replace")
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise CutStream("the answer is not whole JSON") from error


async def _failure(response: httpx.Response) -> LlmError:
    """The error for an answer that is not a success; reads no more of its body than it needs."""
    body = b""
    try:
        async with asyncio.timeout(_ERROR_BODY_S):
            async for chunk in body_chunks(response):
                body += chunk
                if len(body) > _MAX_ERROR_BYTES:
                    break
    except TRANSPORT_ERRORS:  # the status says enough; a TimeoutError is one of them
        pass
    headers = {name.lower(): value for name, value in response.headers.items()}
    media_type = headers.get("content-type", "")
    return from_response(response.status_code, headers, body, now=time.time(), media_type=media_type)


class _Watch:
    """The deadlines of one call. Only time spent waiting for the server counts as silence."""

    def __init__(self, timeouts: Timeouts, *, whole: bool) -> None:
        self.whole = whole  # the answer comes in one piece: nothing but the total deadline makes sense
        self._timeouts = timeouts
        self._start = time.monotonic()
        self._silent = 0.0
        self._pieces = 0
        self._grace = timeouts.grace

    def limit(self, kind: TimeoutKind) -> float:
        """The configured seconds of a deadline."""
        return float(getattr(self._timeouts, kind))

    def first(self) -> tuple[float, TimeoutKind]:
        """Seconds until the response must begin, and the deadline that this is."""
        if self.whole or self._timeouts.total <= self._timeouts.first_token:
            return self._timeouts.total, "total"
        return self._timeouts.first_token, "first_token"

    async def read(self, chunks: AsyncIterator[bytes], decoder: Decoder) -> bytes | None:
        """The next bytes; None at the end of the body, or when the grace after the model's finish is over."""
        if decoder.pieces != self._pieces:
            self._pieces, self._silent = decoder.pieces, 0.0
        before = time.monotonic()
        seconds, kind = self._left(before, decoder)
        try:
            async with asyncio.timeout(seconds):
                return await anext(chunks, None)
        except TimeoutError as error:
            if decoder.finished:
                return None
            raise Timeout(kind, self.limit(kind)) from error
        except TRANSPORT_ERRORS as error:
            if decoder.finished:
                return None
            raise mapped(error, connect_s=self._timeouts.connect, answered=True) from error
        finally:
            waited = time.monotonic() - before
            self._silent += waited
            if decoder.finished:
                self._grace -= waited

    def _left(self, now: float, decoder: Decoder) -> tuple[float, TimeoutKind]:
        total = self._start + self._timeouts.total - now
        if decoder.finished:
            return min(total, self._grace), "total"
        if self.whole:
            return total, "total"
        kind: TimeoutKind
        if not decoder.pieces:
            left, kind = self._start + self._timeouts.first_token - now, "first_token"
        elif decoder.patient:
            left, kind = max(self._timeouts.first_token, self._timeouts.idle) - self._silent, "idle"
        else:
            left, kind = self._timeouts.idle - self._silent, "idle"
        return (left, kind) if left <= total else (total, "total")
