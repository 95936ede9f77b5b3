"""Where a picture comes from: a workspace file, an artifact, or an address; checked before any model sees it."""

from __future__ import annotations

import asyncio
import base64
import functools
from collections.abc import Sequence

from shared.errors import ModelError
from shared.llm.model import Block, Completion, ImageBlock, Message, Request, TextBlock
from shared.pictures import MOST_BYTES, MOST_PIXELS, look_at
from shared.settings import Settings
from workers.context import ToolContext
from workers.tools.http import get
from workers.tools.paths import read_bytes

_MAX_TOKENS = 2_000
_ACCEPT = "image/png,image/jpeg,image/webp,image/gif"


def no_vision(settings: Settings) -> str | None:
    """What is missing for models to look at pictures."""
    tiers = settings.models.tiers
    if not tiers or tiers.get("vision") or tiers.get("default"):  # no tier at all: the rehearsal model answers
        return None
    return "no model can look at images: set models.tiers.vision to one that can"


async def load(ctx: ToolContext, *, path: str = "", handle: str = "", url: str = "") -> ImageBlock:
    """The picture of exactly one source. Raises ModelError when it is none, of another kind, or too large."""
    if sum(map(bool, (path, handle, url))) != 1:
        raise ModelError("give exactly one of path, handle and url", code="bad_arguments")
    loop, pool = asyncio.get_running_loop(), ctx.services.blocking
    if path:
        read = functools.partial(read_bytes, ctx.settings.workspace.dir, path, MOST_BYTES)
        data = await loop.run_in_executor(pool, read)
    elif handle:
        data = (await ctx.services.artifacts.get(ctx.principal, handle)).data
    else:
        data = (await get(ctx, url, accept=_ACCEPT, max_bytes=MOST_BYTES)).body
    return await loop.run_in_executor(pool, _block, data, path or handle or url)


async def load_any(ctx: ToolContext, source: str) -> ImageBlock:
    """A picture by a text that may be any of the three: `a:…`, `http(s)://…`, or a path."""
    if source.startswith("a:"):
        return await load(ctx, handle=source)
    if source.lower().startswith(("http://", "https://")):
        return await load(ctx, url=source)
    return await load(ctx, path=source)


def _block(data: bytes, name: str) -> ImageBlock:
    if len(data) > MOST_BYTES:
        raise ModelError(f"{name} has {len(data)} bytes; the limit is {MOST_BYTES}", code="too_large")
    picture = look_at(data)
    if picture is None:
        raise ModelError(f"{name} is not a PNG, JPEG, GIF or WebP image", code="not_an_image")
    if picture.pixels > MOST_PIXELS:
        size = f"{picture.width} x {picture.height}"
        raise ModelError(f"{name} has {size} pixels; the limit is {MOST_PIXELS} in all", code="too_large")
    return ImageBlock(media_type=picture.media_type, data=base64.b64encode(data).decode("ascii"))


async def ask(ctx: ToolContext, system: str, images: Sequence[ImageBlock], question: str) -> tuple[str, Completion]:
    """What the `vision` tier answers, and the completion. Raises ModelError when it says nothing."""
    named = len(images) > 1
    blocks: list[Block] = []
    for number, image in enumerate(images, 1):
        blocks += [TextBlock(text=f"Image {number}:"), image] if named else [image]
    message = Message(role="user", blocks=(*blocks, TextBlock(text=question)))
    request = Request(model="", system=system, messages=(message,), max_tokens=_MAX_TOKENS)
    completion = await ctx.services.model.complete("vision", request)
    if not (answer := completion.message.text.strip()):
        raise ModelError("the model said nothing about the image", hint="ask a narrower question", code="no_answer")
    return answer, completion
