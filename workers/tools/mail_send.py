"""Writing a mail and handing it to a server over SMTP: all recipients or none, and honest about what is not known."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import smtplib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email import policy
from email.headerregistry import Address as HeaderAddress
from email.message import EmailMessage
from email.policy import Policy
from email.utils import format_datetime, getaddresses, parseaddr
from typing import Self

from shared.compress import snippet
from shared.errors import ModelError
from shared.tool_settings import MailAccount
from workers.tools.mail_box import auth_refused, mapped, tls_context
from workers.tools.mail_oauth import Login
from workers.tools.mail_text import Address, Mail

_WIRE = policy.SMTP.clone(cte_type="7bit")  # not every server takes eight bits
SMTP_PORTS = {"ssl": 465, "starttls": 587, "plain": 25}
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u0085\u2028\u2029]")
_ADDRESS = re.compile(r"[^\s@<>(),;:\"\\\[\]]{1,64}@(?P<domain>[^\s@<>(),;:\"\\]{1,250})")
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,60}")
_REPLIED = re.compile(r"(?:re|rv|aw|sv|r)\s*(?:\[\d+\])?\s*:", re.I)
_MOST_REFERENCES = 20
_MOST_QUOTED_LINES = 400


@dataclass(frozen=True)
class File:
    """Something to attach."""

    name: str
    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Draft:
    """A mail to be written. `quoted` is put below the body; ids are in angle brackets."""

    subject: str
    body: str
    to: tuple[Address, ...]
    cc: tuple[Address, ...] = ()
    bcc: tuple[Address, ...] = ()
    files: tuple[File, ...] = ()
    in_reply_to: str = ""
    references: tuple[str, ...] = ()
    quoted: str = ""

    @property
    def recipients(self) -> list[str]:
        """Every address once, in order."""
        return list(dict.fromkeys(one.email for one in (*self.to, *self.cc, *self.bcc)))


def addresses(given: Sequence[str], what: str) -> tuple[Address, ...]:
    """Addresses as people write them, `a@b.c` or `Name <a@b.c>`. Raises ModelError for what is none, or is more."""
    found = []
    for text in given:
        parsed = getaddresses([text])
        name, email = parsed[0] if len(parsed) == 1 else ("", "")
        match = _ADDRESS.fullmatch(email)
        if _CONTROL.search(text) or match is None:
            raise ModelError(
                f"{what}: {text[:200]!r} is not one mail address; nothing was sent",
                hint='give each as "a@example.org" or "Name <a@example.org>"',
                code="bad_arguments",
            )
        found.append(Address(_whole(name), _whole(email)))
    return tuple(found)


def one_line(text: str, what: str) -> str:
    """The text, if it is one line. Raises ModelError for line breaks, which would become headers of their own."""
    if _CONTROL.search(text):
        raise ModelError(
            f"{what} must be one line without control characters; nothing was sent",
            hint="write it on one line",
            code="bad_arguments",
        )
    return _whole(text).strip()


def _whole(text: str) -> str:
    """Text without halves of characters, which JSON can spell."""
    return text.encode("utf-8", "replace").decode("utf-8")


def message_id(key: str, address: str) -> str:
    """The id of the mail that the call with this idempotency key sends: the same for the same call."""
    return f"<{hashlib.sha256(key.encode()).hexdigest()[:32]}@{_ascii_domain(address)}>"


def _ascii_domain(address: str) -> str:
    domain = address.rpartition("@")[2]
    try:
        return domain.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise ModelError(
            f"{address!r} has no valid domain; nothing was sent", hint="check the address", code="bad_arguments"
        ) from error


def _header(one: Address) -> HeaderAddress:
    user, _, _ = one.email.rpartition("@")
    return HeaderAddress(one.name, user, _ascii_domain(one.email))


class _Ids(str):
    """A header of message ids, one a line. The library would encode long ones, and nobody would find the thread."""

    name: str

    def __new__(cls, name: str, ids: Sequence[str]) -> Self:
        self = super().__new__(cls, " ".join(ids))
        self.name = name
        return self

    def fold(self, *, policy: Policy) -> str:
        """The header as it goes out."""
        return f"{self.name}: {f'{policy.linesep} '.join(self.split())}{policy.linesep}"


def written(draft: Draft, sender: Address, key: str, now: datetime) -> EmailMessage:
    """The mail as it goes out; blind copies are in no header. `key` makes its id, `now` its date."""
    mail = EmailMessage(policy=_WIRE)
    mail["From"] = _header(sender)
    mail["To"] = tuple(_header(one) for one in draft.to)
    if draft.cc:
        mail["Cc"] = tuple(_header(one) for one in draft.cc)
    mail["Subject"] = one_line(draft.subject, "the subject")
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = _Ids("Message-ID", (message_id(key, sender.email),))
    if draft.in_reply_to:
        mail["In-Reply-To"] = _Ids("In-Reply-To", (draft.in_reply_to,))
        mail["References"] = _Ids("References", draft.references[-_MOST_REFERENCES:] or (draft.in_reply_to,))
    text = _whole(draft.body).replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    mail.set_content(f"{text}\n\n{draft.quoted}\n" if draft.quoted else f"{text}\n")
    for file in draft.files:
        media_type = file.media_type if _MEDIA_TYPE.fullmatch(file.media_type) else "application/octet-stream"
        main, sub = media_type.split("/")
        if main in ("multipart", "message"):  # such a part would be taken for structure
            main, sub = "application", "octet-stream"
        mail.add_attachment(file.data, maintype=main, subtype=sub, filename=one_line(file.name, "an attachment's name"))
    return mail


def reply_to(original: Mail, me: str, body: str, *, everybody: bool, files: tuple[File, ...] = ()) -> Draft:
    """The answer to a mail: to whom it asks to be answered, with `everybody` also to those who got it, without me."""
    mine = me.casefold()
    to = original.reply_to or original.sender
    if everybody:
        others = (*original.to, *original.cc)
        known = {one.email.casefold() for one in to}
        cc = tuple(one for one in others if one.email.casefold() not in known | {mine})
    else:
        cc = ()
    if {one.email.casefold() for one in to} == {mine} and original.to:
        to = original.to  # answering a mail of mine goes on to whom it went
    subject = original.subject if _REPLIED.match(original.subject) else f"Re: {original.subject}".strip()
    return Draft(
        subject=subject,
        body=body,
        to=_sendable(to),
        cc=_sendable(cc),
        files=files,
        in_reply_to=original.message_id,
        references=(*original.references, original.message_id) if original.message_id else (),
        quoted=quotation(original),
    )


def _sendable(found: Sequence[Address]) -> tuple[Address, ...]:
    """Those that are addresses, each once; a stranger's header may hold anything."""
    out = {one.email.casefold(): one for one in found if _ADDRESS.fullmatch(one.email)}
    return tuple(Address(_CONTROL.sub(" ", one.name), one.email) for one in out.values())


