"""From the bytes of a mail to what a person reads of it: headers, text, attachments. Pure; never fails on bad mail.

Mail in the wild breaks every rule: raw 8-bit headers, charsets that do not exist, bodies that are cut, parts nested a
hundred deep. What cannot be read is replaced or left out; nothing here raises for it.
"""

from __future__ import annotations

import base64
import binascii
import quopri
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from email import message_from_bytes
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime

from workers.tools.mail_body import clean_lines, html_text

_DEEPEST = 40
_MOST_PARTS = 500
_ENCODED_WORD = re.compile(r"=\?([^?\s*]{1,60})(?:\*[^?\s]*)?\?([bBqQ])\?([^?\r\n]*)\?=")
_MESSAGE_ID = re.compile(r"<[^<>\s]{1,250}>")
_FOLDED = re.compile(r"[\r\n]+(?=[ \t])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u0085\u2028\u2029]+")
# What mail programs say, and what they mean by it.
_CHARSETS = {
    "iso-8859-1": "cp1252", "latin1": "cp1252", "latin-1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252",
    "ansi": "cp1252", "ansi_x3.110-1983": "cp1252", "default": "utf-8", "unicode": "utf-8", "utf8mb4": "utf-8",
    "gb2312": "gb18030", "gbk": "gb18030", "x-gbk": "gb18030", "iso-8859-8-i": "iso-8859-8", "x-sjis": "cp932",
    "shift_jis": "cp932", "iso-8859-9": "cp1254", "ks_c_5601-1987": "cp949", "euc-kr": "cp949",
    "unicode-1-1-utf-7": "utf-7", "x-mac-roman": "mac-roman", "macintosh": "mac-roman",
}  # fmt: skip


@dataclass(frozen=True)
class Address:
    """Somebody's name, possibly empty, and address."""

    name: str
    email: str

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>" if self.name else self.email


@dataclass(frozen=True)
class Attachment:
    """A part of a mail that is not its text. `number` counts from 1 in the order of the parts."""

    number: int
    name: str
    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Mail:
    """A mail. `date` is ISO 8601, empty if it has none that can be read; addresses are as written, names decoded."""

    subject: str
    date: str
    sender: tuple[Address, ...]
    to: tuple[Address, ...]
    cc: tuple[Address, ...]
    reply_to: tuple[Address, ...]
    message_id: str
    references: tuple[str, ...]
    text: str = ""
    attachments: tuple[Attachment, ...] = ()


def decode(data: bytes, charset: str | None) -> str:
    """The text in `data`; a charset that is unknown, or plainly wrong, is guessed."""
    wanted = (charset or "").strip().strip("\"'").lower()
    wanted = _CHARSETS.get(wanted, wanted)
    try:
        text = data.decode("utf-8")  # almost nothing else happens to be valid UTF-8
        if not wanted or wanted in ("utf-8", "cp1252") or (text.isascii() and not _stateful(wanted)):
            return text
    except UnicodeDecodeError:
        pass
    try:
        text = data.decode(wanted or "cp1252", "replace")
    except (LookupError, ValueError):
        text = data.decode("cp1252", "replace")
    return text.encode("utf-8", "replace").decode("utf-8")  # UTF-7 can spell half a character


def _stateful(charset: str) -> bool:
    """Charsets that write everything in seven bits."""
    return charset.startswith(("iso-2022", "utf-7", "utf7", "utf-16", "utf-32", "hz"))


def _words(match: re.Match[str]) -> tuple[str, bytes]:
    charset, encoding, payload = match.groups()
    if encoding in "bB":
        try:
            found = base64.b64decode(payload + "=" * (-len(payload) % 4))
        except (binascii.Error, ValueError):
            found = b""
        return charset, found or payload.encode("utf-8", "replace")
    return charset, quopri.decodestring(payload.encode("utf-8", "replace"), header=True)


def decode_header(raw: str) -> str:
    """A header's value on one line: encoded words decoded, raw 8-bit bytes guessed, control characters gone.

    Neighbouring words of one charset are joined before they are decoded, as senders cut characters in two.
    """
    if any("\udc80" <= char <= "\udcff" for char in raw):
        raw = decode(raw.encode("utf-8", "surrogateescape"), None)
    raw = _FOLDED.sub("", raw)
    out: list[str] = []
    pending: list[tuple[str, bytes]] = []

    def flush() -> None:
        if pending:
            out.append(decode(b"".join(data for _, data in pending), pending[0][0]))
            pending.clear()

    at = 0
    for match in _ENCODED_WORD.finditer(raw):
        between = raw[at : match.start()]
        word = _words(match)
        if between.strip() or not pending:
            flush()
            out.append(between)
        if pending and pending[0][0].lower() != word[0].lower():
            flush()
        pending.append(word)
        at = match.end()
    flush()
    out.append(raw[at:])
    return _CONTROL.sub(" ", "".join(out)).strip()


