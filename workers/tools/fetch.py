"""One page by URL: redirects one by one, each checked anew; bounded in bytes (also unpacked) and time."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from shared.errors import ModelError
from workers.tools.public_net import PublicTransport, Resolve, system_resolve

MAX_REDIRECTS = 5
_REDIRECTS = {301, 302, 303, 307, 308}
_HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; Capataz)",
    "Accept": "text/html,application/xhtml+xml,application/json;q=0.9,text/*;q=0.8,*/*;q=0.5",
    "Accept-Encoding": "gzip",
}
_CHARSET = re.compile(
    rb"""<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9._-]{1,40})""", re.I
)
_BARE_HOST = re.compile(r"[\w-]+(\.[\w-]+)+(:\d+)?([/?#].*)?")


@dataclass(frozen=True)
class Page:
    """What came back. `url` is the last one; `media_type` is lower case without parameters."""

    url: str
    status: int
    media_type: str
    charset: str
    body: bytes

    @property
    def text(self) -> str:
        """The body decoded: declared charset, else the one its markup names, else UTF-8."""
        declared = _CHARSET.search(self.body[:2048])
        for name in (self.charset, declared[1].decode("ascii") if declared else "", "utf-8"):
            try:
                return self.body.decode(name) if name else self.body.decode("utf-8-sig")
            except (LookupError, UnicodeDecodeError):
                continue
        return self.body.decode("cp1252", "replace")


class Unpacker:
    """Bounded gzip: never holds more than the limit, however small the packed form is."""

    def __init__(self, encoding: str, limit: int) -> None:
        if encoding not in ("", "identity", "gzip", "x-gzip"):
            raise ModelError(f"the server sent {encoding}, which was not asked for", code="bad_response")
        self._zlib = zlib.decompressobj(31) if "gzip" in encoding else None
        self._limit = limit
        self.data = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Takes what came. Raises ModelError when it unpacks to more than the limit."""
        room = self._limit + 1 - len(self.data)
        if self._zlib is None:
            self.data += chunk[:room]
        else:
            try:
                self.data += self._zlib.decompress(chunk, room)
            except zlib.error as error:
                raise ModelError("the server sent broken gzip", code="bad_response") from error
        if len(self.data) > self._limit:
            raise ModelError(f"the page is larger than {self._limit} bytes", code="too_large")


def parse_url(text: str) -> httpx.URL:
    """The URL that a model wrote; a bare host gets https. Raises ModelError."""
    text = text.strip()
    if "://" not in text and _BARE_HOST.fullmatch(text):
        text = f"https://{text}"
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError) as error:
        raise ModelError(f"{text[:200]!r} is not a URL: {error}", code="bad_url") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ModelError(f"{text[:200]!r} is not an http or https URL", code="bad_url")
    if url.userinfo:
        raise ModelError("URLs with user name or password are not fetched", code="bad_url")
    return url.copy_with(fragment=None)


async def fetch(
    url: str,
    *,
    client: Callable[..., httpx.AsyncClient],
    seconds: float,
    max_bytes: int,
    allowed: tuple[str, ...] = (),
    resolve: Resolve = system_resolve,
) -> Page:
    """GETs a page, whatever its status. `client` is httpx.AsyncClient or one that takes the same arguments.

    Raises ModelError: not a URL, not public, unreachable, too many redirects, too large, too slow.
    """
    options: dict[str, Any] = {
        "transport": PublicTransport(allowed=allowed, resolve=resolve),
        "trust_env": False,  # a proxy of the environment would connect for us, unchecked
        "timeout": httpx.Timeout(seconds),
        "headers": _HEADERS,
        "follow_redirects": False,
    }
    current = parse_url(url)
    try:
        async with asyncio.timeout(seconds), client(**options) as http:
            for _ in range(MAX_REDIRECTS + 1):
                page, location = await _get(http, current, max_bytes)
                if location is None:
                    return page
                current = parse_url(str(current.join(location)))
    except (TimeoutError, httpx.TimeoutException) as error:
        raise ModelError(f"{current} did not answer within {seconds:g} s", code="timed_out") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ModelError(f"{current} cannot be fetched: {error or type(error).__name__}", code="unreachable") from error
    raise ModelError(f"{url} redirects more than {MAX_REDIRECTS} times", code="too_many_redirects")


async def _get(http: httpx.AsyncClient, url: httpx.URL, max_bytes: int) -> tuple[Page, str | None]:
    async with http.stream("GET", url) as response:
        location = response.headers.get("location")
        if response.status_code in _REDIRECTS and location:
            return Page(str(url), response.status_code, "", "", b""), location
        unpacker = Unpacker(response.headers.get("content-encoding", "").strip().lower(), max_bytes)
        async for chunk in response.aiter_raw():
            unpacker.feed(chunk)
        media_type = response.headers.get("content-type", "").split(";")[0].strip().lower()
        charset = response.charset_encoding or ""
        return Page(str(url), response.status_code, media_type, charset, bytes(unpacker.data)), None
