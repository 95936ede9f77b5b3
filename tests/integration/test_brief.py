"""The daily brief against a real IMAP server and a real CalDAV server, and without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from email import policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from tests.support.dovecot import Dovecot, certificate, dovecot, free_port
from tests.support.radicale import Radicale, radicale
from tests.unit.tools import conftest as tool_bench
from tests.unit.tools.conftest import Bench

pytestmark = pytest.mark.integration
make_bench = tool_bench.make_bench
workspace = tool_bench.workspace

PASSWORD = "pass word"
ADDRESS, USER = "ana@example.org", "ana"
EVENT = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//x//
BEGIN:VEVENT
UID:dentist
DTSTART;TZID=Europe/Madrid:20261110T183000
DTEND;TZID=Europe/Madrid:20261110T190000
SUMMARY:Dentista
END:VEVENT
END:VCALENDAR
"""


@pytest.fixture(scope="module")
def imap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dovecot]:
    with dovecot({ADDRESS: PASSWORD}, tls=certificate(tmp_path_factory.mktemp("tls"))) as server:
        yield server


@pytest.fixture(scope="module")
def caldav() -> Iterator[Radicale]:
    with radicale({USER: PASSWORD}) as server:
        yield server


def _accounts(imap_port: int, caldav_url: str) -> dict[str, Any]:
    mail = {
        "address": ADDRESS, "password_env": "ANAS_PASSWORD", "imap_host": "127.0.0.1", "imap_port": imap_port,
        "imap_security": "plain",
    }  # fmt: skip
    calendar = {"url": caldav_url, "user": USER, "password_env": "ANAS_PASSWORD", "calendar": "Casa"}
    return {"mail": {"accounts": {"ana": mail}}, "calendar": {"accounts": {"ana": calendar}}}


def _brief(bench: Bench, principal: str = "ana") -> str:
    """What the model would be given."""
    steps = ("read_notes", "due_reminders", "read_calendar", "read_mail")
    found = {name: bench.run(f"workflow:daily-brief/{name}", principal=principal, inputs={}).value for name in steps}
    return str(bench.run("workflow:daily-brief/filter", principal=principal, inputs={**found, "params": {}}).seen)


def test_the_brief_has_reminders_events_and_unread_mail(
    imap: Dovecot, caldav: Radicale, make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANAS_PASSWORD", PASSWORD)
    mail = EmailMessage(policy=policy.SMTP)
    mail["From"], mail["To"], mail["Subject"] = "Marta <marta@example.net>", ADDRESS, "¿Cenamos?"
    mail["Date"] = "Tue, 10 Nov 2026 12:30:00 +0000"
    mail.set_content("el jueves")
    imap.deliver(ADDRESS, PASSWORD, bytes(mail))
    mail.replace_header("Subject", "Leído")
    imap.deliver(ADDRESS, PASSWORD, bytes(mail), flags="\\Seen")
    caldav.make_calendar(f"{USER}:{PASSWORD}", "casa", "Casa")
    caldav.request("PUT", f"{USER}/casa/dentist.ics", f"{USER}:{PASSWORD}", EVENT.replace("\n", "\r\n"))

    bench = make_bench(**_accounts(imap.imap_port, caldav.url))
    bench.run("reminder_add", text="llamar al banco", at="hoy a las 17:00")
    bench.run("note_save", title="Leche", text="comprar leche de avena")
    brief = _brief(bench)
    assert "- due 17:00: llamar al banco" in brief
    assert "- note: Leche: comprar leche de avena" in brief
    assert "18:30 to 19:00: Dentista" in brief
    assert "Marta <marta@example.net>: ¿Cenamos?" in brief
    assert "Leído" not in brief

    # Nothing is kept from a user because a server is away: it is said.
    away = _brief(make_bench(**_accounts(free_port(), f"http://127.0.0.1:{free_port()}/")))
    assert "(the calendar could not be read:" in away
    assert "(mail could not be read:" in away
    assert "Leche" in away
    # Without accounts there is no word of either.
    assert _brief(bench, "eva") == "(no entries)"
