"""Logs made short: what must stay stays, whatever the log; what is no log is left alone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.artifacts import content_handle
from workers.tools.loglines import is_trouble, looks_like_log, shorten_log, shorten_output


def stamped(count: int, what: str = "heartbeat {n} sent", start: int = 0) -> list[str]:
    return [
        f"2026-03-09 08:{n // 60:02}:{n % 60:02} INFO beat: {what.format(n=n)}" for n in range(start, start + count)
    ]


def test_what_repeats_is_told_once_and_the_whole_is_named() -> None:
    text = "\n".join(stamped(60))
    short = shorten_log(text).split("\n")
    assert short[:6] == text.split("\n")[:6]
    assert short[6] == "[… 44 more like this]"
    assert short[7:-1] == text.split("\n")[-10:]
    assert short[-1] == f"[44 of 60 lines left out; the whole: read_artifact(handle={content_handle(text.encode())})]"


def test_blocks_that_repeat_are_told_once_in_their_order() -> None:
    lines = stamped(5, "starting {n}")
    for n in range(5, 45, 2):
        lines += [*stamped(1, "request {n}", n), *stamped(1, "answer after {n} ms", n + 1)]
    short = shorten_log("\n".join([*lines, *stamped(10, "stopping {n}", 50)])).split("\n")
    assert short[5:8] == [lines[5], lines[6], "[… 19 more like these 2 lines]"]


def test_lines_that_differ_in_words_stay() -> None:
    words = [f"{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(60)]
    text = "\n".join(f"08:00:{n:02} INFO loaded plugin {word}" for n, word in enumerate(words))
    assert shorten_log(text) == text


@pytest.mark.parametrize(
    "line",
    [
        "2026-03-09 08:00:30 ERROR beat: heartbeat 30 failed",
        "2026-03-09 08:00:30 WARN beat: heartbeat 30 sent",
        '10.0.0.7 - - [09/Mar/2026:08:00:30 +0000] "GET /a HTTP/1.1" 503 12',
        "2026-03-09 08:00:30 INFO http: GET /a 404 12ms",
        "2026-03-09 08:00:30 INFO http: status=502 path=/a",
        "2026-03-09 08:00:30 INFO run: worker exited with code 137",
        "2026-03-09 08:00:30 INFO run: no se pudo abrir el fichero 7",
        "2026-03-09 08:00:30 INFO pago 30 rechazado",
        "E0309 08:00:30.000001 1 main.go:7] lost lease 30",
    ],
)
def test_trouble_stays_with_what_is_around_it(line: str) -> None:
    lines = stamped(100)
    lines[50] = line
    short = shorten_log("\n".join(lines)).split("\n")
    assert lines[48:53] == short[short.index(line) - 2 : short.index(line) + 3]
    assert len(short) < 40


def test_a_number_that_is_no_trouble_is_a_number() -> None:
    lines = stamped(100, "GET /a 200 {n}ms")
    assert len(shorten_log("\n".join(lines)).split("\n")) < 25


def test_a_stack_stays_whole() -> None:
    frames = [f'  File "/srv/a.py", line {n}, in call' for n in range(30)]
    lines = [*stamped(60), "Traceback (most recent call last):", *frames, "KeyError: 'k'", *stamped(60, start=60)]
    short = shorten_log("\n".join(lines)).split("\n")
    at = short.index("Traceback (most recent call last):")
    assert short[at + 1 : at + 32] == [*frames, "KeyError: 'k'"]


def test_of_a_log_that_is_too_long_trouble_is_shown_rather_than_what_came_first() -> None:
    words = [f"{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676)}" for n in range(900)]
    lines = [f"08:{n // 60:02}:{n % 60:02} INFO loaded plugin {word}" for n, word in enumerate(words)]
    lines[600] = "08:10:00 ERROR plugin broken"
    short = shorten_log("\n".join(lines), 4_000)
    assert len(short) <= 4_000
    assert lines[600] in short
    assert lines[0] in short
    assert lines[-1] in short
    assert short.count("lines left out]") == 2


CODE = "\n".join(f"    if code == {n}:\n        raise ValueError('error {n}')" for n in range(40))
TABLE = "time,place,degrees\n" + "\n".join(f"2026-03-09 08:{n:02}:00,Vigo,{n}.5" for n in range(60))
READINGS = "\n".join(f"2026-03-09 08:{n:02}:00,{n}" for n in range(60))
LISTING = "\n".join(f"-rw-r--r-- 1 ana ana {n * 100} Mar  9 08:{n:02} photo{n:03}.jpg" for n in range(60))
JSON_LINES = "\n".join(json.dumps({"level": "info", "ts": n, "message": "sent"}) for n in range(60))
PROSE = "\n".join(f"On day {n} they walked {n * 3} miles and saw nobody." for n in range(60))


@pytest.mark.parametrize(
    "text",
    [
        CODE,
        TABLE,
        READINGS,
        LISTING,
        JSON_LINES,
        PROSE,
        json.dumps([{"at": "08:00:00", "n": n} for n in range(60)], indent=1),
    ],
)
def test_what_is_no_log_is_left_alone(text: str) -> None:
    assert not looks_like_log(text.split("\n"))
    assert shorten_log(text) == text


@pytest.mark.parametrize(
    "line",
    [
        "2026-03-09T08:00:01.123Z INFO started {n}",
        "2026-03-09 08:00:01,123 - app - INFO - started {n}",
        "Mar  9 08:00:01 host app[12]: started {n}",
        '10.0.0.7 - - [09/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 {n}',
        "[2026-03-09 08:00:01] local.INFO: started {n}",
        "[08:00:01] started {n}",
        "[    1.234567] usb 1-1: new device number {n}",
        "I0309 08:00:01.000000       1 main.go:7] started {n}",
        "INFO:app:started {n}",
        "[INFO] started {n}",
        "time=2026-03-09T08:00:01Z level=info msg=started n={n}",
        "web-1  | 2026-03-09 08:00:01 started {n}",
        "2026-03-09T08:00:01.123Z\tINFO\tstarted {n}",
        "[{n}/60] Building CXX object a.cc.o",
        "#12 3.456 fetched layer {n}",
        "  Downloading layer {n}",
        "tests/test_a.py::test_case_{n} PASSED [ 33%]",
    ],
)
def test_how_logs_begin(line: str) -> None:
    lines = [line.format(n=n) for n in range(60)]
    assert looks_like_log(lines)
    assert len(shorten_log("\n".join(lines)).split("\n")) == 18


def test_json_that_a_program_prints_loses_blanks_and_nothing_else() -> None:
    text = '{\n  "price": 1.10,\n  "text": "a  b\\n \\"c\\" ",\n  "big": 12345678901234567890\n}\n'
    assert shorten_output(text) == '{"price":1.10,"text":"a  b\\n \\"c\\" ","big":12345678901234567890}'
    for other in ('{"a": NaN }', "a  b", '{"a": 1} \n{"b": 2}', ""):
        assert shorten_output(other) == other


WORDS = st.sampled_from(
    ["heartbeat {n} sent", "request {n} ok", "disk {n}% full", "error {n}", "cache warm", "", "  at frame {n}",
     "Traceback (most recent call last):", "ValueError: {n}", "[… 3 more like this]", "GET /a 500 {n}ms", "é{n}\u2028x"]
)  # fmt: skip
LINES = st.lists(
    st.builds(
        lambda what, stamp, n: f"2026-03-09 08:00:{n % 60:02} INFO {what.format(n=n)}" if stamp else what.format(n=n),
        WORDS,
        st.integers(0, 3).map(bool),
        st.integers(0, 10**6),
    ),
    max_size=200,
)


@pytest.mark.property
@given(lines=LINES, times=st.integers(1, 4), limit=st.sampled_from([300, 2_000, 8_000]))
def test_whatever_the_log(lines: list[str], times: int, limit: int) -> None:
    text = "\n".join(lines * times)
    short = shorten_log(text, limit)
    assert len(short) <= len(text)
    assert shorten_log(short, limit) == short
    told = short.split("\n")
    left = iter(told)  # what stays stays in order
    assert all(line in left for line in text.split("\n") if is_trouble(line))
    if short != text:
        assert content_handle(text.encode()) in told[-1]


@pytest.mark.property
@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=20))
def test_minified_json_is_the_same_json(value: object) -> None:
    text = json.dumps({"value": value}, indent=2, ensure_ascii=False)
    assert json.loads(shorten_output(text)) == {"value": value}
