"""One file of a session or a run: its log as it is, and the artifacts that it names. Pure.

JSON lines. The first is the header (`Header`). Then comes one for each log entry, in order: `id`, `t`, `v`, `run` and
`d` as in the stream; that of an assistant message has `saw` besides, a digest of the conversation as it was folded
when the file was made, so that another result, or another fold, is noticed. Last comes one for each artifact:
`artifact` (the handle), `media_type`, and `data` in base64.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from pydantic import ValidationError

from shared.contract import Value
from shared.entries import Assistant, Stored, UserMessage, decode
from shared.errors import UserError
from shared.fold import SessionFold
from shared.ids import run_of
from shared.llm.model import Message

VERSION: Final = 1
_HANDLE = re.compile(r"a:[0-9a-f]{32}")


class Header(Value):
    """What a file holds: a whole session, or one run of it with its subagents. `made_ms`: Unix milliseconds."""

    format: Literal["capataz-export"] = "capataz-export"
    v: int = VERSION
    session: str
    run: str = ""
    principal: str
    made_ms: int


@dataclass(frozen=True)
class Line:
    """A log entry; `d` is its data, `saw` the digest of the conversation before it, where it is a model's message."""

    id: str
    t: str
    v: int
    run: str
    d: Mapping[str, Any]
    saw: str = ""

    def stored(self) -> Stored:
        """The entry as the fold takes it. Raises UserError if its data are not what its type has."""
        fields = {"t": self.t, "v": str(self.v), "run": self.run, "d": json.dumps(self.d)}
        try:
            return decode(self.id, fields)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise UserError(f"entry {self.id} is no {self.t}: {where}: {first['msg']}", code="bad_export") from error


@dataclass(frozen=True)
class Blob:
    """An artifact."""

    data: bytes
    media_type: str


@dataclass(frozen=True)
class Export:
    """What a file says."""

    header: Header
    lines: tuple[Line, ...]
    artifacts: Mapping[str, Blob]


class Conversations:
    """Digests of conversations that grow: each costs what is new in it."""

    def __init__(self) -> None:
        self._known: dict[int, list[tuple[Message, bytes]]] = {}

    def digest(self, fold: SessionFold, run: str) -> str:
        """The digest of the conversation that `run` belongs to, as it stands."""
        thread = fold.conversation(run)
        messages, known = thread.messages, self._known.setdefault(id(thread), [])
        same = 0
        while same < min(len(messages), len(known)) and messages[same] is known[same][0]:
            same += 1
        del known[same:]
        for message in messages[same:]:
            before = known[-1][1] if known else b""
            known.append((message, hashlib.sha256(before + message.model_dump_json().encode()).digest()))
        return known[-1][1].hex() if known else ""


def sealed(lines: Iterable[Line]) -> tuple[Line, ...]:
    """The lines with the digests of what the model was shown. Raises UserError for a line that is no log entry."""
    fold, conversations, out = SessionFold(), Conversations(), []
    for line in lines:
        entry = line.stored()
        if isinstance(entry.value, Assistant):
            line = replace(line, saw=conversations.digest(fold, entry.run))
        fold.apply(entry)
        out.append(line)
    return tuple(out)


def of_run(lines: Iterable[Line], run: str) -> list[Line]:
    """The lines of a run, of the subagents that it started, and of the facts that they set."""
    family, found = {run}, []
    for line in lines:
        if line.t == UserMessage.T and run_of(str(line.d.get("parent", ""))) in family:
            family.add(line.run)
        if run_of(line.run) in family:
            found.append(line)
    return found


def handles(lines: Iterable[Line]) -> list[str]:
    """Handles of the artifacts that the lines name, each once."""
    found: dict[str, None] = {}
    for line in lines:
        found.update(dict.fromkeys(_HANDLE.findall(json.dumps(line.d))))
    return list(found)


def written(export: Export) -> Iterator[str]:
    """The lines of the file, without line ends."""
    yield export.header.model_dump_json()
    for line in export.lines:
        row = {"id": line.id, "t": line.t, "v": line.v, "run": line.run, "d": line.d}
        yield _json(row | ({"saw": line.saw} if line.saw else {}))
    for handle, blob in export.artifacts.items():
        data = base64.b64encode(blob.data).decode()
        yield _json({"artifact": handle, "media_type": blob.media_type, "data": data})


def read(text: Sequence[str]) -> Export:
    """The export that these lines are. Raises UserError that names the line that is wrong."""
    rows = [(number, _row(number, line)) for number, line in enumerate(text, 1) if line.strip()]
    if not rows or rows[0][1].get("format") != "capataz-export":
        raise UserError("this is no export of a session or run", code="bad_export", hint="`capataz export` makes one")
    try:
        header = Header.model_validate(rows[0][1])
    except ValidationError as error:
        raise UserError(f"line 1 is no header: {error.errors()[0]['msg']}", code="bad_export") from error
    if header.v > VERSION:
        raise UserError(
            f"this export has version {header.v}, and {VERSION} is the newest known here",
            code="bad_export",
            hint="read it with the version that made it, or a newer one",
        )
    lines: list[Line] = []
    artifacts: dict[str, Blob] = {}
    for number, row in rows[1:]:
        try:
            if "artifact" in row:
                data = base64.b64decode(row["data"], validate=True)
                artifacts[str(row["artifact"])] = Blob(data, str(row["media_type"]))
            else:
                saw = str(row.get("saw", ""))
                lines.append(Line(str(row["id"]), str(row["t"]), int(row["v"]), str(row["run"]), dict(row["d"]), saw))
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise UserError(f"line {number} is neither entry nor artifact: {error!r}", code="bad_export") from error
    return Export(header, tuple(lines), artifacts)


def _row(number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"line {number} is not JSON: {error}", code="bad_export") from error
    if not isinstance(row, dict):
        raise UserError(f"line {number} is not an object", code="bad_export")
    return row


def _json(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))
