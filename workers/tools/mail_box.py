"""A user's mailbox over IMAP: one connection, blocking, for as long as a call takes. Its errors are ModelErrors.

UIDs are numbers of one folder. Nothing here marks a mail as read by reading it.
"""

from __future__ import annotations

import contextlib
import imaplib
import re
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from shared.compress import snippet
from shared.errors import ModelError
from shared.tool_settings import MailAccount
from workers.tools.mail_oauth import Login

if TYPE_CHECKING:
    from imap_tools import BaseMailBox

IMAP_PORTS = {"ssl": 993, "starttls": 143, "plain": 143}
_HEADERS = "FROM TO CC SUBJECT DATE MESSAGE-ID REPLY-TO"
_UID = re.compile(rb"\bUID (\d+)")
_SIZE = re.compile(rb"\bRFC822\.SIZE (\d+)")
_FLAGS = re.compile(rb"\bFLAGS \(([^)]*)\)")
_OWN_RESPONSE = re.compile(rb"\d+ \(")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CHUNK = 50


@dataclass(frozen=True)
class Fetched:
    """What was fetched of one mail; `data` are its headers or its beginning, `size` that of the whole in bytes."""

    uid: int
    size: int
    flags: frozenset[str]
    data: bytes


@dataclass(frozen=True)
class Query:
    """What to look for; everything that is given must hold. Dates are days, `before` exclusive."""

    sender: str = ""
    recipient: str = ""
    subject: str = ""
    text: str = ""
    since: date | None = None
    before: date | None = None
    unread: bool = False
    flagged: bool = False


def tls_context(account: MailAccount) -> ssl.SSLContext:
    """Checks the server's certificate and name, against the system's authorities or the account's own file."""
    try:
        return ssl.create_default_context(cafile=str(account.ca_file) if account.ca_file else None)
    except OSError as error:
        raise ModelError(
            f"the file with the certificates, {account.ca_file}, cannot be read: {error}",
            hint="tell the user; the operator corrects ca_file of the mail account",
            code="not_configured",
        ) from error


@contextlib.contextmanager
def mapped(server: str, doing: str) -> Iterator[None]:
    """Turns what connections and imaplib raise into ModelErrors about `server`; `doing` says what failed."""
    try:
        yield
    except TimeoutError as error:
        raise ModelError(
            f"the mail server {server} did not answer in time while {doing}",
            hint="try again later, or with less at once",
            code="timed_out",
        ) from error
    except ssl.SSLError as error:
        raise ModelError(
            f"no secure connection to the mail server {server}: {error.reason or error}",
            hint="tell the user; the operator checks security, port and ca_file of the mail account",
            code="unreachable",
        ) from error
    except imaplib.IMAP4.abort as error:
        raise ModelError(
            f"the mail server {server} broke off while {doing}: {snippet(str(error), 200)}",
            hint="try again later",
            code="unreachable",
        ) from error
    except OSError as error:
        raise ModelError(
            f"the mail server {server} cannot be reached: {error.strerror or error}",
            hint="tell the user; try again later",
            code="unreachable",
        ) from error
    except (imaplib.IMAP4.error, UnicodeError) as error:
        raise ModelError(
            f"the mail server {server} refused something while {doing}: {snippet(str(error), 200)}",
            hint="tell the user if it happens again",
            code="bad_response",
        ) from error


def _connected(account: MailAccount, seconds: float) -> BaseMailBox:
    import imap_tools

    host, port = account.imap_host, account.imap_port or IMAP_PORTS[account.imap_security]
    if account.imap_security == "ssl":
        return imap_tools.MailBox(host, port, seconds, ssl_context=tls_context(account))
    if account.imap_security == "starttls":
        return imap_tools.MailBoxStartTls(host, port, seconds, ssl_context=tls_context(account))
    return imap_tools.MailBoxUnencrypted(host, port, seconds)


@contextlib.contextmanager
def opened(account: MailAccount, login: Login, seconds: float) -> Iterator[Mailbox]:
    """A connection that is logged in. `seconds` bounds each step on the wire, not the whole."""
    from imap_tools import ImapToolsError

    server = f"{account.imap_host}:{account.imap_port or IMAP_PORTS[account.imap_security]}"
    with mapped(server, "connecting"):
        try:
            box = _connected(account, seconds)
        except ImapToolsError as error:
            raise imaplib.IMAP4.error(str(error)) from error
    try:
        with mapped(server, "logging in"):
            _login(box, login, server)
        with mapped(server, "working in the mailbox"):
            try:
                yield Mailbox(box)
            except ImapToolsError as error:
                raise imaplib.IMAP4.error(str(error)) from error
    except BaseException:
        box.client.shutdown()  # whoever broke off would not answer a farewell either
        raise
    with contextlib.suppress(OSError, imaplib.IMAP4.error):
        box.client.logout()


