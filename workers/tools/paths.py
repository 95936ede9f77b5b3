"""Containment: every path a model names is resolved and must lie inside the workspace.

The check is on the resolved path; the open then walks it component by component without following links, so that a
link swapped in after the check leads nowhere.
"""

from __future__ import annotations

import fnmatch
import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from shared.errors import ModelError

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO must not block the open

MAX_DEPTH = 32
MAX_CHARS = 4_096


@dataclass(frozen=True)
class Found:
    """One entry of the workspace: path relative to it, whether it is a folder, size in bytes."""

    path: str
    folder: bool
    size: int


def _root(root: Path) -> Path:
    try:
        return root.resolve(strict=True)
    except OSError as error:
        raise ModelError(
            "the workspace folder does not exist", hint="the operator must create workspace.dir", code="no_workspace"
        ) from error


def contained(root: Path, path: str) -> tuple[Path, Path]:
    """(resolved root, path relative to it) of what the model named. Raises ModelError when it leads outside."""
    base = _root(root)
    if "\0" in path:
        raise ModelError("the path holds a NUL byte", code="bad_path")
    if len(path) > MAX_CHARS:
        raise ModelError(f"the path has {len(path)} characters; the limit is {MAX_CHARS}", code="bad_path")
    try:
        resolved = (base / path).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ModelError(f"{path!r} cannot be resolved: {error}", code="bad_path") from error
    if not resolved.is_relative_to(base):
        raise ModelError(
            f"{path!r} is outside the workspace", hint="use a path relative to the workspace", code="outside_workspace"
        )
    return base, resolved.relative_to(base)


def protects(protected: Iterable[str], parts: Iterable[str]) -> bool:
    """Whether one of these names is protected, also as file systems that fold names would read it."""
    names = {_folded(name) for name in protected}
    return any(_folded(part) in names for part in parts)


def _folded(name: str) -> str:
    seen = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    return seen.casefold().partition(":")[0].rstrip(". ")


def open_beneath(base: Path, relative: Path, *, folder: bool = False) -> int:
    """A read-only descriptor of a regular file (or folder) under `base`; no component may be a link.

    The caller closes it. Raises ModelError when it is missing, of another kind, or not readable.
    """
    parts = relative.parts
    current = os.open(base, _DIRECTORY)
    try:
        for index, part in enumerate(parts):
            last = index == len(parts) - 1
            child = os.open(part, _FILE if last and not folder else _DIRECTORY, dir_fd=current)
            os.close(current)
            current = child
        kind = os.fstat(current).st_mode
    except OSError as error:
        os.close(current)
        raise _unreadable(relative, error) from error
    if folder or stat.S_ISREG(kind):
        return current
    os.close(current)
    what = "a folder; use file_list" if stat.S_ISDIR(kind) else "not a regular file"
    raise ModelError(f"{relative} is {what}", code="not_a_file")


def _unreadable(relative: Path, error: OSError) -> ModelError:
    if isinstance(error, FileNotFoundError):
        return ModelError(
            f"there is no {relative} in the workspace",
            hint="file_list or file_glob show what is there",
            code="not_found",
        )
    if isinstance(error, NotADirectoryError):
        return ModelError(f"{relative} is not a folder", hint="use file_read for files", code="not_a_folder")
    return ModelError(f"{relative} cannot be read: {error.strerror or error}", code="unreadable")


def read_bytes(root: Path, path: str, limit: int) -> bytes:
    """The whole content of a file. Raises ModelError when it is outside, missing or larger than `limit` bytes."""
    base, relative = contained(root, path)
    with os.fdopen(open_beneath(base, relative), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ModelError(f"{relative} has {size} bytes; the limit is {limit}", code="too_large")
    return data


def entries(base: Path, relative: Path) -> list[Found]:
    """The entries of one folder, folders first, by name. Links are listed as they are, never followed."""
    descriptor = open_beneath(base, relative, folder=True)
    try:
        found = []
        with os.scandir(descriptor) as scan:
            for entry in scan:
                try:
                    size = entry.stat(follow_symlinks=False).st_size
                except FileNotFoundError:  # gone since
                    continue
                path = (PurePosixPath(relative) / entry.name).as_posix()
                found.append(Found(path, entry.is_dir(follow_symlinks=False), size))
    finally:
        os.close(descriptor)
    return sorted(found, key=lambda one: (not one.folder, one.path))


def walk(base: Path, relative: Path, most: int) -> Iterator[Found]:
    """All files and folders below, depth first in name order, `most` at most; links are not followed.

    Folders that cannot be read are passed over.
    """
    stack = [relative]
    count = 0
    while stack:
        folder = stack.pop()
        try:
            listed = entries(base, folder)
        except ModelError:
            if folder == relative:
                raise
            continue
        for found in listed:
            count += 1
            if count > most:
                return
            yield found
        if len(folder.parts) < MAX_DEPTH:
            stack.extend(Path(found.path) for found in reversed(listed) if found.folder)


def matches(path: str, pattern: str) -> bool:
    """Glob over a relative path: `*` and `?` within one component, `**` over any number of them.

    A pattern without a slash matches the name in any folder.
    """
    names, globs = path.split("/"), [part for part in pattern.split("/") if part not in ("", ".")]
    if len(globs) == 1 and globs[0] != "**":
        return fnmatch.fnmatchcase(names[-1], globs[0])
    # Reachable positions in `globs`, advanced name by name: linear, whatever the pattern.
    states = _skipped({0}, globs)
    for name in names:
        moved = {at for at in states if at < len(globs) and globs[at] == "**"}
        moved |= {
            at + 1 for at in states if at < len(globs) and globs[at] != "**" and fnmatch.fnmatchcase(name, globs[at])
        }
        states = _skipped(moved, globs)
    return len(globs) in states


def _skipped(states: set[int], globs: list[str]) -> set[int]:
    """`**` may stand for nothing."""
    out = set(states)
    for at in sorted(states):
        while at < len(globs) and globs[at] == "**":
            at += 1
            out.add(at)
    return out
