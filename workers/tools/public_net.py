"""HTTP to public addresses only: a name is resolved here, every address of it checked, and the checked one connected.

Public is not enough: this host and what stands beside it may have public addresses too, which a firewall keeps from
others, not from us. So the address that we would connect from is looked at as well.

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
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx

from shared.errors import ModelError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[list[str]]]
"""(host, port) -> textual addresses, in order of preference. Raises OSError when there are none."""
Source = Callable[[str], str]
"""Textual address -> the address of this host that a connection to it comes from; empty if there is no way to it."""

PORTS = (80, 443, 8080, 8443)

_MAX_TRIED = 4
_UNICAST = ipaddress.IPv6Network("2000::/3")  # all that has been given out; the rest is reserved, or used privately
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP, _ISATAP_BITS = 0x5EFE, 0xFCFF_FFFF  # two bits say whether it is unique, and for one
_NETWORK_BITS = 64
_SPECIAL = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/3",
        "168.63.129.16/32",  # looks public, but is each virtual machine's own host in one cloud
        "2001::/23", "2001:db8::/32", "3fff::/20",
    )
)  # fmt: skip
"""What is not the public internet by IANA's registries of special-purpose addresses, though parts of it are reachable.
Our own list, because what `ipaddress` takes for global differs between versions of Python."""


@dataclass(frozen=True)
class Reach:
    """What may be connected to beyond public addresses at `ports`.

    `private` has hosts, which may have any address, and networks (CIDR); neither is bound to the ports. A network is
    for whatever name leads into it.
    """

    private: tuple[str, ...] = ()
    ports: tuple[int, ...] = PORTS

    def names(self, host: str) -> bool:
        """True for a host that is listed by its name or address."""
        return _normal(host) in {_normal(entry) for entry in self.private if "/" not in entry}

    def covers(self, address: Address) -> bool:
        """True for an address of a listed network."""
        address = _unmapped(address)
        return any(address in ipaddress.ip_network(entry) for entry in self.private if "/" in entry)


def is_public(address: Address) -> bool:
    """True for a unicast address of the public internet; addresses that embed an IPv4 one are judged by it too."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id:
            return False
        low = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if address.ipv4_mapped is not None or address in _NAT64:
            return is_public(low)
        inner = [] if address.sixtofour is None else [address.sixtofour]
        if int(address) >> 32 & _ISATAP_BITS == _ISATAP:
            inner.append(low)
        if address not in _UNICAST or not all(map(is_public, inner)):
            return False
    return not any(address.version == one.version and address in one for one in _SPECIAL)


def is_near(address: Address, source: Address) -> bool:
    """True for the host itself that connects from `source`, and for its IPv6 network, as which a /64 counts."""
    address, source = _unmapped(address), _unmapped(source)
    if address.version == 6 and source.version == 6:
        return int(address) >> _NETWORK_BITS == int(source) >> _NETWORK_BITS
    return address == source


def _unmapped(address: Address) -> Address:
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address


def system_source(address: str) -> str:
    """What the operating system's routes say; nothing is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return ""


async def system_resolve(host: str, port: int) -> list[str]:
    """What the operating system's resolver says."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _normal(host: str) -> str:
    return host.casefold().rstrip(".")


async def checked_addresses(
    host: str, port: int, resolve: Resolve, reach: Reach, source: Source = system_source
) -> list[str]:
    """Addresses of `host` that may be connected to at `port`: all of them public and not near, or what `reach` lists.

    Raises ModelError when the name has no address, any that may not be reached, or the port is not among those allowed.
    """
    try:
        found = await resolve(host, port)
    except (OSError, UnicodeError) as error:
        raise ModelError(f"{host} has no address", hint="check the spelling of the host", code="unreachable") from error
    if not found:
        raise ModelError(f"{host} has no address", hint="check the spelling of the host", code="unreachable")
    if reach.names(host):
        return found
    outside = [address for address in map(ipaddress.ip_address, found) if not reach.covers(address)]
    if not all(is_public(address) and not _is_beside(address, source) for address in outside):
        raise ModelError(
            f"{host} is not on the public internet, or beside this host",
            hint="only public addresses can be fetched; the operator can list a host in web.allow_private",
            code="private_address",
        )
    if outside and port not in reach.ports:
        raise ModelError(
            f"port {port} of {host} may not be fetched",
            hint=f"allowed are {', '.join(map(str, reach.ports))}; the operator can change web.ports",
            code="port_refused",
        )
    return found


def _is_beside(address: Address, source: Source) -> bool:
    ours = source(str(address))
    return bool(ours) and is_near(address, ipaddress.ip_address(ours))


@functools.cache
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context()


class PublicTransport(httpx.AsyncBaseTransport):
    """An httpx transport that resolves and checks the host of each request and connects to a checked address.

    Connections are not kept: one to an address must not serve another name that shares it.
    """

    def __init__(
        self,
        reach: Reach = Reach(),
        *,
        resolve: Resolve = system_resolve,
        source: Source = system_source,
        inner: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._reach = reach
        self._resolve = resolve
        self._source = source
        self._inner = inner or httpx.AsyncHTTPTransport(verify=_tls(), limits=httpx.Limits(max_keepalive_connections=0))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends the request to a checked address. Raises ModelError when there is none, else what httpx raises."""
        url = request.url
        if url.scheme not in ("http", "https") or not url.raw_host:
            raise ModelError(f"{url.scheme or 'no scheme'}: only http and https can be fetched", code="bad_url")
        host = url.raw_host.decode("ascii")
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await checked_addresses(host, port, self._resolve, self._reach, self._source)
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
