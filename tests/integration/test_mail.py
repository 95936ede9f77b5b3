"""The mail tools against a real IMAP server and a real SMTP server: what they return, and what they did there."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from shared.errors import ModelError
from tests.support.dovecot import Dovecot, certificate, dovecot, free_port
from tests.support.smtp import Mailroom, smtp_server
from tests.unit.tools import conftest as tool_bench
from tests.unit.tools.conftest import Bench

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore:Requiring AUTH")]

workspace, make_bench = tool_bench.workspace, tool_bench.make_bench
PASSWORD = 'pa ss"wórd'
_numbers = itertools.count()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def imap(tls: tuple[Path, Path]) -> Iterator[Dovecot]:
    with dovecot({f"user{n}@example.org": PASSWORD for n in range(60)}, tls=tls) as server:
        yield server


@dataclass
class Box:
    """A user's empty mailbox, the tools that work in it, and what was sent from it."""

    address: str
    imap: Dovecot
    room: Mailroom
    bench: Bench

    def run(self, name: str, **args: Any) -> Any:
        return self.bench.run(name, principal="ana", **args)

    def deliver(self, raw: bytes, **place: str) -> int:
        return self.imap.deliver(self.address, PASSWORD, raw, **place)

    def flags(self, uid: int, folder: str = "INBOX") -> str | None:
        return self.imap.flags(self.address, PASSWORD, uid, folder)

    def messages(self, folder: str = "INBOX") -> list[bytes]:
        return self.imap.messages(self.address, PASSWORD, folder)


@pytest.fixture
def room() -> Iterator[Mailroom]:
    with smtp_server({f"user{n}@example.org": PASSWORD for n in range(60)}) as server:
        yield server


@pytest.fixture
def make_box(
    imap: Dovecot, room: Mailroom, make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Box]:
    monkeypatch.setenv("ANAS_PASSWORD", PASSWORD)

    def make(mail: dict[str, Any] | None = None, **account: Any) -> Box:
        address = f"user{next(_numbers)}@example.org"
        values = {
            "address": address, "name": "Ana Pérez", "password_env": "ANAS_PASSWORD",
            "imap_host": "127.0.0.1", "imap_port": imap.imap_port, "imap_security": "plain",
            "smtp_host": "127.0.0.1", "smtp_port": room.port, "smtp_security": "plain",
        }  # fmt: skip
        settings = {"accounts": {"ana": values | account}, "timeout_s": 10, **(mail or {})}
        return Box(address, imap, room, make_bench(mail=settings))

    return make


@pytest.fixture
def box(make_box: Callable[..., Box]) -> Box:
    return make_box()


def plain(subject: str, text: str = "hello", **headers: str) -> bytes:
    mail = EmailMessage(policy=policy.SMTP)
    for name, value in {"From": "Marta <marta@example.net>", "To": "ana@example.org", **headers}.items():
        mail[name.replace("_", "-")] = value
    mail["Subject"] = subject
    if "Date" not in mail:
        mail["Date"] = "Tue, 10 Nov 2026 12:30:00 +0000"
    mail.set_content(text)
    return bytes(mail)


def test_the_newest_mail_comes_first_with_what_is_unread(box: Box) -> None:
    first = box.deliver(plain("Primera"), flags="\\Seen")
    second = box.deliver(plain("¿Qué tal el año?"))
    listed = box.run("mail_list")
    assert [one["uid"] for one in listed.value["mails"]] == [second, first]
    assert listed.value["mails"][0]["subject"] == "¿Qué tal el año?"
    assert f"- uid {second}, 2026-11-10 13:30, Marta <marta@example.net>: ¿Qué tal el año? (unread)" in listed.seen
    assert [one["uid"] for one in box.run("mail_list", unread=True).value["mails"]] == [second]
    assert box.run("mail_list", limit=1).value["total"] == 2
    assert box.run("mail_list", folder="Archive").seen == "No such mail in Archive."


def test_reading_shows_the_text_and_leaves_the_mail_unread(box: Box) -> None:
    uid = box.deliver(plain("Hola", "Buenas\n\nnos vemos el jueves\n", Cc="Eva <eva@example.org>"))
    read = box.run("mail_read", uid=uid)
    assert read.value["text"] == "Buenas\n\nnos vemos el jueves"
    assert read.value["cc"] == ["Eva <eva@example.org>"]
    assert read.value["complete"] is True
    assert read.seen.endswith("\n\nBuenas\n\nnos vemos el jueves")
    assert "\\Seen" not in str(box.flags(uid))


