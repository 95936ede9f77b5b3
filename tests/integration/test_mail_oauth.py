"""Mailboxes by OAuth: a real IMAP server that asks about tokens, an SMTP server that takes them, who gives them."""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult

from shared.errors import ModelError
from tests.support.dovecot import Dovecot, dovecot, free_port
from tests.support.http_stub import Answer, Asked, HttpStub
from tests.support.smtp import Mailroom
from tests.unit.tools import conftest as tool_bench
from tests.unit.tools.conftest import Bench
from workers.tools import mail_oauth

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore:Requiring AUTH")]

workspace, make_bench = tool_bench.workspace, tool_bench.make_bench
ADDRESS = "ana@example.org"
PASSWORD = "only for looking"


@dataclass
class Authority:
    """Who gives access tokens for refresh tokens, and is asked about them. `refusal` is answered instead of a token;
    with `rolling` each refresh token is good once."""

    refresh: str = "refresh-1"
    secret: str = "client secret"
    refusal: Answer | None = None
    rolling: bool = False
    life: Any = 3600
    valid: set[str] = field(default_factory=set)
    asked: list[dict[str, str]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def answer(self, asked: Asked) -> Answer | None:
        form = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
        if asked.path == "/introspect":
            known = form.get("token") in self.valid
            return Answer({"active": True, "email": ADDRESS} if known else {"active": False})
        self.asked.append(form)
        return self.refusal or self._granted(form)

    def _granted(self, form: dict[str, str]) -> Answer:
        if form.get("client_id") != "client" or form.get("client_secret") != self.secret:
            return Answer({"error": "invalid_client", "error_description": "The OAuth client was not found."}, 401)
        if form.get("refresh_token") != self.refresh or form.get("grant_type") != "refresh_token":
            return Answer({"error": "invalid_grant", "error_description": "Token has been expired or revoked."}, 400)
        token = f"access-{next(self._numbers)}"
        self.valid.add(token)
        found = {"access_token": token, "token_type": "Bearer", "expires_in": self.life}
        if self.rolling:
            self.refresh = f"refresh-{len(self.asked) + 1}"
            found["refresh_token"] = self.refresh
        return Answer(found)


class TokenRoom(Mailroom):
    """An SMTP server's side that takes what the authority has given (XOAUTH2)."""

    authority: Authority

    async def auth_XOAUTH2(self, server: SMTP, args: list[str]) -> AuthResult:
        match = re.fullmatch(r"user=(.+)\x01auth=Bearer (.+)\x01\x01", base64.b64decode(args[1]).decode())
        if match and match[1] == ADDRESS and match[2] in self.authority.valid:
            return AuthResult(success=True)
        await server.challenge_auth('{"status":"401","schemes":"bearer"}')
        return AuthResult(success=False, handled=False)


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def endpoint(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    mail_oauth._KEPT.clear()
    monkeypatch.setenv("ANAS_REFRESH_TOKEN", "refresh-1")
    monkeypatch.setenv("CLIENT_SECRET", "client secret")
    with HttpStub(authority.answer) as stub:
        yield stub.url
    mail_oauth._KEPT.clear()


@pytest.fixture
def imap(endpoint: str) -> Iterator[Dovecot]:
    with dovecot({ADDRESS: PASSWORD}, introspection=f"{endpoint}/introspect") as server:
        yield server


@pytest.fixture
def room(authority: Authority) -> Iterator[TokenRoom]:
    room = TokenRoom(port=free_port())
    room.authority = authority
    controller = Controller(
        room,
        hostname="127.0.0.1",
        port=room.port,
        auth_required=True,
        auth_require_tls=False,
        auth_exclude_mechanism=["LOGIN", "PLAIN"],
    )
    controller.start()
    yield room
    controller.stop()


@pytest.fixture
def make_box(endpoint: str, make_bench: Callable[..., Bench]) -> Callable[..., Callable[..., Any]]:
    def make(imap_port: int = 1, smtp_port: int = 1, **oauth: Any) -> Callable[..., Any]:
        account = {
            "address": ADDRESS, "imap_host": "127.0.0.1", "imap_port": imap_port, "imap_security": "plain",
            "smtp_host": "127.0.0.1", "smtp_port": smtp_port, "smtp_security": "plain",
            "oauth": {
                "client_id": "client", "client_secret_env": "CLIENT_SECRET",
                "refresh_token_env": "ANAS_REFRESH_TOKEN", "token_url": f"{endpoint}/token", **oauth,
            },
        }  # fmt: skip
        bench = make_bench(mail={"accounts": {"ana": account}, "timeout_s": 10})
        return lambda name, **args: bench.run(name, principal="ana", **args)

    return make


def test_reading_and_sending_with_one_token(
    make_box: Callable[..., Callable[..., Any]], imap: Dovecot, room: TokenRoom, authority: Authority
) -> None:
    uid = imap.deliver(ADDRESS, PASSWORD, b"From: marta@example.net\r\nSubject: Hola\r\n\r\nque tal\r\n")
    box = make_box(imap.imap_port, room.port)
    assert box("mail_read", uid=uid).value["text"] == "que tal"
    box("mail_send", to=["marta@example.net"], subject="Re: Hola", body="bien")
    assert [one.recipients for one in room.received] == [("marta@example.net",)]
    assert b"Re: Hola" in imap.messages(ADDRESS, PASSWORD, "Enviados")[0]
    assert authority.asked == [
        {"grant_type": "refresh_token", "refresh_token": "refresh-1", "client_id": "client",
         "client_secret": "client secret"}
    ]  # fmt: skip


def test_a_token_that_was_taken_back_is_replaced_once(
    make_box: Callable[..., Callable[..., Any]], imap: Dovecot, room: TokenRoom, authority: Authority
) -> None:
    box = make_box(imap.imap_port, room.port)
    box("mail_list")
    authority.valid.clear()
    box("mail_list")
    authority.valid.clear()
    box("mail_send", to=["marta@example.net"], subject="s", body="b")
    assert len(authority.asked) == 3
    assert len(room.received) == 1


def test_a_token_that_no_server_takes(
    make_box: Callable[..., Callable[..., Any]], imap: Dovecot, room: TokenRoom, authority: Authority
) -> None:
    authority.refusal = Answer({"access_token": "not-for-mail", "expires_in": 3600})
    box = make_box(imap.imap_port, room.port)
    for name, args in (("mail_list", {}), ("mail_send", {"to": ["a@example.net"], "subject": "s", "body": "b"})):
        with pytest.raises(ModelError, match=r"refused the access token of ana@example\.org") as failure:
            box(name, **args)
        assert failure.value.code == "auth_refused"
        assert "scope" in failure.value.hint
        assert "not-for-mail" not in str(failure.value)
        mail_oauth._KEPT.clear()
    assert room.received == []


def test_a_short_life_is_asked_for_anew(
    make_box: Callable[..., Callable[..., Any]], imap: Dovecot, authority: Authority
) -> None:
    authority.life = "60"
    box = make_box(imap.imap_port)
    box("mail_list")
    box("mail_list")
    assert len(authority.asked) == 2


def test_a_refresh_token_that_is_replaced_is_kept_for_all_workers(
    make_box: Callable[..., Callable[..., Any]], imap: Dovecot, authority: Authority, tmp_path: Path
) -> None:
    authority.rolling = True
    file = tmp_path / "token"
    box = make_box(imap.imap_port, token_file=str(file))
    box("mail_list")
    assert file.read_text() == "refresh-2"
    assert file.stat().st_mode & 0o777 == 0o600
    mail_oauth._KEPT.clear()  # another worker
    box("mail_list")
    assert [one["refresh_token"] for one in authority.asked] == ["refresh-1", "refresh-2"]
    assert [path.name for path in tmp_path.iterdir() if "token" in path.name] == ["token"]


def test_without_a_file_the_newer_token_lives_as_long_as_the_worker(
    make_box: Callable[..., Callable[..., Any]], imap: Dovecot, authority: Authority
) -> None:
    authority.rolling, authority.life = True, 0
    box = make_box(imap.imap_port)
    box("mail_list")
    box("mail_list")
    assert [one["refresh_token"] for one in authority.asked] == ["refresh-1", "refresh-2"]


def test_who_was_slower_takes_what_the_faster_worker_got(
    make_box: Callable[..., Callable[..., Any]],
    imap: Dovecot,
    authority: Authority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "token"
    file.write_text("refresh-1\n")
    usual = authority._granted

    def raced(form: dict[str, str]) -> Answer:
        if len(authority.asked) == 1:
            authority.refresh = "refresh-9"
            file.write_text("refresh-9")
        return usual(form)

    monkeypatch.setattr(authority, "_granted", raced)
    make_box(imap.imap_port, token_file=str(file))("mail_list")
    assert [one["refresh_token"] for one in authority.asked] == ["refresh-1", "refresh-9"]


@pytest.mark.parametrize(
    ("refusal", "code", "told"),
    [
        (Answer({"error": "invalid_grant", "error_description": "Token has been expired or revoked."}, 400),
         "auth_refused", r"no access to the mailbox any more \(Token has.*the operator gives it anew and sets ANAS_R"),
        (Answer({"error": "invalid_client"}, 401), "auth_refused", r"\(invalid_client\).*checks client_id"),
        (Answer({"error": "unauthorized_client"}, 400), "auth_refused", "client_secret_env and scope"),
        (Answer("busy", 503), "unreachable", r"status 503.*try again later"),
        (Answer({"error": "slow_down"}, 429), "unreachable", "try again later"),
        (Answer("<html>", 200, "text/html"), "bad_response", r"gave no access token \(status 200\).*token_url"),
        (Answer({"access_token": 7}, 200), "bad_response", "no access token"),
        (Answer("[1]", 404), "bad_response", "status 404"),
    ],
)  # fmt: skip
def test_what_goes_wrong_says_who_must_do_what(
    make_box: Callable[..., Callable[..., Any]], authority: Authority, refusal: Answer, code: str, told: str
) -> None:
    authority.refusal = refusal
    with pytest.raises(ModelError, match=told) as failure:
        make_box()("mail_list")
    assert failure.value.code == code
    assert "refresh-1" not in str(failure.value)
    assert "client secret" not in str(failure.value)


def test_an_endpoint_that_is_away(make_box: Callable[..., Callable[..., Any]]) -> None:
    with pytest.raises(ModelError, match="which gives access to mailboxes, cannot be reached") as failure:
        make_box(token_url=f"http://127.0.0.1:{free_port()}/token")("mail_list")
    assert failure.value.code == "unreachable"
