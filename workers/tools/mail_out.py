"""Mail that goes out: sending and answering. Written once; what is not known of it is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from shared.compress import snippet
from shared.contract import Effect
from shared.errors import ModelError
from workers.context import ToolContext
from workers.declare import ToolOutput, tool
from workers.tools import mail_send as sending
from workers.tools.accounts import account_of
from workers.tools.mail import Folder, Uid
from workers.tools.mail_account import in_box, logged_in, no_sending, read_one, seconds_left, zone_of
from workers.tools.mail_box import Mailbox
from workers.tools.mail_text import Address

_QUOTE_BYTES = 1_000_000
_SENT = ("Sent", "Sent Items", "Sent Messages", "Enviados", "Elementos enviados")

_Recipients = Annotated[
    list[str], Field(description='Addresses: "a@example.org" or "Name <a@example.org>"', max_length=50)
]


class FileToAttach(BaseModel):
    """Something kept as an artifact, under a name."""

    model_config = ConfigDict(extra="forbid")

    artifact: Annotated[str, Field(description="Handle of an artifact: a:…")]
    name: Annotated[str, Field(description="File name with ending, such as report.pdf", min_length=1, max_length=150)]


_Files = Annotated[list[FileToAttach], Field(description="Artifacts to attach", max_length=20)]


async def _files(ctx: ToolContext, given: Sequence[FileToAttach]) -> tuple[sending.File, ...]:
    out = []
    for one in given:
        name = sending.one_line(one.name, "an attachment's name")
        stored = await ctx.services.artifacts.get(ctx.principal, one.artifact)
        out.append(sending.File(name, stored.media_type.lower().split(";")[0].strip(), stored.data))
    return tuple(out)


async def _sent(ctx: ToolContext, draft: sending.Draft, after: Callable[[Mailbox], None] | None = None) -> ToolOutput:
    """Sends, then keeps a copy and does what is left to do in the mailbox; failures of that are told, not raised."""
    account, _ = account_of("mail", ctx.settings.mail.accounts, ctx.principal)
    if not account.smtp_host:
        raise ModelError(
            "this user's mail account has no server to send with; nothing was sent",
            hint=f"tell the user: the operator sets smtp_host in [mail.accounts.{ctx.principal}]",
            code="not_configured",
        )
    most, seconds = ctx.settings.mail.max_send_bytes, seconds_left(ctx)
    now = datetime.fromtimestamp(ctx.services.now(), zone_of(ctx))
    mail = sending.written(draft, Address(account.name, account.address), ctx.idempotency_key, now)
    if (size := sum(len(file.data) for file in draft.files) * 4 // 3 + len(draft.body)) > most:
        raise ModelError(
            f"the mail would have {size} bytes, of at most {most}; nothing was sent",
            hint="leave attachments out, or share a link to them",
            code="too_large",
        )
    data = await logged_in(ctx, lambda who, login: sending.send(who, login, mail, draft.recipients, seconds))

    def keep(box: Mailbox) -> str:
        folder = box.special("\\sent", _SENT) if account.save_sent else None
        if folder:
            box.append(folder, data)
        if after is not None:
            after(box)
        return folder or ""

    note, kept = "", ""
    if account.save_sent or after is not None:
        try:
            kept = await in_box(ctx, keep)
        except ModelError as error:
            note = f"\n[it was sent, but the mailbox could not be brought up to date: {error.message}]"
    value: dict[str, JsonValue] = {
        "message_id": str(mail["Message-ID"]), "to": [*draft.recipients], "subject": draft.subject, "kept_in": kept,
    }  # fmt: skip
    return ToolOutput(value, f"Sent to {', '.join(draft.recipients)}: {snippet(draft.subject)}{note}")


@tool(
    group="mail",
    effect=Effect.WRITE,
    timeout_s=120.0,
    requires=no_sending,
    keywords={"es": ("manda un correo", "enviar", "escribe un email"), "en": ("send", "write an email")},
    examples={"es": ("manda un correo a Marta",), "en": ("send an email to Martha",)},
)
async def mail_send(
    ctx: ToolContext,
    to: Annotated[_Recipients, Field(min_length=1)],
    subject: Annotated[str, Field(description="One line", max_length=500)],
    body: Annotated[str, Field(description="Plain text, as it shall be read", max_length=500_000)],
    cc: _Recipients = [],  # noqa: B006 - copied by the validator, never changed
    bcc: _Recipients = [],  # noqa: B006
    attachments: _Files = [],  # noqa: B006
) -> ToolOutput:
    """Sends a new mail from the user's address, to all recipients or to none."""
    draft = sending.Draft(
        subject=sending.one_line(subject, "the subject"),
        body=body,
        to=sending.addresses(to, "to"),
        cc=sending.addresses(cc, "cc"),
        bcc=sending.addresses(bcc, "bcc"),
        files=await _files(ctx, attachments),
    )
    return await _sent(ctx, draft)


@tool(
    group="mail",
    effect=Effect.WRITE,
    untrusted=True,
    timeout_s=120.0,
    requires=no_sending,
    keywords={"es": ("contesta", "responde al correo"), "en": ("reply", "answer the email")},
    examples={"es": ("contesta a Marta que sí",), "en": ("reply to Martha that it is fine",)},
)
async def mail_reply(
    ctx: ToolContext,
    uid: Uid,
    body: Annotated[str, Field(description="Plain text; the mail is quoted below it by itself", max_length=500_000)],
    folder: Folder = "INBOX",
    everybody: Annotated[bool, Field(description="Also to all others who got the mail")] = False,
    attachments: _Files = [],  # noqa: B006 - copied by the validator, never changed
) -> ToolOutput:
    """Answers a mail in its thread, to its sender or to everybody, with the mail quoted below."""
    files = await _files(ctx, attachments)
    account, _ = account_of("mail", ctx.settings.mail.accounts, ctx.principal)
    _, original = await read_one(ctx, folder, uid, min(_QUOTE_BYTES, ctx.settings.mail.max_bytes))
    draft = sending.reply_to(original, account.address, body, everybody=everybody, files=files)
    if not draft.to:
        raise ModelError(
            "the mail names nobody who could be answered; nothing was sent",
            hint="use mail_send with an address from the user",
            code="no_recipient",
        )

    def answered(box: Mailbox) -> None:
        box.select(folder, readonly=False)
        box.flag([uid], "\\Answered", on=True)

    return await _sent(ctx, draft, answered)
