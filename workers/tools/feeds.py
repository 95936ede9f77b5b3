"""Feeds: RSS, Atom and JSON Feed from any public address, and the day's headlines."""

from __future__ import annotations

import asyncio
import html
import importlib.util
import json
import re
from calendar import timegm
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlencode, urljoin

from pydantic import Field, JsonValue

from shared.compress import snippet
from shared.contract import Effect
from shared.errors import ModelError
from shared.settings import Settings
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools.http import Page, get

_ACCEPT = "application/rss+xml,application/atom+xml,application/feed+json,application/xml;q=0.9,*/*;q=0.5"
_TAGS = re.compile(r"<[^>]*>")
_TEXT_CHARS = 240
_EDITIONS = {"es": ("es", "ES", "ES:es"), "en": ("en-US", "US", "US:en")}

_Limit = Annotated[int, Field(description="How many entries at most", ge=1, le=50)]


@dataclass(frozen=True)
class Entry:
    """One entry of a feed; `date` is ISO 8601 in UTC, or empty."""

    title: str
    url: str
    date: str
    text: str


@dataclass(frozen=True)
class Feed:
    """A feed and its entries, in its order."""

    title: str
    entries: tuple[Entry, ...]


def _no_feedparser(settings: Settings) -> str | None:
    return None if importlib.util.find_spec("feedparser") else "feeds cannot be read here: pip install 'capataz[feeds]'"


def _line(text: Any, chars: int = _TEXT_CHARS) -> str:
    return snippet(html.unescape(_TAGS.sub(" ", str(text or ""))), chars)


def parse(body: bytes, media_type: str, url: str) -> Feed:
    """The feed in the bytes of a page. Raises ModelError when they hold none."""
    if "json" in media_type or body.lstrip()[:1] == b"{":
        return _json_feed(body, url)
    import feedparser  # type: ignore[import-untyped]  # late: large

    # Bytes, never the address: feedparser would fetch it itself, unchecked.
    found: Any = feedparser.parse(body, response_headers={"content-type": media_type, "content-location": url})
    if not found.get("version") and not found.entries:
        raise ModelError(f"{url} is not a feed", hint="web_fetch reads pages", code="not_a_feed")
    entries = tuple(
        Entry(
            _line(one.get("title")),
            urljoin(url, one.get("link") or ""),
            _date(one.get("published_parsed") or one.get("updated_parsed")),
            _line(one.get("summary")),
        )
        for one in found.entries
    )
    return Feed(_line(found.feed.get("title")), entries)


def _date(moment: Any) -> str:
    if not moment:
        return ""
    try:
        return datetime.fromtimestamp(timegm(moment), UTC).isoformat(timespec="minutes").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""


def _json_feed(body: bytes, url: str) -> Feed:
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{url} is not a feed", hint="web_fetch reads pages", code="not_a_feed") from error
    items = found.get("items") if isinstance(found, dict) else None
    if not isinstance(items, list) or "jsonfeed.org" not in str(found.get("version", "")):
        raise ModelError(f"{url} is JSON, but not a feed", hint="web_fetch reads it", code="not_a_feed")
    entries = tuple(
        Entry(
            _line(one.get("title")),
            urljoin(url, str(one.get("url") or one.get("external_url") or "")),
            str(one.get("date_published") or "")[:40],
            _line(one.get("summary") or one.get("content_text") or one.get("content_html")),
        )
        for one in items
        if isinstance(one, dict)
    )
    return Feed(_line(found.get("title")), entries)


async def _read(ctx: ToolContext, url: str) -> tuple[Page, Feed]:
    page = await get(ctx, url, accept=_ACCEPT)
    work = asyncio.get_running_loop().run_in_executor(
        ctx.services.blocking, parse, page.body, page.media_type, page.url
    )
    return page, await work


def _told(source: str, feed: Feed, limit: int, *, texts: bool) -> ToolOutput:
    shown = feed.entries[:limit]
    entries: list[JsonValue] = [
        {"title": one.title, "url": one.url, "date": one.date, "text": one.text} for one in shown
    ]
    value: dict[str, JsonValue] = {"title": feed.title, "entries": entries, "total": len(feed.entries)}
    lines = []
    for one in shown:
        about = f" ({one.date})" if one.date else ""
        lines.append(f"- {one.title or one.text}{about}\n  {one.url}".rstrip())
        if texts and one.text and one.title:
            lines.append(f"  {one.text}")
    return ToolOutput(value, "\n".join([f"{feed.title} ({source})", *(lines or ["(no entries)"])]))


@tool(
    group="web",
    effect=Effect.READ,
    untrusted=True,
    timeout_s=45.0,
    requires=_no_feedparser,
    keywords={"es": ("rss", "feed", "atom"), "en": ("rss", "feed", "atom")},
    examples={"es": ("lee el rss de https://example.org/feed",), "en": ("read the feed of https://example.org/rss",)},
)
async def feeds_read(
    ctx: ToolContext,
    url: Annotated[str, Field(description="Address of an RSS, Atom or JSON feed", min_length=4, max_length=4000)],
    limit: _Limit = 15,
) -> ToolOutput:
    """Reads a feed (RSS, Atom, JSON Feed): titles, addresses, dates and a line of each entry."""
    page, feed = await _read(ctx, url)
    return _told(page.url, feed, limit, texts=True)


@tool(
    group="web",
    effect=Effect.READ,
    untrusted=True,
    timeout_s=45.0,
    requires=_no_feedparser,
    keywords={"es": ("titulares", "noticias"), "en": ("headlines", "news")},
    examples={"es": ("¿qué noticias hay hoy?",), "en": ("what are today's headlines?",)},
)
async def news_headlines(
    ctx: ToolContext,
    topic: Annotated[
        str, Field(description="What the news shall be about; empty: the day's main ones", max_length=200)
    ] = "",
    language: Annotated[Literal["es", "en"], Field(description="Whose press")] = "es",
    limit: _Limit = 12,
) -> ToolOutput:
    """Lists the newest headlines, of a topic or the main ones, with source and address."""
    base = ctx.settings.web.news_url.rstrip("/")
    hl, gl, ceid = _EDITIONS[language]
    params = {"hl": hl, "gl": gl, "ceid": ceid}
    url = f"{base}/search?{urlencode({'q': topic, **params})}" if topic else f"{base}?{urlencode(params)}"
    _, feed = await _read(ctx, url)
    return _told(f"the news{f' about {topic}' if topic else ''}", feed, limit, texts=False)
