"""Changing files of the workspace: write, exact replacement, patch. `workers.tools.writes` says how they are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue

from shared.contract import Effect
from shared.errors import ModelError
from shared.settings import Settings
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import patch as diffs
from workers.tools import writes
from workers.tools.writes import Change

_BOM = "\ufeff"

_Path = Annotated[str, Field(description="Path relative to the workspace", min_length=1)]


def _not_writable(settings: Settings) -> str | None:
    if not settings.workspace.dir.is_dir():
        return f"the workspace folder {settings.workspace.dir} does not exist; create it or set workspace.dir"
    return None if settings.workspace.writable else "no folder may be written; set workspace.writable"


def _text(path: Path | str, data: bytes) -> str:
    """The text of a file that is to be changed: only UTF-8 can be put back as it was."""
    if b"\0" in data:
        raise ModelError(f"{path} is not text", code="binary")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is not UTF-8", hint="write it anew with file_write", code="encoding") from error


def _bytes(text: str, path: Path | str, limit: int) -> bytes:
    data = text.encode()
    if b"\0" in data:
        raise ModelError("the text holds a NUL character", hint="leave it out", code="binary")
    if len(data) > limit:
        raise ModelError(f"{path} would have {len(data)} bytes; the limit is {limit}", code="too_large")
    return data


@tool(
    group="files",
    effect=Effect.WRITE,
    requires=_not_writable,
    keywords={"es": ("escribe", "crea el archivo"), "en": ("write", "create file")},
    examples={"es": ("crea un fichero lista.txt",), "en": ("create a file list.txt",)},
)
def file_write(
    ctx: ToolContext,
    path: _Path,
    text: Annotated[str, Field(description="The whole content")],
    overwrite: Annotated[bool, Field(description="Replace the file if it exists")] = False,
) -> ToolOutput:
    """Writes a whole text file of the workspace, with the folders on the way."""
    settings = ctx.settings.workspace
    base, relative = writes.writable(settings, path)
    data = _bytes(text, path, settings.max_file_bytes)
    old = writes.read(base, relative, settings.max_file_bytes)
    if old is not None and old != data and not overwrite:
        raise ModelError(
            f"{relative} exists already", hint="set overwrite, use file_edit, or choose another path", code="exists"
        )
    if old != data:
        writes.apply(base, [Change(relative, old, data)])
    done = "unchanged" if old == data else "created" if old is None else "replaced"
    value: dict[str, JsonValue] = {"path": relative.as_posix(), "bytes": len(data), "done": done}
    return ToolOutput(value, f"{relative.as_posix()}: {done}, {len(data)} bytes.")


@tool(
    group="files",
    effect=Effect.WRITE,
    requires=_not_writable,
    keywords={"es": ("edita", "reemplaza en el archivo"), "en": ("edit", "replace in file")},
    examples={"es": ("cambia el título en informe.md",), "en": ("change the title in report.md",)},
)
def file_edit(
    ctx: ToolContext,
    path: _Path,
    old: Annotated[str, Field(description="Text to replace, exactly as in the file, long enough to occur once")],
    new: Annotated[str, Field(description="Text in its place")],
    every: Annotated[bool, Field(description="Replace every occurrence, not exactly one")] = False,
) -> ToolOutput:
    """Replaces an exact piece of text in a file of the workspace."""
    if not old or old == new:
        raise ModelError("old and new must differ, and old must not be empty", code="bad_arguments")
    settings = ctx.settings.workspace
    base, relative = writes.writable(settings, path)
    data = writes.read(base, relative, settings.max_file_bytes)
    if data is None:
        raise ModelError(f"there is no {relative}", hint="file_write makes files", code="not_found")
    text = _text(relative, data)
    if old not in text and "\r\n" in text and "\r" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    count = text.count(old)
    if count == 0:
        raise ModelError(f"old is not in {relative}", hint="read the file and copy it exactly", code="not_found")
    if count > 1 and not every:
        raise ModelError(
            f"old is {count} times in {relative}",
            hint="take in more of its surroundings, or set every",
            code="ambiguous",
        )
    changed = _bytes(text.replace(old, new), relative, settings.max_file_bytes)
    writes.apply(base, [Change(relative, data, changed)])
    value: dict[str, JsonValue] = {"path": relative.as_posix(), "replaced": count, "bytes": len(changed)}
    return ToolOutput(value, f"{relative.as_posix()}: replaced {count} {'place' if count == 1 else 'places'}.")


@tool(
    group="files",
    effect=Effect.WRITE,
    requires=_not_writable,
    keywords={"es": ("parche", "aplica el parche", "diff"), "en": ("patch", "apply the patch", "diff")},
    examples={"es": ("aplica este parche",), "en": ("apply this patch",)},
)
def file_patch(
    ctx: ToolContext,
    patch: Annotated[
        str, Field(description="Unified diff: `--- a/path`, `+++ b/path` (/dev/null for a new or removed file), hunks")
    ],
) -> ToolOutput:
    """Applies a unified diff to files of the workspace: all of it, or nothing if a part does not fit."""
    settings = ctx.settings.workspace
    changes: dict[Path, Change] = {}
    base = settings.dir
    for file in diffs.parse(patch):
        base, relative = writes.writable(settings, file.path)
        old = writes.read(base, relative, settings.max_file_bytes)
        text = None if old is None else _text(relative, old)
        bom = _BOM if text is not None and text.startswith(_BOM) else ""
        after = diffs.applied(file, None if text is None else text.removeprefix(_BOM))
        new = None if after is None else _bytes(bom + after, relative, settings.max_file_bytes)
        if relative in changes:
            raise diffs.bad(f"{relative} occurs under two names", "put all its hunks behind one header")
        changes[relative] = Change(relative, old, new)
    writes.apply(base, list(changes.values()))
    words = {
        one.path.as_posix(): "removed" if one.new is None else "created" if one.old is None else "changed"
        for one in changes.values()
    }
    files: list[JsonValue] = [{"path": path, "done": done} for path, done in words.items()]
    return ToolOutput({"files": files}, "\n".join(f"{path}: {done}" for path, done in words.items()))
