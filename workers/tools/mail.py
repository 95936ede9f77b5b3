"""Mail: the user's own mailbox over IMAP, and sending over SMTP."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, JsonValue

from shared.compress import snippet
from shared.contract import Effect, GroupSpec
from shared.errors import ModelError
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import examples_en, examples_es, words_en, words_es
from workers.tools.mail_account import in_box, no_mail, read_one, zone_of
from workers.tools.mail_body import fresh
from workers.tools.mail_box import Fetched, Mailbox, Query
from workers.tools.mail_text import Address, Mail, parse

GROUP = GroupSpec(
    name="mail",
    title="Mail",
    keywords={"es": words_es.MAIL, "en": words_en.MAIL},
    examples={"es": examples_es.MAIL, "en": examples_en.MAIL},
)

_PLACES = {
    "archive": ("\\archive", ("Archive", "Archives", "Archivo", "Archivados", "All Mail")),
    "trash": ("\\trash", ("Trash", "Deleted Items", "Deleted Messages", "Papelera", "Elementos eliminados")),
}
_FLAGS = {
    "read": ("\\Seen", True),
    "unread": ("\\Seen", False),
    "flag": ("\\Flagged", True),
    "unflag": ("\\Flagged", False),
}
_WHOLE = "[with quoted history]"
_SUBJECT = re.compile(r"^Subject: (.*)$", re.M)

Folder = Annotated[str, Field(description="Folder, as mail_folders shows it", min_length=1, max_length=250)]
Uid = Annotated[
    int, Field(description="The mail's uid in that folder, as mail_list or mail_search gave it", ge=1, le=2**32 - 1)
]
_Limit = Annotated[int, Field(description="How many at most, newest first", ge=1, le=100)]


# Lists.


def _local(iso: str, zone: ZoneInfo) -> str:
    if not iso:
        return "(no date)"
    moment = datetime.fromisoformat(iso)
    return f"{moment.astimezone(zone) if moment.tzinfo else moment:%Y-%m-%d %H:%M}"


def _marks(found: Fetched) -> list[str]:
    marks = [] if "\\seen" in found.flags else ["unread"]
    marks += ["flagged"] if "\\flagged" in found.flags else []
    return marks + (["answered"] if "\\answered" in found.flags else [])


def _people(found: Sequence[Address]) -> list[JsonValue]:
    return [str(one) for one in found]


def _listed(found: Sequence[Fetched], folder: str, total: int, zone: ZoneInfo) -> ToolOutput:
    lines: list[str] = []
    values: list[JsonValue] = []
    for one in found:
        mail, marks = parse(one.data, headers_only=True), _marks(one)
        values.append(
            {
                "uid": one.uid, "from": _people(mail.sender), "to": _people(mail.to), "subject": mail.subject,
                "date": mail.date, "marks": [*marks], "size": one.size,
            }
        )  # fmt: skip
        who = snippet(str(mail.sender[0]), 80) if mail.sender else "?"
        shown = f" ({', '.join(marks)})" if marks else ""
        lines.append(
            f"- uid {one.uid}, {_local(mail.date, zone)}, {who}: {snippet(mail.subject) or '(no subject)'}{shown}"
        )
    if not lines:
        return ToolOutput({"folder": folder, "mails": [], "total": total}, f"No such mail in {folder}.")
    head = f"{len(lines)} of {total} in {folder}:"
    value: dict[str, JsonValue] = {"folder": folder, "mails": values, "total": total}
    return ToolOutput(value, "\n".join([head, *lines]))


async def _find(ctx: ToolContext, folder: str, query: Query, limit: int) -> ToolOutput:
    def work(box: Mailbox) -> tuple[list[Fetched], int]:
        box.select(folder)
        uids = box.search(query)
        return box.headers(uids[:limit]), len(uids)

    found, total = await in_box(ctx, work)
    return _listed(found, folder, total, zone_of(ctx))


@tool(
    group="mail",
    effect=Effect.READ,
    untrusted=True,
    timeout_s=60.0,
    requires=no_mail,
    keywords={"es": ("correos nuevos", "sin leer", "bandeja de entrada"), "en": ("new mail", "unread", "inbox")},
    examples={"es": ("¿qué correos tengo sin leer?",), "en": ("which emails are unread?",)},
)
async def mail_list(
    ctx: ToolContext,
    folder: Folder = "INBOX",
    unread: Annotated[bool, Field(description="Only mail that nobody has read")] = False,
    limit: _Limit = 20,
) -> ToolOutput:
    """Lists the newest mail of a folder: uid, date, sender, subject, and whether it is unread."""
    return await _find(ctx, folder, Query(unread=unread), limit)


@tool(
    group="mail",
    effect=Effect.READ,
    untrusted=True,
    timeout_s=60.0,
    requires=no_mail,
    keywords={"es": ("buscar correo", "correo de"), "en": ("search mail", "find email", "email from")},
    examples={"es": ("busca el correo del dentista",), "en": ("find the email from the dentist",)},
)
async def mail_search(
    ctx: ToolContext,
    sender: Annotated[str, Field(description="Part of the sender's name or address", max_length=200)] = "",
    recipient: Annotated[str, Field(description="Part of whom it went to", max_length=200)] = "",
    subject: Annotated[str, Field(description="Words of the subject", max_length=200)] = "",
    text: Annotated[str, Field(description="Words anywhere in the mail", max_length=200)] = "",
    since: Annotated[date | None, Field(description="First day, YYYY-MM-DD")] = None,
    before: Annotated[date | None, Field(description="Day before which it arrived, YYYY-MM-DD")] = None,
    unread: Annotated[bool, Field(description="Only mail that nobody has read")] = False,
    flagged: Annotated[bool, Field(description="Only mail that is flagged")] = False,
    folder: Folder = "INBOX",
    limit: _Limit = 20,
) -> ToolOutput:
    """Finds mail of a folder for which everything holds that is given, the newest first."""
    query = Query(sender, recipient, subject, text, since, before, unread, flagged)
    if query == Query():
        raise ModelError(
            "nothing to search for was given", hint="give sender, subject, text or a date; or use mail_list"
        )
    return await _find(ctx, folder, query, limit)


@tool(
    group="mail",
    effect=Effect.READ,
    untrusted=True,
    timeout_s=60.0,
    requires=no_mail,
    keywords={"es": ("carpetas del correo",), "en": ("mail folders",)},
    examples={"es": ("¿qué carpetas hay en mi correo?",), "en": ("which folders does my mailbox have?",)},
)
async def mail_folders(ctx: ToolContext) -> ToolOutput:
    """Lists the folders of the user's mailbox."""
    found = await in_box(ctx, Mailbox.folders)
    return ToolOutput({"folders": [name for name, _ in found]}, "\n".join(f"- {name}" for name, _ in found))


