"""Searching the web by SearXNG, Brave or DuckDuckGo: who is asked, how, and what of the answer is a hit."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, urljoin, urlsplit

from pydantic import Field, JsonValue

from shared.compress import snippet
from shared.contract import Effect
from shared.errors import ModelError
from shared.settings import Settings
from shared.tool_settings import WebSettings
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools.service import Answer, Service, call, malformed

Engine = Literal["searxng", "brave", "duckduckgo"]
Period = Literal["any", "day", "week", "month", "year"]

_TAGS = re.compile(r"<[^>]*>")
_TEXT_CHARS = 300
"""Of a hit's text, for references and code; the model is shown a snippet."""
_BRAVE_PERIODS = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}


@dataclass(frozen=True)
class Hit:
    """One result, its text in one line."""

    title: str
    url: str
    text: str


def engine(settings: WebSettings) -> Engine | None:
    """Who answers searches under these settings; None: nobody."""
    if settings.search == "off":
        return None
    if settings.search != "auto":
        return settings.search
    if settings.searxng_url:
        return "searxng"
    return "brave" if os.environ.get(settings.brave_key_env) else "duckduckgo"


def _no_search(settings: Settings) -> str | None:
    chosen = engine(settings.web)
    if chosen is None:
        return "searching is off; set web.search to searxng, brave or duckduckgo"
    if chosen == "searxng" and not settings.web.searxng_url:
        return "set web.searxng_url to a SearXNG server that answers in JSON"
    if chosen == "brave" and not os.environ.get(settings.web.brave_key_env):
        return f"set {settings.web.brave_key_env} in the worker's environment to a key of Brave Search"
    return None


@tool(
    group="web",
    effect=Effect.READ,
    untrusted=True,
    timeout_s=30.0,
    requires=_no_search,
    keywords={"es": ("buscar en internet", "googlea"), "en": ("search the web", "google")},
    examples={"es": ("busca en internet quién ganó la vuelta",), "en": ("search the web for train strikes",)},
)
async def web_search(
    ctx: ToolContext,
    query: Annotated[str, Field(description="What to search for", min_length=1, max_length=400)],
    limit: Annotated[int, Field(description="How many results at most", ge=1, le=20)] = 8,
    period: Annotated[Period, Field(description="Only results of the last day, week, month or year")] = "any",
    language: Annotated[str, Field(description="Such as es or en", pattern="^([a-z]{2})?$")] = "",
) -> ToolOutput:
    """Searches the web; returns titles, addresses and a line of each result. web_fetch reads a page."""
    settings = ctx.settings.web
    chosen = engine(settings)
    if chosen is None:
        raise ModelError("searching the web is switched off", hint="tell the user", code="not_configured")
    hits = await _ASK[chosen](ctx, query, limit, period, language)
    first = {hit.url: hit for hit in reversed(hits) if hit.url.startswith(("http://", "https://"))}
    found = list(reversed(first.values()))[:limit]
    results: list[JsonValue] = [{"title": hit.title, "url": hit.url, "text": hit.text} for hit in found]
    value: dict[str, JsonValue] = {"query": query, "results": results}
    if not found:
        return ToolOutput(value, f"Nothing was found for {query!r}.")
    lines = [
        f"{n}. {snippet(hit.title)}\n   {hit.url}\n   {snippet(hit.text)}".rstrip() for n, hit in enumerate(found, 1)
    ]
    return ToolOutput(value, "\n".join(lines))


async def _asked(ctx: ToolContext, service: Service, params: dict[str, Any], headers: dict[str, str]) -> Answer:
    settings = ctx.settings.web
    return await call(
        ctx,
        service,
        "GET",
        "",
        seconds=settings.timeout_s,
        max_bytes=settings.max_bytes,
        params=params,
        headers=headers,
    )


