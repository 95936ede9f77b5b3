"""Changes of workspace files: through descriptors opened component by component, never through a link; whole or not.

A file is written beside its place and renamed into it, so that readers see the old or the new one. Several changes
are made all or none: what a failure finds done is put back. (A worker that dies between two renames leaves the first.)
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from shared.errors import ModelError
from shared.settings import WorkspaceSettings
from workers.tools import paths

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MODE = 0o644


@dataclass(frozen=True)
class Change:
    """What shall become of a file: from `old` (None: it must not exist) to `new` (None: it goes)."""

    path: Path
    old: bytes | None
    new: bytes | None


def writable(settings: WorkspaceSettings, path: str) -> tuple[Path, Path]:
    """(resolved root, relative path) of a file that tools may write. Raises ModelError when they may not.

    What is protected stays as it is: a repository's configuration names programs that git runs, and instruction files
    become part of every prompt.
    """
    base, relative = paths.contained(settings.dir, path)
    if not relative.parts:
        raise ModelError(f"{path!r} is the workspace itself", hint="name a file in it", code="bad_path")
    if len(relative.parts) > paths.MAX_DEPTH:
        raise ModelError(f"{path[:80]!r}… lies more than {paths.MAX_DEPTH} folders deep", code="bad_path")
    if paths.protects(settings.protected, (*PurePosixPath(path).parts, *relative.parts)):
        raise ModelError(
            f"{path!r} is protected: tools do not write it",
            hint="tell the user, who may do it by hand",
            code="protected",
        )
    folders = [PurePosixPath(os.path.normpath(folder)) for folder in settings.writable]
    if not any(PurePosixPath(relative).is_relative_to(folder) for folder in folders):
        where = f"below {', '.join(settings.writable)}" if settings.writable else "nowhere"
        raise ModelError(f"{path!r} may not be written", hint=f"the operator allows that {where}", code="not_writable")
    return base, relative


def read(base: Path, relative: Path, limit: int) -> bytes | None:
    """The bytes of a file, None if it does not exist. Raises ModelError when it is no regular file or too large."""
    try:
        descriptor = paths.open_beneath(base, relative)
    except ModelError as error:
        if error.code == "not_found":
            return None
        raise
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ModelError(f"{relative} is larger than {limit} bytes", code="too_large")
    return data


def apply(base: Path, changes: Sequence[Change]) -> None:
    """Makes all changes or none. Raises ModelError when one cannot be made, or a file is not what it was."""
    with contextlib.ExitStack() as stack:
        staged = [stack.enter_context(_staged(base, change)) for change in changes]
        done: list[_Staged] = []
        try:
            for one in staged:
                one.commit()
                done.append(one)
        except (ModelError, OSError) as error:
            for earlier in reversed(done):
                earlier.take_back()
            if isinstance(error, ModelError):
                raise
            raise ModelError(
                f"nothing was changed: {one.change.path} cannot be written: {error.strerror or error}",
                code="unwritable",
            ) from error


class _Staged:
    """A change that is ready: its folder is open, its new content lies beside its place."""

    def __init__(self, change: Change, folder: int) -> None:
        self.change, self._folder = change, folder
        self._mode = _mode(folder, change.path)
        self._temporary = self._write(change.new) if change.new is not None else ""

    def _write(self, data: bytes) -> str:
        name = f".{secrets.token_hex(8)}.part"
        descriptor = os.open(name, _NEW, 0o600, dir_fd=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), self._mode)
                os.fsync(file.fileno())
        except OSError:
            os.unlink(name, dir_fd=self._folder)
            raise
        return name

    def commit(self) -> None:
        """Puts the new content in its place, if the old one is still there."""
        name = self.change.path.name
        if self._present() != self.change.old:
            raise ModelError(
                f"nothing was changed: {self.change.path} has changed meanwhile",
                hint="read it again and decide anew",
                code="conflict",
            )
        if not self._temporary:
            os.unlink(name, dir_fd=self._folder)
        elif self.change.old is None:
            os.link(self._temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder, follow_symlinks=False)
        else:
            os.replace(self._temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            self._temporary = ""

    def take_back(self) -> None:
        """Puts the old content back."""
        if self.change.old is None:
            os.unlink(self.change.path.name, dir_fd=self._folder)
        else:
            os.replace(
                self._write(self.change.old), self.change.path.name, src_dir_fd=self._folder, dst_dir_fd=self._folder
            )

    def _present(self) -> bytes | None:
        try:
            descriptor = os.open(self.change.path.name, _OLD, dir_fd=self._folder)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read(len(self.change.old or b"") + 1)

    def close(self) -> None:
        """Removes what was not used."""
        if self._temporary:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary, dir_fd=self._folder)


@contextlib.contextmanager
def _staged(base: Path, change: Change) -> Iterator[_Staged]:
    try:
        folder = _folder(base, change.path.parts[:-1], create=change.new is not None)
    except OSError as error:
        raise ModelError(
            f"nothing was changed: the folder of {change.path} cannot be used: {error.strerror or error}",
            code="unwritable",
        ) from error
    try:
        try:
            staged = _Staged(change, folder)
        except OSError as error:
            raise ModelError(
                f"nothing was changed: {change.path} cannot be written: {error.strerror or error}", code="unwritable"
            ) from error
        try:
            yield staged
        finally:
            staged.close()
    finally:
        os.close(folder)


def _folder(base: Path, parts: tuple[str, ...], *, create: bool) -> int:
    """A descriptor of a folder below `base`, made where it is missing; no component may be a link."""
    current = os.open(base, _FOLDER)
    try:
        for part in parts:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=current)
            child = os.open(part, _FOLDER, dir_fd=current)
            os.close(current)
            current = child
    except OSError:
        os.close(current)
        raise
    return current


def _mode(folder: int, path: Path) -> int:
    """The permissions that a file shall have: those it has. Raises ModelError when it is no regular file."""
    try:
        present = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return _MODE
    if not stat.S_ISREG(present.st_mode):
        raise ModelError(f"{path} is not a regular file", code="not_a_file")
    return stat.S_IMODE(present.st_mode) & 0o777
