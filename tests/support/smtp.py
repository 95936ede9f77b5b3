"""A real SMTP server for tests: aiosmtpd in a thread, with a login, that keeps what it gets and refuses on demand."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from tests.support.dovecot import free_port


@dataclass(frozen=True)
class Received:
    """One mail as it came over the wire."""

    sender: str
    recipients: tuple[str, ...]
    data: bytes


@dataclass
class Mailroom:
    """What the server got, and how it behaves: `refuse` are recipients that it does not take, `after_data` its answer
    to a mail (empty: it hangs up instead)."""

    port: int = 0
    refuse: set[str] = field(default_factory=set)
    after_data: str = "250 OK"
    received: list[Received] = field(default_factory=list)

    async def handle_RCPT(self, server: SMTP, session: Session, envelope: Envelope, address: str, options: Any) -> str:
        if address in self.refuse:
            return "550 5.1.1 no such user here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        content = envelope.original_content or b""
        self.received.append(Received(envelope.mail_from or "", tuple(envelope.rcpt_tos), content))
        if not self.after_data:
            assert isinstance(server.transport, asyncio.WriteTransport)
            server.transport.abort()
        return self.after_data or "250 OK"


@contextmanager
def smtp_server(
    users: dict[str, str],
    *,
    security: Literal["plain", "starttls", "ssl"] = "plain",
    tls: tuple[Path, Path] | None = None,
    smtputf8: bool = True,
) -> Iterator[Mailroom]:
    """Runs a server that lets these users in, and nobody else."""

    def check(server: SMTP, session: Session, envelope: Envelope, mechanism: str, login: Any) -> AuthResult:
        known = mechanism in ("LOGIN", "PLAIN") and users.get(login.login.decode()) == login.password.decode()
        return AuthResult(success=known, handled=False)

    room = Mailroom(port=free_port())
    context = None
    if tls is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*tls)
    controller = Controller(
        room,
        hostname="127.0.0.1",
        port=room.port,
        authenticator=check,
        auth_required=True,
        auth_require_tls=security == "starttls",
        enable_SMTPUTF8=smtputf8,
        ssl_context=context if security == "ssl" else None,
        tls_context=context if security == "starttls" else None,
    )
    controller.start()
    try:
        yield room
    finally:
        controller.stop()
