from __future__ import annotations

import asyncio
import gzip
import ipaddress
import json
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from shared.errors import ModelError
from tests.unit.tools.conftest import Bench
from workers.tools.http import Page, Unpacker, fetch, parse_url
from workers.tools.public_net import Reach, is_public, system_resolve

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ARTICLE = (
    "<html><head><title>Piscina municipal</title></head><body><nav>Inicio · Contacto</nav><article><h1>Horario</h1>"
    "<p>La piscina abre de lunes a viernes de siete de la mañana a nueve de la noche, también en verano.</p>"
    "<p>Los domingos abre por la mañana y cierra a las dos, salvo en agosto, cuando no abre ningún domingo.</p>"
    "</article><script>track()</script></body></html>"
)


@asynccontextmanager
async def served(tls: ssl.SSLContext | None = None, /, **handlers: Handler) -> AsyncIterator[int]:
    app = web.Application()
    for name, handler in handlers.items():
        app.router.add_get(f"/{name}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def answering(body: str | bytes, media_type: str = "text/html", **headers: str) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        data = body.encode() if isinstance(body, str) else body
        return web.Response(body=data, headers={"Content-Type": media_type, **headers})

    return handler


def to(location: Callable[[web.Request], str]) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": location(request)})

    return handler


async def local(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


async def got(url: str, resolve: Any = local, allowed: tuple[str, ...] = ("pool.test",), **options: Any) -> Page:
    limits = {"seconds": 5.0, "max_bytes": 100_000, **options}
    return await fetch(url, client=httpx.AsyncClient, reach=Reach(allowed), resolve=resolve, **limits)


def refused(code: str, url: str, **options: Any) -> None:
    with pytest.raises(ModelError) as caught:
        asyncio.run(got(url, **options))
    assert caught.value.code == code


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1", "::ffff:127.0.0.1",
        "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001:db8::1",
    ],
)  # fmt: skip
def test_private_addresses_in_every_dress(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1"])
def test_public_addresses(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/", "http://2130706433/", "http://0x7f000001/", "http://017700000001/", "http://127.1/",
        "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://localhost/", "http://0/",
    ],
)  # fmt: skip
def test_name_forms_of_this_host_are_refused(url: str) -> None:
    refused("private_address", url, resolve=system_resolve)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://pool.test/", "http://user:pw@pool.test/", "nonsense", "http://"]
)
def test_urls_that_are_none(url: str) -> None:
    refused("bad_url", url)


def test_a_bare_host_gets_https() -> None:
    assert str(parse_url("example.org/a#part")) == "https://example.org/a"


def test_a_page_comes_through_under_its_own_host_name() -> None:
    seen: list[str] = []

    async def page(request: web.Request) -> web.Response:
        seen.append(request.host)
        return web.Response(text=ARTICLE, content_type="text/html")

    async def main() -> Page:
        async with served(page=page) as port:
            found = await got(f"http://pool.test:{port}/page")
            assert seen == [f"pool.test:{port}"]
            return found

    assert asyncio.run(main()).text == ARTICLE


def test_a_name_with_one_private_address_is_refused_altogether() -> None:
    async def mixed(host: str, port: int) -> list[str]:
        return ["1.1.1.1", "10.0.0.1"]

    refused("private_address", "http://mixed.test/", resolve=mixed)


def test_a_redirect_into_the_private_network_is_refused() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["169.254.169.254"] if host == "metadata.test" else ["127.0.0.1"]

    async def main() -> None:
        async with served(go=to(lambda request: "http://metadata.test/latest")) as port:
            await got(f"http://pool.test:{port}/go", resolve=resolve)

    with pytest.raises(ModelError) as caught:
        asyncio.run(main())
    assert caught.value.code == "private_address"


