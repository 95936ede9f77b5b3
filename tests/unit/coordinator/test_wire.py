"""What debugging shows of a model call: the bytes as they went, without keys, the long ones with a handle."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import SecretStr

from coordinator.events import EventWriter
from coordinator.loop.wire import MOST_HELD, MOST_SHOWN, WireLog
from shared.artifacts import Artifact, content_handle
from shared.errors import ModelError
from shared.llm.provider import Provider
from shared.models import Choice

KEY = "very secret key"


class Events(EventWriter):
    def __init__(self) -> None:
        self.written: list[tuple[str, dict[str, Any]]] = []

    def write(self, kind: str, **data: Any) -> None:
        self.written.append((kind, data))


class Store:
    def __init__(self, full: bool = False) -> None:
        self.full = full
        self.kept: dict[str, bytes] = {}

    async def put(self, principal: str, data: bytes, media_type: str) -> str:
        if self.full:
            raise ModelError("too large", code="too_large")
        self.kept[content_handle(data)] = data
        return content_handle(data)

    async def get(self, principal: str, handle: str) -> Artifact:
        raise AssertionError("nothing is read")


def wire(events: Events, store: Store) -> WireLog:
    provider = Provider(name="p", dialect="openai", base_url="http://h/v1", api_key=SecretStr(KEY))
    return WireLog(events, store, "owner", Choice(provider, "m"), 2, 3)


def test_request_and_answer_are_shown_byte_for_byte() -> None:
    events, store = Events(), Store()
    log = wire(events, store)
    log.sent("http://user:pw@h/v1/chat", b'{"model":"m"}')
    log.answered(200)
    for piece in ("data: ñ".encode()[:7], "data: ñ".encode()[7:], b"\n\n"):
        log.received(piece)
    asyncio.run(log.close())
    (asked, request), (answered, response) = events.written
    assert (asked, answered) == ("debug.request", "debug.response")
    assert (request["step"], request["attempt"], request["model"]) == (2, 3, "p/m")
    assert request["body"] == '{"model":"m"}'
    assert request["url"] == "http://user:***@h/v1/chat"
    assert (response["status"], response["body"], response["bytes"]) == (200, "data: ñ\n\n", 10)
    assert request["artifact"] is response["artifact"] is None
    assert store.kept == {}


def test_no_key_is_ever_shown() -> None:
    events, store = Events(), Store()
    log = wire(events, store)
    log.sent(f"http://h/v1?key={KEY}", f"{KEY} sk-abcdefghijklmnop".encode())
    log.answered(401)
    for piece in (b"no such key: ", KEY[:5].encode(), KEY[5:].encode(), b" Bearer abcdefghijklmnop"):
        log.received(piece)
    asyncio.run(log.close())
    text = str(events.written)
    assert KEY not in text
    assert "abcdefghijklmnop" not in text
    assert "no such key: ***" in text


def test_a_long_body_is_cut_and_kept_whole() -> None:
    events, store = Events(), Store()
    log = wire(events, store)
    body = f"{'x' * MOST_SHOWN}{KEY}end"
    log.sent("http://h", body.encode())
    log.answered(200)
    asyncio.run(log.close())
    _, request = events.written[0]
    assert request["body"] == "x" * MOST_SHOWN
    assert store.kept[request["artifact"]].decode() == f"{'x' * MOST_SHOWN}***end"


def test_an_endless_answer_is_held_in_part_and_counted_whole() -> None:
    events, store = Events(), Store(full=True)
    log = wire(events, store)
    log.answered(200)
    for _ in range(6):
        log.received(b"y" * 1_000_000)
    asyncio.run(log.close())  # what cannot be stored is no reason to fail
    [(_, response)] = events.written
    assert response["bytes"] == 6_000_000
    assert response["artifact"] == content_handle(b"y" * MOST_HELD)


def test_an_answer_that_never_came() -> None:
    events = Events()
    asyncio.run(wire(events, Store()).close())
    [(kind, response)] = events.written
    assert (kind, response["status"], response["body"]) == ("debug.response", 0, "")
