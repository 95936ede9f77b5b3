"""The seam to httpx and aiohttp: one HTTP client per event loop, and foreign errors mapped to ours."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any, cast

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport, HttpxAiohttpClient
from httpx_aiohttp.transport import AiohttpResponseStream

from shared.llm.errors import AuthFailed, ConnectFailed, CutStream, LlmError, Refused, ServerFault, Timeout
from shared.llm.provider import Provider

KEEPALIVE_S = 30.0
TRANSPORT_ERRORS = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, aiohttp.ClientError, OSError)
"""Everything that the HTTP stack raises by itself; a TimeoutError of ours is an OSError too: catch it before."""

# Model servers on this machine are never behind a proxy, whatever the environment says of proxies.
_DIRECT = ("all://127.0.0.1", "all://localhost", "all://[::1]")


_BODY = "capataz.body"
"""The extension under which a response has its body as aiohttp gives it: the layers above it do nothing but hand it on,
and cost half of the time that reading takes."""


class _Transport(AiohttpTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if isinstance(response.stream, AiohttpResponseStream):
            response.extensions[_BODY] = response.stream._aiohttp_response.content
        return response


class _Client(HttpxAiohttpClient):
    def _init_transport(self, **options: Any) -> httpx.AsyncBaseTransport:  # type: ignore[override]
        return _Transport(**options)

    def _init_proxy_transport(self, proxy: httpx.Proxy, **options: Any) -> httpx.AsyncBaseTransport:  # type: ignore[override]
        return _Transport(proxy=proxy, **options)


class HttpPool:
    """Makes the HTTP client late, in the event loop that uses it, and anew if that loop is another one."""

    def __init__(self, connect_s: float) -> None:
        # The pool timeout covers name resolution as well, which the connect timeout of this transport does not.
        self._timeout = httpx.Timeout(None, connect=connect_s, pool=connect_s)
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def client(self) -> httpx.AsyncClient:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._loop = loop
            self._client = _Client(
                timeout=self._timeout,
                limits=httpx.Limits(max_connections=0, keepalive_expiry=KEEPALIVE_S),  # 0 is "no limit" here
                mounts=dict.fromkeys(_DIRECT),
            )
        return self._client

    async def aclose(self) -> None:
        """Closes idle connections. Streams that still run lose theirs."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()


def build(
    client: httpx.AsyncClient, provider: Provider, path: str, headers: dict[str, str], body: bytes, auth: str
) -> httpx.Request:
    """The POST request. Raises AuthFailed for a key that no header can carry."""
    base = httpx.URL(provider.base_url)
    # Compressing proxies hold pieces of a stream back until a block is full.
    sent = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "capataz"}
    if provider.api_key is not None:
        key = provider.api_key.get_secret_value()
        if not (key.isascii() and key.isprintable()):
            raise AuthFailed("the API key holds characters that no HTTP header can carry")
        name, prefix = (
            ("x-api-key", "") if (provider.switches.auth or auth) == "x-api-key" else ("authorization", "Bearer ")
        )
        sent[name] = prefix + key
    sent |= headers
    sent |= {name.lower(): value for name, value in provider.headers.items()}
    return client.build_request("POST", base.copy_with(path=base.path.rstrip("/") + path), headers=sent, content=body)


def body_chunks(response: httpx.Response) -> AsyncIterator[bytes]:
    """The body as it arrives, decompressed."""
    body = response.extensions.get(_BODY)
    if body is None or response.headers.get("content-encoding", "identity") != "identity":
        return response.aiter_bytes()
    return aiter(cast(aiohttp.StreamReader, body).iter_chunked(AiohttpResponseStream.CHUNK_SIZE))


def mapped(error: Exception, *, answered: bool, connect_s: float = 0.0) -> LlmError:
    """Our error for one of TRANSPORT_ERRORS. `answered`: the response had begun.

    The transport wraps aiohttp's errors loosely (a dropped connection arrives as a connect timeout), so that the
    cause decides where there is one.
    """
    cause = error.__cause__ if isinstance(error.__cause__, aiohttp.ClientError) else error
    text = str(cause) or type(cause).__name__
    if isinstance(cause, aiohttp.ServerTimeoutError):
        return Timeout("connect", connect_s)
    if isinstance(cause, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError | ssl.SSLError):
        hint = "check base_url (http or https?), and SSL_CERT_FILE if the server has a certificate of its own"
        return ConnectFailed(f"no TLS connection: {text}", code="tls_failed", hint=hint)
    if isinstance(cause, aiohttp.ClientConnectorDNSError):
        return ConnectFailed(f"the name does not resolve: {text}", code="dns_failed")
    if isinstance(cause, aiohttp.ClientConnectorError):
        refused = isinstance(cause.os_error, ConnectionRefusedError)
        return Refused(f"connection refused: {text}") if refused else ConnectFailed(f"no connection: {text}")
    if isinstance(cause, aiohttp.ClientResponseError | httpx.DecodingError | httpx.RemoteProtocolError):
        return ServerFault(f"the server does not answer in HTTP as it should: {text}", code="bad_http")
    if isinstance(cause, httpx.InvalidURL | httpx.UnsupportedProtocol | aiohttp.InvalidURL | httpx.ProxyError):
        return ConnectFailed(f"no connection: {text}", retryable=isinstance(cause, httpx.ProxyError))
    what = "the connection broke in the middle of the answer" if answered else "the connection broke before the answer"
    return CutStream(f"{what}: {text}")
