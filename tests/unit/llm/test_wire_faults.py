"""Faults that users of other engines reported on the wire, each as the bytes or the history that showed it.

Each case fails when its treatment is taken out of the code.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from shared.contract import Effect, ToolSpec
from shared.ids import node_id
from shared.llm.check import repair
from shared.llm.client import ModelClient, Timeouts
from shared.llm.dialects import prepare
from shared.llm.errors import CutStream, LlmError, Overloaded, ServerFault, Timeout
from shared.llm.model import Completion, Finish, Message, TextBlock, ToolResult, Usage
from tests.unit.llm.server import STREAM, Peer, serve, stream
from tests.unit.llm.support import (
    ask,
    block,
    call,
    calls,
    chunk,
    completion,
    decode,
    delta,
    end,
    events,
    provider,
    ready,
    results,
    sse,
    start,
    stop,
    tool_call,
    user,
)

Case = Callable[[], None]
CASES: list[Case] = []


def fault(case: Case) -> Case:
    CASES.append(case)
    return case


def arguments(raw: bytes, dialect: str = "openai") -> list[Any]:
    return [one.arguments for one in completion(dialect, raw).message.calls]


def raised(raw: bytes, dialect: str = "openai") -> LlmError:
    with pytest.raises(LlmError) as caught:
        decode(dialect, [raw])
    return caught.value


def from_provider(*blocks: Any) -> Message:
    return Message(role="assistant", blocks=blocks, origin="prov")


# --- Chat Completions -----------------------------------------------------------------------------------------


@fault
def deltas_without_an_index() -> None:
    one = sse(calls(call(None, "c1", "add", '{"a":1}')), chunk("tool_calls"))
    assert arguments(one) == [{"a": 1}]
    pieces = [call(None, "c1", "add", '{"a"'), call(None, None, None, ":1}"), call(None, "c2", "add", '{"a":2}')]
    assert arguments(sse(*map(calls, pieces), chunk("tool_calls"))) == [{"a": 1}, {"a": 2}]
    null = call(None, "c1", "add", '{"a":1}') | {"index": None}
    assert arguments(sse(calls(null), chunk("tool_calls"))) == [{"a": 1}]


@fault
def all_calls_under_one_index() -> None:
    raw = sse(calls(call(0, "c1", "f", '{"x":1}')), calls(call(0, "c2", "f", '{"x":2}')), chunk("tool_calls"))
    found = completion("openai", raw).message.calls
    assert [(one.provider_id, one.arguments) for one in found] == [("c1", {"x": 1}), ("c2", {"x": 2})]
    bare = sse(calls(call(0, "c1", "f", "")), calls(call(0, "c2", "f", "")), chunk("tool_calls"))
    assert [one.provider_id for one in completion("openai", bare).message.calls] == ["c1", "c2"]


@fault
def no_arguments() -> None:
    for empty in ("", None, "  "):
        assert arguments(
            sse(calls(call(0, "c1", "f") | {"function": {"name": "f", "arguments": empty}}), chunk("stop"))
        ) == [{}]
    assert arguments(sse(calls(call(0, "c1", "f")), chunk("tool_calls"))) == [{}]
    broken = completion("openai", sse(calls(call(0, "c1", "f", "not json")), chunk("tool_calls")))
    assert broken.message.calls == ()
    assert len(broken.broken) == 1


@fault
def arguments_cut_by_the_output_limit() -> None:
    half = call(1, "c2", "write_file", '{"path":"a","content":"line1')
    for label in ("length", "tool_calls"):
        found = completion("openai", sse(calls(call(0, "c1", "f", "{}")), calls(half), chunk(label)))
        assert [one.name for one in found.message.calls] == ["f"], "a whole sibling stays"
        assert [one.name for one in found.broken] == ["write_file"]
        assert "line1" not in found.message.model_dump_json(), "it is never stored in a history"


@fault
def calls_under_the_label_stop() -> None:
    for label in ("stop", "whatever"):
        found = completion("openai", sse(calls(call(0, "c1", "f", "{}"), finish=label)))
        assert found.finish is Finish.TOOL_CALLS
        assert len(found.message.calls) == 1


@fault
def an_error_inside_a_200_stream() -> None:
    error = {"id": "g1", "choices": [], "error": {"code": 502, "message": "upstream full"}}
    caught = raised(sse(chunk(content="Hel"), calls(call(0, "c1", "f", "{}")), error, done=False))
    assert type(caught) is ServerFault
    assert caught.retryable
    marked = {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], "error": {"code": 503, "message": "x"}}
    assert type(raised(sse(chunk(content="Hel"), marked))) is Overloaded


@fault
def how_a_stream_ends() -> None:
    assert type(raised(sse(chunk(content="a"), done=False))) is CutStream
    assert completion("openai", sse(chunk(content="a"))).message.text == "a", "the end mark alone makes it complete"

    async def main() -> None:  # a reason, then an open socket
        async with serve(stream(sse(chunk(content="a"), chunk("stop"), done=False), end=False)) as server:
            client = ModelClient(timeouts=Timeouts(first_token=20, idle=20, total=20, grace=0.05))
            answer = await asyncio.wait_for(client.complete(provider(url=server.url), ask()), 10)
            assert answer.message.text == "a"
            await client.aclose()

    asyncio.run(main())


@fault
def chunks_without_choice_or_delta() -> None:
    filtered: dict[str, Any] = {"choices": [{"index": 0, "finish_reason": None, "content_filter_results": {}}]}
    counted = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    raw = sse({"id": "", "choices": [], "prompt_filter_results": [{}]}, filtered, chunk("stop", content="a"), counted)
    found = completion("openai", raw)
    assert (found.message.text, found.usage) == ("a", Usage(input=3, output=2))


@fault
def comments_and_empty_events() -> None:
    noise = b": keep-alive\n\n:\n\nretry: 3000\n\nid: 7\n\ndata: \n\ndata: : PROCESSING\n\n"
    parts = [sse(chunk(content="a"), done=False), sse(chunk("stop", content="b"))]
    assert completion("openai", noise, parts[0], noise, parts[1]).message.text == "ab"
    assert type(raised(parts[0] + b"data: {broken}\n\n" + parts[1])) is ServerFault, "real damage is still told"


@fault
def a_character_cut_at_a_border() -> None:
    body = json.dumps(chunk(content="é🙂"), ensure_ascii=False)
    args = json.dumps(calls(call(0, "c1", "f", '{"c":"é🙂"}')), ensure_ascii=False)
    raw = f"data: {body}\n\ndata: {args}\n\n".encode() + sse(chunk("stop"))
    for at in range(len(raw)):
        found = completion("openai", raw[:at], raw[at:])
        assert found.message.text == "é🙂"
        assert found.message.calls[0].arguments == {"c": "é🙂"}


@fault
def ids_that_are_missing_or_empty() -> None:
    for empty in (None, ""):
        fragments = [call(0, "c1", "f", '{"a"') | {"id": "c1"}, call(0, None, None, ":1}") | {"id": empty}]
        anonymous = call(1, None, "f", "{}") | {"id": empty}
        found = completion("openai", sse(*map(calls, fragments), calls(anonymous), chunk("tool_calls"))).message
        assert [one.provider_id for one in found.calls] == ["c1", ""]
        assert len({one.id for one in found.calls}) == 2
        history = (user("a"), found, results((found.calls[0].id, "r1"), (found.calls[1].id, "r2")))
        sent = prepare(provider(), ask(*history)).body["messages"]
        given = [one["id"] for one in sent[1]["tool_calls"]]
        assert all(given)
        assert [one["tool_call_id"] for one in sent[2:]] == given


@fault
def ids_numbered_anew_in_each_round() -> None:
    from coordinator.loop.planning import plan_calls

    spec = ToolSpec(name="search", group="web", description="", parameters={}, effect=Effect.READ)
    history: list[Message] = [user("a")]
    for step, query in ((1, "a"), (2, "b")):
        raw = sse(calls(call(0, "search:0", "search", json.dumps({"q": query}))), chunk("tool_calls"))
        message = completion("openai", raw).message
        plan = plan_calls(message, run="r", step=step, attempt=1, find=lambda _: spec, now_ms=0, most=9)
        [one] = plan.message.calls
        assert one.id == node_id("r", step, 1, 0)
        history += [plan.message, results((one.id, f"found {query}"))]
    sent = prepare(provider(), ask(*history)).body["messages"]
    given = [one["id"] for message in sent for one in message.get("tool_calls", ())]
    assert len(set(given)) == 2
    answered = {one["tool_call_id"]: one["content"] for one in sent if one["role"] == "tool"}
    assert [answered[one] for one in given] == ["found a", "found b"]


@fault
def reasoning_that_is_demanded_back_or_refused() -> None:
    raw = sse(chunk(reasoning_content="why"), calls(call(0, "c1", "f", "{}")), chunk("tool_calls"))
    loop = (user("a"), completion("openai", raw).message, results(("call_0", "r")))
    assert prepare(provider(replay_reasoning="always"), ask(*loop)).body["messages"][1]["reasoning_content"] == "why"
    assert "reasoning_content" not in prepare(provider(replay_reasoning="never"), ask(*loop)).body["messages"][1]
    silent = (user("a"), from_provider(tool_call("n1")), results(("n1", "r")))
    assert prepare(provider(replay_reasoning="always"), ask(*silent)).body["messages"][1]["reasoning_content"] == ""


@fault
def a_stream_that_goes_silent() -> None:
    async def silent(peer: Peer) -> None:
        await peer.send(STREAM)
        await peer.chunk(sse(chunk(content="Hel"), done=False))
        try:
            while True:  # comments are silence too
                await peer.chunk(b": ping\n\n")
                await asyncio.sleep(0.01)
        except ConnectionError:
            peer.gone.set()

    async def main() -> None:
        async with serve(silent) as server:
            client = ModelClient(timeouts=Timeouts(first_token=20, idle=0.1, total=20))
            with pytest.raises(Timeout) as caught:
                await asyncio.wait_for(client.complete(provider(url=server.url), ask()), 10)
            assert (caught.value.kind, caught.value.retryable, caught.value.partial_text) == ("idle", True, "Hel")
            await asyncio.wait_for(server.requests[0].gone.wait(), 10)
            await client.aclose()

    asyncio.run(main())


@fault
def unknown_fields_of_a_call() -> None:
    signature = {"google": {"thought_signature": "S"}}
    raw = sse(calls(call(0, "c1", "f", "{}", extra_content=signature)), chunk("tool_calls"))
    kept = Message.model_validate_json(completion("openai", raw).message.model_dump_json())  # through the log
    history = (user("a"), kept, results(("call_0", "r")))
    assert prepare(provider(), ask(*history)).body["messages"][1]["tool_calls"][0]["extra_content"] == signature
    for dialect in ("openai", "anthropic"):
        assert "thought_signature" not in json.dumps(prepare(provider(dialect, name="other"), ask(*history)).body)


# --- Messages -------------------------------------------------------------------------------------------------

THINKING = (
    block(0, "thinking", thinking=""),
    delta(0, "signature_delta", signature="S"),
    stop(0),
    block(1, "redacted_thinking", data="X"),
    stop(1),
)


@fault
def an_error_event_or_no_end() -> None:
    text = (start(), block(0, "text", text=""), delta(0, "text_delta", text="Hel"))
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}
    caught = raised(events(*text, error), "anthropic")
    assert type(caught) is Overloaded
    assert caught.retryable
    assert type(raised(events(*text), "anthropic")) is CutStream
    assert type(raised(events(*text, stop(0)), "anthropic")) is CutStream


@fault
def calls_without_results_after_an_abort() -> None:
    history = (user("a"), from_provider(tool_call("n1"), tool_call("n2")), results(("n1", "r")), user("go on"))
    mended, notices = repair(history)
    assert [one.role for one in mended] == ["user", "assistant", "tool", "user"]
    answered = [b for b in mended[2].blocks if isinstance(b, ToolResult)]
    assert [(b.call_id, b.is_error) for b in answered] == [("n1", False), ("n2", True)]
    assert any("n2" in notice for notice in notices)
    sent = prepare(provider("anthropic"), ask(*history)).body["messages"]
    ids = [one["id"] for one in sent[1]["content"]]
    assert [one["tool_use_id"] for one in sent[2]["content"] if one["type"] == "tool_result"] == ids


@fault
def results_apart_or_behind_text() -> None:
    history = (
        user("a"),
        from_provider(tool_call("n1"), tool_call("n2")),
        results(("n1", "r1")),
        user("and also"),
        results(("n2", "r2")),
    )
    sent = prepare(provider("anthropic", prompt_cache=False), ask(*history)).body["messages"]
    assert [one["role"] for one in sent] == ["user", "assistant", "user"]
    assert [one["type"] for one in sent[2]["content"]] == ["tool_result", "tool_result", "text"]
    assert [one["content"][0]["text"] for one in sent[2]["content"][:2]] == ["r1", "r2"]


@fault
def thinking_with_nothing_but_a_signature() -> None:
    raw = events(start(), *THINKING, block(2, "tool_use", id="t1", name="f", input={}), stop(2), *end("tool_use"))
    kept = Message.model_validate_json(completion("anthropic", raw).message.model_dump_json())  # through the log
    sent = prepare(provider("anthropic"), ask(user("a"), kept, results(("call_0", "r")))).body["messages"]
    assert sent[1]["content"][:2] == [
        {"type": "thinking", "thinking": "", "signature": "S"},
        {"type": "redacted_thinking", "data": "X"},
    ]
    moved = prepare(provider("anthropic", name="other"), ask(user("a"), kept, results(("call_0", "r")))).body
    assert [one["type"] for one in moved["messages"][1]["content"]] == ["tool_use"]


@fault
def a_request_that_ends_with_the_assistant() -> None:
    partial = from_provider(TextBlock(text="I was about to"))
    for dialect in ("openai", "anthropic"):
        sent = prepare(provider(dialect), ask(user("a"), partial)).body["messages"]
        assert [one["role"] for one in sent] == ["user", "assistant", "user"]


# --- the table ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_fault(case: Case) -> None:
    case()


def test_an_early_announcement_is_not_an_answer() -> None:
    raw = sse(calls(call(0, "c1", "f", "{}")), calls(call(1, "c2", "g", "{}")), done=False)
    with pytest.raises(CutStream):
        decode("openai", [raw])
    whole = decode("openai", [raw + sse(chunk("tool_calls"))])
    assert isinstance(whole[-1], Completion)
    assert [one.name for one in ready(whole)] == ["f", "g"]
