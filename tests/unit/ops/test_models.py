import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from ops import models
from ops.models import Candidate, ProbeError, choose, list_models, parse_models, pick
from shared.llm.provider import Provider
from shared.settings import ModelSettings, ProviderSettings


def _nobody(candidate: Candidate) -> list[str]:
    raise ProbeError("cannot be reached")


def test_configured_tiers_win_without_any_probe() -> None:
    settings = ModelSettings(tiers={"fast": ("a/b",), "default": ("c/d", "e/f")})
    choice = choose(settings, {"OPENAI_API_KEY": "k"}, _nobody)
    assert (choice.name, choice.source, choice.env) == ("c/d", "settings", {})


def test_a_configured_provider_comes_before_keys_and_keys_before_local_servers() -> None:
    asked: list[str] = []

    def probe(candidate: Candidate) -> list[str]:
        asked.append(candidate.provider.name)
        raise ProbeError("no")

    settings = ModelSettings(providers={"house": ProviderSettings(base_url="http://h/v1")})
    choice = choose(settings, {"GROQ_API_KEY": "k"}, probe)
    assert asked[:3] == ["house", "groq", "ollama"]
    assert "openai" not in asked
    assert choice.rehearsal


def test_a_configured_provider_is_named_but_not_defined_again() -> None:
    settings = ModelSettings(providers={"house": ProviderSettings(base_url="http://h/v1")})
    choice = choose(settings, {}, lambda _candidate: ["text-embedding-1", "chat-1"])
    assert choice.name == "house/chat-1"
    assert set(choice.env) == {"CAPATAZ_MODELS__TIERS"}


def test_a_key_that_is_refused_is_told_and_passed_over() -> None:
    def probe(candidate: Candidate) -> list[str]:
        if candidate.provider.name == "openai":
            raise ProbeError("refuses it (HTTP 401)")
        if candidate.provider.name == "anthropic":
            return ["claude-haiku-4-5", "claude-haiku-3-20250101"]
        raise ProbeError("no")

    choice = choose(ModelSettings(), {"OPENAI_API_KEY": "bad", "ANTHROPIC_API_KEY": "good"}, probe)
    assert choice.name == "anthropic/claude-haiku-4-5"
    assert choice.notices == ("OPENAI_API_KEY is set, but openai refuses it (HTTP 401)",)
    assert json.loads(choice.env["CAPATAZ_MODELS__TIERS"]) == {"default": ["anthropic/claude-haiku-4-5"]}


def test_nothing_there_is_the_rehearsal_without_notices() -> None:
    choice = choose(ModelSettings(), {}, _nobody)
    assert (choice.rehearsal, choice.name, choice.notices) == (True, "rehearsal", ())
    assert json.loads(models.rehearsal_env(81)["CAPATAZ_MODELS__PROVIDERS"])["rehearsal"]["base_url"].endswith(":81/v1")


@pytest.mark.parametrize(
    ("ids", "wanted", "best"),
    [
        (["gpt-4.1-mini", "gpt-5-mini", "gpt-5.4-mini", "gpt-5.4"], models.WANTED["openai"], "gpt-5.4-mini"),
        (["gpt-4o", "gpt-5.1", "gpt-4.1"], models.WANTED["openai"], "gpt-5.1"),
        (["gpt-5-mini-tts", "whisper-1"], models.WANTED["openai"], None),
        (["nomic-embed-text", "qwen3:8b"], (), "qwen3:8b"),
        ([], (), None),
    ],
)
def test_pick(ids: list[str], wanted: tuple[str, ...], best: str | None) -> None:
    assert pick(ids, wanted) == best


@pytest.mark.property
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_answer_is_a_list_of_ids_or_refused(body: bytes) -> None:
    try:
        ids = parse_models(body)
    except ProbeError:
        return
    assert all(isinstance(one, str) for one in ids)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"data": [{"id": 1}]}', b'{"data": "x"}', b"\xff"])
def test_another_service_on_the_port_is_not_taken_for_a_model_server(body: bytes) -> None:
    with pytest.raises(ProbeError):
        parse_models(body)


def test_a_server_without_models_is_an_empty_list() -> None:
    assert parse_models(b'{"object": "list", "data": null}') == []


@contextmanager
def _server(status: int, body: bytes, headers: dict[str, str], seen: list[dict[str, str]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}})
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _candidate(url: str, dialect: str = "openai") -> Candidate:
    return Candidate(Provider(name="p", dialect=dialect, base_url=url, api_key=SecretStr("sesame")), "K", local=True)


def test_the_probe_speaks_both_dialects() -> None:
    seen: list[dict[str, str]] = []
    with _server(200, b'{"object":"list","data":[{"id":"m"}]}', {}, seen) as url:
        assert list_models(_candidate(f"{url}/v1")) == ["m"]
        assert list_models(_candidate(url, "anthropic")) == ["m"]
    assert [one["path"] for one in seen] == ["/v1/models", "/v1/models"]
    assert seen[0]["authorization"] == "Bearer sesame"
    assert (seen[1]["x-api-key"], "authorization" in seen[1]) == ("sesame", False)


@pytest.mark.parametrize(
    ("status", "words"), [(401, "refuses"), (403, "refuses"), (500, "HTTP 500"), (404, "HTTP 404")]
)
def test_the_probe_says_what_the_server_said(status: int, words: str) -> None:
    with _server(status, b"", {}, []) as url, pytest.raises(ProbeError, match=words):
        list_models(_candidate(url))


def test_a_key_never_follows_a_redirect() -> None:
    elsewhere: list[dict[str, str]] = []
    with (
        _server(200, b'{"data":[{"id":"m"}]}', {}, elsewhere) as other,
        _server(302, b"", {"Location": f"{other}/models"}, []) as url,
        pytest.raises(ProbeError, match="HTTP 302"),
    ):
        list_models(_candidate(url))
    assert elsewhere == []


def test_nobody_there() -> None:
    with pytest.raises(ProbeError, match="cannot be reached"):
        list_models(_candidate("http://127.0.0.1:9"))
