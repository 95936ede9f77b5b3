"""Objects on an S3 server: each user's lie below a prefix of their own, which no key leads out of."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import mimetypes
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from pydantic import Field, JsonValue

from shared.contract import Effect, GroupSpec
from shared.errors import ModelError
from shared.settings import Settings, WorkspaceSettings
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import examples_en, examples_es, paths, words_en, words_es, writes
from workers.tools.s3 import Bucket, checked_key
from workers.tools.service import key_of

GROUP = GroupSpec(
    name="storage",
    title="Cloud storage (S3)",
    keywords={"es": words_es.STORAGE, "en": words_en.STORAGE},
    examples={"es": examples_es.STORAGE, "en": examples_en.STORAGE},
)

_Key = Annotated[str, Field(description="The object's key, such as reports/2026.pdf", min_length=1, max_length=500)]


T = TypeVar("T")


def _not_configured(settings: Settings) -> str | None:
    storage = settings.storage
    if not storage.url:
        return "no S3 server is configured: set storage.url and storage.bucket"
    for variable in (storage.access_key_env, storage.secret_key_env):
        if not key_of(variable):
            return f"the environment variable {variable} is not set: it holds a key of the S3 server"
    if importlib.util.find_spec("minio") is None:
        return "the S3 client is not installed: pip install 'capataz[storage]'"
    return None


async def _do(ctx: ToolContext, work: Callable[[Bucket], T]) -> T:
    """Runs blocking work on this user's part of the bucket."""
    bucket = functools.partial(Bucket, ctx.settings.storage, ctx.principal, ctx.remaining_s)
    return await asyncio.get_running_loop().run_in_executor(ctx.services.blocking, lambda: work(bucket()))


async def _content(ctx: ToolContext, handle: str, path: str, text: str, key: str) -> tuple[bytes, str]:
    """What is to be stored, and its media type."""
    if sum(map(bool, (handle, path, text))) != 1:
        raise ModelError("give exactly one of handle, path and text", code="bad_arguments")
    most = ctx.settings.storage.max_bytes
    if handle:
        artifact = await ctx.services.artifacts.get(ctx.principal, handle)
        data, media_type = artifact.data, artifact.media_type
    elif path:
        read = functools.partial(paths.read_bytes, ctx.settings.workspace.dir, path, most)
        data = await asyncio.get_running_loop().run_in_executor(ctx.services.blocking, read)
        media_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
    else:
        data, media_type = text.encode(), mimetypes.guess_type(key)[0] or "text/plain; charset=utf-8"
    if len(data) > most:
        raise ModelError(f"it has {len(data)} bytes; the limit is {most}", code="too_large")
    return data, media_type


@tool(
    group="storage",
    effect=Effect.IDEMPOTENT,
    timeout_s=60.0,
    requires=_not_configured,
    keywords={"es": ("subir a la nube", "sube a la nube"), "en": ("upload", "upload to the cloud")},
    examples={"es": ("sube factura.pdf a la nube",), "en": ("upload invoice.pdf to the cloud",)},
)
async def storage_upload(
    ctx: ToolContext,
    key: _Key,
    handle: Annotated[str, Field(description="What to store: a result or attachment, by its handle a:…")] = "",
    path: Annotated[str, Field(description="Or a file of the workspace")] = "",
    text: Annotated[str, Field(description="Or this text")] = "",
    overwrite: Annotated[bool, Field(description="Replace an object of that key")] = False,
) -> ToolOutput:
    """Stores an artifact, a workspace file or a text in the user's cloud storage."""
    name = checked_key(key)
    data, media_type = await _content(ctx, handle, path, text, name)
    new = await _do(ctx, lambda bucket: bucket.put(name, data, media_type, overwrite=overwrite))
    value: dict[str, JsonValue] = {"key": name, "size": len(data), "media_type": media_type, "stored": new}
    done = "Stored" if new else "There already, with the same content:"
    return ToolOutput(value, f"{done} {name} ({len(data)} bytes).")


def _save(workspace: WorkspaceSettings, path: str, data: bytes, *, overwrite: bool) -> str:
    """Writes a workspace file and returns its path; the same bytes once more are no overwriting."""
    base, relative = writes.writable(workspace, path)
    if len(data) > workspace.max_file_bytes:
        raise ModelError(
            f"{relative} would have {len(data)} bytes; the limit is {workspace.max_file_bytes}",
            hint="leave path out, to keep it as an artifact",
            code="too_large",
        )
    old = writes.read(base, relative, workspace.max_file_bytes)
    if old is not None and old != data and not overwrite:
        raise ModelError(f"{relative} exists already", hint="choose another path, or set overwrite", code="exists")
    if old != data:
        writes.apply(base, [writes.Change(relative, old, data)])
    return relative.as_posix()


