"""Search, weather, feeds and reddit against the wire formats of the services, and what they do when these fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from shared.compress import SNIPPET_CHARS
from shared.errors import ModelError
from shared.settings import Settings
from tests.unit.tools.conftest import Bench
from tests.unit.tools.test_web import Handler, answering, served
from workers.tools import search
from workers.tools.feeds import parse
from workers.tools.weather import sky

ALLOWED = {"allow_private": ("127.0.0.1",)}


class Site:
    """A local server whose pages remember what they were asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []

    def page(
        self, body: str | bytes | dict[str, Any], media_type: str = "application/json", status: int = 200
    ) -> Handler:
        data = json.dumps(body) if isinstance(body, dict) else body

        async def handler(request: web.Request) -> web.Response:
            self.asked.append({**request.query, "path": request.path})
            self.headers.append(dict(request.headers))
            content = data.encode() if isinstance(data, str) else data
            return web.Response(body=content, status=status, headers={"Content-Type": media_type})

        return handler


def called(make_bench: Callable[..., Bench], site: dict[str, Handler], sections: Any, name: str, /, **args: Any) -> Any:
    """Calls a tool whose settings are made from the address of a server with these pages."""

    async def main() -> Any:
        async with served(**site) as port:
            bench = make_bench(**sections(f"http://127.0.0.1:{port}"))
            return await bench.call(name, **args)

    return asyncio.run(main())


def failing(
    make_bench: Callable[..., Bench], site: dict[str, Handler], sections: Any, name: str, /, **args: Any
) -> ModelError:
    with pytest.raises(ModelError) as caught:
        called(make_bench, site, sections, name, **args)
    return caught.value


# --- search

SEARXNG = {
    "results": [
        {"title": "First &amp; best", "url": "https://example.org/1", "content": "<b>One</b> line\nand another"},
        {"title": "Again", "url": "https://example.org/1", "content": ""},
        {"title": "Bad", "url": "javascript:alert(1)", "content": ""},
        {"title": "Second", "url": "https://example.org/2", "content": None},
    ]
}


def test_searxng(make_bench: Callable[..., Bench]) -> None:
    site = Site()
    output = called(
        make_bench,
        {"search": site.page(SEARXNG)},
        lambda base: {"web": {"searxng_url": base}},
        "web_search",
        query="a b",
        period="week",
        language="es",
    )
    assert site.asked == [{"q": "a b", "format": "json", "language": "es", "time_range": "week", "path": "/search"}]
    assert [hit["url"] for hit in output.value["results"]] == ["https://example.org/1", "https://example.org/2"]
    assert output.value["results"][0]["title"] == "First & best"
    assert "One line and another" in output.seen
    assert output.seen.splitlines()[0] == "1. First & best"


def test_the_model_is_shown_the_beginning_of_long_texts(make_bench: Callable[..., Bench]) -> None:
    long = "word " * 200
    output = called(
        make_bench,
        {"search": Site().page({"results": [{"title": long, "url": "https://example.org/", "content": long}]})},
        lambda base: {"web": {"searxng_url": base}},
        "web_search",
        query="x",
    )
    title, url, text = (line.strip() for line in output.seen.splitlines())
    assert len(text) <= SNIPPET_CHARS
    assert len(title.removeprefix("1. ")) <= SNIPPET_CHARS
    assert url == "https://example.org/"
    assert SNIPPET_CHARS < len(output.value["results"][0]["text"]) <= 300


