"""Deliveries against local servers in the wire format of each channel, and what becomes of those that fail."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import hmac
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email import message_from_bytes
from typing import Any

import pytest

from shared.contract import Effect
from shared.errors import ModelError
from shared.messages import Message
from shared.sql import deliveries
from shared.sql.deliveries import STALE_MS, Delivery, DeliveryState
from tests.support.http_stub import Answer, Asked, HttpStub
from tests.support.smtp import Mailroom, smtp_server
from tests.unit.tools.conftest import NOW, Bench
from workers.delivery.outgoing import Outgoing, Result, judged, signature
from workers.workflows import deliver

NOW_MS = int(NOW * 1000)
TODAY = f"{datetime.fromtimestamp(NOW, UTC):%Y-%m-%d}"
SECRETS = {
    "HOOK_KEY": "hook key",
    "NTFY": "tk_1",
    "TELEGRAM_TOKEN": "123:abc",
    "MATRIX_TOKEN": "syt_1",
    "ANA_MAIL": "pw",
}

MakeBench = Callable[..., Bench]


class Service:
    """All four services on one port; `answers` are given in turn, the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[Answer] = [Answer({"ok": True})]
        self.stub = HttpStub(self._answer)

    def _answer(self, asked: Asked) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @property
    def asked(self) -> list[Asked]:
        return self.stub.asked


@pytest.fixture
def service() -> Iterator[Service]:
    found = Service()
    with found.stub:
        yield found


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    found: list[Message] = []

    async def submit(redis_url: str, principal: str, message: Message) -> None:
        assert principal == "ana"
        found.append(message)

    monkeypatch.setattr(deliver, "submit", submit)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture
def bench(make_bench: MakeBench, service: Service, sent: list[Message]) -> Bench:
    return _bench(make_bench, service.stub.url)


def _bench(make_bench: MakeBench, url: str, **sections: Any) -> Bench:
    channels = {
        "hook": {"kind": "webhook", "url": f"{url}/hook", "secret_env": "HOOK_KEY"},
        "phone": {"kind": "ntfy", "topic": "mine", "url": url, "token_env": "NTFY"},
        "bot": {"kind": "telegram", "chat": "42", "url": url},
        "room": {"kind": "matrix", "room": "!r:example.org", "url": url},
        "post": {"kind": "mail"},
    }
    values = {
        "delivery": {"users": {"ana": {"channels": channels}}, "timeout_s": 5, "attempts": 3},
        "web": {"allow_private": ["127.0.0.1"]},
        **sections,
    }
    return make_bench(**values)


def _later(bench: Bench, seconds: float) -> Bench:
    services = dataclasses.replace(bench.services, now=lambda: NOW + seconds)
    return Bench(bench.settings, services, bench.state, bench.model)


def _deliver(bench: Bench, channel: str, text: str = "It rains.", node: str = "r9.0.0.0", **more: str) -> str:
    params = {"delivery": f"r1.{channel}", "channel": channel, "session": "s1", "run": "r1", "title": "Brief"}
    value: Any = bench.run(
        "workflow:deliver/send", node=node, inputs={"params": {**params, "text": text, **more}}
    ).value
    return str(value["state"])


def _again(bench: Bench, channel: str, node: str) -> str:
    value: Any = bench.run("workflow:deliver/send", node=node, inputs={"params": {"delivery": f"r1.{channel}"}}).value
    return str(value["state"])


def _stored(bench: Bench, channel: str) -> Delivery:
    one = asyncio.run(bench.services.db.run(lambda conn: deliveries.get(conn, f"r1.{channel}")))
    assert one is not None
    return one


def test_a_webhook_is_signed_and_can_be_told_apart(bench: Bench, service: Service) -> None:
    assert _deliver(bench, "hook") == "sent"
    (asked,) = service.asked
    assert (asked.method, asked.path) == ("POST", "/hook")
    assert asked.headers["idempotency-key"] == "r1.hook"
    assert asked.json() == {
        "v": 1, "id": "r1.hook", "user": "ana", "session": "s1", "run": "r1", "title": "Brief", "text": "It rains.",
        "at_ms": NOW_MS,
    }  # fmt: skip
    stamp = asked.headers["x-capataz-timestamp"]
    expected = hmac.new(b"hook key", f"{stamp}.".encode() + asked.body, hashlib.sha256).hexdigest()
    assert asked.headers["x-capataz-signature"] == f"sha256={expected}" == signature("hook key", stamp, asked.body)


