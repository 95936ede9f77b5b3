from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ops.rehearsal.__main__ import main
from ops.rehearsal.scenario import scenario
from ops.rehearsal.server import RehearsalServer
from shared.errors import OperatorError
from tests.support.model_server import ModelServer

CALLS = {
    "then": {"thinking": "Hmm, ñ.", "text": "So… 😀", "calls": [{"name": "a", "arguments": {"x": "ü"}}, {"name": "b"}]}
}
OPENAI_TOOLS = [{"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}}]
ANTHROPIC_TOOLS = [{"name": "a", "input_schema": {"type": "object"}}]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(rules=[]) as running:
        yield running


def openai(server: ModelServer, *, messages: Any = None, timeout: float = 10, **body: Any) -> httpx.Response:
    messages = messages or [{"role": "user", "content": "hello"}]
    body = {"model": "m", "messages": messages, "tools": OPENAI_TOOLS, **body}
    return httpx.post(f"{server.url}/chat/completions", json=body, timeout=timeout)


def anthropic(server: ModelServer, *, messages: Any = None, **body: Any) -> httpx.Response:
    messages = messages or [{"role": "user", "content": "hello"}]
    body = {"model": "m", "max_tokens": 100, "messages": messages, "tools": ANTHROPIC_TOOLS, **body}
    return httpx.post(f"{server.url}/messages", json=body, timeout=10)


def events(text: str) -> list[tuple[str, Any]]:
    """Server-sent events as (event name, data), data parsed unless it is the end mark."""
    found = []
    for block in text.split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        data = fields["data"]
        found.append((fields.get("event", ""), data if data == "[DONE]" else json.loads(data)))
    assert text.endswith("\n\n")
    return found


def test_openai_stream(server: ModelServer) -> None:
    server.script([CALLS])
    response = openai(server, stream=True, stream_options={"include_usage": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    *chunks, (_, end) = events(response.text)
    assert end == "[DONE]"
    assert {chunk["model"] for _, chunk in chunks} == {"rehearsal"}
    assert {chunk["object"] for _, chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for _, chunk in chunks}) == 1
    *parts, usage = [chunk for _, chunk in chunks]
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == usage["usage"]["prompt_tokens"] + usage["usage"]["completion_tokens"]
    choices = [part["choices"][0] for part in parts]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["tool_calls"]
    assert "".join(choice["delta"].get("reasoning_content", "") for choice in choices) == "Hmm, ñ."
    assert "".join(choice["delta"].get("content", "") for choice in choices) == "So… 😀"
    calls: dict[int, dict[str, str]] = {}
    for choice in choices:
        for call in choice["delta"].get("tool_calls", []):
            if "id" in call:
                assert call["type"] == "function"
                calls[call["index"]] = {"id": call["id"], "name": call["function"]["name"], "arguments": ""}
            calls[call["index"]]["arguments"] += call["function"]["arguments"]
    assert [(call["name"], json.loads(call["arguments"])) for call in calls.values()] == [("a", {"x": "ü"}), ("b", {})]
    assert calls[0]["id"] != calls[1]["id"]


def test_openai_sends_usage_only_when_asked(server: ModelServer) -> None:
    server.script([{"when": {"user": "none"}, "then": {"text": "x", "usage": False}}, {"then": {"text": "x"}}])
    assert "usage" not in openai(server, stream=True).text
    messages = [{"role": "user", "content": "none"}]
    asked = events(openai(server, messages=messages, stream=True, stream_options={"include_usage": True}).text)
    assert all(chunk == "[DONE]" or chunk["choices"] for _, chunk in asked)
    assert "usage" not in openai(server, messages=messages).json()
    assert openai(server).json()["usage"]["completion_tokens"] == 1


def test_openai_whole(server: ModelServer) -> None:
    server.script([CALLS])
    answer = openai(server).json()
    [choice] = answer["choices"]
    assert (answer["object"], answer["model"], choice["finish_reason"]) == (
        "chat.completion",
        "rehearsal",
        "tool_calls",
    )
    assert choice["message"]["content"] == "So… 😀"
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["a", "b"]


def test_anthropic_stream(server: ModelServer) -> None:
    server.script([CALLS])
    found = events(anthropic(server, stream=True).text)
    assert all(name == data["type"] for name, data in found)
    names = [name for name, _ in found]
    assert (names[0], names[-2], names[-1]) == ("message_start", "message_delta", "message_stop")
    assert found[0][1]["message"]["model"] == "rehearsal"
    assert found[-2][1]["delta"]["stop_reason"] == "tool_use"
    blocks: list[dict[str, Any]] = []
    is_open = False
    for name, data in found:
        if name == "content_block_start":
            assert (is_open, data["index"]) == (False, len(blocks))
            blocks.append({**data["content_block"], "said": ""})
            is_open = True
        elif name == "content_block_delta":
            assert (is_open, data["index"]) == (True, len(blocks) - 1)
            delta = data["delta"]
            if delta["type"] == "signature_delta":
                blocks[-1]["signature"] = delta["signature"]
            else:
                blocks[-1]["said"] += delta.get("thinking") or delta.get("text") or delta.get("partial_json")
        elif name == "content_block_stop":
            is_open = False
    assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use", "tool_use"]
    assert (blocks[0]["said"], blocks[1]["said"]) == ("Hmm, ñ.", "So… 😀")
    assert blocks[0]["signature"]
    assert [json.loads(block["said"]) for block in blocks[2:]] == [{"x": "ü"}, {}]


def test_anthropic_whole_counts_cached_tokens_apart(server: ModelServer) -> None:
    usage = {"input": 10, "output": 4, "cached": 7}
    server.script([{"then": {**CALLS["then"], "usage": usage, "finish": "length"}}])
    answer = anthropic(server).json()
    assert [block["type"] for block in answer["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert answer["content"][2]["input"] == {"x": "ü"}
    assert answer["stop_reason"] == "max_tokens"
    assert (answer["usage"]["input_tokens"], answer["usage"]["cache_read_input_tokens"]) == (3, 7)


@pytest.mark.parametrize(
    ("finish", "anthropic_reason"), [("content_filter", "refusal"), ("stop", "end_turn"), ("odd", "odd")]
)
def test_finish_reasons(server: ModelServer, finish: str, anthropic_reason: str) -> None:
    server.script([{"then": {"text": "x", "finish": finish}}])
    assert openai(server).json()["choices"][0]["finish_reason"] == finish
    assert anthropic(server).json()["stop_reason"] == anthropic_reason


def test_both_dialects_see_the_same_turn(server: ModelServer) -> None:
    server.script(
        [
            {
                "when": {"user": "^look$", "system": "^be kind$", "step": 1, "has_image": True, "tool_result": "^out$"},
                "then": {"text": "{{result.a}} {{count}}"},
            }
        ]
    )
    parts = [{"type": "text", "text": "look"}, {"type": "text", "text": "<context>monday</context>"}]
    first = openai(
        server,
        messages=[
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": [*parts, {"type": "image_url", "image_url": {"url": "data:,"}}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "1", "content": "out"},
        ],
    )
    second = anthropic(
        server,
        system=[{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}],
        messages=[
            {"role": "user", "content": [*parts, {"type": "image", "source": {}}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "a", "input": {}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "out"}]},
                    {"type": "text", "text": "<context>tuesday</context>"},
                ],
            },
        ],
    )
    assert first.json()["choices"][0]["message"]["content"] == "out 1"
    assert second.json()["content"] == [{"type": "text", "text": "out 1"}]


CALL = {"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}
USER = {"role": "user", "content": "x"}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "a", "input": {}}]}


