"""Reddit by its public pages in JSON: what trends, a subreddit's posts, search. Without an account."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from shared.compress import snippet
from shared.contract import Effect, GroupSpec
from shared.errors import ModelError
from shared.settings import Settings
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import examples_en, examples_es, words_en, words_es
from workers.tools.service import Service, call, malformed

GROUP = GroupSpec(
    name="reddit",
    title="Reddit",
    keywords={"es": words_es.REDDIT, "en": words_en.REDDIT},
    examples={"es": examples_es.REDDIT, "en": examples_en.REDDIT},
)

Period = Literal["hour", "day", "week", "month", "year", "all"]
_NAME = re.compile(r"[A-Za-z0-9_]{2,21}")
_MAX_BYTES = 5_000_000
_TEXT_CHARS = 300
_VALUE_CHARS = 2_000

_Limit = Annotated[int, Field(description="How many posts at most", ge=1, le=50)]
_Period = Annotated[Period, Field(description="The time that `top` and searches look at")]


def _no_reddit(settings: Settings) -> str | None:
    return None if settings.reddit.url else "set reddit.url (https://www.reddit.com)"


async def _listing(ctx: ToolContext, path: str, source: str, **params: Any) -> ToolOutput:
    settings = ctx.settings.reddit
    service = Service("reddit", settings.url.rstrip("/"))
    try:
        answer = await call(
            ctx,
            service,
            "GET",
            path,
            seconds=settings.timeout_s,
            max_bytes=_MAX_BYTES,
            params={**params, "raw_json": 1},
            headers={"User-Agent": settings.user_agent, "Accept": "application/json"},
        )
    except ModelError as error:
        raise _explained(error, source) from error
    found = answer.json(service)
    data = found.get("data") if isinstance(found, dict) else None
    children = data.get("children") if isinstance(data, dict) else None
    if not isinstance(children, list):
        raise malformed(service, "it is not a listing")
    posts = [_post(child["data"], service) for child in children if _is_post(child)]
    lines = [_shown(number, post) for number, post in enumerate(posts, 1)]
    value: dict[str, JsonValue] = {"posts": [*posts]}
    return ToolOutput(value, "\n".join([f"{source}:", *lines]) if posts else f"There are no posts in {source}.")


def _explained(error: ModelError, source: str) -> ModelError:
    """What a refusal means here."""
    if error.code == "auth_refused":
        hint = "it is private, or reddit refuses this host; tell the user"
        return ModelError(f"reddit does not show {source}", hint=hint, code="auth_refused")
    if error.code == "refused":
        return ModelError(f"reddit has no {source}", hint="check the name", code="not_found")
    return error


def _is_post(child: Any) -> bool:
    return isinstance(child, dict) and child.get("kind") == "t3" and isinstance(child.get("data"), dict)


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _post(data: dict[str, Any], service: Service) -> dict[str, JsonValue]:
    link = str(data.get("url") or "")
    made = datetime.fromtimestamp(_number(data.get("created_utc")), UTC).isoformat(timespec="minutes")
    return {
        "title": snippet(str(data.get("title") or ""), _TEXT_CHARS),
        "subreddit": str(data.get("subreddit") or ""),
        "author": str(data.get("author") or ""),
        "score": _number(data.get("score")),
        "comments": _number(data.get("num_comments")),
        "date": made.replace("+00:00", "Z"),
        "url": f"{service.base_url}{data.get('permalink') or ''}",
        "link": "" if data.get("is_self") else link,
        "text": str(data.get("selftext") or "")[:_VALUE_CHARS],
        "adult": bool(data.get("over_18")),
    }


def _shown(number: int, post: dict[str, JsonValue]) -> str:
    counts = f"{post['score']} points, {post['comments']} comments, {str(post['date'])[:10]}"
    adult = ", adult" if post["adult"] else ""
    lines = [f"{number}. {post['title']} (r/{post['subreddit']}, {counts}{adult})", f"   {post['url']}"]
    lines += [f"   {post['link']}"] if post["link"] else []
    lines += [f"   {snippet(str(post['text']), _TEXT_CHARS)}"] if post["text"] else []
    return "\n".join(lines)


def _subreddit(name: str) -> str:
    name = name.strip().removeprefix("/").removeprefix("r/").strip("/")
    if not _NAME.fullmatch(name):
        raise ModelError(f"{name[:60]!r} is not the name of a subreddit", hint="such as python", code="bad_arguments")
    return name


@tool(
    group="reddit",
    effect=Effect.READ,
    untrusted=True,
    requires=_no_reddit,
    keywords={"es": ("tendencias",), "en": ("trending",)},
    examples={"es": ("tendencias de reddit",), "en": ("what trends on reddit",)},
)
async def reddit_trending(ctx: ToolContext, limit: _Limit = 15) -> ToolOutput:
    """Lists the posts that are popular on reddit right now."""
    return await _listing(ctx, "/r/popular/hot.json", "r/popular", limit=limit)


@tool(
    group="reddit",
    effect=Effect.READ,
    untrusted=True,
    requires=_no_reddit,
    keywords={"es": ("subreddit",), "en": ("subreddit",)},
    examples={"es": ("posts de r/linux",), "en": ("posts of r/linux",)},
)
async def reddit_subreddit(
    ctx: ToolContext,
    name: Annotated[str, Field(description="The subreddit, such as python")],
    sort: Annotated[Literal["hot", "new", "top", "rising"], Field(description="Which posts first")] = "hot",
    period: _Period = "week",
    limit: _Limit = 15,
) -> ToolOutput:
    """Lists the posts of a subreddit: title, points, comments, address and beginning."""
    subreddit = _subreddit(name)
    more = {"t": period} if sort == "top" else {}
    return await _listing(ctx, f"/r/{subreddit}/{sort}.json", f"r/{subreddit}", limit=limit, **more)


@tool(
    group="reddit",
    effect=Effect.READ,
    untrusted=True,
    requires=_no_reddit,
    keywords={"es": ("buscar en reddit",), "en": ("search reddit",)},
    examples={"es": ("busca en reddit teclados silenciosos",), "en": ("search reddit for quiet keyboards",)},
)
async def reddit_search(
    ctx: ToolContext,
    query: Annotated[str, Field(description="What to search for", min_length=1, max_length=400)],
    subreddit: Annotated[str, Field(description="Only in this subreddit")] = "",
    sort: Annotated[
        Literal["relevance", "hot", "top", "new", "comments"], Field(description="Which first")
    ] = "relevance",
    period: _Period = "all",
    limit: _Limit = 15,
) -> ToolOutput:
    """Searches the posts of reddit, or of one subreddit."""
    path = f"/r/{_subreddit(subreddit)}/search.json" if subreddit else "/search.json"
    more = {"restrict_sr": 1} if subreddit else {}
    return await _listing(
        ctx, path, f"a reddit search for {query!r}", q=query, sort=sort, t=period, limit=limit, **more
    )