def quotation(original: Mail) -> str:
    """The mail as quoted text, with a line on top that says whose it is."""
    who = str(original.sender[0]) if original.sender else "?"
    lines = original.text.split("\n")
    quoted = [f">{line}" if line.startswith(">") else f"> {line}".rstrip() for line in lines[:_MOST_QUOTED_LINES]]
    if len(lines) > _MOST_QUOTED_LINES:
        quoted.append("> […]")
    return "\n".join([f"{original.date.replace('T', ' ')[:16]} {who}:".strip(), *quoted])


def _server(account: MailAccount) -> tuple[str, int]:
    return account.smtp_host, account.smtp_port or SMTP_PORTS[account.smtp_security]


@contextlib.contextmanager
def _connected(account: MailAccount, login: Login, seconds: float) -> Iterator[smtplib.SMTP]:
    """A connection that may send. Everything that fails up to here has sent nothing."""
    host, port = _server(account)
    name = f"{host}:{port}"
    with mapped(name, "connecting; nothing was sent"), _protocol(name):
        if account.smtp_security == "ssl":
            server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=seconds, context=tls_context(account))
        else:
            server = smtplib.SMTP(host, port, timeout=seconds)
    try:
        with mapped(name, "logging in; nothing was sent"), _protocol(name):
            if account.smtp_security == "starttls":
                server.starttls(context=tls_context(account))
            server.ehlo_or_helo_if_needed()
            if account.smtp_auth:
                try:
                    _login(server, login)
                except smtplib.SMTPAuthenticationError as error:
                    raise auth_refused(name, login) from error
        yield server
    finally:
        server.close()