# One mail.


def without_history(shown: str) -> str:
    """What the model sees of a mail unless it asks for all: quoted history and signature left out, and said so."""
    head, blank, text = shown.partition("\n\n")
    if not blank or head.endswith(_WHOLE):
        return shown
    subject = _SUBJECT.search(head)
    text, left_out = fresh(text, subject[1] if subject else "")
    note = f"\n[{left_out} lines of quotes and signature left out; history=true shows them]" if left_out else ""
    return f"{head}\n\n{text}{note}"


def _as_read(uid: int, mail: Mail, notes: Sequence[str], zone: ZoneInfo) -> str:
    """Headers and what is attached, one line each; then, after a blank line, the text."""
    head = [
        f"Uid: {uid}",
        f"From: {', '.join(map(str, mail.sender)) or '?'}",
        f"To: {', '.join(map(str, mail.to)) or '?'}",
        *([f"Cc: {', '.join(map(str, mail.cc))}"] if mail.cc else []),
        f"Date: {_local(mail.date, zone)}",
        f"Subject: {mail.subject}",
    ]
    return "\n".join([*head, *notes, "", mail.text or "(no text)"])


@tool(
    group="mail",
    effect=Effect.READ,
    untrusted=True,
    timeout_s=90.0,
    requires=no_mail,
    compress=without_history,
    keywords={"es": ("leer correo", "lee el correo", "adjuntos"), "en": ("read mail", "read the email", "attachments")},
    examples={"es": ("léeme el correo de Marta",), "en": ("read me the email from Martha",)},
)
async def mail_read(
    ctx: ToolContext,
    uid: Uid,
    folder: Folder = "INBOX",
    history: Annotated[bool, Field(description="Also show quoted earlier mails and the signature")] = False,
    save: Annotated[list[int], Field(description="Numbers of attachments to keep as artifacts", max_length=20)] = [],  # noqa: B006 - copied by the validator, never changed
) -> ToolOutput:
    """Reads one mail: its text, and which attachments it has. It stays unread."""
    found, mail = await read_one(ctx, folder, uid, ctx.settings.mail.max_bytes)
    whole = found.size <= len(found.data)
    handles = await _keep(ctx, mail, save, whole=whole)
    listed: list[JsonValue] = []
    notes = []
    for one in mail.attachments:
        size, handle = len(one.data), handles.get(one.number, "")
        listed.append(
            {"number": one.number, "name": one.name, "media_type": one.media_type, "size": size, "artifact": handle}
        )
        kept = f", kept as {handle}" if handle else ""
        notes.append(f"Attachment {one.number}: {one.name} ({one.media_type}, {size} bytes{kept})")
    if not whole:
        notes.append(f"[the mail has {found.size} bytes, of which the first {len(found.data)} were read]")
    value: dict[str, JsonValue] = {
        "uid": uid, "folder": folder, "from": _people(mail.sender), "to": _people(mail.to), "cc": _people(mail.cc),
        "date": mail.date, "subject": mail.subject, "text": mail.text, "attachments": listed,
        "message_id": mail.message_id, "complete": whole,
    }  # fmt: skip
    notes += [_WHOLE] if history else []
    return ToolOutput(value, _as_read(uid, mail, notes, zone_of(ctx)))


