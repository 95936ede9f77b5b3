"""The checked HTTP helper: whatever a user, a model or a page names is fetched through here and nowhere else.

Redirects are followed one by one, each checked anew; bytes (also unpacked) and time are bounded. Where a connection
may go is `workers.tools.public_net`. Services that the operator has configured are `workers.tools.service`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from shared.compress import snippet
from shared.errors import ModelError
from workers.context import ToolContext
from workers.tools.public_net import PublicTransport, Reach, Resolve, system_resolve

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
_HOST = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")
_PORT = re.compile(
    r"[^/?#]*//([^/?#:\[]*|\[[^/?#\]]*\])(:[0-9]*)?([/?#].*)?", re.S
)  # no blanks or signs, which httpx takes
_RESOLVE: Resolve = system_resolve


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

    def checked(self) -> Page:
        """The page itself. Raises ModelError when its status says that it is none."""
        if self.status < 400:
            return self
        plain = self.media_type.startswith(("text/plain", "application/json"))
        said = f": {snippet(self.text, 200)}" if plain else ""
        hint = "check the address" if self.status in (404, 410) else "try another page or later"
        raise ModelError(f"{self.url} answered with status {self.status}{said}", hint=hint, code="http_status")


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
    """The URL that a model wrote; a bare host gets https. Raises ModelError.

    Forms in which two readers may see two hosts (user names, backslashes, percent signs, zones) are refused.
    """
    text = text.strip()
    if "://" not in text and _BARE_HOST.fullmatch(text):
        text = f"https://{text}"
    shown = repr(text[:200])
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError) as error:
        raise ModelError(f"{shown} is not a URL: {error}", code="bad_url") from error
    if url.scheme not in ("http", "https") or not url.raw_host:
        raise ModelError(f"{shown} is not an http or https URL", code="bad_url")
    if url.userinfo:
        raise ModelError("URLs with user name or password are not fetched", code="bad_url")
    if "\\" in text or not _is_host(url.raw_host.decode("ascii", "replace")):
        raise ModelError(
            f"{shown} names no proper host", hint="write the host as it is, or as an address", code="bad_url"
        )
    if not _PORT.fullmatch(text) or (url.port is not None and not 0 < url.port < 65536):
        raise ModelError(f"{shown} has no proper port", code="bad_url")
    return url.copy_with(fragment=None)


def _is_host(host: str) -> bool:
    if ":" not in host:
        return _HOST.fullmatch(host) is not None
    try:
        return ipaddress.IPv6Address(host).scope_id is None
    except ValueError:
        return False


async def get(ctx: ToolContext, url: str, *, accept: str = "", max_bytes: int = 0) -> Page:
    """GETs what a user, a model or a page has named, within the bounds of `[web]`; any status below 400 is a page.

    `accept` is the header, `max_bytes` a smaller bound than the settings'. Raises ModelError like `fetch`, and for an
    error status.
    """
    settings = ctx.settings.web
    page = await fetch(
        url,
        client=ctx.services.http,
        seconds=max(0.1, min(settings.timeout_s, ctx.remaining_s)),
        max_bytes=min(max_bytes or settings.max_bytes, settings.max_bytes),
        reach=Reach(settings.allow_private, settings.ports),
        resolve=_RESOLVE,
        accept=accept,
    )
    return page.checked()


async def fetch(
    url: str,
    *,
    client: Callable[..., httpx.AsyncClient],
    seconds: float,
    max_bytes: int,
    reach: Reach,
    resolve: Resolve = system_resolve,
    accept: str = "",
) -> Page:
    """GETs a page, whatever its status. `client` is httpx.AsyncClient or one that takes the same arguments.

    Raises ModelError: not a URL, not public, unreachable, too many redirects, too large, too slow.
    """
    options: dict[str, Any] = {
        "transport": PublicTransport(reach, resolve=resolve),
        "trust_env": False,  # a proxy of the environment would connect for us, unchecked
        "timeout": httpx.Timeout(seconds),
        "headers": {**_HEADERS, "Accept": accept or _HEADERS["Accept"]},
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
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:  # a label that only pretends to be punycode
        raise ModelError(f"{current} cannot be fetched: {error or type(error).__name__}", code="unreachable") from error
    raise ModelError(f"{url} redirects more than {MAX_REDIRECTS} times", code="too_many_redirects")


async def _get(http: httpx.AsyncClient, url: httpx.URL, max_bytes: int) -> tuple[Page, str | None]:
    http.cookies.clear()  # what one host sets is not for the next
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