@pytest.mark.parametrize(
    "messages",
    [
        [USER, {"role": "assistant", "tool_calls": [CALL]}],
        [USER, {"role": "assistant", "tool_calls": [CALL]}, USER],
        [USER, {"role": "tool", "tool_call_id": "1", "content": "x"}],
        [USER, {"role": "assistant", "content": None}],
        [
            USER,
            {"role": "assistant", "tool_calls": [CALL, CALL]},
            {"role": "tool", "tool_call_id": "1", "content": "x"},
        ],
        [{"role": "narrator", "content": "x"}],
    ],
)
def test_openai_refuses_broken_histories(server: ModelServer, messages: list[Any]) -> None:
    server.script([{"then": {"text": "x"}}])
    response = openai(server, messages=messages)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("messages")


@pytest.mark.parametrize(
    "messages",
    [
        [USER, USE],
        [USER, USE, USER],
        [USER, USE, USE],
        [USER, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}]}],
        [USER, {"role": "assistant", "content": ""}],
        [{"role": "assistant", "content": "x"}],
    ],
)
def test_anthropic_refuses_broken_histories(server: ModelServer, messages: list[Any]) -> None:
    server.script([{"then": {"text": "x"}}])
    response = anthropic(server, messages=messages)
    assert response.status_code == 400
    assert (response.json()["type"], response.json()["error"]["type"]) == ("error", "invalid_request_error")


def test_a_body_that_is_no_request_is_refused(server: ModelServer) -> None:
    assert httpx.post(f"{server.url}/chat/completions", content=b"{").status_code == 400
    assert httpx.post(f"{server.url}/messages", json=[]).status_code == 400
    assert (
        httpx.post(f"{server.url}/messages", json={"model": "m", "messages": [USER]})
        .json()["error"]["message"]
        .startswith("max_tokens")
    )


def received(url: str, body: dict[str, Any], timeout: float = 10.0) -> tuple[str, str]:
    """What arrives of a stream, and the name of the exception that ends it (empty for a clean end)."""
    got = ""
    try:
        with httpx.stream("POST", url, json=body, timeout=timeout) as response:
            for text in response.iter_text():
                got += text
    except httpx.HTTPError as error:
        return got, type(error).__name__
    return got, ""


def said(text: str) -> str:
    return "".join(chunk["choices"][0]["delta"].get("content", "") for _, chunk in events(text) if "choices" in chunk)


