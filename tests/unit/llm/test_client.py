"""The client against a server that sends exact bytes: every way in which a call can fail, and the good ways."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import socket
import ssl
import subprocess
from collections.abc import Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from shared.llm.client import ModelClient, Timeouts
from shared.llm.errors import (
    AuthFailed,
    BadRequest,
    ConnectFailed,
    ContextTooLong,
    CutStream,
    LlmError,
    NotFound,
    Overloaded,
    RateLimited,
    Refused,
    ServerFault,
    Timeout,
    TooLarge,
)
from shared.llm.model import Completion, Finish, StreamItem, TextDelta, ToolDefinition, Usage
from shared.llm.provider import Provider
from tests.unit.llm.server import END, STREAM, Peer, Script, reply, serve, stream
from tests.unit.llm.support import STREAMS, ask, call, calls, chunk, provider, sse

COUNTS = {"prompt_tokens": 3, "completion_tokens": 2}
WHOLE = {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}], "usage": COUNTS}
HELLO = sse(
    chunk(content="Hel"),
    chunk(content="lo"),
    chunk("stop"),
    {"choices": [], "usage": COUNTS},
)
PART = sse(chunk(content="Hel"), done=False)
QUICK = Timeouts(connect=2.0, first_token=0.3, idle=0.2, total=5.0, grace=0.1)
CALM = Timeouts(connect=5.0, first_token=10.0, idle=10.0, total=20.0, grace=5.0)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 30))


async def collect(timeouts: Timeouts, where: Provider, **fields: Any) -> list[StreamItem]:
    client = ModelClient(timeouts=timeouts)
    try:
        return [item async for item in client.stream(where, ask(**fields))]
    finally:
        await client.aclose()


def fails(script: Script, timeouts: Timeouts = CALM, dialect: str = "openai") -> LlmError:
    """The error of a call that this script answers."""
    caught: list[LlmError] = []

    async def main() -> None:
        async with serve(script) as server:
            with pytest.raises(LlmError) as raised:
                await collect(timeouts, provider(dialect, url=server.url))
            caught.append(raised.value)

    run(main())
    assert caught[0].provider == "prov"
    assert caught[0].hint
    return caught[0]


def succeeds(script: Script, timeouts: Timeouts = CALM, dialect: str = "openai", **switches: Any) -> Completion:
    found: list[StreamItem] = []

    async def main() -> None:
        async with serve(script) as server:
            found.extend(await collect(timeouts, provider(dialect, url=server.url, **switches)))

    run(main())
    assert isinstance(found[-1], Completion)
    return found[-1]


def test_a_stream() -> None:
    async def main() -> None:
        async with serve(stream(HELLO)) as server:
            where = provider(url=server.url).model_copy(update={"api_key": SecretStr("k"), "headers": {"X-Team": "a"}})
            items = await collect(CALM, where)
            assert [item.text for item in items if isinstance(item, TextDelta)] == ["Hel", "lo"]
            last = items[-1]
            assert isinstance(last, Completion)
            assert last.usage == Usage(input=3, output=2)
            assert last.message.origin == "prov"
            head = server.requests[0].head.lower()
            assert head.startswith("post /v1/chat/completions http/1.1")
            assert "authorization: bearer k" in head
            assert "x-team: a" in head
            assert server.requests[0].body["stream"] is True

    run(main())


def test_the_headers_of_messages() -> None:
    async def main() -> None:
        raw = (STREAMS / "qwen05-messages_text.sse").read_bytes()
        async with serve(stream(raw)) as server:
            url = server.url.removesuffix("/v1") + "?version=7"
            where = provider("anthropic", url=url).model_copy(update={"api_key": SecretStr("k")})
            assert isinstance((await collect(CALM, where))[-1], Completion)
            head = server.requests[0].head.lower()
            assert head.startswith("post /v1/messages?version=7 ")
            assert "x-api-key: k" in head
            assert "anthropic-version: 2023-06-01" in head
            assert "authorization" not in head

    run(main())


def test_connections_are_used_again() -> None:
    async def main() -> None:
        async with serve(stream(HELLO)) as server:
            client = ModelClient(timeouts=CALM)
            for _ in range(3):
                await client.complete(provider(url=server.url), ask())
            await client.aclose()
            assert (len(server.requests), server.connections) == (3, 1)

    run(main())


def test_more_calls_at_once_than_any_pool() -> None:
    async def main() -> None:
        started = asyncio.Semaphore(0)
        release = asyncio.Event()

        async def script(peer: Peer) -> None:
            started.release()
            await release.wait()
            await stream(HELLO)(peer)

        async with serve(script) as server:
            client = ModelClient(timeouts=CALM)
            tasks = [asyncio.create_task(client.complete(provider(url=server.url), ask())) for _ in range(150)]
            for _ in tasks:
                await started.acquire()
            release.set()
            assert {one.message.text for one in await asyncio.gather(*tasks)} == {"Hello"}
            await client.aclose()

    run(main())


def test_one_client_in_one_loop_after_another() -> None:
    client = ModelClient(timeouts=CALM)

    async def main() -> None:
        async with serve(stream(HELLO)) as server:
            assert (await client.complete(provider(url=server.url), ask())).message.text == "Hello"

    run(main())
    run(main())


def test_names_on_the_wire_come_back_as_ours() -> None:
    async def main() -> None:
        async def script(peer: Peer) -> None:
            name = peer.body["tools"][0]["function"]["name"]
            await stream(sse(calls(call(0, "a", name, "{}")), chunk("tool_calls")))(peer)

        async with serve(script) as server:
            tool = ToolDefinition(name="mail/send it", description="", parameters={"type": "object"})
            last = (await collect(CALM, provider(url=server.url), tools=(tool,)))[-1]
            assert isinstance(last, Completion)
            assert last.message.calls[0].name == "mail/send it"

    run(main())


GOOD: dict[str, Script] = {
    "one byte at a time": stream(*(HELLO[i : i + 1] for i in range(len(HELLO)))),
    "a body without a length": lambda peer: _closed(peer, HELLO),
    "end mark, then an open socket": stream(HELLO, end=False),
    "a whole JSON answer": reply(
        "200 OK",
        json.dumps(WHOLE).encode(),
        "content-type: application/json",
    ),
    "a stream called JSON": reply("200 OK", HELLO, "content-type: application/json"),
    "a stream without a type": reply("200 OK", b"\n" + HELLO),
    "gzip": reply("200 OK", gzip.compress(HELLO), "content-type: text/event-stream", "content-encoding: gzip"),
    "broken after the reason": lambda peer: _reset(peer, HELLO.removesuffix(b"data: [DONE]\n\n")),
    "201": reply("201 Created", HELLO),
}


async def _closed(peer: Peer, body: bytes) -> None:
    await peer.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + body)
    peer.writer.close()


async def _reset(peer: Peer, body: bytes) -> None:
    await peer.send(STREAM)
    await peer.chunk(body)
    await asyncio.sleep(0.05)  # a RST overtakes what was not read yet
    peer.reset()


@pytest.mark.parametrize("name", GOOD)
def test_good_ways_to_answer(name: str) -> None:
    result = succeeds(GOOD[name])
    assert result.message.text == "Hello"
    assert result.finish is Finish.STOP
    assert result.usage == Usage(input=3, output=2)


def test_a_whole_answer_when_asked_for_one() -> None:
    raw = (STREAMS / "qwen05-chat_nostream_tools.sse").read_bytes()
    result = succeeds(reply("200 OK", raw, "content-type: application/json"), QUICK, stream=False)
    assert [one.arguments for one in result.message.calls] == [{"expression": "37*21"}]
    raw = (STREAMS / "qwen05-messages_nostream.sse").read_bytes()
    result = succeeds(reply("200 OK", raw, "content-type: application/json"), QUICK, "anthropic", stream=False)
    assert [one.arguments for one in result.message.calls] == [{"expression": "37*21"}]


def test_after_the_reason_only_a_short_grace_for_usage() -> None:
    timeouts = Timeouts(first_token=9, idle=9, total=9, grace=0.1)
    result = succeeds(stream(sse(chunk(content="Hello"), chunk("stop"), done=False), end=False), timeouts)
    assert result.message.text == "Hello"
    assert result.usage is not None
    assert result.usage.estimated
    comments = [sse(chunk(content="Hello"), chunk("stop"), done=False), *[b": ping\n\n"] * 50]
    assert succeeds(_slowly(*comments, pause=0.02), timeouts).message.text == "Hello"


def _slowly(*pieces: bytes, pause: float) -> Script:
    async def script(peer: Peer) -> None:
        await peer.send(STREAM)
        try:
            for piece in pieces:
                await peer.chunk(piece)
                await asyncio.sleep(pause)
        except ConnectionError:
            peer.gone.set()
        await peer.hang()

    return script


STATUS: dict[str, tuple[Script, type[LlmError], bool]] = {
    "401": (reply("401 Unauthorized", b'{"error":{"message":"bad key"}}'), AuthFailed, False),
    "403": (reply("403 Forbidden"), AuthFailed, False),
    "404": (reply("404 Not Found", b'{"error":{"message":"model not found"}}'), NotFound, False),
    "400 context": (
        reply("400 Bad Request", b'{"error":{"code":"context_length_exceeded","message":"x"}}'),
        ContextTooLong,
        False,
    ),
    "400": (reply("400 Bad Request", b'{"error":{"message":"x"}}'), BadRequest, False),
    "413": (reply("413 Payload Too Large", b"<html></html>"), TooLarge, False),
    "429": (reply("429 Too Many Requests"), RateLimited, True),
    "500": (reply("500 Internal Server Error", b"x" * 200_000), ServerFault, True),
    "502": (reply("502 Bad Gateway", b"<html><title>502</title></html>", "content-type: text/html"), ServerFault, True),
    "503": (reply("503 Service Unavailable"), Overloaded, True),
    "529": (reply("529 Overloaded"), Overloaded, True),
    "302": (reply("302 Found", b"", "location: https://elsewhere/"), NotFound, False),
    "200 HTML": (reply("200 OK", b"<!doctype html><html></html>", "content-type: text/html"), NotFound, False),
    "200 JSON error": (reply("200 OK", b'{"error":{"code":429,"message":"x"}}'), RateLimited, True),
    "200 error in a list": (reply("200 OK", b'[{"error":{"code":503,"message":"overloaded"}}]'), Overloaded, True),
    "200 other JSON": (reply("200 OK", b'{"hello":1}'), ServerFault, True),
    "200 half JSON": (reply("200 OK", b'{"choices":[{"mess'), CutStream, True),
    "200 empty": (reply("200 OK"), CutStream, True),
    "200 error inside": (
        stream(PART, sse({"error": {"code": 502, "message": "upstream full"}}, done=False)),
        ServerFault,
        True,
    ),
    "not HTTP": (lambda peer: _raw(peer, b"SSH-2.0-OpenSSH\r\n\r\n"), ServerFault, True),
    "bad gzip": (reply("200 OK", b"data: x\n\n", "content-encoding: gzip"), ServerFault, True),
}


async def _raw(peer: Peer, raw: bytes) -> None:
    await peer.send(raw)
    peer.writer.close()


@pytest.mark.parametrize("name", STATUS)
def test_answers_that_are_errors(name: str) -> None:
    script, kind, retryable = STATUS[name]
    error = fails(script)
    assert type(error) is kind
    assert error.retryable is retryable


def test_retry_after_is_passed_on() -> None:
    assert fails(reply("429 Too Many Requests", b"", "Retry-After: 7")).retry_after == 7.0
    assert fails(reply("529 Overloaded")).retry_after is None


def test_nothing_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    with pytest.raises(Refused) as caught:
        asyncio.run(collect(CALM, provider(url=url)))
    assert caught.value.retryable
    assert caught.value.usage is None


def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(ConnectFailed) as caught:
        asyncio.run(collect(CALM, provider(url="http://no-such-host.invalid/v1")))
    assert caught.value.code in ("dns_failed", "connect_failed")


def test_no_connection_in_time() -> None:
    with socket.socket() as full:  # a listener whose queue is full answers no SYN
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        try:
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
            with pytest.raises(Timeout) as caught:
                asyncio.run(collect(Timeouts(connect=0.2, first_token=5), provider(url=f"http://127.0.0.1:{port}/v1")))
        finally:
            for one in waiting:
                one.close()
    assert caught.value.kind == "connect"


def test_a_certificate_that_nobody_signed(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=localhost",
            "-keyout",
            key,
            "-out",
            cert,
        ],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("openssl cannot make a certificate here")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)

    async def main() -> None:
        async with serve(stream(HELLO), tls=context) as server:
            with pytest.raises(ConnectFailed) as caught:
                await collect(CALM, provider(url=server.url))
            assert caught.value.code == "tls_failed"

    run(main())


def test_plain_http_where_tls_is_spoken() -> None:
    async def main() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        listener = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with listener:
            port = listener.sockets[0].getsockname()[1]
            with pytest.raises(ConnectFailed) as caught:
                await collect(CALM, provider(url=f"https://127.0.0.1:{port}/v1"))
            assert caught.value.code == "tls_failed"

    run(main())


CUTS: dict[str, Script] = {
    "a clean end": stream(PART),
    "a reset": lambda peer: _reset(peer, PART),
    "a chunk that is not whole": lambda peer: _half_chunk(peer),
    "a length that is not reached": lambda peer: _raw(peer, b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n" + PART),
}


async def _half_chunk(peer: Peer) -> None:
    await peer.send(STREAM)
    await peer.chunk(PART)
    await peer.send(b"100\r\ndata: {")
    peer.writer.close()


@pytest.mark.parametrize("name", CUTS)
def test_streams_that_break(name: str) -> None:
    error = fails(CUTS[name])
    assert type(error) is CutStream
    assert error.retryable
    assert error.partial_text == "Hel"
    assert error.usage is not None
    assert error.usage.estimated


def test_a_connection_that_breaks_before_the_answer() -> None:
    async def hang_up(peer: Peer) -> None:
        peer.writer.close()

    error = fails(hang_up)
    assert type(error) is CutStream
    assert error.usage is None


def silent_from(*pieces: bytes) -> Script:
    return stream(*pieces, end=False)


async def _no_answer(peer: Peer) -> None:
    await peer.hang()


async def _late(peer: Peer) -> None:
    """The whole answer, but after the deadline."""
    await peer.reader.read(1)  # the client hangs up when its time is over
    peer.gone.set()
    try:
        await stream(HELLO)(peer)
    except ConnectionError:
        pass


SILENCE: dict[str, tuple[Script, str, str]] = {
    "no answer at all": (_no_answer, "first_token", ""),
    "an answer after the deadline": (_late, "first_token", ""),
    "headers only": (silent_from(), "first_token", ""),
    "comments only": (_slowly(*[b": ping\n\n"] * 200, pause=0.02), "first_token", ""),
    "empty chunks only": (_slowly(*[sse(chunk(content=""), done=False)] * 200, pause=0.02), "first_token", ""),
    "the middle": (silent_from(PART), "idle", "Hel"),
    "comments in the middle": (_slowly(PART, *[b": ping\n\n"] * 200, pause=0.02), "idle", "Hel"),
    "half an event": (silent_from(PART, b"data: {"), "idle", "Hel"),
}


@pytest.mark.parametrize("name", SILENCE)
def test_silence(name: str) -> None:
    script, kind, partial = SILENCE[name]
    error = fails(script, QUICK)
    assert isinstance(error, Timeout)
    assert (error.kind, error.partial_text, error.retryable) == (kind, partial, True)


def test_a_call_of_messages_may_be_silent_for_longer() -> None:
    raw = (STREAMS / "qwen05-messages_tools_any.sse").read_bytes()
    at = raw.index(b"event: content_block_delta")

    async def script(peer: Peer) -> None:
        await peer.send(STREAM)
        await peer.chunk(raw[:at])
        await asyncio.sleep(0.4)
        await peer.chunk(raw[at:])
        await peer.send(END)

    patient = Timeouts(first_token=5.0, idle=0.1, total=9.0)
    assert len(succeeds(script, patient, "anthropic").message.calls) == 1


def test_a_stream_that_never_ends() -> None:
    timeouts = Timeouts(first_token=5, idle=5, total=0.3)
    error = fails(_slowly(*[PART] * 400, pause=0.01), timeouts)
    assert isinstance(error, Timeout)
    assert error.kind == "total"


def test_an_endless_line() -> None:
    async def script(peer: Peer) -> None:
        await peer.send(STREAM)
        await peer.chunk(b"data: ")
        try:
            for _ in range(1000):
                await peer.chunk(b"x" * 65_536)
        except ConnectionError:
            peer.gone.set()

    error = fails(script)
    assert error.code == "event_too_large"


def test_a_slow_reader_is_not_a_silent_server() -> None:
    async def main() -> None:
        async with serve(stream(PART, HELLO)) as server:
            client = ModelClient(timeouts=Timeouts(first_token=5, idle=0.1, total=9))
            last: object = None
            async for item in client.stream(provider(url=server.url), ask()):
                last = item
                await asyncio.sleep(0.15)
            await client.aclose()
            assert isinstance(last, Completion)  # it came to its end, and no deadline cut it

    run(main())


@pytest.mark.parametrize("how", ["aclose", "cancel", "cancel before the answer"])
def test_leaving_early_closes_the_connection(how: str) -> None:
    async def main() -> None:
        script = _no_answer if "before" in how else silent_from(PART)
        async with serve(script) as server:
            client = ModelClient(timeouts=CALM)
            if how == "aclose":
                async with aclosing(client.stream(provider(url=server.url), ask())) as items:
                    assert isinstance(await anext(items), TextDelta)
            else:
                task = asyncio.create_task(client.complete(provider(url=server.url), ask()))
                await server.asked.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await asyncio.wait_for(server.requests[0].gone.wait(), 5)
            await client.aclose()

    run(main())


def test_a_failure_closes_the_connection() -> None:
    async def main() -> None:
        async with serve(silent_from(PART)) as server:
            client = ModelClient(timeouts=QUICK)
            with pytest.raises(Timeout):
                await client.complete(provider(url=server.url), ask())
            await asyncio.wait_for(server.requests[0].gone.wait(), 5)
            await client.aclose()

    run(main())


def test_a_key_that_the_server_quotes_does_not_show() -> None:
    async def main() -> None:
        async with serve(reply("401 Unauthorized", b'{"error":{"message":"bad key sk-secret"}}')) as server:
            where = provider(url=server.url).model_copy(update={"api_key": SecretStr("sk-secret")})
            with pytest.raises(AuthFailed) as caught:
                await collect(CALM, where)
            assert "sk-secret" not in str(caught.value) + repr(caught.value)
            with pytest.raises(AuthFailed, match="no HTTP header"):
                await collect(CALM, where.model_copy(update={"api_key": SecretStr("clé\n")}))

    run(main())


def test_repairs_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        from shared.llm.model import Message
        from tests.unit.llm.support import tool_call, user

        history = (user("a"), Message(role="assistant", blocks=(tool_call("n1"),)))
        async with serve(stream(HELLO)) as server:
            client = ModelClient(timeouts=CALM)
            await client.complete(provider(url=server.url), ask(*history))
            await client.aclose()
            assert server.requests[0].body["messages"][-1]["role"] == "tool"

    with caplog.at_level(logging.WARNING, "capataz.llm"):
        run(main())
    assert "n1" in caplog.text
