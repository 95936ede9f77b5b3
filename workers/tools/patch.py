"""Unified diffs: parsed, and applied to texts. Pure.

Models write them by hand, so line numbers are taken as a hint and line counts not at all: a hunk goes where its
context and removed lines stand, next to where it says, and must stand there exactly. Where that is not clear it is
refused. Line ends and a missing one at the end of a file stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from shared.errors import ModelError

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NOWHERE = "/dev/null"
_UNKNOWN = ("rename from", "rename to", "copy from", "copy to", "GIT binary patch", "Binary files")


@dataclass
class Line:
    """One line of a hunk; `ended` is False behind `\\ No newline at end of file`."""

    kind: Literal[" ", "-", "+"]
    text: str
    ended: bool = True


@dataclass
class Hunk:
    """`start` is the line of the old file, counted from 1, where it claims to be."""

    start: int
    lines: list[Line] = field(default_factory=list)

    @property
    def index(self) -> int:
        """How many lines it says are in front of it. One that only adds names the line in front, others their first."""
        return self.start if not self.old else max(self.start - 1, 0)

    @property
    def old(self) -> list[str]:
        """The lines that must be there."""
        return [line.text for line in self.lines if line.kind != "+"]


@dataclass
class FilePatch:
    """The change of one file; `old` or `new` is empty when the file is made or removed."""

    old: str
    new: str
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The file that it is about."""
        return self.new or self.old


def bad(why: str, hint: str = "") -> ModelError:
    """A patch that is not applied."""
    return ModelError(f"the patch was not applied: {why}", hint=hint, code="bad_patch")


def parse(text: str) -> list[FilePatch]:
    """The changes of a patch, a file each. Raises ModelError when it is none."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if lines and not lines[-1]:
        lines.pop()  # what follows the last line break
    files: list[FilePatch] = []
    hunk: Hunk | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(_UNKNOWN):
            raise bad(f"`{line[:40]}` is not supported", "write the new file and remove the old one")
        if _is_header(lines, at):
            files.append(_header(line, lines[at + 1]))
            hunk = None
            at += 2
            continue
        if found := _HUNK.match(line):
            if not files:
                raise bad("a hunk comes before its file", "begin with `--- a/path` and `+++ b/path`")
            hunk = Hunk(int(found[1]))
            files[-1].hunks.append(hunk)
        elif line.startswith("@@"):
            raise bad(f"`{line[:60]}` is no hunk header", "write it as `@@ -1,3 +1,4 @@`")
        elif line.startswith("diff --git "):
            hunk = None
        elif hunk is not None:
            _body(hunk, line)
        at += 1
    if not files:
        raise bad("it holds no file", "begin each file with `--- a/path` and `+++ b/path`")
    for file in files:
        if not file.hunks:
            raise bad(f"{file.path} has no hunk", "write hunks as `@@ -1,3 +1,4 @@` and lines behind it")
    if len({file.path for file in files}) < len(files):
        raise bad("a file occurs twice", "put all hunks of a file behind one header")
    return files


def _is_header(lines: Sequence[str], at: int) -> bool:
    """Three lines in a row: a removed line that begins with `-- ` looks like the first of them."""
    return (
        lines[at].startswith("--- ")
        and at + 2 < len(lines)
        and lines[at + 1].startswith("+++ ")
        and lines[at + 2].startswith("@@")
    )


def _header(old: str, new: str) -> FilePatch:
    a, b = (line[4:].split("\t")[0].strip() for line in (old, new))
    if a.startswith('"') or b.startswith('"'):
        raise bad("quoted file names are not supported", "use file_edit for this file")
    before = "" if a == _NOWHERE else a.removeprefix("a/")
    after = "" if b == _NOWHERE else b.removeprefix("b/")
    if before and after and before != after:
        if a == after:  # only one side has the prefix
            before = after
        elif b == before:
            after = before
        else:
            raise bad(f"{before} and {after} are two files", "renames are not supported")
    if not before and not after:
        raise bad("a file has no name")
    return FilePatch(before, after)


def _body(hunk: Hunk, line: str) -> None:
    if line.startswith("\\"):
        if hunk.lines:
            hunk.lines[-1].ended = False
    elif not line:
        hunk.lines.append(Line(" ", ""))  # its blank was stripped
    elif line[0] in " -+":
        hunk.lines.append(Line(line[0], line[1:]))  # type: ignore[arg-type]
    else:
        raise bad(f"`{line[:60]}` begins with neither blank, - nor +", "prefix context lines with a blank")


def applied(file: FilePatch, text: str | None) -> str | None:
    """The text behind the change, None if the file goes. `text` is what it holds, None if it does not exist.

    Raises ModelError when a hunk does not fit.
    """
    if not file.old:
        if text is not None:
            raise bad(f"{file.path} exists already", "change it with `--- a/…` instead of /dev/null")
        return _joined([(line.text, "\n" if line.ended else "") for hunk in file.hunks for line in hunk.lines])
    if text is None:
        raise bad(f"{file.path} does not exist", "use `--- /dev/null` to make it")
    lines = _split(text)
    eol = "\r\n" if lines and sum(end == "\r\n" for _, end in lines) * 2 > len(lines) else "\n"
    out: list[tuple[str, str]] = []
    done = shift = 0
    for number, hunk in enumerate(file.hunks, 1):
        where = _place([text for text, _ in lines], hunk, done, shift, f"hunk {number} of {file.path}")
        shift = where - hunk.index
        out += lines[done:where]
        done = where
        for line in hunk.lines:
            if line.kind == "+":
                out.append((line.text, eol if line.ended else ""))
                continue
            if line.kind == " ":
                out.append(lines[done])
            done += 1
    out += lines[done:]
    if not file.new:
        if out:
            raise bad(f"{file.path} would not be empty", "remove all its lines to remove the file")
        return None
    return _joined([(line, end or (eol if at < len(out) - 1 else "")) for at, (line, end) in enumerate(out)])


def _split(text: str) -> list[tuple[str, str]]:
    """Lines and their ends; only line feeds end a line."""
    parts = text.split("\n")
    lines = [(part[:-1], "\r\n") if part.endswith("\r") else (part, "\n") for part in parts[:-1]]
    return [*lines, (parts[-1], "")] if parts[-1] else lines


def _joined(lines: Sequence[tuple[str, str]]) -> str:
    return "".join(text + end for text, end in lines)


def _place(lines: Sequence[str], hunk: Hunk, least: int, shift: int, name: str) -> int:
    """The index at which the hunk's old lines stand, from `least` on: where it says, else the only other place."""
    old = hunk.old
    if not old:  # nothing but additions: behind the line that it names
        return min(max(hunk.index + shift, least), len(lines))
    claimed = hunk.index + shift
    if claimed >= least and list(lines[claimed : claimed + len(old)]) == old:
        return claimed
    places = [at for at in range(least, len(lines) - len(old) + 1) if list(lines[at : at + len(old)]) == old]
    if len(places) == 1:
        return places[0]
    if places:
        shown = ", ".join(str(at + 1) for at in places[:5])
        raise bad(f"{name} fits in several places (lines {shown})", "give it more context, or the right line number")
    missing = next((line for line in old if line not in lines), old[0])
    raise bad(f"{name} does not fit: `{missing[:80]}` is not there as given", "read the file again and copy its lines")
