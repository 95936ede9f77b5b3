"""Reading files of the workspace; `workers.tools.paths` keeps every path inside it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any

import regex  # type: ignore[import-untyped]
from pydantic import Field, JsonValue

from shared.contract import Effect, GroupSpec
from shared.errors import ModelError
from shared.settings import Settings
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import examples_en, examples_es, paths, words_en, words_es
from workers.tools.loglines import shorten_log

GROUP = GroupSpec(
    name="files",
    title="Files",
    keywords={"es": words_es.FILES, "en": words_en.FILES},
    examples={"es": examples_es.FILES, "en": examples_en.FILES},
)

_BINARY_PROBE = 8_192
_LINE_CHARS = 300
_MAX_ENTRIES = 500
_MAX_WALKED = 20_000
_GREP_BYTES = 50_000_000
_GREP_SECONDS = 10.0

_Path = Annotated[str, Field(description="Path relative to the workspace")]


def _no_workspace(settings: Settings) -> str | None:
    if settings.workspace.dir.is_dir():
        return None
    return f"the workspace folder {settings.workspace.dir} does not exist; create it or set workspace.dir"


def decode(data: bytes) -> str | None:
    """The text of a file, None when it is binary. Without a byte order mark it is UTF-8, else Latin (cp1252)."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data[:_BINARY_PROBE]:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


@tool(
    group="files",
    effect=Effect.READ,
    untrusted=True,
    requires=_no_workspace,
    compress=shorten_log,
    keywords={"es": ("leer", "lee", "abre"), "en": ("read", "open")},
    examples={"es": ("lee notas.txt",), "en": ("read notes.txt",)},
)
def file_read(
    ctx: ToolContext,
    path: _Path,
    offset: Annotated[int, Field(description="First line, counted from 1", ge=1)] = 1,
    limit: Annotated[int, Field(description="How many lines", ge=1, le=10_000)] = 2_000,
) -> ToolOutput:
    """Reads a text file of the workspace, all of it or some lines."""
    settings = ctx.settings.workspace
    text = decode(paths.read_bytes(settings.dir, path, settings.max_file_bytes))
    if text is None:
        raise ModelError(f"{path} is not text", hint="for an image use image_describe", code="binary")
    lines = text.splitlines(keepends=True)
    part = "".join(lines[offset - 1 : offset - 1 + limit])
    if offset > max(1, len(lines)):
        raise ModelError(f"{path} ends with line {len(lines)}", hint="use a smaller offset", code="bad_arguments")
    last = min(len(lines), offset - 1 + limit)
    value: dict[str, JsonValue] = {"path": path, "text": part, "first": offset, "last": last, "lines": len(lines)}
    if offset > 1 or last < len(lines):
        more = f"; go on with offset={last + 1}" if last < len(lines) else ""
        return ToolOutput(value, f"{part.rstrip()}\n[lines {offset} to {last} of {len(lines)}{more}]")
    return ToolOutput(value, part or "[the file is empty]")


@tool(
    group="files",
    effect=Effect.READ,
    untrusted=True,
    requires=_no_workspace,
    keywords={"es": ("listar", "contenido"), "en": ("list", "ls", "dir")},
    examples={"es": ("¿qué hay en la carpeta?",), "en": ("what is in the folder?",)},
)
def file_list(
    ctx: ToolContext,
    path: Annotated[str, Field(description="Folder, relative to the workspace")] = ".",
) -> ToolOutput:
    """Lists the files and folders in one folder of the workspace, with sizes in bytes."""
    base, relative = paths.contained(ctx.settings.workspace.dir, path)
    found = paths.entries(base, relative)
    shown = found[:_MAX_ENTRIES]
    lines = [f"{one.path}/" if one.folder else f"{one.path} ({one.size} bytes)" for one in shown]
    if len(found) > len(shown):
        lines.append(f"[{len(found) - len(shown)} more; narrow it with file_glob]")
    entries: list[JsonValue] = [
        {"path": one.path, "kind": "folder" if one.folder else "file", "size": one.size} for one in shown
    ]
    return ToolOutput({"path": path, "entries": entries, "total": len(found)}, "\n".join(lines) or "[empty]")