def test_a_name_that_changes_its_address_gains_nothing() -> None:
    """The name server answers each question anew; the one answer that was checked is the one connected to."""
    reached: list[str] = []
    asked: list[str] = []

    class Inner(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            reached.append(f"{request.url.host} for {request.headers['host']}")
            return httpx.Response(200, text="ok", request=request)

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["1.1.1.1"] if len(asked) == 1 else ["127.0.0.1"]

    async def main() -> None:
        from workers.tools.public_net import PublicTransport

        async with httpx.AsyncClient(transport=PublicTransport(resolve=rebinding, inner=Inner())) as client:
            await client.get("http://rebind.test/")
            with pytest.raises(ModelError, match="not on the public internet"):
                await client.get("http://rebind.test/")

    asyncio.run(main())
    assert asked == ["rebind.test"] * 2
    assert reached == ["1.1.1.1 for rebind.test"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is needed to make a certificate")
def test_a_certificate_must_be_for_the_name_not_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=pool.test -addext subjectAltName=DNS:pool.test"
    )
    subprocess.run([*command.split(), "-keyout", key, "-out", cert], check=True, capture_output=True)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(cert, key)
    trusting = ssl.create_default_context(cafile=str(cert))
    monkeypatch.setattr("workers.tools.public_net._tls", lambda: trusting)

    async def main() -> None:
        async with served(serving, page=answering("safe", "text/plain")) as port:
            assert (await got(f"https://pool.test:{port}/page")).text == "safe"
            with pytest.raises(ModelError) as caught:
                await got(f"https://other.test:{port}/page", allowed=("other.test",))
            assert caught.value.code == "unreachable"

    asyncio.run(main())


def test_redirects_are_followed_within_bounds() -> None:
    async def main() -> None:
        step = to(lambda request: f"/hop?n={int(request.query['n']) - 1}" if request.query["n"] != "1" else "/end")
        async with served(hop=step, end=answering("done", "text/plain")) as port:
            page = await got(f"http://pool.test:{port}/hop?n=5")
            assert (page.text, page.url) == ("done", f"http://pool.test:{port}/end")
            with pytest.raises(ModelError) as caught:
                await got(f"http://pool.test:{port}/hop?n=6")
            assert caught.value.code == "too_many_redirects"

    asyncio.run(main())


def test_size_is_bounded_also_unpacked() -> None:
    bomb = gzip.compress(b"0" * 50_000_000)

    async def main() -> None:
        async with served(
            large=answering("x" * 100_001, "text/plain"),
            bomb=answering(bomb, "text/plain", **{"Content-Encoding": "gzip"}),
            fits=answering(gzip.compress(b"fits"), "text/plain", **{"Content-Encoding": "gzip"}),
        ) as port:
            for name in ("large", "bomb"):
                with pytest.raises(ModelError) as caught:
                    await got(f"http://pool.test:{port}/{name}")
                assert caught.value.code == "too_large"
            assert (await got(f"http://pool.test:{port}/fits")).text == "fits"

    asyncio.run(main())
    unpacker = Unpacker("gzip", 1_000)
    with pytest.raises(ModelError):
        unpacker.feed(bomb)
    assert len(unpacker.data) == 1_001


def test_a_server_that_says_nothing_is_given_up() -> None:
    async def main() -> None:
        release = asyncio.Event()

        async def silent(request: web.Request) -> web.Response:
            await release.wait()
            return web.Response()

        async with served(silent=silent) as port:
            with pytest.raises(ModelError) as caught:
                await got(f"http://pool.test:{port}/silent", seconds=0.2)
            release.set()
            assert caught.value.code == "timed_out"

    asyncio.run(main())


def test_nobody_listening_is_unreachable() -> None:
    async def main() -> None:
        async with served() as port:
            pass
        with pytest.raises(ModelError) as caught:
            await got(f"http://pool.test:{port}/")
        assert caught.value.code == "unreachable"

    asyncio.run(main())


def _fetched(make_bench: Callable[..., Bench], handler: Handler) -> Any:
    async def main() -> Any:
        async with served(page=handler) as port:
            bench = make_bench(web={"allow_private": ("127.0.0.1",)})
            return await bench.call("web_fetch", url=f"http://127.0.0.1:{port}/page"), bench

    return asyncio.run(main())


def test_a_page_is_readable_and_titled(make_bench: Callable[..., Bench]) -> None:
    output, _ = _fetched(make_bench, answering(ARTICLE))
    assert output.value["title"] == "Piscina municipal"
    assert "salvo en agosto" in output.value["text"]
    assert "track" not in output.seen
    address, title, *_ = output.seen.splitlines()
    assert (address, title) == (output.value["url"], "Piscina municipal")


def test_json_stays_json(make_bench: Callable[..., Bench]) -> None:
    output, _ = _fetched(make_bench, answering('{"price": [1, 2.5]}', "application/json"))
    assert output.value["json"] == {"price": [1, 2.5]}
    assert json.loads(output.seen)["json"] == {"price": [1, 2.5]}


def test_an_image_is_kept_as_an_artifact(make_bench: Callable[..., Bench]) -> None:
    output, bench = _fetched(make_bench, answering(b"\x89PNG\r\n\x1a\n123", "image/png"))
    stored = asyncio.run(bench.services.artifacts.get("ana", output.value["artifact"]))
    assert stored.data.startswith(b"\x89PNG")
    assert "image_describe" in output.seen


def test_an_error_status_is_an_error(make_bench: Callable[..., Bench]) -> None:
    async def missing(request: web.Request) -> web.Response:
        return web.Response(status=404, text="no such page")

    with pytest.raises(ModelError, match="status 404: no such page"):
        _fetched(make_bench, missing)


@pytest.mark.parametrize(
    ("body", "header"),
    [
        ("año".encode("latin-1"), "text/html; charset=iso-8859-1"),
        (b"<meta charset='iso-8859-1'>" + "año".encode("latin-1"), "text/html"),
        ("año".encode(), "text/html; charset=nonsense"),
        ("año".encode("cp1252"), "text/html"),
    ],
)
def test_charsets(body: bytes, header: str) -> None:
    media_type, _, charset = header.partition("; charset=")
    assert "año" in Page("http://x/", 200, media_type, charset, body).text


def test_a_pdf_is_read_and_kept(make_bench: Callable[..., Bench]) -> None:
    pytest.importorskip("pypdf")
    text = b"BT /F1 24 Tf 72 700 Td (Opening hours) Tj ET"
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text),
    ]
    body = bytearray(b"%PDF-1.4\n")
    places = []
    for number, part in enumerate(parts, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = len(body)
    body += b"xref\n0 5\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    body += b"trailer\n<< /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % table
    output, bench = _fetched(make_bench, answering(bytes(body), "application/pdf"))
    assert "Opening hours" in output.value["text"]
    assert "Opening hours" in output.seen
    assert asyncio.run(bench.services.artifacts.get("ana", output.value["artifact"])).data == bytes(body)