def test_ntfy_telegram_and_matrix_get_what_their_documents_say(bench: Bench, service: Service) -> None:
    for channel in ("phone", "bot", "room"):
        assert _deliver(bench, channel) == "sent"
    phone, bot, room = service.asked
    assert (phone.method, phone.path, phone.headers["authorization"]) == ("POST", "/", "Bearer tk_1")
    assert phone.json() == {"topic": "mine", "title": "Brief", "message": "It rains."}
    assert (bot.method, bot.path) == ("POST", "/bot123:abc/sendMessage")
    assert (bot.json()["chat_id"], bot.json()["text"]) == ("42", "Brief\n\nIt rains.")
    path = "/_matrix/client/v3/rooms/%21r%3Aexample.org/send/m.room.message/r1.room"
    assert (room.method, room.path, room.headers["authorization"]) == ("PUT", path, "Bearer syt_1")
    assert room.json() == {"msgtype": "m.text", "body": "Brief\n\nIt rains."}


def test_long_texts_are_cut_to_what_the_channel_takes(bench: Bench, service: Service) -> None:
    for channel in ("phone", "bot"):
        assert _deliver(bench, channel, text="😀é" * 4000) == "sent"
    phone, bot = service.asked
    assert len(phone.json()["message"].encode()) <= 4096
    assert len(bot.json()["text"].encode("utf-16-le")) // 2 <= 4096
    for text in (phone.json()["message"], bot.json()["text"]):
        assert text.endswith("[… cut; the whole is in the session s1]")


def test_mail_goes_to_the_users_own_address(make_bench: MakeBench, service: Service, sent: list[Message]) -> None:
    with smtp_server({"ana@example.org": "pw"}) as room:
        bench = _mailing(make_bench, service, room)
        assert _deliver(bench, "post", text="Lluvia: sí.") == "sent"
        (received,) = room.received
        mail = message_from_bytes(received.data)
        assert (received.recipients, mail["Subject"]) == (("ana@example.org",), "Brief")
        payload = mail.get_payload(decode=True)
        assert isinstance(payload, bytes)
        assert payload.decode().strip() == "Lluvia: sí."
        room.after_data = ""  # it hangs up with the mail in hand
        assert _deliver(bench, "post", delivery="r2.post", node="r8.0.0.0") == "unknown"
    assert "may or may not have arrived" in str(sent[0].params["text"])


def _mailing(make_bench: MakeBench, service: Service, room: Mailroom) -> Bench:
    account = {
        "address": "ana@example.org", "imap_host": "127.0.0.1", "smtp_host": "127.0.0.1", "smtp_port": room.port,
        "smtp_security": "plain", "password_env": "ANA_MAIL",
    }  # fmt: skip
    return _bench(make_bench, service.stub.url, mail={"accounts": {"ana": account}})


def test_the_same_delivery_is_made_once(bench: Bench, service: Service) -> None:
    assert _deliver(bench, "bot") == "sent"
    assert _deliver(bench, "bot", node="r10.0.0.0") == "nothing to do"
    assert len(service.asked) == 1


def test_what_is_down_is_tried_again_with_growing_pauses_and_told_at_last(
    bench: Bench, service: Service, sent: list[Message]
) -> None:
    service.answers = [Answer({"error": "busy"}, 503, headers={"Retry-After": "90"}), Answer("", 502)]
    assert _deliver(bench, "hook") == "pending"
    assert (_stored(bench, "hook").due_ms - NOW_MS, _stored(bench, "hook").attempts) == (90_000, 1)
    assert _again(_later(bench, 89), "hook", "r10.0.0.0") == "nothing to do"
    assert _again(_later(bench, 90), "hook", "r11.0.0.0") == "pending"
    assert sent == []
    assert _again(_later(bench, 200), "hook", "r12.0.0.0") == "failed"
    assert {one.headers["idempotency-key"] for one in service.asked} == {"r1.hook"}
    (told,) = sent
    assert (told.session, told.workflow, told.deliver) == ("s1", "notice", ())
    assert "could not be delivered on the channel hook, after 3 tries: it answered with status 502" in str(
        told.params["text"]
    )