def _login(box: BaseMailBox, login: Login, server: str) -> None:
    from imap_tools import MailboxLoginError

    challenges: list[bytes] = []

    def respond(challenge: bytes) -> bytes:
        """The token once; what a server says instead of letting us in is acknowledged, so that it ends the attempt."""
        challenges.append(challenge)
        return login.xoauth2.encode() if len(challenges) == 1 else b""

    try:
        if login.bearer:
            # The library's own function answers every challenge with the token again.
            box.client.authenticate("XOAUTH2", respond)
        elif f"{login.user}{login.secret}".isascii():
            box.login(login.user, login.secret, initial_folder=None)
        else:
            box.login_utf8(login.user, login.secret, initial_folder=None)
    except imaplib.IMAP4.abort:
        raise
    except (MailboxLoginError, imaplib.IMAP4.error) as error:
        raise auth_refused(server, login) from error


def auth_refused(server: str, login: Login) -> ModelError:
    """A login that the server refused."""
    what = "the access token" if login.bearer else "the login"
    check = "user, scope and IMAP or SMTP access" if login.bearer else "user and password"
    return ModelError(
        f"the mail server {server} refused {what} of {login.user}; nothing was done",
        hint=f"tell the user: the operator checks {check} of the mail account",
        code="auth_refused",
    )