def test_attachments_are_listed_and_kept_on_request(box: Box) -> None:
    mail = EmailMessage(policy=policy.SMTP)
    mail["From"], mail["To"], mail["Subject"] = "m@example.net", "a@example.org", "Factura"
    mail.set_content("adjunta")
    mail.add_attachment(b"%PDF-1.7 \x00\xff", maintype="application", subtype="pdf", filename="factura año.pdf")
    uid = box.deliver(bytes(mail))
    read = box.run("mail_read", uid=uid)
    assert read.value["attachments"] == [
        {"number": 1, "name": "factura año.pdf", "media_type": "application/pdf", "size": 11, "artifact": ""}
    ]
    kept = box.run("mail_read", uid=uid, save=[1]).value["attachments"][0]["artifact"]
    stored = box.bench.services.artifacts
    artifact = asyncio.run(stored.get("ana", kept))
    assert (artifact.data, artifact.media_type) == (b"%PDF-1.7 \x00\xff", "application/pdf")
    with pytest.raises(ModelError, match=r"no attachment 2.*1 factura año\.pdf"):
        box.run("mail_read", uid=uid, save=[2])


def test_a_huge_mail_is_read_from_its_beginning(make_box: Callable[..., Box]) -> None:
    box = make_box(mail={"max_bytes": 20_000})
    mail = EmailMessage(policy=policy.SMTP)
    mail["From"], mail["To"], mail["Subject"] = "m@example.net", "a@example.org", "Grande"
    mail.set_content("lo importante está aquí")
    mail.add_attachment(b"x" * 200_000, maintype="application", subtype="zip", filename="fotos.zip")
    uid = box.deliver(bytes(mail))
    read = box.run("mail_read", uid=uid)
    assert read.value["complete"] is False
    assert "lo importante está aquí" in read.seen
    assert "of which the first 20000 were read" in read.seen
    with pytest.raises(ModelError, match="attachment 1 was cut"):
        box.run("mail_read", uid=uid, save=[1])


def test_search_by_every_field_in_any_alphabet(box: Box) -> None:
    old = box.deliver(plain("Seguro del coche", "póliza número 7", From="Aseguradora <a@seguros.example>"))
    new = box.deliver(plain("Reunión", "el niño llega el martes"), flags="\\Flagged")

    def found(**query: Any) -> list[int]:
        return [one["uid"] for one in box.run("mail_search", **query).value["mails"]]

    assert found(sender="seguros.example") == [old]
    assert found(subject="Reunión") == [new]
    assert found(text="póliza") == [old]
    assert found(text='say "no" \\ or {3}') == []
    assert found(flagged=True) == [new]
    assert found(recipient="ana@") == [new, old]
    assert found(since="2020-01-01") == [new, old]
    assert found(before="2020-01-01") == []
    assert found(sender="marta", subject="reunión", since="2020-01-01", unread=True) == [new]
    with pytest.raises(ModelError, match="nothing to search for"):
        box.run("mail_search")


def test_a_search_cannot_smuggle_a_command(box: Box) -> None:
    uid = box.deliver(plain("Quédate"))
    for evil in ('x"\r\nA9 UID STORE 1:* +FLAGS (\\Deleted)\r\nA10 EXPUNGE', "x\r\nA9 DELETE Archive"):
        assert box.run("mail_search", text=evil).value["mails"] == []
        with pytest.raises(ModelError, match="no folder's name"):
            box.run("mail_list", folder=evil)
    assert box.flags(uid) is not None
    assert "Archive" in box.run("mail_folders").value["folders"]


def test_marks_are_set_and_may_be_set_again(box: Box) -> None:
    uid = box.deliver(plain("Uno"))
    for _ in range(2):
        assert box.run("mail_mark", uids=[uid, uid], action="read").value["done"] == [uid]
    assert "\\Seen" in str(box.flags(uid))
    box.run("mail_mark", uids=[uid], action="flag")
    assert "\\Flagged" in str(box.flags(uid))
    box.run("mail_mark", uids=[uid], action="unflag")
    box.run("mail_mark", uids=[uid], action="unread")
    assert "\\Seen" not in str(box.flags(uid))
    assert "\\Flagged" not in str(box.flags(uid))