@pytest.mark.parametrize(
    ("channel", "answer", "state"),
    [
        ("bot", Answer({"ok": False, "description": "Too Many", "parameters": {"retry_after": 7}}, 429), "pending"),
        ("room", Answer({"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 45_000}, 429), "pending"),
        ("bot", Answer({"ok": False, "description": "chat not found"}, 400), "failed"),
        ("bot", Answer("", 500), "unknown"),
        ("room", Answer("", 500), "pending"),
        ("hook", Answer("", 302, headers={"Location": "http://127.0.0.1:1/"}), "failed"),
    ],
)
def test_what_an_answer_means(bench: Bench, service: Service, channel: str, answer: Answer, state: str) -> None:
    service.answers = [answer]
    assert _deliver(bench, channel) == state
    if channel == "room" and answer.status == 429:
        assert _stored(bench, channel).due_ms == NOW_MS + 45_000
    assert "123:abc" not in _stored(bench, channel).error


def test_a_service_that_cannot_be_reached_has_got_nothing(bench: Bench, service: Service) -> None:
    gone = Bench(bench.settings, bench.services, bench.state, bench.model)
    service.stub.__exit__(None, None, None)
    try:
        assert {_deliver(gone, channel, node=f"r{n}.0.0.0") for n, channel in enumerate(("bot", "hook"))} == {"pending"}
    finally:
        service.stub = HttpStub(service._answer)
        service.stub.__enter__()


def test_a_service_that_does_not_answer_may_have_got_it(make_bench: MakeBench, sent: list[Message]) -> None:
    hold = threading.Event()
    with HttpStub(lambda asked: Answer("", hold=hold)) as stub:
        users = {"ana": {"channels": {"bot": {"kind": "telegram", "chat": "42", "url": stub.url}}}}
        bench = make_bench(delivery={"users": users, "timeout_s": 0.3})
        assert _deliver(bench, "bot") == "unknown"
        hold.set()
    assert "did not answer" in str(sent[0].params["text"])


def test_a_webhook_into_the_private_network_is_refused(make_bench: MakeBench, sent: list[Message]) -> None:
    users = {"ana": {"channels": {"hook": {"kind": "webhook", "url": "http://127.0.0.1:9/hook"}}}}
    assert _deliver(make_bench(delivery={"users": users}), "hook") == "failed"
    assert len(sent) == 1


@pytest.mark.parametrize(
    ("channel", "state", "asked"), [("hook", "sent", 1), ("room", "sent", 1), ("bot", "unknown", 0)]
)
def test_a_worker_that_died_while_it_sent(
    bench: Bench, service: Service, sent: list[Message], channel: str, state: str, asked: int
) -> None:
    """The same node is run again by another worker: only what can tell a repeat gets it again."""
    one = Delivery(f"r1.{channel}", "ana", channel, "s1", "r1", "Brief", "It rains.", NOW_MS, NOW_MS)
    asyncio.run(bench.services.db.run(lambda conn: deliveries.add(conn, one)))
    taken = asyncio.run(bench.services.db.run(lambda conn: deliveries.take(conn, "ana", one.id, "r9.0.0.0", NOW_MS)))
    assert taken is not None
    assert not taken.interrupted
    assert _deliver(bench, channel) == state
    assert len(service.asked) == asked
    assert [str(message.id) for message in sent] == ([f"told:{one.id}"] if state == "unknown" else [])


def test_what_was_interrupted_is_taken_up_when_no_try_can_be_under_way(bench: Bench, service: Service) -> None:
    one = Delivery("r1.hook", "ana", "hook", "s1", "r1", "Brief", "It rains.", NOW_MS, NOW_MS)

    def begin(conn: Any) -> None:
        deliveries.add(conn, one)
        deliveries.take(conn, "ana", one.id, "dead", NOW_MS)

    asyncio.run(bench.services.db.run(begin))
    assert not asyncio.run(deliver.any_due(_later(bench, STALE_MS / 1000 - 1).services))
    later = _later(bench, STALE_MS / 1000)
    assert asyncio.run(deliver.any_due(later.services))
    assert _again(_later(bench, 10), "hook", "r10.0.0.0") == "nothing to do"
    assert _again(later, "hook", "r11.0.0.0") == "sent"
    assert _stored(bench, "hook").state is DeliveryState.SENT


def test_the_next_try_is_started_when_it_is_due(bench: Bench, service: Service, sent: list[Message]) -> None:
    service.answers = [Answer("", 503)]
    _deliver(bench, "hook")
    later = _later(bench, 60)
    for _ in range(2):  # the same message, however often it is started within some minutes
        later.run("workflow:due-deliveries/again", inputs={})
    first, second = sent
    assert first == second
    assert (first.workflow, first.params, first.session) == (
        "deliver",
        {"delivery": "r1.hook"},
        f".deliver.{TODAY}.ana",
    )
    tool = bench.tool("workflow:due-deliveries/again")
    assert tool.spec.effect is Effect.IDEMPOTENT
    assert _deliver(bench, "pager") == "failed"


def test_what_is_not_a_delivery_is_refused(bench: Bench) -> None:
    for params in ({}, {"delivery": "x", "channel": "hook"}, {"delivery": 3}):
        with pytest.raises(ModelError, match="needs the parameter"):
            bench.run("workflow:deliver/send", inputs={"params": params})
    assert _again(bench, "hook", "r1.0.0.0") == "nothing to do"  # nobody knows it


def test_another_users_delivery_is_not_taken(bench: Bench) -> None:
    one = Delivery("r1.hook", "eva", "hook", "s1", "r1", "Brief", "x", NOW_MS, NOW_MS)
    asyncio.run(bench.services.db.run(lambda conn: deliveries.add(conn, one)))
    assert _again(bench, "hook", "r1.0.0.0") == "nothing to do"


def test_success_is_any_answer_of_the_two_hundreds() -> None:
    out = Outgoing("POST", "https://example.org", b"")
    assert judged(out, 204, {}, b"").result is Result.SENT
    assert judged(out, 408, {}, b"[]").result is Result.LATER
    assert judged(out, 404, {}, b"\xff").result is Result.REFUSED