def test_brave(make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", "secret-key")
    site = Site()
    answer = {"web": {"results": [{"title": "T", "url": "https://example.org/", "description": "D"}]}}
    output = called(
        make_bench,
        {"search": site.page(answer)},
        lambda base: {"web": {"brave_url": f"{base}/search"}},
        "web_search",
        query="x",
        limit=3,
        period="day",
    )
    assert output.value["results"] == [{"title": "T", "url": "https://example.org/", "text": "D"}]
    assert site.headers[0]["X-Subscription-Token"] == "secret-key"
    assert site.asked[0] == {"q": "x", "count": "3", "text_decorations": "false", "freshness": "pd", "path": "/search"}


DUCK = """<html><body><div id="links">
<div class="result results_links web-result result--ad"><a class="result__a" href="https://ad.example/">Ad</a></div>
<div class="result results_links web-result">
 <h2><a class="result__a" href=
 "//duckduckgo.com/l/?uddg=https%3A%2F%2Fexample.org%2Fa%3Fb%3Dc&amp;rut=1">The <b>title</b></a></h2>
 <a class="result__snippet" href="#">What it <b>says</b>.</a></div>
<div class="result web-result"><a class="result__a" href="https://example.org/direct">Direct</a></div>
</div></body></html>"""


def test_duckduckgo(make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRAVE_API_KEY", raising=False)
    output = called(
        make_bench,
        {"html": Site().page(DUCK, "text/html")},
        lambda base: {"web": {"duckduckgo_url": f"{base}/html"}},
        "web_search",
        query="x",
    )
    assert output.value["results"] == [
        {"title": "The title", "url": "https://example.org/a?b=c", "text": "What it says."},
        {"title": "Direct", "url": "https://example.org/direct", "text": ""},
    ]


def test_duckduckgo_that_wants_a_person_is_told(make_bench: Callable[..., Bench]) -> None:
    page = "<html><body><div class='anomaly-modal__title'>Unfortunately, bots use DuckDuckGo too.</div></body></html>"
    error = failing(
        make_bench,
        {"html": Site().page(page, "text/html")},
        lambda base: {"web": {"search": "duckduckgo", "duckduckgo_url": f"{base}/html"}},
        "web_search",
        query="x",
    )
    assert error.code == "rate_limited"


def test_nothing_found_is_said(make_bench: Callable[..., Bench]) -> None:
    output = called(
        make_bench,
        {"search": Site().page({"results": []})},
        lambda base: {"web": {"searxng_url": base}},
        "web_search",
        query="x",
    )
    assert output.seen == "Nothing was found for 'x'."


@pytest.mark.parametrize(
    ("page", "code"),
    [
        (Site().page("<html>", "text/html"), "bad_response"),
        (Site().page('{"results": 5}'), "bad_response"),
        (Site().page("[1]"), "bad_response"),
        (Site().page("no", "text/plain", 403), "auth_refused"),
        (Site().page("no", "text/plain", 429), "rate_limited"),
        (Site().page("no", "text/plain", 500), "service_failed"),
    ],
)
def test_a_search_server_that_fails(make_bench: Callable[..., Bench], page: Handler, code: str) -> None:
    error = failing(make_bench, {"search": page}, lambda base: {"web": {"searxng_url": base}}, "web_search", query="x")
    assert error.code == code


def test_a_search_server_that_is_away(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(web={"searxng_url": "http://127.0.0.1:1"})
    with pytest.raises(ModelError) as caught:
        bench.run("web_search", query="x")
    assert caught.value.code == "unreachable"


def test_who_is_asked_depends_on_what_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRAVE_API_KEY", raising=False)

    def settings(**values: Any) -> Settings:
        return Settings.model_validate({"web": values})

    assert search.engine(settings().web) == "duckduckgo"
    assert search.engine(settings(searxng_url="http://s").web) == "searxng"
    assert search.engine(settings(search="off").web) is None
    requires = search.web_search.requires
    assert requires is not None
    assert requires(settings()) is None
    assert "web.search" in str(requires(settings(search="off")))
    assert "web.searxng_url" in str(requires(settings(search="searxng")))
    assert "BRAVE_API_KEY" in str(requires(settings(search="brave")))
    monkeypatch.setenv("BRAVE_API_KEY", "k")
    assert search.engine(settings().web) == "brave"
    assert requires(settings(search="brave")) is None


# --- weather

PLACES = {
    "results": [
        {"name": "Springfield", "admin1": "Missouri", "country": "United States", "latitude": 37.2, "longitude": -93.3},
        {"name": "Springfield", "admin1": "Illinois", "country": "United States", "latitude": 39.8, "longitude": -89.6},
    ]
}
WEATHER = {
    "current": {
        "time": "2026-11-10T15:00", "temperature_2m": 11.5, "apparent_temperature": 9.0, "relative_humidity_2m": 70,
        "precipitation": 0.2, "weather_code": 61, "wind_speed_10m": 14.0,
    },
    "daily": {
        "time": ["2026-11-10", "2026-11-11"], "weather_code": [61, 0], "temperature_2m_max": [13, 15],
        "temperature_2m_min": [6, 4], "precipitation_sum": [2.0, 0.0], "precipitation_probability_max": [80, 5],
    },
}  # fmt: skip


def _weather(base: str) -> dict[str, Any]:
    return {"web": {"weather_url": f"{base}/forecast", "geocoding_url": f"{base}/places"}}


def test_weather(make_bench: Callable[..., Bench]) -> None:
    places, forecast = Site(), Site()
    output = called(
        make_bench,
        {"places": places.page(PLACES), "forecast": forecast.page(WEATHER)},
        _weather,
        "weather_get",
        place="Springfield, Illinois",
        days=2,
    )
    assert places.asked[0]["name"] == "Springfield"
    assert (forecast.asked[0]["latitude"], forecast.asked[0]["forecast_days"]) == ("39.8", "2")
    assert output.value["now"]["sky"] == "light rain"
    assert output.value["days"][1] == {
        "day": "2026-11-11", "code": 0, "max": 15, "min": 4, "rain_mm": 0.0, "rain_percent": 5, "sky": "clear",
    }  # fmt: skip
    assert output.seen.splitlines()[0].startswith(
        "Springfield, Illinois, United States, 2026-11-10T15:00 local: light rain"
    )
    assert sky(None) == "unknown"


@pytest.mark.parametrize(
    ("places", "forecast", "code"),
    [
        ({}, WEATHER, "not_found"),
        ({"results": [{"name": "x"}]}, WEATHER, "not_found"),
        (PLACES, {"current": {}}, "bad_response"),
        (PLACES, {"current": {}, "daily": {"time": []}}, "bad_response"),
    ],
)
def test_weather_that_cannot_be_told(make_bench: Callable[..., Bench], places: Any, forecast: Any, code: str) -> None:
    pages = {"places": Site().page(places), "forecast": Site().page(forecast)}
    assert failing(make_bench, pages, _weather, "weather_get", place="Springfield").code == code


# --- feeds

RSS = """<?xml version="1.0"?><rss version="2.0"><channel><title>The paper</title>
<item><title>One &amp; two</title><link>/one</link><pubDate>Tue, 10 Nov 2026 10:00:00 GMT</pubDate>
<description>&lt;p&gt;What &lt;b&gt;happened&lt;/b&gt;&lt;/p&gt;</description></item>
<item><title>Three</title><link>https://example.org/three</link></item></channel></rss>"""
ATOM = """<?xml version="1.0" encoding="utf-8"?><feed xmlns="http://www.w3.org/2005/Atom"><title>Diario</title>
<entry><title>Año nuevo</title><link href="https://example.org/a"/><updated>2026-11-10T10:00:00Z</updated></entry></feed>"""
JSON_FEED = {
    "version": "https://jsonfeed.org/version/1.1",
    "title": "J",
    "items": [{"id": "1", "url": "/j", "title": "T", "content_html": "<p>hi</p>", "date_published": "2026-11-10"}],
}


def test_feeds_of_all_kinds(make_bench: Callable[..., Bench]) -> None:
    pages = {
        "rss": Site().page(RSS, "application/rss+xml"),
        "atom": Site().page(ATOM, "text/xml"),
        "json": Site().page(JSON_FEED, "application/feed+json"),
    }

    async def main() -> Any:
        async with served(**pages) as port:
            bench = make_bench(web=ALLOWED)
            return port, [await bench.call("feeds_read", url=f"http://127.0.0.1:{port}/{kind}") for kind in pages]

    port, (rss, atom, jsons) = asyncio.run(main())
    assert rss.value["title"] == "The paper"
    assert rss.value["entries"][0] == {
        "title": "One & two",
        "url": f"http://127.0.0.1:{port}/one",
        "date": "2026-11-10T10:00Z",
        "text": "What happened",
    }
    assert rss.value["total"] == 2
    assert rss.seen.splitlines()[0] == f"The paper (http://127.0.0.1:{port}/rss)"
    assert atom.value["entries"][0]["title"] == "Año nuevo"
    assert jsons.value["entries"][0]["text"] == "hi"


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (b"<html><body>no</body></html>", "text/html"),
        (b"{}", "application/json"),
        (b'{"version": "https://jsonfeed.org/version/1", "items": 3}', "application/json"),
        (b"{", "application/json"),
        (b"", "text/xml"),
        (b"\x00\xff", "application/octet-stream"),
    ],
)
def test_what_is_no_feed(body: bytes, media_type: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse(body, media_type, "http://x.test/")
    assert caught.value.code == "not_a_feed"


def test_a_feed_cannot_read_files() -> None:
    evil = b"""<?xml version="1.0"?><!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>
    <rss version="2.0"><channel><title>&x;</title><item><title>a</title></item></channel></rss>"""
    assert "root:" not in parse(evil, "text/xml", "http://x.test/").title


def test_a_feed_inside_the_network_is_refused(bench: Bench) -> None:
    with pytest.raises(ModelError) as caught:
        bench.run("feeds_read", url="http://127.0.0.1/feed")
    assert caught.value.code == "private_address"


def test_headlines(make_bench: Callable[..., Bench]) -> None:
    site = Site()
    pages = {"rss": site.page(RSS, "application/rss+xml"), "rss/search": site.page(RSS, "application/rss+xml")}

    def sections(base: str) -> dict[str, Any]:
        return {"web": {**ALLOWED, "news_url": f"{base}/rss"}}

    output = called(make_bench, pages, sections, "news_headlines", limit=1)
    assert [entry["title"] for entry in output.value["entries"]] == ["One & two"]
    called(make_bench, pages, sections, "news_headlines", topic="fútbol", language="en")
    assert site.asked[0] == {"hl": "es", "gl": "ES", "ceid": "ES:es", "path": "/rss"}
    assert site.asked[1] == {"q": "fútbol", "hl": "en-US", "gl": "US", "ceid": "US:en", "path": "/rss/search"}


# --- reddit

POST = {
    "kind": "t3",
    "data": {
        "title": "A post", "subreddit": "python", "author": "someone", "score": 12, "num_comments": 3,
        "created_utc": 1_794_319_200.0, "permalink": "/r/python/comments/1/a_post/", "url": "https://example.org/x",
        "is_self": False, "selftext": "", "over_18": False,
    },
}  # fmt: skip
LISTING = {"kind": "Listing", "data": {"children": [POST, {"kind": "t5", "data": {}}]}}


def _reddit(base: str) -> dict[str, Any]:
    return {"reddit": {"url": base}}


def test_reddit(make_bench: Callable[..., Bench]) -> None:
    site = Site()
    pages = {
        path: site.page(LISTING)
        for path in ("r/popular/hot.json", "r/python/top.json", "r/python/search.json", "search.json")
    }
    output = called(make_bench, pages, _reddit, "reddit_trending", limit=2)
    post = output.value["posts"][0]
    assert (post["title"], post["score"], post["date"]) == ("A post", 12, "2026-11-10T14:00Z")
    assert post["url"].endswith("/r/python/comments/1/a_post/")
    assert "12 points, 3 comments" in output.seen
    called(make_bench, pages, _reddit, "reddit_subreddit", name="r/python", sort="top", period="day")
    called(make_bench, pages, _reddit, "reddit_search", query="a b", subreddit="python")
    called(make_bench, pages, _reddit, "reddit_search", query="a b", sort="new")
    assert site.asked[0] == {"limit": "2", "raw_json": "1", "path": "/r/popular/hot.json"}
    assert site.asked[1]["t"] == "day"
    assert site.asked[2]["restrict_sr"] == "1"
    assert (site.asked[3]["q"], site.asked[3]["sort"], site.asked[3]["path"]) == ("a b", "new", "/search.json")
    assert site.headers[0]["User-Agent"].startswith("linux:capataz")


@pytest.mark.parametrize(
    ("page", "code"),
    [
        (Site().page("no", "text/plain", 403), "auth_refused"),
        (Site().page("no", "text/plain", 404), "not_found"),
        (Site().page("no", "text/plain", 429), "rate_limited"),
        (Site().page("no", "text/plain", 502), "service_failed"),
        (Site().page("<html>", "text/html"), "bad_response"),
        (Site().page({"data": {}}), "bad_response"),
        (answering("[]", "application/json"), "bad_response"),
    ],
)
def test_reddit_that_refuses(make_bench: Callable[..., Bench], page: Handler, code: str) -> None:
    pages = {"r/python/hot.json": page}
    assert failing(make_bench, pages, _reddit, "reddit_subreddit", name="python").code == code


@pytest.mark.parametrize("name", ["../api", "a/b", "", "x" * 22, "a?b", "á"])
def test_names_that_are_no_subreddit(bench: Bench, name: str) -> None:
    with pytest.raises(ModelError) as caught:
        bench.run("reddit_subreddit", name=name)
    assert caught.value.code == "bad_arguments"


def test_reddit_is_missing_without_an_address(bench: Bench) -> None:
    requires = bench.tool("reddit_trending").requires
    assert requires is not None
    assert "reddit.url" in str(requires(Settings.model_validate({"reddit": {"url": ""}})))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("web_search", {"query": ""}),
        ("web_search", {"query": "x", "period": "decade"}),
        ("weather_get", {"place": "x", "days": 50}),
        ("feeds_read", {}),
        ("news_headlines", {"language": "fr"}),
        ("reddit_search", {"query": "x", "sort": "best"}),
        ("reddit_subreddit", {"name": "python", "limit": 0}),
        ("reddit_trending", {"limit": 51}),
    ],
)
def test_wrong_arguments_are_refused(bench: Bench, name: str, args: dict[str, Any]) -> None:
    with pytest.raises(ModelError) as caught:
        bench.run(name, **args)
    assert caught.value.code == "bad_arguments"
