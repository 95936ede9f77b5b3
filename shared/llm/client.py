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
from typing import Protocol

import httpx

from shared.llm.deadlines import Timeouts, Watch
from shared.llm.dialects import Decoder, Encoded, dialect_of, prepare
from shared.llm.dialects.base import loads
from shared.llm.errors import CutStream, LlmError, NotFound, ServerFault, from_response
from shared.llm.model import Completion, Request, StreamItem
from shared.llm.provider import Provider
from shared.llm.sse import SseParser
from shared.llm.transport import TRANSPORT_ERRORS, HttpPool, body_chunks, build, mapped
from shared.llm.usage import estimate

__all__ = ["ModelClient", "Timeouts"]

_log = logging.getLogger("capataz.llm")

MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
_MAX_ERROR_BYTES = 64 * 1024
_ERROR_BODY_S = 5.0
_DRAIN_S = 0.05


class Tap(Protocol):
    """Who wants to see what goes over the wire, byte for byte."""

    def sent(self, url: str, body: bytes) -> None:
        """The request, as it goes out."""
        ...

    def answered(self, status: int) -> None:
        """The answer begins."""
        ...

    def received(self, chunk: bytes) -> None:
        """The next piece of its body."""
        ...


class ModelClient:
    """Calls models. One per process serves any number of calls at once; make it anywhere, use it in a loop."""

    def __init__(self, *, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._pool = HttpPool(timeouts.connect)

    async def stream(
        self, provider: Provider, request: Request, tap: Tap | None = None
    ) -> AsyncGenerator[StreamItem, None]:
        """Makes one attempt and yields its items as they arrive; the last one is the Completion. `tap` sees the bytes.

        Raises LlmError, with what arrived before as `partial_text`. Cancelling, or closing the generator, closes
        the connection: wrap it in `contextlib.aclosing` if you may leave it early.
        """
        encoded = prepare(provider, request)
        for notice in encoded.notices:
            _log.warning("%s/%s: %s", provider.name, request.model, notice)
        decoder = dialect_of(provider.dialect).decoder(provider, encoded.names)
        watch = Watch(self._timeouts, whole=not provider.switches.stream)
        billed = False
        try:
            response = await self._send(provider, encoded, watch, tap)
            body = body_chunks(response) if tap is None else _tapped(response, tap)
            try:
                if not response.is_success:
                    raise await _failure(response, body)
                billed = True
                answer = _Answer(body, decoder, watch)
                while (items := await answer.more()) is not None:
                    for item in items:
                        yield _with_usage(item, request) if isinstance(item, Completion) else item
                await answer.drain()
            finally:
                watch.close()
                await response.aclose()
        except LlmError as error:
            error.provider = provider.name
            error.partial_text = error.partial_text or decoder.partial_text
            if billed:
                error.usage = decoder.usage or estimate(request, partial=decoder.partial_text)
            if provider.api_key is not None:  # some gateways quote the key
                error.message = error.message.replace(provider.api_key.get_secret_value(), "***")
                error.args = (error.message,)
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

    async def _send(self, provider: Provider, encoded: Encoded, watch: Watch, tap: Tap | None) -> httpx.Response:
        client = self._pool.client
        body = json.dumps(encoded.body, ensure_ascii=False, separators=(",", ":")).encode()
        auth = dialect_of(provider.dialect).auth
        sent = build(client, provider, encoded.path, encoded.headers, body, auth)
        if tap is not None:
            tap.sent(str(sent.url), body)
        seconds, kind = watch.first()
        try:
            async with asyncio.timeout(seconds):
                return await client.send(sent, stream=True)
        except TimeoutError as error:
            raise watch.timeout(kind) from error
        except TRANSPORT_ERRORS as error:
            raise mapped(error, answered=False, connect_s=self._timeouts.connect) from error


async def _tapped(response: httpx.Response, tap: Tap) -> AsyncIterator[bytes]:
    """The body as it arrives, shown to `tap` on its way."""
    tap.answered(response.status_code)
    async for chunk in body_chunks(response):
        tap.received(chunk)
        yield chunk


def _with_usage(completion: Completion, request: Request) -> Completion:
    """The completion; one whose provider never counted gets an estimate, so that budgets hold."""
    if completion.usage is not None:
        return completion
    return completion.model_copy(update={"usage": estimate(request, completion)})


class _Answer:
    """One answer as it arrives: `more` gives the items of what came next, until it gives None."""

    def __init__(self, chunks: AsyncIterator[bytes], decoder: Decoder, watch: Watch) -> None:
        self._chunks = chunks
        self._decoder = decoder
        self._watch = watch
        self._parser = SseParser()
        self._begun = False
        self._over = False
        self._at_end = False  # of the body
        self._error: LlmError | None = None  # came behind items that have to be given out first

    async def more(self) -> list[StreamItem] | None:
        """The next items, possibly none; None when all were given. Raises LlmError."""
        if self._error is not None:
            raise self._error
        if self._over:
            return None
        if not self._begun:
            self._begun = True
            return await self._begin()
        return self._take(await self._read())

    async def drain(self) -> None:
        """Reads the end of a body whose content is over, so that the connection can be used again."""
        if self._at_end:
            return
        try:
            async with asyncio.timeout(_DRAIN_S):
                async for _ in self._chunks:
                    pass
        except TRANSPORT_ERRORS:  # a TimeoutError is one of them; the answer is complete either way
            pass

    async def _read(self) -> bytes | None:
        try:
            return await self._watch.read(self._chunks, self._decoder)
        except TRANSPORT_ERRORS as error:
            if self._decoder.finished:
                return None
            raise mapped(error, answered=True) from error

    async def _begin(self) -> list[StreamItem]:
        head = b""
        while not head.strip():
            chunk = await self._read()
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
            self._over = self._at_end = True
            return self._decoder.document(await self._document(head)) + self._decoder.close()
        return self._take(head)

    def _take(self, chunk: bytes | None) -> list[StreamItem]:
        items: list[StreamItem] = []
        try:
            for event in self._parser.close() if chunk is None else self._parser.feed(chunk):
                items += self._decoder.feed(event)
            if chunk is None or self._decoder.done:
                self._over, self._at_end = True, chunk is None
                items += self._decoder.close()
        except LlmError as error:
            if not items:
                raise
            self._error = error
        return items

    async def _document(self, head: bytes) -> object:
        self._watch.whole = True
        parts, size = [head], len(head)
        while (chunk := await self._read()) is not None:
            parts.append(chunk)
            size += len(chunk)
            if size > MAX_DOCUMENT_BYTES:
                raise ServerFault(f"the answer has more than {MAX_DOCUMENT_BYTES} bytes", code="event_too_large")
        try:
            return loads(b"".join(parts).decode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            raise CutStream("the answer is not whole JSON") from error


async def _failure(response: httpx.Response, chunks: AsyncIterator[bytes]) -> LlmError:
    """The error for an answer that is not a success; reads no more of its body than it needs."""
    body = b""
    try:
        async with asyncio.timeout(_ERROR_BODY_S):
            async for chunk in chunks:
                body += chunk
                if len(body) > _MAX_ERROR_BYTES:
                    break
    except TRANSPORT_ERRORS:  # the status says enough; a TimeoutError is one of them
        pass
    headers = {name.lower(): value for name, value in response.headers.items()}
    media_type = headers.get("content-type", "")
    return from_response(response.status_code, headers, body, now=time.time(), media_type=media_type)