async def _keep(ctx: ToolContext, mail: Mail, wanted: Sequence[int], *, whole: bool) -> dict[int, str]:
    """Stores the attachments with these numbers and returns their handles; of a mail that was cut not the last."""
    known = {one.number: one for one in mail.attachments}
    handles: dict[int, str] = {}
    for number in dict.fromkeys(wanted):
        if (one := known.get(number)) is None:
            have = ", ".join(f"{one.number} {one.name}" for one in mail.attachments) or "none"
            raise ModelError(f"the mail has no attachment {number}", hint=f"attachments: {have}", code="not_found")
        if not whole and number == len(mail.attachments):
            raise ModelError(
                f"attachment {number} was cut: of a mail only {ctx.settings.mail.max_bytes} bytes are fetched",
                hint="tell the user; the operator may raise mail.max_bytes",
                code="too_large",
            )
        handles[number] = await ctx.services.artifacts.put(ctx.principal, one.data, one.media_type)
    return handles


@tool(
    group="mail",
    effect=Effect.IDEMPOTENT,
    timeout_s=60.0,
    requires=no_mail,
    keywords={"es": ("archiva", "marcar como leído", "papelera"), "en": ("archive", "mark as read", "trash")},
    examples={"es": ("archiva el correo del boletín",), "en": ("archive the newsletter email",)},
)
async def mail_mark(
    ctx: ToolContext,
    uids: Annotated[list[int], Field(description="The mails' uids in that folder", min_length=1, max_length=100)],
    action: Literal["read", "unread", "flag", "unflag", "archive", "trash", "move"],
    folder: Folder = "INBOX",
    target: Annotated[str, Field(description="For move: the folder to move to", max_length=250)] = "",
) -> ToolOutput:
    """Marks mails as read, unread or flagged, or moves them to the archive, the trash or another folder."""
    if action == "move" and not target:
        raise ModelError("move needs the target folder", hint="mail_folders lists them", code="bad_arguments")

    def work(box: Mailbox) -> tuple[list[int], str]:
        box.select(folder, readonly=False)
        there = box.existing(list(dict.fromkeys(uids)))
        if action in _FLAGS:
            flag, on = _FLAGS[action]
            box.flag(there, flag, on=on)
            return there, ""
        place = _place(box, action, target)
        if place.casefold() != folder.casefold():
            box.move(there, place)
        return there, place

    done, place = await in_box(ctx, work)
    gone = [uid for uid in dict.fromkeys(uids) if uid not in done]
    what = f"moved to {place}" if place else f"marked: {action}"
    lines = [f"{len(done)} of {len(done) + len(gone)} {what}."]
    if gone:
        lines.append(f"Not in {folder} (any more): {', '.join(map(str, gone))}")
    value: dict[str, JsonValue] = {"action": action, "done": [*done], "gone": [*gone], "folder": place or folder}
    return ToolOutput(value, "\n".join(lines))


def _place(box: Mailbox, action: str, target: str) -> str:
    if action == "move":
        return target
    attribute, names = _PLACES[action]
    place = box.special(attribute, names) or (box.special("\\all", ()) if action == "archive" else None)
    if place is None:
        known = ", ".join(name for name, _ in box.folders()[:60])
        raise ModelError(
            f"the mailbox has no folder for {action}; nothing was moved",
            hint=f"use move with a target; folders: {known}",
            code="not_found",
        )
    return place
