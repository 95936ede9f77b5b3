from __future__ import annotations

import json
import random
from typing import Any

import pytest

from shared.errors import OperatorError
from shared.llm.errors import (
    AuthFailed,
    BadRequest,
    ContentFiltered,
    ContextTooLong,
    LlmError,
    NotFound,
    Overloaded,
    RateLimited,
    ServerFault,
    Timeout,
    TooLarge,
    from_error_object,
    from_response,
    retry_after,
)
from shared.llm.retry import PATIENCE_S, next_delay

NOW = 1_790_000_000.0


def openai(message: str, **fields: Any) -> bytes:
    return json.dumps({"error": {"message": message, **fields}}).encode()


def anthropic(kind: str, message: str = "x") -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


LLAMA = {"error": {"code": 400, "type": "exceed_context_size_error", "message": "exceeds the available context size"}}
TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"

ANSWERS: list[tuple[int, bytes, type[LlmError], bool]] = [
    (401, openai("Incorrect API key provided", code="invalid_api_key"), AuthFailed, False),
    (403, openai("Country not supported"), AuthFailed, False),
    (404, openai("The model `x` does not exist", code="model_not_found"), NotFound, False),
    (404, b"404 page not found", NotFound, False),
    (400, openai("model 'x' not found, try pulling it first"), NotFound, False),
    (400, openai("maximum context length is 128000", code="context_length_exceeded"), ContextTooLong, False),
    (400, anthropic("invalid_request_error", TOO_LONG), ContextTooLong, False),
    (400, json.dumps(LLAMA).encode(), ContextTooLong, False),
    (400, openai("The input token count (1200000) exceeds the maximum number"), ContextTooLong, False),
    (413, anthropic("request_too_large"), TooLarge, False),
    (413, b"<html><title>413 Request Entity Too Large</title></html>", TooLarge, False),
    (400, openai("The response was filtered", code="content_filter"), ContentFiltered, False),
    (400, openai("Invalid 'messages[2]'", type="invalid_request_error"), BadRequest, False),
    (422, b'{"detail":[{"loc":["body","model"],"msg":"field required"}]}', BadRequest, False),
    (429, openai("Rate limit reached"), RateLimited, True),
    (429, openai("You exceeded your current quota", type="insufficient_quota"), RateLimited, False),
    (402, openai("Insufficient credits"), RateLimited, False),
    (400, anthropic("invalid_request_error", "Your credit balance is too low"), RateLimited, False),
    (500, b"", ServerFault, True),
    (501, b"", ServerFault, False),
    (502, b"<html><head><title>502 Bad Gateway</title></head></html>", ServerFault, True),
    (503, openai("Loading model", code=503), Overloaded, True),
    (504, b"", ServerFault, True),
    (521, b"", ServerFault, True),
    (529, anthropic("overloaded_error"), Overloaded, True),
    (408, b"", ServerFault, True),
    (301, b"", NotFound, False),
    (418, b"\xff\xfe", BadRequest, False),
]


@pytest.mark.parametrize(("status", "body", "kind", "retryable"), ANSWERS)
def test_answers_that_are_no_success(status: int, body: bytes, kind: type[LlmError], retryable: bool) -> None:
    error = from_response(status, {}, body, now=NOW)
    assert type(error) is kind
    assert error.retryable is retryable
    assert isinstance(error, OperatorError)
    assert error.hint
    assert error.status == status
    assert str(status) in error.message


def test_messages_hold_the_providers_words_but_not_a_whole_page() -> None:
    assert (
        "Bad Gateway"
        in from_response(502, {}, b"<html><head><title>502 Bad Gateway</title></head></html>", now=NOW).message
    )
    assert len(from_response(500, {}, b"x" * 50_000, now=NOW).message) < 1000
    assert "https://elsewhere" in from_response(302, {"location": "https://elsewhere"}, b"", now=NOW).message


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 502, "message": "upstream full"}, ServerFault),
        ({"code": 429, "message": "x"}, RateLimited),
        ({"code": "server_error", "message": "x"}, ServerFault),
        ({"type": "overloaded_error", "message": "x"}, Overloaded),
        (
            {"code": 400, "message": "Provider returned error", "metadata": {"raw": "maximum context length exceeded"}},
            ContextTooLong,
        ),
        ({"type": "invalid_request_error", "message": "no"}, BadRequest),
        ("model is overloaded", Overloaded),
        ({}, ServerFault),
        (None, ServerFault),
        ([1], ServerFault),
        ({"message": {"nested": "rate limit"}}, RateLimited),
    ],
)
def test_error_objects_inside_a_stream(error: Any, kind: type[LlmError]) -> None:
    assert type(from_error_object(error)) is kind


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Mon, 21 Sep 2026 14:17:00 GMT"}, 220.0),
        ({"retry-after": "Mon, 21 Sep 2020 13:33:40 GMT"}, 0.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


def test_a_delay_in_the_body_counts_where_no_header_says_more() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}]
    body = json.dumps(
        [{"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": details}}]
    ).encode()
    assert from_response(429, {}, body, now=NOW).retry_after == 34.0
    assert from_response(429, {"retry-after": "2"}, body, now=NOW).retry_after == 2.0


def test_timeouts_say_which_and_which_setting() -> None:
    error = Timeout("first_token", 60.0, partial_text="")
    assert (error.kind, error.code, error.retryable) == ("first_token", "timeout_first_token", True)
    assert "models.first_token_s" in error.hint


def test_delays_grow_with_full_jitter_and_end() -> None:
    rng = random.Random(1)
    error = ServerFault("x")
    for attempt, ceiling in ((1, 0.5), (2, 1.0), (3, 2.0), (9, 20.0)):
        delays = [next_delay(attempt, error, rng, attempts=99) for _ in range(300)]
        assert all(one is not None and 0 <= one <= ceiling for one in delays)
        assert max(one or 0 for one in delays) > ceiling * 0.9
        assert min(one or 0 for one in delays) < ceiling * 0.1
    assert next_delay(3, error, rng) is None
    assert next_delay(1, BadRequest("x"), rng) is None
    assert next_delay(10_000, error, rng, attempts=20_000) is not None


def test_delays_never_undercut_what_the_provider_asked() -> None:
    rng = random.Random(1)
    delays = [next_delay(1, RateLimited("x", retry_after=10), rng) or 0 for _ in range(200)]
    assert min(delays) >= 10
    assert max(delays) <= 11.5
    assert len(set(delays)) > 100
    assert next_delay(1, RateLimited("x", retry_after=PATIENCE_S + 1), rng) is None