@tool(
    group="files",
    effect=Effect.READ,
    untrusted=True,
    requires=_no_workspace,
    keywords={"es": ("encuentra archivos",), "en": ("glob", "find files")},
    examples={"es": ("encuentra todos los pdf",), "en": ("find all pdf files",)},
)
def file_glob(
    ctx: ToolContext,
    pattern: Annotated[
        str, Field(description='Such as "*.md" (any folder) or "reports/**/2026*.txt"', min_length=1, max_length=500)
    ],
) -> ToolOutput:
    """Finds files of the workspace by name pattern."""
    base, relative = paths.contained(ctx.settings.workspace.dir, ".")
    found = [
        one.path
        for one in paths.walk(base, relative, _MAX_WALKED)
        if not one.folder and paths.matches(one.path, pattern)
    ]
    note = [f"[{len(found) - _MAX_ENTRIES} more]"] if len(found) > _MAX_ENTRIES else []
    text = "\n".join(found[:_MAX_ENTRIES] + note)
    files: list[JsonValue] = [*found[:_MAX_ENTRIES]]
    return ToolOutput({"files": files, "total": len(found)}, text or f"No file matches {pattern}.")


class _Grep:
    """One search: bounded in time, in bytes read and in matches."""

    def __init__(self, pattern: Any, base: Path, most: int, max_bytes: int, seconds: float) -> None:
        self.pattern, self.base, self.most, self.max_bytes = pattern, base, most, max_bytes
        self.until = time.monotonic() + seconds
        self.left = _GREP_BYTES
        self.matches: list[dict[str, JsonValue]] = []
        self.skipped = 0

    def file(self, relative: Path) -> None:
        """Adds the matching lines of one file; what is binary, too large or unreadable is counted as skipped."""
        try:
            with os.fdopen(paths.open_beneath(self.base, relative), "rb") as file:
                data = file.read(self.max_bytes + 1)
        except ModelError:
            self.skipped += 1
            return
        self.left -= len(data)
        text = decode(data) if len(data) <= self.max_bytes else None
        if text is None:
            self.skipped += 1
            return
        for number, line in enumerate(text.splitlines(), 1):
            left = self.until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            # This engine gives up at the timeout; the standard library's would hold the whole process.
            if self.pattern.search(line, timeout=left):
                self.matches.append({"path": relative.as_posix(), "line": number, "text": line.strip()[:_LINE_CHARS]})
                if self.full:
                    return

    @property
    def full(self) -> bool:
        """True when there is room for nothing more."""
        return len(self.matches) >= self.most or self.left <= 0


@tool(
    group="files",
    effect=Effect.READ,
    untrusted=True,
    requires=_no_workspace,
    keywords={"es": ("buscar en archivos", "busca"), "en": ("grep", "search in files")},
    examples={"es": ("busca 'factura' en los documentos",), "en": ("search the documents for 'invoice'",)},
)
def file_grep(
    ctx: ToolContext,
    pattern: Annotated[
        str, Field(description="Regular expression, matched within one line", min_length=1, max_length=500)
    ],
    path: Annotated[str, Field(description="File or folder to search, relative to the workspace")] = ".",
    glob: Annotated[str, Field(description='Only files whose name matches, such as "*.md"')] = "",
    ignore_case: Annotated[bool, Field(description="Do not tell upper from lower case")] = True,
    limit: Annotated[int, Field(description="How many matching lines at most", ge=1, le=500)] = 100,
) -> ToolOutput:
    """Searches the text files of the workspace for a regular expression; returns path, line number and line."""
    try:
        compiled = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except regex.error as error:
        raise ModelError(
            f"the pattern is not a regular expression: {error}",
            hint="correct it; a backslash before ( [ { . * + ? takes them as they are",
            code="bad_arguments",
        ) from error
    settings = ctx.settings.workspace
    base, relative = paths.contained(settings.dir, path)
    seconds = min(_GREP_SECONDS, ctx.remaining_s)
    grep = _Grep(compiled, base, limit, settings.max_file_bytes, seconds)
    try:
        if os.path.isfile(base / relative):  # no error for a name that is too long
            grep.file(relative)
        else:
            for one in paths.walk(base, relative, _MAX_WALKED):
                if not one.folder and (not glob or paths.matches(one.path, glob)):
                    grep.file(Path(one.path))
                if grep.full:
                    break
    except TimeoutError as error:
        raise ModelError(
            f"the search took longer than {seconds:g} s",
            hint="use a simpler pattern or a narrower path",
            code="timed_out",
        ) from error
    lines = [f"{match['path']}:{match['line']}: {match['text']}" for match in grep.matches]
    if grep.full:
        lines.append("[more may match; narrow the pattern or the path]")
    if grep.skipped:
        lines.append(f"[{grep.skipped} files were skipped: binary, too large or not readable]")
    value: dict[str, JsonValue] = {"matches": [*grep.matches], "complete": not grep.full, "skipped": grep.skipped}
    return ToolOutput(value, "\n".join(lines) if grep.matches else "\n".join(["No line matches.", *lines]))
