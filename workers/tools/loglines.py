"""Logs made short: what only repeats is told once, what went wrong stays with what is around it. Text to text.

Lines that differ in numbers, times and ids alone become the first of them and `[… 37 more like this]`; so do blocks of
up to four lines. Order is kept, and so are the beginning, the end, and every line that speaks of an error or a warning.
Only what looks like a log is touched: not code, JSON, or tables, where numbers are what matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from shared.artifacts import content_handle
from shared.compress import LIMIT_CHARS, minified

HEAD_LINES: Final = 5
TAIL_LINES: Final = 10
AROUND_LINES: Final = 2
"""So many lines at the beginning, at the end, and on either side of trouble stay whatever they are."""

_FEWEST_LINES = 24
_LONGEST_BLOCK = 4
_NOTE_ROOM = 120
_GAP_ROOM = 30

_TROUBLE: Final = (
    "error", "warn", "fail", "fatal", "critical", "panic", "exception", "traceback", "abort", "denied", "refused",
    "reject", "timeout", "time out", "timed out", "unable", "cannot", "can not", "can't", "could not", "couldn't",
    "not found", "unreachable", "invalid", "missing", "killed", "crash", "segfault", "core dumped", "out of memory",
    "assert", "deadlock", "caused by", "unhandled", "deprecat", "emerg", "alert", "severe", "corrupt", "conflict",
    "fallo", "falla", "falló", "fallid", "aviso", "advertencia", "excepción", "excepcion", "denegad", "rechazad",
    "no se pudo", "no se puede", "no se encontr", "imposible",
)  # fmt: skip
"""Words of lines that stay, in English and Spanish."""
_TROUBLED_NUMBER = re.compile(
    # refusals over HTTP, programs that ended badly, and the letter of a level
    r"\" [45]\d\d\b|\b(?:GET|POST|PUT|PATCH|DELETE|HEAD) \S+ [45]\d\d\b|HTTP/[\d.]+\"? [45]\d\d\b"
    r"|\b(?i:status)(?:[ _-]?code)?\"?[ =:]+[45]\d\d\b"
    r"|\b(?i:exit(?:ed)?|return(?:ed)?)\b[a-z ]{0,20}?(?:code|status|with)[ =:]+-?[1-9]|^[EWF]\d{4} \d\d:\d\d:\d\d"
)
_STACK = re.compile(r"\s+\S|Caused by|\.\.\. \d+ more")

_MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_LEVEL = "TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL"
_STAMP = (
    r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
    rf"|(?:{_MONTH}) [ \d]\d \d\d:\d\d:\d\d|\d\d?/(?:{_MONTH})/\d{{4}}:\d\d:\d\d:\d\d(?: [+-]\d{{4}})?"
    r"|[IWEF]\d{4} \d\d:\d\d:\d\d(?:\.\d+)?|\d\d:\d\d:\d\d(?:[.,]\d+)?| *\d{1,6}\.\d{5,6}|\d{10}(?:\.\d+)?"
)
_LOGGED = re.compile(
    r"(?:[\w.-]+ +\| )?(?:\S+ \S+ \S+ (?=\[\d))?"  # a service of a compose file; a host of an access log
    rf"(?:[\[(]?(?:{_STAMP})[\])]?(?::? +| ?\| ?|\t(?=\[?(?:{_LEVEL})))(?=.*[A-Za-z]{{2}})"
    rf"|[\[(]?(?:{_LEVEL})\b[\])]?[ :|\]-]|(?:trace|debug|info|notice|warn|warning|error|fatal)[:\]]"
    r"|(?:time|ts|level|lvl)=\S+ .*="
    r"|\[ *\d+(?:/\d+| ?%)\]|#\d+ (?:\d+\.\d+|\[|DONE|CACHED|sha256)|make(?:\[\d+\])?: |(?:=== RUN|--- \w+:|ok \d+ ) "
    r"| *(?:Collecting|Downloading|Downloaded|Installing|Compiling|Building|Linking|Fetching|Unpacking|Preparing"
    r"|Setting up|Selecting|Extracting|Pulling|Pushing|Copying|Using cached|Get:\d+|Hit:\d+) ?\S"
    r"|.+ (?:PASSED|SKIPPED|FAILED|ERROR|XFAIL|ok)(?: +\[ *\d+%\])?$)"
)
_NUMBERS = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|\b(?:0x)?(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{6,}\b|\d+(?:[.,:]\d+)*"
    rf"|\b(?:{_MONTH})\b",
    re.I,
)
_SHORTENED = re.compile(r"\[\d+ of \d+ lines left out; the whole: read_artifact\(handle=a:[0-9a-f]{32}\)\]")


def looks_like_log(lines: Sequence[str]) -> bool:
    """True if most lines begin as logs and builds write them: a time, a level, how far it is."""
    said = [line for line in lines if line.strip()]
    if len(said) < _FEWEST_LINES or (said[0].lstrip()[:1] in "{[" and said[-1].rstrip()[-1:] in "}]"):
        return False
    return 2 * sum(1 for line in said if _LOGGED.match(line)) >= len(said)


def shorten_log(text: str, limit: int = LIMIT_CHARS) -> str:
    """A log in fewer lines, never longer than it was; any other text as it is.

    If something is left out, the last line names the handle under which the whole is to be kept. Above `limit`
    characters lines without trouble go first.
    """
    lines = text.split("\n")
    if not looks_like_log(lines) or _SHORTENED.fullmatch(lines[-1]):
        return text
    trouble = [is_trouble(line) for line in lines]
    kept = _kept(lines, trouble)
    parts = list(_collapsed(lines, kept))
    if any(trouble):
        parts = _focused(parts, limit - _NOTE_ROOM)
    left_out = len(lines) - sum(1 for part in parts if part.verbatim)
    while parts and not parts[-1].text:  # the note follows the last line that says something
        parts.pop()
    handle = content_handle(text.encode("utf-8", "replace"))
    note = f"[{left_out} of {len(lines)} lines left out; the whole: read_artifact(handle={handle})]"
    short = "\n".join([*(part.text for part in parts), note])
    return short if left_out and len(short) < len(text) else text


def shorten_output(text: str) -> str:
    """What a program printed: JSON without blanks, a log made short, else as it is."""
    return shorten_log(minified(text))


@dataclass(frozen=True)
class _Part:
    """A line of the result: one of the log, or (not `verbatim`) a note that stands for `lines` of it."""

    text: str
    kept: bool
    lines: int = 1
    verbatim: bool = True


def is_trouble(line: str) -> bool:
    """True for a line that speaks of an error or a warning."""
    lower = line.lower()
    return any(word in lower for word in _TROUBLE) or _TROUBLED_NUMBER.search(line) is not None


def _kept(lines: Sequence[str], trouble: Sequence[bool]) -> list[bool]:
    """Which lines stay: beginning, end, trouble, what is around it, and the stack below it."""
    kept = [at < HEAD_LINES or at >= len(lines) - TAIL_LINES for at in range(len(lines))]
    for at, bad in enumerate(trouble):
        if not bad:
            continue
        for near in range(max(0, at - AROUND_LINES), min(len(lines), at + AROUND_LINES + 1)):
            kept[near] = True
        below = at + 1
        while below < len(lines) and not trouble[below] and _STACK.match(lines[below]):
            kept[below] = True
            below += 1
        if below < len(lines) and below > at + 1:  # what a stack of Python ends with
            kept[below] = True
    return kept


def _template(line: str) -> str:
    """The line without what may differ; empty for a blank one, which is like no other."""
    return _NUMBERS.sub("#", line).strip()


def _collapsed(lines: Sequence[str], kept: Sequence[bool]) -> Iterator[_Part]:
    templates = ["" if stays else _template(line) for line, stays in zip(lines, kept, strict=True)]
    at = 0
    while at < len(lines):
        period, times = _repeated(lines, templates, at)
        for line in lines[at : at + period]:
            yield _Part(line, kept[at])
        if times > 1:
            yield _Part(_more(period, times), False, period * (times - 1), verbatim=False)
        at += period * times


def _more(period: int, times: int) -> str:
    return f"[… {times - 1} more like {'this' if period == 1 else f'these {period} lines'}]"


def _repeated(lines: Sequence[str], templates: Sequence[str], at: int) -> tuple[int, int]:
    """The block that begins at `at` and how often it comes, chosen by what telling it once saves; (1, 1) if nothing."""
    best, saved = (1, 1), 0
    for period in range(1, _LONGEST_BLOCK + 1):
        end = at + period
        while end < len(lines) and templates[end] and templates[end] == templates[end - period]:
            end += 1
        times = (end - at) // period
        if times > 1:
            gone = sum(len(line) + 1 for line in lines[at + period : at + period * times])
            gain = gone - len(_more(period, times)) - 1
            if gain > saved:
                best, saved = (period, times), gain
    return best


def _focused(parts: Sequence[_Part], limit: int) -> list[_Part]:
    """The parts within `limit` characters, as far as those that stay allow: of the others the first that fit."""
    size = sum(len(part.text) + 1 for part in parts)
    if size <= limit:
        return list(parts)
    gaps = sum(1 for one, following in pairwise(parts) if one.kept and not following.kept)
    room = limit - sum(len(part.text) + 1 for part in parts if part.kept) - gaps * _GAP_ROOM
    out: list[_Part] = []
    gone = 0
    for part in parts:
        room -= 0 if part.kept else len(part.text) + 1
        if part.kept and gone:
            out.append(_gap(gone))
            gone = 0
        if part.kept or room >= 0:
            out.append(part)
        else:
            gone += part.lines
    return [*out, _gap(gone)] if gone else out


def _gap(lines: int) -> _Part:
    return _Part(f"[… {lines} lines left out]", False, lines, verbatim=False)