def test_what_another_program_marked_as_deleted_is_left_alone(box: Box) -> None:
    doomed = box.deliver(plain("Dudosa"), flags="\\Deleted")
    other = box.deliver(plain("Otra"))
    box.run("mail_mark", uids=[other], action="read")
    box.run("mail_mark", uids=[other], action="archive")
    assert "\\Deleted" in str(box.flags(doomed))


def test_moving_happens_once_however_often_it_is_asked_for(box: Box) -> None:
    uids = [box.deliver(plain(f"Boletín {n}")) for n in range(3)]
    moved = box.run("mail_mark", uids=uids[:2], action="archive")
    assert moved.value["folder"] == "Archive"
    again = box.run("mail_mark", uids=uids[:2], action="archive")
    assert again.value == {"action": "archive", "done": [], "gone": uids[:2], "folder": "Archive"}
    assert len(box.messages("Archive")) == 2
    box.run("mail_mark", uids=[uids[2]], action="trash")
    assert len(box.messages("Papelera")) == 1
    assert box.messages("INBOX") == []
    inside = box.run("mail_list", folder="Archive").value["mails"][0]["uid"]
    box.run("mail_mark", uids=[inside], action="move", folder="Archive", target="INBOX")
    assert len(box.messages("INBOX")) == 1
    with pytest.raises(ModelError, match=r"no folder 'Nada'; nothing was moved.*Archive"):
        box.run("mail_mark", uids=[1], action="move", folder="Archive", target="Nada")
    with pytest.raises(ModelError, match="needs the target"):
        box.run("mail_mark", uids=[1], action="move")


def test_a_mail_goes_out_as_it_was_written(box: Box) -> None:
    handle = asyncio.run(box.bench.services.artifacts.put("ana", b"a,b\n1,2\n", "text/csv"))
    sent = box.run(
        "mail_send",
        to=["José García <jose@example.net>"],
        cc=["eva@example.org"],
        bcc=["jefe@example.org"],
        subject="Informe de año: ¿cómo va?",
        body="Hola:\n.\nahí va el informe.\nñ\n",
        attachments=[{"artifact": handle, "name": "datos año.csv"}],
        node="r7.1.0.0",
    )
    [got] = box.room.received
    assert got.sender == box.address
    assert got.recipients == ("jose@example.net", "eva@example.org", "jefe@example.org")
    mail = message_from_bytes(got.data, policy=policy.default)
    assert mail["Subject"] == "Informe de año: ¿cómo va?"
    assert str(mail["From"]) == f"Ana Pérez <{box.address}>"
    assert str(mail["To"]) == "José García <jose@example.net>"
    assert mail["Bcc"] is None
    assert b"jefe@" not in got.data
    assert mail["Date"].datetime.isoformat() == "2026-11-10T15:00:00+01:00"
    assert mail["Message-ID"] == sent.value["message_id"]
    body = mail.get_body()
    assert body is not None
    assert body.get_content().replace("\r\n", "\n") == "Hola:\n.\nahí va el informe.\nñ\n"
    [attached] = mail.iter_attachments()
    assert attached.get_filename() == "datos año.csv"
    assert attached.get_content_type() == "text/csv"
    assert attached.get_payload(decode=True) == b"a,b\n1,2\n"
    assert sent.value["kept_in"] == "Enviados"
    assert [message_from_bytes(raw)["Message-ID"] for raw in box.messages("Enviados")] == [sent.value["message_id"]]


def test_the_id_of_a_mail_is_its_calls(box: Box) -> None:
    args = {"to": ["x@example.net"], "subject": "s", "body": "b"}
    ids = [box.run("mail_send", node=node, **args).value["message_id"] for node in ("r1.0.0.0", "r1.0.0.0", "r1.0.0.1")]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(
    "args",
    [
        {"to": ["a@example.net\r\nBcc: x@evil.example"]},
        {"to": ["a@example.net, b@evil.example"]},
        {"to": ["nobody"]},
        {"to": ["a@b.example>\nRCPT TO:<x@evil.example"]},
        {"subject": "hi\r\nBcc: x@evil.example"},
        {"subject": "hi\u2028Bcc: x@evil.example"},
        {"to": ["Name\nX: y <a@example.net>"]},
    ],
)
def test_headers_cannot_be_smuggled_in(box: Box, args: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="nothing was sent"):
        box.run("mail_send", **{"to": ["a@example.net"], "subject": "s", "body": "b", **args})
    assert box.room.received == []


