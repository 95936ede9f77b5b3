"""HTTP to public addresses only: a name is resolved here, every address of it checked, and the checked one connected.

Because the connection goes to an address and not to the name, an answer of the name server that changes between
check and connect changes nothing. Name forms of private addresses (decimal, octal, mapped into IPv6) are what they
resolve to.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable

import httpx

from shared.errors import ModelError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[list[str]]]
"""(host, port) -> textual addresses, in order of preference. Raises OSError when there are none."""

_MAX_TRIED = 4
_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE = ipaddress.IPv6Network("::/96")


def is_public(address: Address) -> bool:
    """True for a unicast address of the public internet; addresses that embed an IPv4 one are judged by it too."""
    if address.is_multicast or not address.is_global:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return True
    if address.is_site_local or address.scope_id or address in _COMPATIBLE or address in _NAT64[1]:
        return False
    inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64[0]:
        inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return all(is_public(one) for one in inner if one is not None)


async def system_resolve(host: str, port: int) -> list[str]:
    """What the operating system's resolver says."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _normal(host: str) -> str:
    return host.casefold().rstrip(".")


async def checked_addresses(host: str, port: int, resolve: Resolve, allowed: Iterable[str]) -> list[str]:
    """Addresses of `host` that may be connected to: all of them public, unless the host is one of `allowed`.

    Raises ModelError when the name has no address, or any that is not public.
    """
    try:
        found = await resolve(host, port)
    except OSError as error:
        raise ModelError(f"{host} has no address", hint="check the spelling of the host", code="unreachable") from error
    if not found:
        raise ModelError(f"{host} has no address", hint="check the spelling of the host", code="unreachable")
    if _normal(host) in {_normal(name) for name in allowed}:
        return found
    for text in found:
        if not is_public(ipaddress.ip_address(text)):
            raise ModelError(
                f"{host} is not on the public internet",
                hint="only public addresses can be fetched; the operator can list a host in web.allow_private",
                code="private_address",
            )
    return found


@functools.cache
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context()


class PublicTransport(httpx.AsyncBaseTransport):
    """An httpx transport that resolves and checks the host of each request and connects to a checked address.

    Connections are not kept: one to an address must not serve another name that shares it.
    """

    def __init__(
        self,
        *,
        allowed: Iterable[str] = (),
        resolve: Resolve = system_resolve,
        inner: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._allowed = tuple(allowed)
        self._resolve = resolve
        self._inner = inner or httpx.AsyncHTTPTransport(verify=_tls(), limits=httpx.Limits(max_keepalive_connections=0))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends the request to a checked address. Raises ModelError when there is none, else what httpx raises."""
        url = request.url
        if url.scheme not in ("http", "https") or not url.host:
            raise ModelError(f"{url.scheme or 'no scheme'}: only http and https can be fetched", code="bad_url")
        host = url.raw_host.decode("ascii")
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await checked_addresses(host, port, self._resolve, self._allowed)
        for address in addresses[:_MAX_TRIED]:
            pinned = httpx.Request(
                request.method,
                url.copy_with(host=address),
                headers=request.headers,  # Host still names the host
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failed = error
        raise failed

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._inner.aclose()