def test_a_cut_closes_the_socket_after_so_many_characters(server: ModelServer) -> None:
    server.script([{"then": {"text": "hello world", "cut": 6}}])
    body = {"model": "m", "messages": [USER]}
    text, error = received(f"{server.url}/chat/completions", {**body, "stream": True})
    assert (said(text), error) == ("hello ", "RemoteProtocolError")
    assert received(f"{server.url}/chat/completions", body) == ('{"id":', "RemoteProtocolError")


def test_a_hang_falls_silent_and_keeps_the_socket(server: ModelServer) -> None:
    server.script([{"when": {"user": "all"}, "then": {"hang": True}}, {"then": {"text": "hello world", "hang": 6}}])
    url = f"{server.url}/chat/completions"
    text, error = received(url, {"model": "m", "messages": [USER], "stream": True}, 0.5)
    assert (said(text), error) == ("hello ", "ReadTimeout")
    messages = [{"role": "user", "content": "all"}]
    assert received(url, {"model": "m", "messages": messages, "stream": True}, 0.3) == ("", "ReadTimeout")


def test_an_error_has_its_status_body_and_headers(server: ModelServer) -> None:
    server.script(
        [
            {"times": 1, "then": {"error": {"status": 429, "headers": {"Retry-After": "3"}}}},
            {"times": 1, "then": {"error": {"status": 502, "body": "<html>bad</html>"}}},
            {"times": 1, "then": {"error": {"status": 400, "body": {"error": {"code": "mine"}}}}},
            {"then": {"text": "well"}},
        ]
    )
    limited, gateway, mine, well = (openai(server, stream=True) for _ in range(4))
    assert (limited.status_code, limited.headers["retry-after"]) == (429, "3")
    assert limited.json()["error"]["type"] == "rate_limit_error"
    assert (gateway.status_code, gateway.text) == (502, "<html>bad</html>")
    assert mine.json() == {"error": {"code": "mine"}}
    assert said(well.text.replace("data: [DONE]\n\n", "")) == "well"


def test_an_error_can_come_inside_a_stream(server: ModelServer) -> None:
    server.script([{"then": {"text": "hello world", "error": {"status": 529, "after": 5}}}])
    *_, (_, last) = events(text := openai(server, stream=True).text)
    assert last["error"]["type"] == "server_error"
    assert said(text) == "hello"
    *_, (name, data) = events(anthropic(server, stream=True).text)
    assert (name, data["error"]["type"]) == ("error", "overloaded_error")
    assert openai(server).status_code == 529


def test_requests_are_recorded_with_what_answered(server: ModelServer) -> None:
    server.script([{"name": "only", "then": {"text": "x"}}])
    openai(server)
    anthropic(server, max_tokens=0)
    first, second = server.wait_for_requests(2)
    assert first.path == "/v1/chat/completions"
    assert first.body["messages"] == [{"role": "user", "content": "hello"}]
    assert first.headers["content-type"] == "application/json"
    assert first.reply is not None
    assert first.reply.name == "only"
    assert second.reply is None


def test_models_are_listed(server: ModelServer) -> None:
    assert [model["id"] for model in httpx.get(f"{server.url}/models").json()["data"]] == ["rehearsal"]


def test_streaming_is_spread_over_time_and_stop_ends_what_runs() -> None:
    async def play() -> list[str]:
        slow = scenario([{"then": {"text": "abcdefgh", "delta_chars": 4, "stream_ms": 3_600_000}}])
        server = RehearsalServer(slow)
        await server.start()
        got: list[str] = []
        began = asyncio.Event()

        async def read() -> None:
            async with httpx.AsyncClient(timeout=30) as client:
                body = {"model": "m", "messages": [USER], "stream": True}
                async with client.stream("POST", f"{server.url}/chat/completions", json=body) as response:
                    async for text in response.aiter_text():
                        got.append(text)
                        began.set()

        reading = asyncio.create_task(read())
        await began.wait()
        await server.stop()
        await server.stop()
        with pytest.raises(httpx.HTTPError):
            await reading
        return got

    [only] = asyncio.run(play())  # the role chunk; the first text is due in half an hour
    assert said(only) == ""


def test_a_taken_port_is_an_error_that_names_it(server: ModelServer) -> None:
    port = int(server.url.removesuffix("/v1").rsplit(":", 1)[1])
    with pytest.raises(OperatorError, match=str(port)):
        asyncio.run(RehearsalServer(scenario([]), port=port).start())


def test_the_command_announces_itself_and_ends_on_a_signal(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    command = [sys.executable, "-m", "ops.rehearsal", "--port", "0", "--ready-file", str(ready)]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root, env=dict(os.environ)) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            assert line.startswith("rehearsal model on http://127.0.0.1:")
            url = line.removeprefix("rehearsal model on ")
            assert httpx.get(f"{url}/models").status_code == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
            assert ready.read_text("utf-8").strip() == url
        finally:
            process.kill()


def test_the_command_refuses_an_unknown_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "absent.yaml"]) == 2
    assert "absent.yaml" in capsys.readouterr().err