def test_one_refused_recipient_means_that_nobody_gets_it(box: Box) -> None:
    box.room.refuse = {"wrong@example.net"}
    with pytest.raises(ModelError, match=r"refused the recipient wrong@example\.net: 550.*nothing was sent, to nobody"):
        box.run("mail_send", to=["ok@example.net", "wrong@example.net"], subject="s", body="b")
    assert box.room.received == []


def test_a_rejected_mail_was_not_sent_and_a_broken_line_leaves_it_open(box: Box) -> None:
    args: dict[str, Any] = {"to": ["a@example.net"], "subject": "s", "body": "b"}
    box.room.after_data = "554 5.7.1 looks like spam"
    with pytest.raises(ModelError, match=r"rejected the mail: 554.*spam; it was not sent"):
        box.run("mail_send", **args)
    box.room.after_data = ""
    with pytest.raises(ModelError, match="may have been sent or not") as failure:
        box.run("mail_send", **args)
    assert failure.value.code == "outcome_unknown"


def test_a_reply_stays_in_its_thread_and_quotes(box: Box) -> None:
    long_id = f"<{'a' * 120}@mail.example.net>"
    original = plain(
        "Re: Cena", "¿Vienes?\n> el viernes", Message_ID=long_id, References="<one@example.net> <two@example.net>",
        Reply_To="Marta casa <casa@example.net>", Cc=f"Luis <luis@example.net>, yo <{box.address}>",
    )  # fmt: skip
    uid = box.deliver(original)
    sent = box.run("mail_reply", uid=uid, body="Sí, voy.", everybody=True)
    [got] = box.room.received
    assert got.recipients == ("casa@example.net", "ana@example.org", "luis@example.net")
    mail = message_from_bytes(got.data)
    assert mail["Subject"] == "Re: Cena"
    assert mail["In-Reply-To"] == long_id
    assert mail["References"].split() == ["<one@example.net>", "<two@example.net>", long_id]
    payload = mail.get_payload(decode=True)
    assert isinstance(payload, bytes)
    text = payload.decode().replace("\r\n", "\n")
    assert text == "Sí, voy.\n\n2026-11-10 12:30 Marta <marta@example.net>:\n> ¿Vienes?\n>> el viernes\n"
    assert "\\Answered" in str(box.flags(uid))
    assert sent.value["kept_in"] == "Enviados"


def test_a_reply_goes_to_the_sender_alone_unless_told_otherwise(box: Box) -> None:
    uid = box.deliver(plain("Hola", Cc="luis@example.net"))
    box.run("mail_reply", uid=uid, body="gracias")
    assert box.room.received[0].recipients == ("marta@example.net",)
    with pytest.raises(ModelError, match="no mail with uid 999"):
        box.run("mail_reply", uid=999, body="x")
    nobody = box.deliver(b"Subject: x\r\n\r\nnobody wrote this\r\n")
    with pytest.raises(ModelError, match="nobody who could be answered; nothing was sent"):
        box.run("mail_reply", uid=nobody, body="x")


def test_what_was_sent_counts_though_the_mailbox_is_away(make_box: Callable[..., Box]) -> None:
    box = make_box(imap_port=free_port())
    sent = box.run("mail_send", to=["a@example.net"], subject="s", body="b")
    assert len(box.room.received) == 1
    assert "it was sent, but the mailbox could not be brought up to date" in sent.seen


@pytest.mark.parametrize("security", ["ssl", "starttls"])
def test_secure_connections_check_the_certificate(
    imap: Dovecot, tls: tuple[Path, Path], make_box: Callable[..., Box], security: Any
) -> None:
    port = imap.imaps_port if security == "ssl" else imap.imap_port
    users = {f"user{n}@example.org": PASSWORD for n in range(60)}
    with smtp_server(users, security=security, tls=tls) as room:
        secure = {"imap_security": security, "imap_port": port, "smtp_security": security, "smtp_port": room.port}
        box = make_box(ca_file=tls[0], **secure)
        uid = box.deliver(plain("Cifrado"))
        assert box.run("mail_read", uid=uid).value["subject"] == "Cifrado"
        box.run("mail_reply", uid=uid, body="ok")
        assert len(room.received) == 1
        stranger = make_box(**secure)
        for name, args in (
            ("mail_list", {}),
            ("mail_send", {"to": ["a@example.net"], "subject": "s", "body": "b"}),
        ):
            with pytest.raises(ModelError, match="no secure connection"):
                stranger.run(name, **args)
        assert len(room.received) == 1


