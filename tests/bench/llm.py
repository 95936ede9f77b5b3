"""LLM: bytes of a stream to items, against `json.loads` of the same payloads; and memory over a long stream."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

from shared.llm.dialects import dialect_of
from shared.llm.model import Completion
from shared.llm.names import WireNames
from shared.llm.provider import Provider
from shared.llm.sse import SseParser
from tests.bench.report import line

EVENTS = 20_000
READ = 4_096
"""Bytes of one read, as a socket gives them."""
ROUNDS = 5
LONG_MB = 50


def _openai(number: int) -> dict[str, Any]:
    return {
        "id": "chatcmpl-BmWc0Y1l7q8tUvE2",
        "object": "chat.completion.chunk",
        "created": 1790000000,
        "model": "gpt-5.4-mini",
        "service_tier": "default",
        "system_fingerprint": "fp_a1b2c3d4e5",
        "choices": [{"index": 0, "delta": {"content": f" w{number % 97}"}, "logprobs": None, "finish_reason": None}],
        "obfuscation": "a1B2c3D4",
    }


def _anthropic(number: int) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f" w{number % 97}"}}


_OPEN: dict[str, list[dict[str, Any]]] = {
    "openai": [],
    "anthropic": [
        {"type": "message_start", "message": {"model": "m", "content": [], "usage": {"input_tokens": 9}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ],
}
_CLOSE: dict[str, list[dict[str, Any]]] = {
    "openai": [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}],
    "anthropic": [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}],
}
_DELTA: dict[str, Callable[[int], dict[str, Any]]] = {"openai": _openai, "anthropic": _anthropic}


def _event(dialect: str, value: dict[str, Any]) -> bytes:
    head = f"event: {value['type']}\n" if dialect == "anthropic" else ""
    return f"{head}data: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


def decode(dialect: str, reads: Iterator[bytes]) -> Completion:
    """What the client does with a body, without sockets."""
    decoder = dialect_of(dialect).decoder(
        Provider(name="p", dialect=dialect, base_url="http://127.0.0.1:1"), WireNames(())
    )
    parser = SseParser()
    for read in reads:
        for event in parser.feed(read):
            decoder.feed(event)
    last = decoder.close()[-1]
    assert isinstance(last, Completion)
    return last


def _reads(raw: bytes) -> Iterator[bytes]:
    return (raw[at : at + READ] for at in range(0, len(raw), READ))


def _throughput(dialect: str) -> None:
    values = [*_OPEN[dialect], *(_DELTA[dialect](n) for n in range(EVENTS)), *_CLOSE[dialect]]
    raw = b"".join(_event(dialect, value) for value in values)
    payloads = [json.dumps(value, separators=(",", ":")) for value in values]
    ours, floor = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        text = decode(dialect, _reads(raw)).message.text
        ours.append(time.perf_counter() - began)
        began = time.perf_counter()
        for payload in payloads:
            json.loads(payload)
        floor.append(time.perf_counter() - began)
    assert len(text) > EVENTS
    us, floor_us = min(ours) / len(values) * 1e6, min(floor) / len(values) * 1e6
    mb_per_s = len(raw) / 1e6 / min(ours)
    line("LLM", dialect=dialect, mb_per_s=mb_per_s, event_us=us, floor_us=floor_us, ratio=us / floor_us)


def long_stream(dialect: str, megabytes: int) -> Iterator[bytes]:
    """That much of a stream, made as it is read. What it says is bounded: thoughts of one long call's silence."""
    empty: dict[str, dict[str, Any]] = {
        "openai": {"choices": [{"index": 0, "delta": {"content": ""}}], "pad": "x" * 900},
        "anthropic": {"type": "ping", "pad": "x" * 900},
    }
    filler = _event(dialect, empty[dialect]) * 50
    yield b"".join(_event(dialect, value) for value in (*_OPEN[dialect], _DELTA[dialect](1)))
    for _ in range(megabytes * 1_000_000 // len(filler)):
        yield filler
    yield b"".join(_event(dialect, value) for value in _CLOSE[dialect])


def peak_kb(dialect: str, megabytes: int) -> float:
    """Most memory at once while a stream of that size is read, in KB above the start."""
    tracemalloc.start()
    try:
        decode(dialect, long_stream(dialect, megabytes))
        return tracemalloc.get_traced_memory()[1] / 1024
    finally:
        tracemalloc.stop()


def measure() -> None:
    """Prints a line per dialect for speed and one for memory."""
    for dialect in _DELTA:
        _throughput(dialect)
    for dialect in _DELTA:
        line(
            "LLM",
            dialect=dialect,
            stream_mb=LONG_MB,
            peak_kb=peak_kb(dialect, LONG_MB),
            peak_kb_1mb=peak_kb(dialect, 1),
        )
