"""Messages all the way through: Redis, coordinator, Celery worker, tools, answer."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import pytest
import redis

from shared.client import AsyncClient, Client
from shared.entries import Event
from tests.support.model_server import ModelServer
from tests.support.processes import System

pytestmark = pytest.mark.integration


def calls(*rows: dict[str, Any], user: str = "", then: str = "done: {{results}}") -> list[dict[str, Any]]:
    """Rules of a model that makes these calls in one turn and then answers with their results."""
    return [
        {"when": {"user": user, "step": 0}, "then": {"calls": list(rows)}},
        {"when": {"user": user, "min_step": 1}, "then": {"text": then}},
    ]


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def of_agents(model: ModelServer) -> list[Any]:
    """Requests of agents, without those of the learner that follows a run with tools."""
    return [r for r in model.requests if r.body["messages"][0]["content"].startswith("You are Capataz")]


def events_of(client: Client, session: str, run: str) -> list[Event]:
    return list(client.stream(session, run=run, timeout=10))


def test_two_redis_commands_are_a_whole_client(system: System, model: ModelServer) -> None:
    model.script(calls(call("time_now", timezone="Europe/Madrid"), call("calculate", expression="17*23")))
    with redis.Redis.from_url(system.redis_url, socket_timeout=None) as raw:
        question = "what time is it in Madrid, and what is 17*23?"
        raw.execute_command(
            "XADD", "capataz:inbox", "*", "kind", "message", "session", "s1", "text", question, "reply_to", "r1"
        )
        row = raw.execute_command("BLPOP", "capataz:reply:r1", 30)
    reply = json.loads(row[1])
    assert reply["ok"] is True
    assert "391" in reply["answer"]
    assert "Europe/Madrid" in reply["answer"]
    assert reply["finish_reason"] == "stop"


def test_python_client_gets_events_in_order(client: Client, model: ModelServer) -> None:
    model.script(calls(call("calculate", expression="6*7"), then="It is {{result.1}}"))
    submitted = client.submit("6*7?", session="events")
    reply = client.wait(submitted, 20)
    kinds = [e.type for e in events_of(client, "events", reply.run)]
    for first, second in [
        ("message.accepted", "run.started"),
        ("run.started", "routed"),
        ("routed", "step.started"),
        ("step.started", "node.planned"),
        ("node.planned", "node.started"),
        ("node.started", "node.finished"),
        ("node.finished", "text.delta"),
        ("text.delta", "run.finished"),
    ]:
        assert kinds.index(first) < kinds.index(second), kinds
    assert kinds[-1] == "run.finished"


def test_async_client(system: System, model: ModelServer) -> None:
    model.script([{"then": {"text": "hello there"}}])

    async def talk() -> tuple[str, str]:
        client = AsyncClient.connect(system.redis_url)
        submitted = await client.submit("hi", session="async")
        reply = await client.wait(submitted, 20)
        text = ""
        async for event in client.stream("async", run=reply.run):
            if event.type == "text.delta":
                text += event.data["text"]
        await client.aclose()
        return reply.answer, text

    answer, text = asyncio.run(talk())
    assert answer == text == "hello there"


def test_one_session_runs_one_after_the_other(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "answer", "first_token_ms": 200}}])
    one, two = client.submit("one", session="line"), client.submit("two", session="line")
    replies = [client.wait(one, 20), client.wait(two, 20)]
    at = {(e.run, e.type): e.id for e in client.stream("line", run=replies[1].run, timeout=10)}
    assert at[replies[0].run, "run.finished"] < at[replies[1].run, "run.started"]


def test_two_sessions_run_side_by_side(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "answer", "first_token_ms": 400}}])
    one, two = client.submit("one", session="left"), client.submit("two", session="right")
    replies = client.wait(one, 20), client.wait(two, 20)
    left = {e.type: e.id for e in client.stream("left", run=replies[0].run, timeout=10)}
    right = {e.type: e.id for e in client.stream("right", run=replies[1].run, timeout=10)}
    assert right["run.started"] < left["run.finished"]
    assert left["run.started"] < right["run.finished"]


def test_independent_calls_overlap_and_come_back_in_call_order(client: Client, model: ModelServer) -> None:
    rows = [call("probe_read", tag=f"t{n}", seconds=0.6 - n * 0.1) for n in range(5)]
    model.script(calls(*rows))
    reply = client.ask("go", session="parallel", timeout=20)
    assert [reply.answer.index(f"t{n}") for n in range(5)] == sorted(reply.answer.index(f"t{n}") for n in range(5))
    ends = [e.data for e in events_of(client, "parallel", reply.run) if e.type == "node.finished"]
    assert len(ends) == 5
    assert max(e["started_ms"] for e in ends) < min(e["ended_ms"] for e in ends)


def test_same_id_is_one_run(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "once"}}])
    first = client.ask("a", session="dedupe", id="m-1", timeout=20)
    second = client.ask("a", session="dedupe", id="m-1", timeout=20)
    assert first.run == second.run
    assert len(of_agents(model)) == 1


def test_unknown_tool_and_bad_arguments_go_back_to_the_model(client: Client, model: ModelServer) -> None:
    model.script(calls(call("no_such_tool", x=1), call("calculate", wrong="2"), call("calculate", expression="2+2")))
    reply = client.ask("go", session="bad-calls", timeout=20)
    assert "no tool 'no_such_tool'" in reply.answer
    assert "expression" in reply.answer
    assert "4" in reply.answer
    states = [e.data["state"] for e in events_of(client, "bad-calls", reply.run) if e.type == "node.finished"]
    assert sorted(states) == ["done", "failed", "refused"]


def test_tool_that_raises_or_hangs_does_not_stop_the_run(client: Client, model: ModelServer) -> None:
    rows = [call("probe_fail", tag="a"), call("probe_hang", tag="b"), call("probe_block", tag="c")]
    model.script(calls(*rows, call("probe_read", tag="d")))
    reply = client.ask("go", session="hurt", timeout=30)
    assert reply.ok
    assert "no luck with a" in reply.answer
    assert reply.answer.count("did not finish within 1 s") == 2
    assert '"tag":"d"' in reply.answer
    model.script([{"then": {"text": "still here"}}])
    assert client.ask("next", session="hurt", timeout=20).answer == "still here"


def test_large_output_is_cut_and_can_be_read_back(client: Client, model: ModelServer) -> None:
    model.script(
        [
            {"when": {"step": 0}, "then": {"calls": [call("probe_large", size=100_000)]}},
            {
                "when": {"step": 1},
                "then": {
                    "calls": [
                        {
                            "name": "read_artifact",
                            "arguments": {"handle": r"{{result.1|find:(a:[0-9a-f]{32})}}", "offset": 100_000},
                        }
                    ]
                },
            },
            {"then": {"text": "{{result.2}}"}},
        ]
    )
    reply = client.ask("go", session="large", timeout=30)
    assert "xxx tail" in reply.answer
    sent = max(len(r.body["messages"][3]["content"]) for r in of_agents(model) if len(r.body["messages"]) > 3)
    assert sent < 10_000


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"kind": "dance", "text": "x"}, "unknown_kind"),
        ({"text": "x"}, "missing_field"),
        ({"kind": "message", "session": "s"}, "missing_field"),
        ({"kind": "message", "session": "s", "text": "x", "budget": "{"}, "bad_json"),
        ({"kind": "message", "session": "s", "text": "x", "agent": "nobody"}, "unknown_agent"),
        ({"kind": "message", "session": "no spaces", "text": "x"}, "bad_field"),
        ({"kind": "message", "session": "s", "text": "x", "colour": "red"}, "unknown_field"),
        ({"kind": "message", "session": "s", "text": "x" * 200_001}, "too_large"),
    ],
)
def test_malformed_entry_is_answered_and_kept(
    system: System, client: Client, model: ModelServer, fields: dict[str, str], code: str
) -> None:
    with redis.Redis.from_url(system.redis_url, decode_responses=True, socket_timeout=None) as raw:
        raw.xadd("capataz:inbox", {**fields, "reply_to": "bad"})
        row: Any = raw.blpop(["capataz:reply:bad"], timeout=10)
        assert row is not None
        assert json.loads(row[1])["error"]["code"] == code
        newest: Any = raw.xrevrange("capataz:dead", count=1)
        assert newest[0][1]["code"] == code
    model.script([{"then": {"text": "fine"}}])
    assert client.ask("next", session="after-bad", timeout=20).answer == "fine"


def test_steps_budget_forces_an_answer(client: Client, model: ModelServer) -> None:
    model.script(
        [
            {"when": {"has_tools": False}, "then": {"text": "what I know so far"}},
            {"then": {"calls": [call("probe_read", tag="again {{count}}")]}},
        ]
    )
    reply = client.ask("loop", session="budget", budget={"steps": 3}, timeout=30)
    assert reply.finish_reason == "budget_steps"
    assert reply.answer == "what I know so far"
    assert len(of_agents(model)) == 4


def test_answer_cut_by_length_is_continued(client: Client, model: ModelServer) -> None:
    model.script(
        [
            {"when": {"user": "^begin"}, "then": {"text": "one two ", "finish": "length"}},
            {"when": {"user": "cut off"}, "then": {"text": "three", "finish": "stop"}},
        ]
    )
    reply = client.ask("begin", session="length", timeout=20)
    assert reply.answer == "one two three"
    assert reply.finish_reason == "stop"


def test_answer_that_never_ends_is_reported_as_cut(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "more ", "finish": "length"}}])
    reply = client.ask("begin", session="endless", timeout=20)
    assert reply.finish_reason == "length"
    assert reply.answer == "more " * 4


def test_call_cut_by_length_is_never_run(client: Client, model: ModelServer, system: System) -> None:
    broken = {"name": "probe_write", "arguments": '{"tag": "half'}
    model.script(
        [
            {"when": {"user": "^go"}, "then": {"calls": [call("probe_read", tag="whole"), broken], "finish": "length"}},
            {"when": {"user": "NOT run"}, "then": {"text": "I could not send that"}},
        ]
    )
    reply = client.ask("go", session="broken", timeout=20)
    assert reply.answer == "I could not send that"
    log = (system.workspace / "probe.log").read_text()
    assert "read whole" in log
    assert "half" not in log


def test_content_filter_is_reported(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "", "finish": "content_filter"}}])
    reply = client.ask("x", session="filter", timeout=20)
    assert not reply.ok
    assert "filter" in (reply.error.code if reply.error else reply.finish_reason)


def test_cancel_in_the_middle_of_a_stream_and_of_a_tool(client: Client, model: ModelServer) -> None:
    for rules in (
        [{"then": {"text": "word " * 50, "stream_ms": 20_000}}],
        calls(call("probe_read", tag="slow", seconds=25)),
    ):
        model.script(rules)
        submitted = client.submit("go", session="cancel")
        wanted = "text.delta" if len(rules) == 1 else "node.started"
        next(e for e in client.stream("cancel", after=client.last_event("cancel"), timeout=15) if e.type == wanted)
        assert client.cancel(session="cancel").ok
        reply = client.wait(submitted, 5)
        assert reply.finish_reason == "cancelled"
    model.script([{"then": {"text": "go on"}}])
    assert client.ask("next", session="cancel", timeout=20).answer == "go on"


def test_steer_joins_the_running_run(client: Client, model: ModelServer) -> None:
    model.script(
        [
            {"when": {"user": "^first"}, "then": {"calls": [call("probe_read", tag="x", seconds=1.0)]}},
            {"when": {"user": "actually"}, "then": {"text": "changed course"}},
        ]
    )
    first = client.submit("first", session="steer")
    next(e for e in client.stream("steer", timeout=15) if e.type == "node.started")
    second = client.submit("actually, stop", session="steer", mode="steer")
    replies = client.wait(first, 20), client.wait(second, 20)
    assert replies[0].run == replies[1].run
    assert replies[0].answer == "changed course"
    last = of_agents(model)[-1].body["messages"]
    assert [m["role"] for m in last][-2:] == ["tool", "user"]


def test_history_follows_into_the_next_message(client: Client, model: ModelServer) -> None:
    model.script(calls(call("calculate", expression="1+1"), then="two"))
    client.ask("one and one?", session="memory", timeout=20)
    model.script([{"then": {"text": "you asked for a sum"}}])
    client.ask("what did I ask?", session="memory", timeout=20)
    roles = [m["role"] for m in of_agents(model)[-1].body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


def test_system_prompt_keeps_its_bytes_over_a_session(client: Client, model: ModelServer) -> None:
    model.script([{"then": {"text": "ok"}}])
    for n in range(3):
        client.ask(f"message {n}", session="prefix", timeout=20)
    bodies = [r.body["messages"] for r in of_agents(model)]
    assert len({b[0]["content"] for b in bodies}) == 1
    for earlier, later in itertools.pairwise(bodies):
        assert later[: len(earlier)] == earlier  # each request begins with the bytes of the one before


def test_image_is_described_on_the_vision_queue(client: Client, model: ModelServer, system: System) -> None:
    png = bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000"
        "000301010018dd8db00000000049454e44ae426082"
    )
    (system.workspace / "dot.png").write_bytes(png)
    model.script(
        [
            {"when": {"has_image": True}, "then": {"text": "a single red dot"}},
            *calls(call("image_describe", path="dot.png"), then="I see: {{result.1}}"),
        ]
    )
    reply = client.ask("what is in dot.png?", session="vision", timeout=30)
    assert "a single red dot" in reply.answer


def test_archive_has_the_run(client: Client, model: ModelServer, system: System) -> None:
    from shared.settings import DataSettings, Settings
    from shared.sql import runs
    from shared.sql.engine import Database, database_url

    model.script([{"then": {"text": "for the record"}}])
    reply = client.ask("remember me", session="archive", timeout=20)
    url = database_url(Settings.model_construct(data=DataSettings(dir=system.folder / "data")))
    database = Database(url)
    try:
        for _ in client.stream("archive", timeout=3, run=reply.run):
            pass
        waited = threading_wait(lambda: database.run_sync(lambda c: runs.get_run(c, reply.run, "owner")))
        assert waited.answer == "for the record"
        assert waited.state is runs.RunState.ENDED
    finally:
        database.close()


def threading_wait(read: Any, timeout_s: float = 10.0) -> Any:
    """The first answer of `read` whose `ended_ms` is set."""
    import time

    give_up = time.monotonic() + timeout_s
    while True:
        found = read()
        if found is not None and found.ended_ms is not None:
            return found
        if time.monotonic() > give_up:
            raise AssertionError(f"not archived: {found}")
        time.sleep(0.05)


def test_bytes_that_are_no_text_are_answered_and_stop_nothing(
    system: System, client: Client, model: ModelServer
) -> None:
    with redis.Redis.from_url(system.redis_url, socket_timeout=None) as raw:
        raw.execute_command(
            "XADD", "capataz:inbox", "*", "kind", "message", "session", "s", "text", b"\xff\xfe", "reply_to", "raw"
        )
        row: Any = raw.blpop(["capataz:reply:raw"], timeout=10)
    assert json.loads(row[1])["error"]["code"] == "bad_field"
    model.script([{"then": {"text": "fine"}}])
    assert client.ask("next", session="after-raw", timeout=20).answer == "fine"


def test_reader_behind_the_trim_gets_a_snapshot(client: Client, model: ModelServer, system: System) -> None:
    model.script([{"then": {"text": "first"}}])
    client.ask("one", session="trim", timeout=20)
    start = next(client.stream("trim", timeout=5)).id
    client.ask("two", session="trim", timeout=20)
    with system.client() as raw:
        raw.xtrim("capataz:session:trim:events", maxlen=3, approximate=False)
    behind = next(client.stream("trim", after=start, timeout=5))
    assert behind.type == "snapshot"
    assert [e["type"] for e in behind.data["history"]].count("run.ended") == 2
    with pytest.raises(TimeoutError):  # up to date: there is nothing to tell
        next(client.stream("trim", after=client.last_event("trim"), timeout=1))


def test_a_model_that_calls_although_nothing_is_left_is_asked_in_plain_words(
    client: Client, model: ModelServer
) -> None:
    model.script(
        [
            {"when": {"user": "conversation so far"}, "then": {"text": "plainly: {{user|find:tag.:.(\\w+)}}"}},
            {"when": {"has_tools": False, "user": "used up"}, "then": {"text": ""}},
            {"then": {"calls": [call("probe_read", tag="seen{{count}}")]}},
        ]
    )
    reply = client.ask("go", session="plain", budget={"steps": 2}, timeout=20)
    assert reply.answer == "plainly: seen0"
    assert reply.finish_reason == "budget_steps"
    assert of_agents(model)[-1].body.get("tools") is None


def test_an_argument_that_does_not_exist_is_ignored_where_nothing_is_changed(
    client: Client, model: ModelServer
) -> None:
    rows = [call("calculate", expression="2+3", required=["expression"]), call("probe_write", tag="w", required=[])]
    model.script(calls(*rows))
    reply = client.ask("go", session="extra", timeout=20)
    assert "2+3 = 5" in reply.answer
    assert "no such argument: required" in reply.answer
    assert "unknown argument `required`" in reply.answer