def test_a_wrong_password_is_told_without_it(make_box: Callable[..., Box], monkeypatch: pytest.MonkeyPatch) -> None:
    box = make_box()
    monkeypatch.setenv("ANAS_PASSWORD", "hunter2 is wrong")
    with pytest.raises(ModelError, match=r"refused the login of user\d+@example.org; nothing was done") as failure:
        box.run("mail_list")
    assert "hunter2" not in str(failure.value)
    with pytest.raises(ModelError, match="refused the login") as failure:
        box.run("mail_send", to=["a@example.net"], subject="s", body="b")
    assert "hunter2" not in str(failure.value)
    assert failure.value.code == "auth_refused"
    assert box.room.received == []


def test_a_server_that_is_away_and_one_that_says_nothing(make_box: Callable[..., Box]) -> None:
    away = make_box(imap_port=free_port(), smtp_port=free_port())
    for name, args in (("mail_list", {}), ("mail_send", {"to": ["a@example.net"], "subject": "s", "body": "b"})):
        with pytest.raises(ModelError, match="cannot be reached") as failure:
            away.run(name, **args)
        assert failure.value.code == "unreachable"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        box = make_box(mail={"timeout_s": 0.5}, imap_port=port, smtp_port=port)
        for name, args in (("mail_list", {}), ("mail_send", {"to": ["a@example.net"], "subject": "s", "body": "b"})):
            with pytest.raises(ModelError, match="did not answer in time") as failure:
                box.run(name, **args)
            assert failure.value.code == "timed_out"


def test_a_server_of_another_kind_is_told_so(make_box: Callable[..., Box]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as wrong:

        def talk() -> None:
            for _ in range(2):
                connection, _ = wrong.accept()
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        talking = threading.Thread(target=talk)
        talking.start()
        port = wrong.getsockname()[1]
        box = make_box(imap_port=port, smtp_port=port)
        for name, args in (("mail_list", {}), ("mail_send", {"to": ["a@example.net"], "subject": "s", "body": "b"})):
            with pytest.raises(ModelError) as failure:
                box.run(name, **args)
            assert failure.value.code in ("bad_response", "unreachable", "refused")
        talking.join()


def test_users_have_their_own_mail_or_none(box: Box) -> None:
    with pytest.raises(ModelError, match=r"no mail account.*mail\.accounts\.eva"):
        box.bench.run("mail_list", principal="eva")
    with pytest.raises(ModelError, match=r"no mail account"):
        box.bench.run("mail_send", principal="eva", to=["a@example.net"], subject="s", body="b")


def test_an_account_that_cannot_send_says_so(make_box: Callable[..., Box]) -> None:
    with pytest.raises(ModelError, match="no server to send with; nothing was sent"):
        make_box(smtp_host="").run("mail_send", to=["a@example.net"], subject="s", body="b")


def test_too_much_is_not_sent(make_box: Callable[..., Box]) -> None:
    box = make_box(mail={"max_send_bytes": 10_000})
    handle = asyncio.run(box.bench.services.artifacts.put("ana", b"x" * 20_000, "text/plain"))
    files = [{"artifact": handle, "name": "x.txt"}]
    with pytest.raises(ModelError, match="of at most 10000; nothing was sent"):
        box.run("mail_send", to=["a@example.net"], subject="s", body="b", attachments=files)
    with pytest.raises(ModelError, match="no artifact"):
        box.run("mail_send", to=["a@example.net"], subject="s", body="b",
                attachments=[{"artifact": "a:" + "0" * 32, "name": "x.txt"}])  # fmt: skip
    assert box.room.received == []


def test_what_no_server_is_asked_is_refused_by_its_form(box: Box) -> None:
    for name, args in (
        ("mail_list", {"limit": 0}), ("mail_read", {"uid": 0}), ("mail_search", {"since": "yesterday"}),
        ("mail_mark", {"uids": [], "action": "read"}), ("mail_mark", {"uids": [1], "action": "burn"}),
        ("mail_send", {"to": [], "subject": "s", "body": "b"}), ("mail_reply", {"uid": 1}),
    ):  # fmt: skip
        with pytest.raises(ModelError):
            box.run(name, **args)
    with pytest.raises(ModelError, match=r"no folder 'Nada'.*INBOX"):
        box.run("mail_list", folder="Nada")
    with pytest.raises(ModelError, match="no mail with uid 77"):
        box.run("mail_read", uid=77)