def _login(server: smtplib.SMTP, login: Login) -> None:
    if not login.bearer and f"{login.user}{login.secret}".isascii():
        server.login(login.user, login.secret)
        return
    # The library's own login knows neither other letters nor tokens.
    response = login.xoauth2 if login.bearer else f"\0{login.user}\0{login.secret}"
    token = base64.b64encode(response.encode()).decode("ascii")
    code, answer = server.docmd("AUTH", f"{'XOAUTH2' if login.bearer else 'PLAIN'} {token}")
    if code == 334:  # what is wrong with the token; the refusal itself comes when that is acknowledged
        code, answer = server.docmd("")
    if code != 235:
        raise smtplib.SMTPAuthenticationError(code, answer)


@contextlib.contextmanager
def _protocol(name: str) -> Iterator[None]:
    try:
        yield
    except smtplib.SMTPResponseException as error:
        raise ModelError(
            f"the mail server {name} refused: {_said(error.smtp_code, error.smtp_error)}; nothing was sent",
            hint="try again later" if error.smtp_code < 500 else "tell the user",
            code="refused",
        ) from error
    except smtplib.SMTPServerDisconnected as error:
        # It stands for whatever ended the connection.
        late = isinstance(error.__context__, TimeoutError)
        raise (TimeoutError if late else ConnectionError)(str(error)) from error
    except smtplib.SMTPException as error:
        raise ModelError(
            f"the mail server {name} does not do what it must: {snippet(str(error), 200)}; nothing was sent",
            hint="tell the user; the operator checks the mail account",
            code="bad_response",
        ) from error


def _said(code: int, text: bytes | str) -> str:
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return f"{code} {snippet(words, 200)}"


def send(account: MailAccount, login: Login, mail: EmailMessage, recipients: Sequence[str], seconds: float) -> bytes:
    """Hands the mail to the server, for all recipients or for none, and returns its bytes. Blocks.

    Raises ModelError, which says that nothing was sent, or that it is not known.
    """
    envelope = [_envelope(one) for one in (account.address, *recipients)]
    host, port = _server(account)
    name = f"{host}:{port}"
    with _connected(account, login, seconds) as server:
        foreign = not all(one.isascii() for one in envelope)
        if foreign and not server.has_extn("smtputf8"):
            raise ModelError(
                "this mail server does not take addresses with such letters; nothing was sent", code="unsupported"
            )
        data = mail.as_bytes(policy=policy.SMTPUTF8 if foreign else _WIRE)
        with mapped(name, "giving the recipients; nothing was sent"), _protocol(name):
            _offer(server, envelope, ["SMTPUTF8", "BODY=8BITMIME"] if foreign else [])
        try:
            code, answer = server.data(data)
        except smtplib.SMTPDataError as error:
            raise _rejected(name, error.smtp_code, error.smtp_error) from error
        except (OSError, smtplib.SMTPException) as error:
            raise ModelError(
                f"the connection to {name} broke while the mail was handed over: it may have been sent or not",
                hint="look into the folder for sent mail, or ask the user, before sending it again",
                code="outcome_unknown",
            ) from error
        if code != 250:
            raise _rejected(name, code, answer)
        with contextlib.suppress(OSError, smtplib.SMTPException):
            server.quit()
    return data


def _envelope(address: str) -> str:
    user = parseaddr(address)[1].rpartition("@")[0]
    return f"{user}@{_ascii_domain(address)}"


def _offer(server: smtplib.SMTP, envelope: Sequence[str], options: Sequence[str]) -> None:
    sender, *recipients = envelope
    code, answer = server.mail(sender, options)
    if code != 250:
        raise smtplib.SMTPResponseException(code, answer)
    for one in recipients:
        code, answer = server.rcpt(one)
        if code not in (250, 251):
            raise ModelError(
                f"the mail server refused the recipient {one}: {_said(code, answer)}; nothing was sent, to nobody",
                hint="correct the address or leave it out",
                code="refused",
            )


def _rejected(name: str, code: int, answer: bytes | str) -> ModelError:
    return ModelError(
        f"the mail server {name} rejected the mail: {_said(code, answer)}; it was not sent",
        hint="change what it says, or try again later" if code < 500 else "change what it says, or tell the user",
        code="refused",
    )