@tool(
    group="storage",
    effect=Effect.IDEMPOTENT,
    timeout_s=60.0,
    requires=_not_configured,
    keywords={"es": ("bajar de la nube", "descarga de la nube"), "en": ("download from the cloud", "get from storage")},
    examples={"es": ("baja copia.zip del bucket",), "en": ("get backup.zip from the bucket",)},
)
async def storage_download(
    ctx: ToolContext,
    key: _Key,
    path: Annotated[str, Field(description="Workspace file to write; empty: keep it as an artifact")] = "",
    overwrite: Annotated[bool, Field(description="Replace a file of that path")] = False,
) -> ToolOutput:
    """Gets an object of the user's cloud storage, as an artifact or into a workspace file."""
    name = checked_key(key)
    data, media_type = await _do(ctx, lambda bucket: bucket.get(name))
    value: dict[str, JsonValue] = {"key": name, "size": len(data), "media_type": media_type}
    if path:
        write = functools.partial(_save, ctx.settings.workspace, path, data, overwrite=overwrite)
        value["path"] = where = await asyncio.get_running_loop().run_in_executor(ctx.services.blocking, write)
    else:
        value["handle"] = where = await ctx.services.artifacts.put(ctx.principal, data, media_type)
    return ToolOutput(value, f"{name} ({media_type}, {len(data)} bytes) is now {where}.")


@tool(
    group="storage",
    effect=Effect.READ,
    untrusted=True,
    requires=_not_configured,
    keywords={"es": ("qué hay en la nube", "listar"), "en": ("list", "what is in storage")},
    examples={"es": ("¿qué hay en el bucket?",), "en": ("what is in the bucket?",)},
)
async def storage_list(
    ctx: ToolContext,
    prefix: Annotated[str, Field(description="Only keys that begin with it, such as reports/", max_length=500)] = "",
    after: Annotated[str, Field(description="Go on behind this key", max_length=500)] = "",
    limit: Annotated[int, Field(description="How many at most", ge=1, le=1000)] = 100,
) -> ToolOutput:
    """Lists the objects of the user's cloud storage, by key, with size and date."""
    begin, behind = checked_key(prefix, folder=True), checked_key(after) if after else ""
    found, more = await _do(ctx, lambda bucket: bucket.list(begin, behind, limit))
    lines = [f"{one.key} ({one.size} bytes, {one.modified[:16]})" for one in found]
    if more:
        lines.append(f"[more; go on with after={found[-1].key}]")
    objects: list[JsonValue] = [{"key": one.key, "size": one.size, "modified": one.modified} for one in found]
    return ToolOutput({"objects": objects, "more": more}, "\n".join(lines) or "Nothing is stored there.")


@tool(
    group="storage",
    effect=Effect.IDEMPOTENT,
    requires=_not_configured,
    keywords={"es": ("borrar de la nube", "borra"), "en": ("delete from storage", "remove")},
    examples={"es": ("borra copia.zip de la nube",), "en": ("delete backup.zip from the cloud",)},
)
async def storage_delete(ctx: ToolContext, key: _Key) -> ToolOutput:
    """Deletes one object of the user's cloud storage for good."""
    name = checked_key(key)
    deleted = await _do(ctx, lambda bucket: bucket.delete(name))
    return ToolOutput(
        {"key": name, "deleted": deleted}, f"Deleted {name}." if deleted else f"There is no {name} (any more)."
    )


@tool(
    group="storage",
    effect=Effect.IDEMPOTENT,  # it changes nothing, but gives access away: not to be started before the model is done
    requires=_not_configured,
    keywords={"es": ("enlace para compartir", "compartir"), "en": ("share link", "share")},
    examples={"es": ("dame un enlace a contrato.pdf",), "en": ("give me a link to contract.pdf",)},
)
async def storage_share(
    ctx: ToolContext,
    key: _Key,
    expires_s: Annotated[int, Field(description="Seconds that the link works", ge=60, le=604_800)] = 3600,
) -> ToolOutput:
    """Makes a link by which anybody who has it can read one stored object until it expires."""
    name, most = checked_key(key), ctx.settings.storage.max_share_s
    if expires_s > most:
        raise ModelError(f"a link may work for {most} s at most", hint="ask for less", code="bad_arguments")
    url = await _do(ctx, lambda bucket: bucket.share(name, expires_s))
    until = datetime.fromtimestamp(ctx.services.now() + expires_s, UTC).isoformat(timespec="minutes")
    value: dict[str, JsonValue] = {"key": name, "url": url, "expires": until}
    return ToolOutput(value, f"Anybody who has this link can read {name} until {until}:\n{url}")
