"""Attachments through a whole system: documents are read before the first model call, pictures can be looked at."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from shared.client import Client
from shared.messages import Attachment
from tests.integration.test_tiers import PNG
from tests.support.model_server import ModelServer
from tests.support.processes import System
from tests.unit.coordinator.test_attachments import pdf

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(rules=[{"then": {"text": "done"}}]) as started:
        yield started


@pytest.fixture(scope="module")
def system(server: ModelServer) -> Iterator[System]:
    env = {"CAPATAZ_PLAYBOOK__ENABLED": "false", "CAPATAZ_ATTACHMENTS__SHOWN_CHARS": "600"}
    running = System(model_url=server.url, env=env)
    try:
        yield running.start()
    finally:
        running.stop()


def attached(data: bytes, name: str, media_type: str) -> Attachment:
    return Attachment(name=name, media_type=media_type, data=base64.b64encode(data).decode())


def said(server: ModelServer) -> str:
    """The text of the last request's last user message."""
    content = next(m["content"] for m in reversed(server.requests[-1].body["messages"]) if m["role"] == "user")
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def test_documents_are_read_before_the_first_model_call(client: Client, server: ModelServer) -> None:
    long = ("The tenant pays on the first day of the month. " * 100).encode()
    attachments = [
        attached(pdf("The rent is 700 euros"), "lease.pdf", "application/pdf"),
        attached(long, "terms.md", "text/markdown"),
        attached(b"%PDF-broken", "bad.pdf", "application/pdf"),
    ]
    reply = client.ask("what is the rent?", session="docs", attachments=attachments, timeout=60)
    assert reply.answer == "done"
    text = said(server)
    assert "The rent is 700 euros" in text
    assert "PDF, 1 pages" in text
    assert "[document bad.pdf: the PDF cannot be read" in text
    assert "of 4700 characters; read_artifact(handle=a:" in text
    client.ask("and the deposit?", session="docs", timeout=60)
    earlier = next(m["content"] for m in server.requests[-1].body["messages"] if m["role"] == "user")
    assert "The rent is 700 euros" in str(earlier)
    assert "The rent is 700 euros" not in said(server)


def test_whoever_has_sent_a_picture_is_offered_what_looks_at_it(client: Client, server: ModelServer) -> None:
    client.ask("hmm", session="pictures", attachments=[attached(PNG, "dot.png", "image/png")], timeout=60)
    for _ in range(2):
        names = {tool["function"]["name"] for tool in server.requests[-1].body["tools"]}
        assert {"image_describe", "image_read_text", "image_compare"} <= names
        client.ask("go on", session="pictures", timeout=60)
