"""The checked HTTP helper against hostile addresses: nothing that is not public is ever connected to."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from shared.errors import ModelError
from tests.unit.tools.conftest import Bench
from tests.unit.tools.hostile import cases
from tests.unit.tools.test_web import answering, served, to
from workers.tools import http
from workers.tools.http import MAX_REDIRECTS, Page, fetch, parse_url
from workers.tools.public_net import PublicTransport, Reach, is_near, is_public, system_source

HOSTILE, BENIGN = cases("urls.txt")[""], cases("urls_benign.txt")[""]
NAMES = {
    "private.test": ["10.1.2.3"],
    "metadata.test": ["169.254.169.254"],
    "mixed.test": ["1.1.1.1", "10.0.0.1"],
    "mapped.test": ["::ffff:192.168.0.1"],
    "six.test": ["2002:c0a8:1::1"],
    "nat64.test": ["64:ff9b::c0a8:1"],
    "dual.test": ["2606:4700::1111", "1.1.1.1"],
    "azure.test": ["168.63.129.16"],
    "oracle.test": ["192.0.0.192"],
    "reserved.test": ["200::1"],
    "scoped.test": ["fe80::1%2"],
    "isatap.test": ["2600:1f00::5efe:a00:1"],
    "translated.test": ["::ffff:0:a00:1"],
    "last.test": ["1.1.1.1", "8.8.8.8", "9.9.9.9", "1.0.0.1", "127.0.0.1"],
    "unspecified.test": ["::"],
    "broadcast.test": ["255.255.255.255"],
    "empty.test": [],
    "six4.test": ["2002:808:808::1"],
    "isatappublic.test": ["2600:1f00::5efe:808:808"],
    "self.test": ["93.184.216.99"],
    "beside.test": ["2606:4700:5::80"],
}


def source(address: str) -> str:
    """The host of these tests has public addresses itself."""
    return "93.184.216.99" if "." in address or address.startswith("::ffff:") else "2606:4700:5::7"


async def resolve(host: str, port: int) -> list[str]:
    """Names of the tests from a table; addresses in any notation as the operating system reads them."""
    host = host.lower().rstrip(".")
    if host in NAMES:
        return NAMES[host]
    if host.endswith("public.test"):
        return ["93.184.216.34"]
    found = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=0 if host == "localhost" else socket.AI_NUMERICHOST
    )
    return [str(entry[4][0]) for entry in found]


class Wire(httpx.AsyncBaseTransport):
    """Stands for the network: remembers what would have been connected to."""

    def __init__(self) -> None:
        self.connected: list[tuple[str, int | None, str]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.connected.append((request.url.host, request.url.port, request.headers["host"]))
        return httpx.Response(200, stream=httpx.ByteStream(b"ok"), request=request)


async def fetched(url: str, wire: Wire, monkeypatch: pytest.MonkeyPatch, **reach: Any) -> Page:
    """Fetches with a network that is not there."""

    def transport(reach: Reach, *, resolve: Any) -> PublicTransport:
        return PublicTransport(reach, resolve=resolve, source=source, inner=wire)

    monkeypatch.setattr(http, "PublicTransport", transport)
    bounds: dict[str, Any] = {"seconds": 5.0, "max_bytes": 1000, "reach": Reach(**reach), "resolve": resolve}
    return await fetch(url, client=httpx.AsyncClient, **bounds)


def test_no_hostile_address_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(HOSTILE) >= 300
    wire = Wire()
    through = []

    async def main() -> None:
        for url in HOSTILE:
            try:
                await fetched(url, wire, monkeypatch)
            except ModelError:
                continue
            through.append(url)

    asyncio.run(main())
    assert through == []
    assert wire.connected == []


def test_public_addresses_are(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        for url in BENIGN:
            wire = Wire()
            assert (await fetched(url, wire, monkeypatch)).text == "ok", url
            assert is_public(ipaddress.ip_address(wire.connected[0][0])), url

    asyncio.run(main())


@pytest.mark.parametrize("target", [url for url in HOSTILE if "://" in url and url.isprintable()])
def test_no_redirect_leads_where_no_address_may(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire()

    async def handle(request: httpx.Request) -> httpx.Response:
        wire.connected.append((request.url.host, request.url.port, request.headers["host"]))
        return httpx.Response(302, headers=[(b"location", target.encode())], request=request)

    monkeypatch.setattr(wire, "handle_async_request", handle)
    with pytest.raises(ModelError):
        asyncio.run(fetched("http://public.test/", wire, monkeypatch))
    assert {host for host, _, _ in wire.connected} == {"93.184.216.34"}


def test_a_name_whose_answer_changes_is_connected_to_as_it_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[list[str]] = []
    wire, asked = Wire(), 0

    async def changing(host: str, port: int) -> list[str]:
        nonlocal asked
        asked += 1
        return answers[min(asked, len(answers)) - 1]

    async def again(request: httpx.Request) -> httpx.Response:
        wire.connected.append((request.url.host, request.url.port, request.headers["host"]))
        return httpx.Response(302, headers=[(b"location", b"/again")], request=request)

    def transport(reach: Reach, *, resolve: Any) -> PublicTransport:
        return PublicTransport(reach, resolve=changing, inner=wire)

    monkeypatch.setattr(http, "PublicTransport", transport)
    bounds: dict[str, Any] = {"seconds": 5.0, "max_bytes": 1000, "reach": Reach(), "client": httpx.AsyncClient}
    answers[:] = [["93.184.216.34"], ["127.0.0.1"]]
    assert asyncio.run(fetch("http://changing.test/", **bounds)).text == "ok"
    assert (asked, wire.connected) == (1, [("93.184.216.34", None, "changing.test")])

    asked = 0
    monkeypatch.setattr(wire, "handle_async_request", again)
    with pytest.raises(ModelError) as caught:
        asyncio.run(fetch("http://changing.test/", **bounds))
    assert caught.value.code == "private_address"
    assert {address for address, _, _ in wire.connected} == {"93.184.216.34"}


@pytest.mark.parametrize(
    "target", ["/" + "a" * 70_000, "http://" + "a." * 40_000 + "test/", "//[", "http://[::1", "\xff\xfe:"]
)
def test_a_redirect_that_is_no_address_is_told(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire()

    async def handle(request: httpx.Request) -> httpx.Response:
        return httpx.Response(302, headers=[(b"location", target.encode())], request=request)

    monkeypatch.setattr(wire, "handle_async_request", handle)
    with pytest.raises(ModelError) as caught:
        asyncio.run(fetched("http://public.test/", wire, monkeypatch))
    assert caught.value.code in ("bad_url", "unreachable", "too_many_redirects")


def test_a_redirect_chain_is_checked_at_each_link() -> None:
    async def names(host: str, port: int) -> list[str]:
        return ["10.9.9.9"] if host == "inside.test" else ["127.0.0.1"]

    async def main() -> None:
        async with served(
            one=to(lambda request: "/two"),
            two=to(lambda request: f"http://pool.test:{request.url.port}/three"),
            three=to(lambda request: "http://inside.test/"),
        ) as port:
            reach = Reach(("pool.test",))
            bounds: dict[str, Any] = {"seconds": 5.0, "max_bytes": 1000, "reach": reach, "resolve": names}
            await fetch(f"http://pool.test:{port}/one", client=httpx.AsyncClient, **bounds)

    with pytest.raises(ModelError) as caught:
        asyncio.run(main())
    assert caught.value.code == "private_address"
    assert MAX_REDIRECTS == 5


def test_a_listed_network_may_be_reached_at_any_port(monkeypatch: pytest.MonkeyPatch) -> None:
    async def reached(url: str, *private: str) -> bool:
        try:
            await fetched(url, Wire(), monkeypatch, private=private)
        except ModelError:
            return False
        return True

    async def main() -> None:
        assert await reached("http://private.test:9999/", "10.0.0.0/8")
        assert await reached("http://10.1.2.3/", "10.1.2.3")
        assert await reached("http://private.test:9999/", "PRIVATE.test.")
        assert await reached("http://mapped.test/", "192.168.0.0/16")
        assert not await reached("http://private.test/", "192.168.0.0/16")
        assert not await reached("http://sub.private.test/", "private.test")
        assert not await reached("http://mixed.test:9999/", "10.0.0.0/8")  # its public address is bound to the ports
        assert await reached("http://mixed.test/", "10.0.0.0/8")
        assert not await reached("http://[fe80::1%25eth0]/", "fe80::/10")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("address", "ours", "near"),
    [
        ("93.184.216.34", "93.184.216.34", True),
        ("93.184.216.34", "93.184.216.35", False),
        ("::ffff:93.184.216.34", "::ffff:93.184.216.34", True),
        ("::ffff:93.184.216.34", "93.184.216.34", True),
        ("::ffff:93.184.216.34", "::ffff:10.0.0.1", False),
        ("2606:4700:5::1", "2606:4700:5::7", True),
        ("2606:4700:5:0:ffff:ffff:ffff:ffff", "2606:4700:5::7", True),
        ("2606:4700:5:1::7", "2606:4700:5::7", False),
        ("2606:4700:5::7", "93.184.216.34", False),
    ],
)
def test_what_is_beside_this_host(address: str, ours: str, near: bool) -> None:
    assert is_near(ipaddress.ip_address(address), ipaddress.ip_address(ours)) is near


def test_a_host_beside_this_one_may_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire()
    assert asyncio.run(fetched("http://beside.test/", wire, monkeypatch, private=("beside.test",))).text == "ok"
    assert asyncio.run(fetched("http://self.test/", wire, monkeypatch, private=("93.184.216.99/32",))).text == "ok"


def test_where_a_connection_would_come_from() -> None:
    assert system_source("127.0.0.1") == "127.0.0.1"
    assert system_source("nowhere") == ""


def test_a_network_that_is_none_is_a_wrong_setting() -> None:
    from pydantic import ValidationError

    from shared.tool_settings import WebSettings

    with pytest.raises(ValidationError, match="does not appear to be"):
        WebSettings(allow_private=("10.0.0/8x",))


def test_cookies_and_proxies_of_others_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    async def main() -> None:
        from aiohttp import web

        async def start(request: web.Request) -> web.Response:
            response = web.Response(status=302, headers={"Location": "/end"})
            response.set_cookie("session", "1")
            return response

        async def end(request: web.Request) -> web.Response:
            seen.append(request.headers.get("Cookie", ""))
            return web.Response(text="ok")

        async with served(start=start, end=end) as port:
            monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
            reach = Reach(("127.0.0.1",))
            page = await fetch(
                f"http://127.0.0.1:{port}/start", client=httpx.AsyncClient, seconds=5.0, max_bytes=100, reach=reach
            )
            assert page.text == "ok"

    asyncio.run(main())
    assert seen == [""]


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd", "gzip, gzip"])
def test_encodings_that_were_not_asked_for_are_refused(make_bench: Callable[..., Bench], encoding: str) -> None:
    async def main() -> None:
        body = gzip.compress(b"x")
        async with served(page=answering(body, "text/plain", **{"Content-Encoding": encoding})) as port:
            bench = make_bench(web={"allow_private": ("127.0.0.1",)})
            await http.get(bench.ctx(), f"http://127.0.0.1:{port}/page")

    with pytest.raises(ModelError) as caught:
        asyncio.run(main())
    assert caught.value.code == "bad_response"


def test_the_smaller_bound_holds(make_bench: Callable[..., Bench]) -> None:
    async def main() -> None:
        async with served(page=answering("x" * 500, "text/plain")) as port:
            bench = make_bench(web={"allow_private": ("127.0.0.1",), "max_bytes": 400})
            with pytest.raises(ModelError, match="larger than 400"):
                await http.get(bench.ctx(), f"http://127.0.0.1:{port}/page", max_bytes=10_000)
            with pytest.raises(ModelError, match="larger than 100"):
                await http.get(bench.ctx(), f"http://127.0.0.1:{port}/page", max_bytes=100)

    asyncio.run(main())


def test_parse_url_keeps_what_is_asked_for() -> None:
    assert str(parse_url(" public.test:8080/a?b=c#d ")) == "https://public.test:8080/a?b=c"
