"""The encoder behind an embeddings endpoint: what is asked of it, when, and what happens when it fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from coordinator.routing.router import Router
from shared.contract import Catalogue, GroupSpec
from shared.embeddings import DIM, EndpointEncoder, encoder_of
from shared.encoder import PackagedEncoder
from shared.errors import ConfigError, OperatorError
from shared.llm.provider import Provider
from shared.settings import Settings
from tests.support.catalogue import builtin
from tests.unit.routing.support import WordEncoder, catalogue

Reply = tuple[int, dict[str, str], Any]


def answer(texts: list[str], dim: int = 64) -> dict[str, Any]:
    rows = WordEncoder().encode(texts)
    wide = np.zeros((len(texts), dim), dtype=np.float32)
    wide[:, :64] = rows[:, :dim]
    data = [{"index": at, "embedding": row.tolist()} for at, row in enumerate(wide)]
    return {"data": data[::-1], "model": "m"}  # the order is the index, not the place


class Endpoint:
    """An OpenAI-compatible embeddings server that keeps what it was asked; `replies` come first, then real answers."""

    def __init__(self, dim: int = 64) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.replies: list[Reply] = []
        self.dim = dim

    def handle(self, headers: dict[str, str], body: dict[str, Any]) -> Reply:
        self.requests.append(body)
        self.headers.append(headers)
        return self.replies.pop(0) if self.replies else (200, {}, answer(body["input"], self.dim))

    def transport(self) -> httpx.MockTransport:
        def respond(request: httpx.Request) -> httpx.Response:
            status, headers, body = self.handle(dict(request.headers), json.loads(request.content))
            return httpx.Response(status, headers=headers, json=body)

        return httpx.MockTransport(respond)


PROVIDER = Provider(name="here", dialect="openai", base_url="http://127.0.0.1:9/v1")


def encoder(endpoint: Endpoint, waits: list[float] | None = None) -> EndpointEncoder:
    slept = [] if waits is None else waits
    return EndpointEncoder(PROVIDER, "m", transport=endpoint.transport(), sleep=slept.append, clock=lambda: sum(slept))


@pytest.fixture
def server() -> Iterator[tuple[Endpoint, str]]:
    """A real one, with its address."""
    endpoint = Endpoint(1536)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, _, value = endpoint.handle(dict(self.headers.items()), {"path": self.path, **body})
            blob = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(blob)))
            self.end_headers()
            self.wfile.write(blob)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    try:
        yield endpoint, f"http://127.0.0.1:{http.server_address[1]}/v1"
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def with_sentence(whole: Catalogue, sentence: str) -> Catalogue:
    first, *others = whole.groups
    grown = GroupSpec(
        name=first.name, title=first.title, keywords=first.keywords, examples={**first.examples, "fr": (sentence,)}
    )
    return whole.model_copy(update={"groups": (grown, *others)})


def test_one_request_for_all_groups_none_at_the_second_start_one_when_a_sentence_changes(
    server: tuple[Endpoint, str], tmp_path: Path
) -> None:
    endpoint, url = server
    settings = Settings.model_validate(
        {
            "models": {"providers": {"near": {"base_url": url, "api_key_env": "NEAR_KEY"}}},
            "routing": {"encoder": "near/embed-small"},
        }
    )

    def start(offered: Catalogue) -> Router:
        router = Router(offered, encoder_of(settings, {"NEAR_KEY": "a-key-for-this-test"}), tmp_path)
        router.prepare()
        return router

    whole = builtin()
    start(whole)
    [asked] = endpoint.requests
    assert (asked["path"], asked["model"]) == ("/v1/embeddings", "embed-small")
    assert endpoint.headers[0]["authorization"] == "Bearer a-key-for-this-test"
    assert {group.examples["es"][0] for group in whole.groups} <= set(asked["input"])
    assert len(asked["input"]) == len(set(asked["input"]))

    start(whole)
    assert len(endpoint.requests) == 1
    start(with_sentence(whole, "une phrase de plus"))
    assert len(endpoint.requests) == 2
    assert all(10_000 < file.stat().st_size < 100_000 for file in tmp_path.glob("*.npz"))

    start(whole).route("zyzzyva quokka florilegio")  # a query is a request of its own
    assert endpoint.requests[2]["input"] == ["zyzzyva quokka florilegio"]


@pytest.mark.parametrize("dim", [64, DIM, 1536])
def test_vectors_of_any_length_become_unit_vectors_that_keep_their_angles(dim: int) -> None:
    texts = ["una nota", "una nota", "a song about rain"]
    found = encoder(Endpoint(dim)).encode(texts)
    assert found.shape == (3, DIM)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    meant = WordEncoder().encode(texts)
    assert np.allclose(found @ found.T, meant @ meant.T, atol=0.15)


def test_it_tries_again_honours_retry_after_and_gives_up() -> None:
    endpoint, waits = Endpoint(), list[float]()
    endpoint.replies = [(429, {"retry-after": "2"}, {}), (503, {}, {})]
    assert encoder(endpoint, waits).encode(["a", "b"]).shape == (2, DIM)
    assert waits == [2.0, 1.0]

    endpoint.replies = [(500, {}, {"error": "down"})] * 3
    with pytest.raises(OperatorError) as caught:
        encoder(endpoint).encode(["a", "b"])
    assert caught.value.code == "embeddings_unavailable"


def test_a_query_is_tried_once_and_the_endpoint_rests_after_a_failure() -> None:
    endpoint, now = Endpoint(), [0.0]
    one = EndpointEncoder(PROVIDER, "m", transport=endpoint.transport(), clock=lambda: now[0])
    endpoint.replies = [(503, {}, {})]
    for _ in range(3):
        with pytest.raises(OperatorError):
            one.encode(["a"])
    assert len(endpoint.requests) == 1
    now[0] = 31.0
    assert one.encode(["a"]).shape == (1, DIM)


def test_a_refusal_is_not_repeated_and_names_the_model() -> None:
    endpoint = Endpoint()
    endpoint.replies = [(401, {}, {"error": "bad key"})]
    with pytest.raises(OperatorError, match="with m: 401") as caught:
        encoder(endpoint).encode(["a", "b"])
    assert (caught.value.code, len(endpoint.requests)) == ("embeddings_refused", 1)


@pytest.mark.parametrize("body", [{}, {"data": [{"index": 0}]}, {"data": [{"index": 0, "embedding": [1.0]}]}, []])
def test_an_answer_that_is_none_is_an_error(body: Any) -> None:
    endpoint = Endpoint()
    endpoint.replies = [(200, {}, body)]
    with pytest.raises(OperatorError, match="does not embed"):
        encoder(endpoint).encode(["a", "b"])


def test_messages_are_routed_by_words_while_it_is_down(caplog: pytest.LogCaptureFixture) -> None:
    endpoint = Endpoint()
    router = Router(catalogue(), encoder(endpoint))
    endpoint.replies = [(503, {}, {})] * 3
    assert router.route("qué tiempo hace").groups == ("weather",)
    assert router.route("sube el volumen del jazz en el altavoz").layer == "all"
    assert "does not embed" in caplog.text


def test_the_setting_chooses_the_encoder() -> None:
    assert isinstance(encoder_of(Settings(), {}), PackagedEncoder)
    assert encoder_of(Settings.model_validate({"routing": {"encoder": "off"}}), {}) is None
    for wrong in ("nowhere/model", "anthropic/model"):
        with pytest.raises(ConfigError, match=r"routing\.encoder"):
            encoder_of(
                Settings.model_validate({"routing": {"encoder": wrong}}), {"ANTHROPIC_API_KEY": "a-key-for-this-test"}
            )
    with pytest.raises(ValueError, match="routing"):
        Settings.model_validate({"routing": {"encoder": "packagd"}})