async def _searxng(ctx: ToolContext, query: str, limit: int, period: Period, language: str) -> list[Hit]:
    url = ctx.settings.web.searxng_url.rstrip("/")
    service = Service("the search server", url if url.endswith("/search") else f"{url}/search")
    params = {"q": query, "format": "json", "language": language or "auto"}
    if period != "any":
        params["time_range"] = period
    answer = (await _asked(ctx, service, params, {"Accept": "application/json"})).json(service)
    return _hits(service, answer, ("results",), "content")


async def _brave(ctx: ToolContext, query: str, limit: int, period: Period, language: str) -> list[Hit]:
    settings = ctx.settings.web
    service = Service("Brave Search", settings.brave_url)
    headers = {"Accept": "application/json", "X-Subscription-Token": os.environ.get(settings.brave_key_env, "")}
    params: dict[str, Any] = {"q": query, "count": limit, "text_decorations": "false"}
    if language:
        params["search_lang"] = language
    if period != "any":
        params["freshness"] = _BRAVE_PERIODS[period]
    answer = (await _asked(ctx, service, params, headers)).json(service)
    return _hits(service, answer, ("web", "results"), "description")


async def _duckduckgo(ctx: ToolContext, query: str, limit: int, period: Period, language: str) -> list[Hit]:
    service = Service("DuckDuckGo", ctx.settings.web.duckduckgo_url)
    params = {"q": query, "df": "" if period == "any" else period[0]}
    if language:
        params["kl"] = {"es": "es-es", "en": "us-en"}.get(language, f"{language}-{language}")
    headers = {"User-Agent": "Mozilla/5.0 (compatible; Capataz)", "Accept": "text/html"}
    page = (await _asked(ctx, service, params, headers)).body.decode("utf-8", "replace")
    return duckduckgo_hits(page, ctx.settings.web.duckduckgo_url)


_ASK = {"searxng": _searxng, "brave": _brave, "duckduckgo": _duckduckgo}


def _hits(service: Service, answer: Any, path: Iterable[str], text: str) -> list[Hit]:
    """The results at `path` of a JSON answer, in its order. Raises ModelError when the answer has another shape."""
    for key in path:
        if not isinstance(answer, dict):
            raise malformed(service, "its JSON is not an object")
        answer = answer.get(key) or ({} if key == "web" else [])
    if not isinstance(answer, list):
        raise malformed(service, "its results are not a list")
    return [
        Hit(_line(one.get("title")), str(one.get("url") or ""), _line(one.get(text)))
        for one in answer
        if isinstance(one, dict)
    ]


def _line(text: Any) -> str:
    return snippet(html.unescape(_TAGS.sub("", str(text or ""))), _TEXT_CHARS)


def duckduckgo_hits(page: str, base: str) -> list[Hit]:
    """The results on DuckDuckGo's page without scripts. Raises ModelError when it wants to be sure of a person."""
    from lxml import html as markup  # type: ignore[import-untyped]  # late: large

    tree: Any = markup.fromstring(page or "<html></html>")
    if tree.xpath("//*[contains(@class, 'anomaly')]"):
        raise ModelError("DuckDuckGo refuses automatic searches for now", hint="try again later", code="rate_limited")
    hits = []
    for block in tree.xpath("//div[contains(concat(' ', @class, ' '), ' result ')]"):
        links = block.xpath(".//a[contains(@class, 'result__a')]")
        if not links or "result--ad" in block.get("class", ""):
            continue
        texts = block.xpath(".//*[contains(@class, 'result__snippet')]")
        text = texts[0].text_content() if texts else ""
        hits.append(Hit(_line(links[0].text_content()), _target(links[0].get("href", ""), base), _line(text)))
    return hits


def _target(href: str, base: str) -> str:
    """Where a result leads: DuckDuckGo's links go over its own server, which is left out."""
    url = urljoin(base, href)
    parts = urlsplit(url)
    return parse_qs(parts.query).get("uddg", [url])[0] if parts.path.startswith("/l/") else url
