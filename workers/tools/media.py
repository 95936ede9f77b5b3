"""Pictures and sound by OpenAI-compatible services: make a picture, write down speech, read a text aloud."""

from __future__ import annotations

import asyncio
import base64
import binascii
import functools
from dataclasses import replace
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

import httpx
from pydantic import Field, JsonValue

from shared.compress import snippet
from shared.contract import Effect, GroupSpec
from shared.errors import ModelError
from shared.pictures import look_at
from shared.settings import Settings
from shared.tool_settings import MediaService, MediaSettings
from workers.context import ToolContext
from workers.declare import Requires, ToolOutput, tool
from workers.tools import examples_en, examples_es, words_en, words_es
from workers.tools.http import get
from workers.tools.media_bill import paid, price, seconds_of
from workers.tools.paths import read_bytes
from workers.tools.service import Service, call, key_of, malformed

GROUP = GroupSpec(
    name="media",
    title="Making pictures, speech to text, text to speech",
    keywords={"es": words_es.MEDIA, "en": words_en.MEDIA},
    examples={"es": examples_es.MEDIA, "en": examples_en.MEDIA},
)

_AUDIO = {
    "flac": "audio/flac", "m4a": "audio/mp4", "mp3": "audio/mpeg", "mp4": "audio/mp4", "mpeg": "audio/mpeg",
    "mpga": "audio/mpeg", "oga": "audio/ogg", "ogg": "audio/ogg", "opus": "audio/ogg", "wav": "audio/wav",
    "webm": "audio/webm",
}  # fmt: skip
"""What the services read, by the file's ending, which they go by."""
_ENDINGS = {
    **{kind: ending for ending, kind in reversed(_AUDIO.items())},
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/x-m4a": "m4a",
    "audio/ogg": "ogg",
    "audio/opus": "ogg",
    "video/mp4": "mp4",
    "video/webm": "webm",
}
_SPEECH = {"mp3": "audio/mpeg", "opus": "audio/ogg", "wav": "audio/wav", "flac": "audio/flac"}
_JSON_OVERHEAD = 100_000


def _service(settings: MediaSettings, part: MediaService, title: str) -> Service:
    variable = part.api_key_env or settings.api_key_env
    return Service(title, (part.base_url or settings.base_url).rstrip("/"), key_of(variable))


def _needs(name: Literal["image", "transcription", "speech"]) -> Requires:
    """What a tool says is missing until its service is configured."""

    def missing(settings: Settings) -> str | None:
        media: MediaSettings = settings.media
        part: MediaService = getattr(media, name)
        if not part.model:
            return f"no model is configured: set media.{name}.model"
        if not (part.base_url or media.base_url):
            return f"no service is configured: set media.base_url or media.{name}.base_url"
        variable = part.api_key_env or media.api_key_env
        if variable and not key_of(variable):
            return f"the environment variable {variable} is not set: it holds the key of the service"
        return None

    return missing


@tool(
    group="media",
    effect=Effect.IDEMPOTENT,
    timeout_s=180.0,
    requires=_needs("image"),
    keywords={"es": ("dibuja", "genera una imagen"), "en": ("draw", "generate an image")},
    examples={"es": ("dibuja un faro de noche",), "en": ("draw a lighthouse at night",)},
)
async def image_generate(
    ctx: ToolContext,
    prompt: Annotated[
        str, Field(description="What the picture shows, and in which style", min_length=1, max_length=4000)
    ],
    size: Annotated[
        str, Field(description="Such as 1024x1024; empty: the model's own", pattern=r"^$|^\d{2,4}x\d{2,4}$")
    ] = "",
) -> ToolOutput:
    """Makes a new picture from a description and keeps it as an artifact."""
    media = ctx.settings.media
    service = _service(media, media.image, "the image service")
    each = price(ctx.settings, "image")
    body: dict[str, Any] = {"model": media.image.model, "prompt": prompt, "n": 1, **({"size": size} if size else {})}
    most, path = media.max_bytes * 4 // 3 + _JSON_OVERHEAD, "/images/generations"
    async with paid(ctx, "image", each) as made:
        answer = await call(ctx, service, "POST", path, seconds=media.timeout_s, max_bytes=most, json=body)
        made.settle(each)
    data = await _picture(ctx, service, answer.json(service))
    if (picture := look_at(data)) is None:
        raise malformed(service, "it holds no PNG, JPEG, GIF or WebP picture")
    handle = await ctx.services.artifacts.put(ctx.principal, data, picture.media_type)
    value: dict[str, JsonValue] = {
        "handle": handle,
        "media_type": picture.media_type,
        "width": picture.width,
        "height": picture.height,
    }
    shape = f"{picture.media_type}, {picture.width} x {picture.height} pixels, {len(data)} bytes"
    return ToolOutput(value, f"The picture is made and kept as {handle} ({shape}).")


async def _picture(ctx: ToolContext, service: Service, answer: Any) -> bytes:
    """The bytes of the first picture: in the answer itself, or behind the address that it names."""
    media = ctx.settings.media
    try:
        first = answer["data"][0]
        encoded, url = first.get("b64_json"), first.get("url")
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise malformed(service, "there is no picture in it") from error
    if isinstance(encoded, str) and encoded:
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error as error:
            raise malformed(service, "its picture is not base64") from error
    if not isinstance(url, str) or not url:
        raise malformed(service, "its picture has neither content nor address")
    # What the service keeps on its own host is the operator's; whatever else it names is fetched as anybody's address.
    origin = httpx.URL(service.base_url).copy_with(raw_path=b"/")
    if url.startswith(str(origin)):
        own = replace(service, base_url=str(origin).rstrip("/"), key="")
        path = url.removeprefix(own.base_url)
        return (await call(ctx, own, "GET", path, seconds=media.timeout_s, max_bytes=media.max_bytes)).body
    return (await get(ctx, url, accept="image/*", max_bytes=media.max_bytes)).body


