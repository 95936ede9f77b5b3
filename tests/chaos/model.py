"""What the scripted model does with the messages of the load: each kind of message is one small graph."""

from __future__ import annotations

from typing import Any

UID = "{{user[uid]}}"


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    """A tool call as rules have it."""
    return {"name": name, "arguments": arguments}


def turn(kind: str, step: int, *calls: dict[str, Any], stream_ms: int = 200) -> dict[str, Any]:
    """The rule for one step of messages `<kind> <uid>`."""
    when = {"user": rf"^{kind} (?P<uid>\w+)", "step": step}
    return {"when": when, "then": {"calls": list(calls), "stream_ms": stream_ms, "delta_chars": 40}}


def answer(
    kind: str, step: int, text: str = f"done {UID}: {{{{count}}}} results", stream_ms: int = 150
) -> dict[str, Any]:
    """The rule for their answer."""
    when = {"user": rf"^{kind} (?P<uid>\w+)", "min_step": step}
    return {"when": when, "then": {"text": text, "stream_ms": stream_ms}}


def look(suffix: str, seconds: float = 0.0) -> dict[str, Any]:
    """A read call."""
    return call("chaos_look", tag=f"{UID}-{suffix}", seconds=seconds)


def write(suffix: str, seconds: float = 0.0, **more: Any) -> dict[str, Any]:
    """A write call."""
    return call("chaos_write", tag=f"{UID}-{suffix}", seconds=seconds, **more)


RULES: list[dict[str, Any]] = [
    # Two turns; references, a chain, calls side by side.
    turn(
        "mix",
        0,
        look("a", 0.2),
        call("chaos_look", tag="${1.tag}-b", seconds=0.1),
        call("chaos_put", tag=f"{UID}-p", value="$2.tag", seconds=0.1),
        write("w1", 0.3, value="$1.tag"),
        write("w2", 0.1),
    ),
    turn("mix", 1, write("w3", 0.2), look("c", 0.1)),
    answer("mix", 2),
    # One call after the other.
    *(turn("chain", n, write(f"w{n}", 0.1), stream_ms=50) for n in range(4)),
    answer("chain", 4),
    # Long calls, to be hit in the middle.
    turn("long", 0, write("w1", 2.5), look("a", 2.0), call("chaos_put", tag=f"{UID}-p", seconds=1.5)),
    answer("long", 1, stream_ms=800),
    # No calls.
    answer("talk", 0, f"hello {UID}, " + "this answer takes its time " * 8, stream_ms=1200),
    # A team: two subagents and their parent write, and count up a fact of all of them.
    turn(
        "team",
        0,
        call("agent_helper", task=f"part {UID}x"),
        call("agent_helper", task=f"part {UID}y"),
        call("chaos_add", tag=f"{UID}-t"),
        write("w1", 0.2),
    ),
    turn("team", 1, call("chaos_add", tag=f"{UID}-u")),
    answer("team", 2),
    turn("part", 0, call("chaos_add", tag=f"{UID}-a"), write("w1", 0.3), look("a", 0.2)),
    turn("part", 1, call("chaos_add", tag=f"{UID}-b"), call("chaos_add", tag=f"{UID}-c")),
    answer("part", 2, f"part {UID} is done"),
    # What has to be asked for, and a wait.
    turn("ask", 0, call("chaos_ask", tag=f"{UID}-q1", seconds=0.2), look("a"), call("wait", seconds=0.5)),
    turn("ask", 1, call("chaos_ask", tag=f"{UID}-q2")),
    answer("ask", 2),
    # What a steering message asks for.
    turn("also", 0, write("w1", 0.1)),
    answer("also", 1),
    # Orders: written by `order_tools`, read back from their database.
    turn("order", 0, call("order_create", order=UID, item="tea"), call("order_pay", order="$1.order", amount=7)),
    turn("order", 1, call("order_pay", order=UID, amount=5)),
    answer("order", 2),
    turn(
        "return",
        0,
        call("order_create", order=UID, item="cup"),
        call("order_cancel", order="$1.order"),
        call("order_pay", order="$1.order", amount=1),
    ),
    answer("return", 1),
]
