from __future__ import annotations

from pathlib import Path

import pytest

from shared.llm.errors import ServerFault
from shared.llm.sse import SseEvent, SseParser
from tests.unit.llm.support import STREAMS

SMALL = 12_000


def parse(*chunks: bytes) -> list[SseEvent]:
    parser = SseParser()
    out = [event for chunk in chunks for event in parser.feed(chunk)]
    return out + parser.close()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"data: a\n\n", [("", "a", True)]),
        (b"data:a\r\n\r\n", [("", "a", True)]),
        (b"data: a\r\rdata: b\r\r", [("", "a", True), ("", "b", True)]),
        (b"data: a\ndata: b\n\n", [("", "a\nb", True)]),
        (b"data:  a\n\n", [("", " a", True)]),
        (b"event: error\ndata: {}\n\ndata: x\n\n", [("error", "{}", True), ("", "x", True)]),
        (b"\xef\xbb\xbfdata: a\n\n", [("", "a", True)]),
        (
            b": keep-alive\n\n:\n\nretry: 3000\n\nid: 7\n\ndata: \n\ndata:\n\nevent: ping\n\ndata: a\n\n",
            [("", "a", True)],
        ),
        (b"data: a", [("", "a", False)]),
        (b"data: a\n", [("", "a", False)]),
        (b'{"error": "x"}\n\n', [("", '{"error": "x"}', True)]),
        (b"unknown: a\nnocolon\ndata\n\n", []),
        (b"", []),
    ],
)
def test_events(raw: bytes, expected: list[tuple[str, str, bool]]) -> None:
    assert [tuple(event) for event in parse(raw)] == expected
    assert [tuple(event) for event in parse(*(raw[i : i + 1] for i in range(len(raw))))] == expected


def test_characters_cut_between_reads() -> None:
    raw = 'data: {"c":"é🙂"}\n\n'.encode()
    for cut in range(len(raw) + 1):
        assert parse(raw[:cut], raw[cut:]) == [SseEvent("", '{"c":"é🙂"}')]


def test_a_line_feed_after_a_cut_carriage_return_is_no_second_line_end() -> None:
    assert parse(b"data: a\r", b"\ndata: b\r\n\r", b"\n") == [SseEvent("", "a\nb")]
    assert parse(b"data: a\r", b"\r", b"x", b"\ndata: b\r\r") == [SseEvent("", "a"), SseEvent("", "b")]


@pytest.mark.parametrize("path", sorted(STREAMS.glob("*.sse")), ids=lambda path: path.stem)
def test_recorded_streams_cut_at_every_byte(path: Path) -> None:
    raw = path.read_bytes()
    whole = parse(raw)
    assert parse(*(raw[i : i + 1] for i in range(len(raw)))) == whole
    for cut in range(len(raw)):
        # Between two blank lines the parser starts afresh, so that in a long stream only the events around matter.
        a, b = 0, len(raw)
        if len(raw) > SMALL:
            a = max(raw.rfind(b"\n\n", 0, max(cut - 2, 0)) + 2, 0) if b"\n\n" in raw[: max(cut - 2, 0)] else 0
            b = raw.find(b"\n\n", cut + 2)
            b = len(raw) if b < 0 else b + 2
            assert parse(raw[a:cut], raw[cut:b]) == parse(raw[a:b])
        else:
            assert parse(raw[:cut], raw[cut:]) == whole


def feed_all(parser: SseParser, chunks: list[bytes]) -> None:
    for chunk in chunks:
        parser.feed(chunk)


@pytest.mark.parametrize("form", [b"data: ", b": ", b"garbage"])
def test_an_endless_line_is_an_error_and_not_endless_memory(form: bytes) -> None:
    parser = SseParser(max_bytes=1000)
    parser.feed(form)
    with pytest.raises(ServerFault, match="1000 bytes"):
        feed_all(parser, [b"x" * 100] * 200)


def test_many_data_lines_without_an_end_are_bounded_too() -> None:
    parser = SseParser(max_bytes=1000)
    with pytest.raises(ServerFault):
        feed_all(parser, [b"data: 0123456789\n"] * 200)


def test_the_limit_is_per_event() -> None:
    parser = SseParser(max_bytes=100)
    for _ in range(50):
        assert parser.feed(b"data: " + b"x" * 60 + b"\n\n")
        assert parser.feed(b": comment" + b"x" * 60 + b"\n") == []


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_memory_is_flat_over_a_long_stream(dialect: str) -> None:
    from tests.bench.llm import LONG_MB, peak_kb

    short, long = peak_kb(dialect, 1), peak_kb(dialect, LONG_MB)
    assert long < short + 64