def _raw(message: Message, name: str) -> list[str]:
    # The policy's own access wraps what is not ASCII; the raw text keeps its bytes as surrogates.
    return [str(value) for key, value in message.raw_items() if key.lower() == name]


def _first(message: Message, name: str) -> str:
    values = _raw(message, name)
    return values[0] if values else ""


def _addresses(message: Message, name: str) -> tuple[Address, ...]:
    raw = [_CONTROL.sub(" ", value) for value in _raw(message, name)]
    found = [Address(decode_header(who), _plain(email)) for who, email in getaddresses(raw)]
    return tuple(one for one in found if one.email or one.name)


def _plain(text: str) -> str:
    return _CONTROL.sub("", text.encode("utf-8", "replace").decode("utf-8")).strip()


def _date(raw: str) -> str:
    try:
        parsed: datetime = parsedate_to_datetime(decode_header(raw))
        return parsed.isoformat(timespec="seconds")
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""


def parse(data: bytes, *, headers_only: bool = False) -> Mail:
    """Reads a mail, or only its headers. What was cut off at the end is missing; what came before is there."""
    try:
        message = message_from_bytes(data)
    except RecursionError:  # a pyramid of parts; its outermost headers are what there is
        message = message_from_bytes(data.split(b"\r\n\r\n", 1)[0] + b"\r\n\r\n")
    leaves = [] if headers_only else list(_leaves(message, 0))[:_MOST_PARTS]
    references = _MESSAGE_ID.findall(" ".join(_raw(message, "references")))
    references = references or _MESSAGE_ID.findall(_first(message, "in-reply-to"))[:1]
    ids = _MESSAGE_ID.findall(_first(message, "message-id"))
    return Mail(
        subject=decode_header(_first(message, "subject")),
        date=_date(_first(message, "date")),
        sender=_addresses(message, "from"),
        to=_addresses(message, "to"),
        cc=_addresses(message, "cc"),
        reply_to=_addresses(message, "reply-to"),
        message_id=_plain(ids[0]) if ids else "",
        references=tuple(_plain(one) for one in references),
        text=clean_lines("\n\n".join(_text(part) for part in leaves if not _attached(part))),
        attachments=tuple(
            _attachment(number, part) for number, part in enumerate(filter(_attached, leaves), 1)
        ),
    )  # fmt: skip


def _leaves(part: Message, depth: int) -> Iterator[Message]:
    """The parts that count, in order: of alternatives one, of a page with its pictures the page first."""
    children = part.get_payload()
    if depth > _DEEPEST or not isinstance(children, list) or part.get_content_type() == "message/rfc822":
        yield part
        return
    parts = [child for child in children if isinstance(child, Message)]
    if part.get_content_subtype() == "alternative":
        yield from _leaves(_best(parts), depth + 1) if parts else ()
        return
    for child in parts:
        yield from _leaves(child, depth + 1)


def _best(parts: list[Message]) -> Message:
    """Plain text if it says anything, else what the sender prefers, which is the last."""
    plain = [part for part in parts if part.get_content_type() == "text/plain" and _text(part).strip()]
    return plain[-1] if plain else parts[-1]


def _attached(part: Message) -> bool:
    if part.get_content_disposition() == "attachment" or part.get_filename():
        return True
    return part.get_content_type() not in ("text/plain", "text/html") and part.get_content_maintype() != "multipart"


def _payload(part: Message) -> bytes:
    children = part.get_payload()
    if isinstance(children, list):  # a mail inside the mail
        return b"".join(child.as_bytes() for child in children if isinstance(child, Message))
    try:
        data = part.get_payload(decode=True)
    except (ValueError, LookupError):
        data = str(children).encode("utf-8", "replace")
    return data if isinstance(data, bytes) else b""


def _text(part: Message) -> str:
    if part.get_content_maintype() != "text":
        return ""
    text = decode(_payload(part), part.get_content_charset())
    return html_text(text) if part.get_content_type() == "text/html" else text


def _attachment(number: int, part: Message) -> Attachment:
    media_type = part.get_content_type()
    name = decode_header(part.get_filename() or "").replace("/", "_").replace("\\", "_")[:200]
    if not name:
        inner = part.get_payload()
        if media_type == "message/rfc822" and isinstance(inner, list) and isinstance(inner[0], Message):
            name = (decode_header(_first(inner[0], "subject"))[:100].replace("/", "_") or "mail") + ".eml"
        else:
            name = f"part-{number}"
    return Attachment(number, name, media_type, _payload(part))