class Mailbox:
    """A mailbox that is logged in."""

    def __init__(self, box: BaseMailBox) -> None:
        self._box = box

    def folders(self) -> list[tuple[str, frozenset[str]]]:
        """Names of all folders that can be opened, each with its attributes in lower case (`\\\\sent`)."""
        found = [(one.name, frozenset(flag.lower() for flag in one.flags)) for one in self._box.folder.list()]
        return [(name, flags) for name, flags in found if "\\noselect" not in flags]

    def special(self, attribute: str, names: Sequence[str]) -> str | None:
        """The folder with that attribute (`\\\\archive`), else the first that has one of the names."""
        folders = self.folders()
        for name, flags in folders:
            if attribute in flags:
                return name
        plain = {re.split(r"[./]", name)[-1].casefold(): name for name, _ in folders}
        return next((plain[name.casefold()] for name in names if name.casefold() in plain), None)

    def select(self, folder: str, *, readonly: bool = True) -> None:
        """Opens a folder. Raises ModelError naming the ones that exist."""
        from imap_tools import ImapToolsError

        name = checked_folder(folder)
        try:
            self._box.folder.set("INBOX" if name.upper() == "INBOX" else name, readonly=readonly)
        except ImapToolsError as error:
            known = ", ".join(name for name, _ in self.folders()[:60]) or "none"
            raise ModelError(f"there is no folder {folder!r}", hint=f"folders: {known}", code="not_found") from error

    def search(self, query: Query) -> list[int]:
        """The UIDs of what fits in the open folder, newest first."""
        from imap_tools import AND

        wanted: dict[str, Any] = {
            "from_": _plain(query.sender), "to": _plain(query.recipient), "subject": _plain(query.subject),
            "text": _plain(query.text), "date_gte": query.since, "date_lt": query.before,
        }  # fmt: skip
        wanted = {name: value for name, value in wanted.items() if value}
        wanted |= {"seen": False} if query.unread else {}
        wanted |= {"flagged": True} if query.flagged else {}
        criteria = str(AND(**wanted)) if wanted else "ALL"
        # Some servers refuse to be told the charset of what is plain anyway.
        found = self._box.uids(criteria, charset=None if criteria.isascii() else "UTF-8")
        return sorted((int(uid) for uid in found if uid.isdigit()), reverse=True)

    def existing(self, uids: Sequence[int]) -> list[int]:
        """Those of the UIDs that the open folder still has, in the order given."""
        if not uids:
            return []
        found = self._box.uids(f"UID {','.join(map(str, uids))}", charset=None)
        return [uid for uid in uids if str(uid) in found]

    def headers(self, uids: Sequence[int]) -> list[Fetched]:
        """The headers that a list shows, in the order given; mails that are gone are left out."""
        found: dict[int, Fetched] = {}
        for start in range(0, len(uids), _CHUNK):
            chunk = uids[start : start + _CHUNK]
            for one in self._fetch(chunk, f"BODY.PEEK[HEADER.FIELDS ({_HEADERS})]"):
                found[one.uid] = one
        return [found[uid] for uid in uids if uid in found]

    def start_of(self, uid: int, max_bytes: int) -> Fetched | None:
        """The first `max_bytes` of a mail; None if the folder has it no more."""
        return next((one for one in self._fetch([uid], f"BODY.PEEK[]<0.{max_bytes}>") if one.uid == uid), None)

    def _fetch(self, uids: Sequence[int], part: str) -> Iterator[Fetched]:
        status, items = self._box.client.uid("FETCH", ",".join(map(str, uids)), f"(UID FLAGS RFC822.SIZE {part})")
        if status != "OK":
            raise imaplib.IMAP4.error(f"FETCH: {status}")
        yield from fetched(items)

    def flag(self, uids: Sequence[int], flag: str, *, on: bool) -> None:
        """Sets or removes one flag. (The library's own function would also expunge what others marked as deleted.)"""
        if not uids:
            return
        status, data = self._box.client.uid(
            "STORE", ",".join(map(str, uids)), f"{'+' if on else '-'}FLAGS", f"({flag})"
        )
        if status != "OK":
            raise imaplib.IMAP4.error(f"STORE: {data!r}")

    def move(self, uids: Sequence[int], folder: str) -> None:
        """Moves mails in one step of the server, so that a repeated or broken move leaves no copies."""
        from imap_tools import ImapToolsError

        if not uids:
            return
        if "MOVE" not in self._box.client.capabilities and not self._can_move():
            raise ModelError(
                "this mail server cannot move mails in one step (no MOVE), so nothing was moved",
                hint="tell the user; another mail program can move them",
                code="unsupported",
            )
        target = checked_folder(folder)
        if target not in {name for name, _ in self.folders()}:
            known = ", ".join(name for name, _ in self.folders()[:60])
            raise ModelError(
                f"there is no folder {folder!r}; nothing was moved", hint=f"folders: {known}", code="not_found"
            )
        try:
            self._box.move([str(uid) for uid in uids], target)
        except ImapToolsError as error:
            raise ModelError(
                f"the server refused to move to {folder!r}: {snippet(str(error), 200)}",
                hint="look with mail_list where the mails are now",
                code="refused",
            ) from error

    def _can_move(self) -> bool:
        """Asks again: many servers tell all they can only to those who are logged in."""
        client = self._box.client
        status, data = client.capability()
        if status == "OK" and data and isinstance(data[0], bytes):
            client.capabilities = tuple(data[0].decode("ascii", "replace").upper().split())
        return "MOVE" in client.capabilities

    def append(self, folder: str, message: bytes) -> None:
        """Puts a mail into a folder, as read."""
        self._box.append(message, folder, flag_set=["\\Seen"])


def fetched(items: Sequence[Any]) -> Iterator[Fetched]:
    """What imaplib collected of FETCH responses as mails. Those without data, which others' changes cause, are skipped.

    A response with data is a tuple (what is before it, the data), and then the rest of its line.
    """
    pending: tuple[bytes, bytes] | None = None
    for item in [*items, (b"", b"")]:
        if isinstance(item, bytes) and not _OWN_RESPONSE.match(item) and pending is not None:
            pending = (pending[0] + b" " + item, pending[1])
        elif isinstance(item, tuple):
            if pending is not None and (uid := _UID.search(pending[0])):
                size, flags = _SIZE.search(pending[0]), _FLAGS.search(pending[0])
                words = flags[1].decode("ascii", "replace").lower().split() if flags else []
                yield Fetched(int(uid[1]), int(size[1]) if size else len(pending[1]), frozenset(words), pending[1])
            pending = (bytes(item[0]), bytes(item[1]))


def _plain(text: str) -> str:
    """A search word that cannot end its line."""
    return _CONTROL.sub(" ", text).strip()


def checked_folder(name: str) -> str:
    """A folder's name. Raises ModelError for one that could be more than a name."""
    if not name.strip() or _CONTROL.search(name) or len(name) > 250:
        raise ModelError(f"{name[:80]!r} is no folder's name", hint="as mail_folders shows it", code="bad_arguments")
    return name.strip()