async def _sound(ctx: ToolContext, handle: str, path: str) -> tuple[bytes, str]:
    """A recording, and its ending. Raises ModelError for what is no sound, and for too much of it."""
    if bool(path) == bool(handle):
        raise ModelError("give either path or handle", code="bad_arguments")
    most = ctx.settings.media.max_bytes
    if path:
        read = functools.partial(read_bytes, ctx.settings.workspace.dir, path, most)
        data = await asyncio.get_running_loop().run_in_executor(ctx.services.blocking, read)
        ending = PurePosixPath(path).suffix.lstrip(".").lower()
        what = path
    else:
        artifact = await ctx.services.artifacts.get(ctx.principal, handle)
        data, ending = artifact.data, _ENDINGS.get(artifact.media_type.split(";")[0].strip().lower(), "")
        what = f"{handle} ({artifact.media_type})"
    if ending not in _AUDIO:
        kinds = ", ".join(_AUDIO)
        raise ModelError(f"{what} is no recording that can be read", hint=f"it must be {kinds}", code="not_audio")
    if not data or len(data) > most:
        raise ModelError(f"{what} has {len(data)} bytes; it must be 1 to {most}", code="too_large")
    return data, ending


def _for(minute: Decimal | None, seconds: float) -> Decimal | None:
    """What so much of a recording costs."""
    return None if minute is None else minute * Decimal(str(seconds)) / 60


@tool(
    group="media",
    effect=Effect.READ,
    untrusted=True,
    timeout_s=300.0,
    requires=_needs("transcription"),
    keywords={"es": ("transcribe", "nota de voz"), "en": ("transcribe", "voice memo")},
    examples={"es": ("transcribe reunion.mp3",), "en": ("transcribe meeting.mp3",)},
)
async def speech_to_text(
    ctx: ToolContext,
    path: Annotated[str, Field(description="Sound file, relative to the workspace")] = "",
    handle: Annotated[str, Field(description="Or an attached recording: its handle a:…")] = "",
    language: Annotated[
        str, Field(description="ISO 639-1 code such as es, if it is known", pattern=r"^$|^[a-z]{2,3}$")
    ] = "",
    hint: Annotated[str, Field(description="Names and rare words that occur in it", max_length=800)] = "",
) -> ToolOutput:
    """Writes down what is said in a recording."""
    media = ctx.settings.media
    service = _service(media, media.transcription, "the transcription service")
    minute = price(ctx.settings, "transcription")
    data, ending = await _sound(ctx, handle, path)
    form = {"model": media.transcription.model, "response_format": "json", "language": language, "prompt": hint}
    async with paid(ctx, "transcription", _for(minute, seconds_of(data, ending, None)[0])) as made:
        answer = await call(
            ctx,
            service,
            "POST",
            "/audio/transcriptions",
            seconds=media.timeout_s,
            max_bytes=media.max_bytes,
            data={name: value for name, value in form.items() if value},
            files={"file": (f"recording.{ending}", data, _AUDIO[ending])},
        )
        found = answer.json(service)
        seconds, guessed = seconds_of(data, ending, found)
        made.settle(_for(minute, seconds), estimated=guessed)
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        raise malformed(service, "there is no text in it")
    text = found["text"].strip()
    return ToolOutput({"text": text}, f"What is said in {path or handle}:\n{text or '(nothing)'}")


@tool(
    group="media",
    effect=Effect.IDEMPOTENT,
    timeout_s=180.0,
    requires=_needs("speech"),
    keywords={"es": ("en voz alta", "con voz"), "en": ("read aloud", "text to speech")},
    examples={"es": ("lee esto en voz alta",), "en": ("read this aloud",)},
)
async def text_to_speech(
    ctx: ToolContext,
    text: Annotated[str, Field(description="What is to be said", min_length=1, max_length=4096)],
    voice: Annotated[str, Field(description="A voice of the service; empty: the usual one", max_length=64)] = "",
    format: Annotated[Literal["mp3", "opus", "wav", "flac"], Field(description="Kind of sound file")] = "mp3",
) -> ToolOutput:
    """Reads a text aloud and keeps the sound file as an artifact."""
    media = ctx.settings.media
    service = _service(media, media.speech, "the speech service")
    million = price(ctx.settings, "speech")
    dollars = None if million is None else million * len(text) / 1_000_000
    body = {
        "model": media.speech.model,
        "input": text,
        "voice": voice or media.speech.voice,
        "response_format": format,
    }
    async with paid(ctx, "speech", dollars) as made:
        answer = await call(
            ctx, service, "POST", "/audio/speech", seconds=media.timeout_s, max_bytes=media.max_bytes, json=body
        )
        made.settle(dollars)
    if not answer.body or answer.media_type.startswith(("application/json", "text/")):
        raise malformed(service, f"it is {answer.media_type or 'empty'}, not sound")
    kind = answer.media_type if answer.media_type.startswith("audio/") else _SPEECH[format]
    handle = await ctx.services.artifacts.put(ctx.principal, answer.body, kind)
    value: dict[str, JsonValue] = {"handle": handle, "media_type": kind, "size": len(answer.body)}
    return ToolOutput(value, f"Kept as {handle} ({kind}, {len(answer.body)} bytes): {snippet(text, 60)}")
