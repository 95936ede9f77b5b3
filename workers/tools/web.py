"""The web: one page by its address, as readable text. Search, feeds, weather have theirs."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

from pydantic import Field, JsonValue

from shared.compress import clean_text
from shared.contract import Effect, GroupSpec
from shared.errors import ModelError
from shared.pdf import missing as no_pdf
from shared.pdf import read_pdf
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import examples_en, examples_es, words_en, words_es
from workers.tools.http import Page, get
from workers.tools.loglines import shorten_log
from workers.tools.readable import readable

GROUP = GroupSpec(
    name="web",
    title="Web",
    keywords={"es": words_es.WEB, "en": words_en.WEB},
    examples={"es": examples_es.WEB, "en": examples_en.WEB},
)

_HTML = ("text/html", "application/xhtml+xml", "")
_TEXT = ("application/xml", "application/javascript", "application/x-yaml", "application/yaml", "application/toml")


def _is_json(page: Page) -> bool:
    return page.media_type == "application/json" or page.media_type.endswith("+json")


def _json_output(page: Page) -> ToolOutput:
    try:
        content: Any = json.loads(page.text)
        json.dumps(content, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{page.url} says it is JSON but is not: {error}", code="bad_response") from error
    return ToolOutput({"url": page.url, "json": content})


async def _html_output(ctx: ToolContext, page: Page) -> ToolOutput:
    loop = asyncio.get_running_loop()
    article = await loop.run_in_executor(ctx.services.blocking, readable, page.text)
    value: dict[str, JsonValue] = {"url": page.url, "title": article.title, "text": article.text}
    shown = f"{article.title}\n\n{article.text}".strip() or "(the page holds no text; it may need a browser)"
    return ToolOutput(value, f"{page.url}\n{shown}")


async def _pdf_output(ctx: ToolContext, page: Page, handle: str) -> ToolOutput:
    bounds = ctx.settings.attachments
    seconds = min(bounds.pdf_seconds, max(1.0, ctx.remaining_s - 3))
    pdf = await read_pdf(page.body, pages=bounds.pdf_pages, chars=bounds.text_chars, seconds=seconds)
    value: dict[str, JsonValue] = {"url": page.url, "text": pdf.text, "pages": pdf.pages, "artifact": handle}
    part = f" [pages 1 to {pdf.read} of {pdf.pages}]" if pdf.read < pdf.pages else ""
    shown = "(no page has text: it is a scan)" if pdf.empty else pdf.text
    return ToolOutput(value, f"PDF of {pdf.pages} pages, kept as {handle}.{part}\n{page.url}\n{shown}")


@tool(
    group="web",
    effect=Effect.READ,
    untrusted=True,
    timeout_s=45.0,
    compress=shorten_log,
    keywords={"es": ("abrir", "leer página", "url"), "en": ("fetch", "open", "url")},
    examples={"es": ("lee https://example.org",), "en": ("read https://example.org",)},
)
async def web_fetch(
    ctx: ToolContext,
    url: Annotated[str, Field(description="http or https address of a public page", min_length=4, max_length=4000)],
) -> ToolOutput:
    """Fetches one public web page or PDF and returns its title and readable text; JSON is returned as JSON."""
    page = await get(ctx, url)
    if _is_json(page):
        return _json_output(page)
    if page.media_type in _HTML:
        return await _html_output(ctx, page)
    if page.media_type.startswith("text/") or page.media_type in _TEXT or page.media_type.endswith("+xml"):
        text = page.text
        return ToolOutput({"url": page.url, "title": "", "text": text}, f"{page.url}\n{clean_text(text)}")
    handle = await ctx.services.artifacts.put(ctx.principal, page.body, page.media_type)
    if page.media_type == "application/pdf" and no_pdf() is None:
        return await _pdf_output(ctx, page, handle)
    value: dict[str, JsonValue] = {"url": page.url, "media_type": page.media_type, "artifact": handle}
    what = f"{page.url} is {page.media_type}, {len(page.body)} bytes, kept as {handle}."
    return ToolOutput(value, what + (" image_describe can look at it." if page.media_type.startswith("image/") else ""))
