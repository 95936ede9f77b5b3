"""DUR2: seconds from kill -9 to progress, which is the next event of a run that was under way; medians of three.

`coordinator`: the owner of a run whose model is streaming. `worker`: the one that runs a read call. `redis`: the state
server under a run of many short steps, started again at once; what it needs to come back is part of the time. Pieces of
text are not counted as progress.
"""

from __future__ import annotations

import itertools
import json
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import redis

from shared.state import keys
from tests.bench.report import line
from tests.bench.turns import ENV
from tests.support.model_server import ModelServer
from tests.support.processes import Proc, System

ROUNDS = 3
GIVE_UP_S = 60.0
RULES: list[dict[str, Any]] = [
    {"when": {"user": "talk"}, "then": {"text": "a long answer " * 40, "stream_ms": 4000}},
    {"when": {"user": "work", "step": 0}, "then": {"calls": [{"name": "bench_sleep", "arguments": {"seconds": 6.0}}]}},
    {
        "when": {"user": "steps", "step": tuple(range(40))},
        "then": {"calls": [{"name": "bench_sleep", "arguments": {"seconds": 0.05, "tag": "{{count}}"}}]},
    },
    {"then": {"text": "done"}},
]

Row = tuple[str, dict[str, str]]


class Reader:
    """Reads a session's events, also over restarts of the server."""

    def __init__(self, system: System, session: str) -> None:
        self._system = system
        self._key = keys.events(session)
        self._last = "0"

    def new(self) -> list[Row]:
        """Events since the last call; none while the server is away."""
        try:
            with self._system.client() as client:
                rows: Any = client.xrange(self._key, f"({self._last}" if self._last != "0" else "-")
        except redis.RedisError:
            return []
        if rows:
            self._last = rows[-1][0]
        return list(rows)

    def await_type(self, *types: str) -> Row:
        """The next event of one of these types; of any but pieces of text, if none is named."""
        give_up = time.monotonic() + GIVE_UP_S
        while time.monotonic() < give_up:
            for row in self.new():
                if row[1]["type"] in types or not (types or row[1]["type"].endswith(".delta")):
                    return row
            time.sleep(0.005)
        raise TimeoutError(f"no event within {GIVE_UP_S:g} s")


def _submit(system: System, text: str, session: str) -> Reader:
    fields = {"kind": "message", "session": session, "text": text, "tools": "bench", "reply_to": session}
    with system.client() as client:
        client.xadd(keys.inbox(), fields)
    return Reader(system, session)


def _finish(system: System, session: str) -> None:
    """Waits for the end of a round, so that the next one begins with a system at rest."""
    with system.state.client(socket_timeout=None) as client:
        row: Any = client.blpop([keys.reply(session)], timeout=GIVE_UP_S)
    if row is None or not json.loads(row[1])["ok"]:
        raise RuntimeError(f"the run of {session} did not end well: {row}")
    system.wait_ready()


def _since(kill: Callable[[], object], reader: Reader) -> float:
    reader.new()
    began = time.monotonic()
    kill()
    reader.new()  # what was written before it died
    reader.await_type()
    return time.monotonic() - began


def _restart(system: System, proc: Proc, session: str) -> None:
    proc.start()
    _finish(system, session)


def _coordinator(system: System, session: str) -> float:
    reader = _submit(system, "talk", session)
    run = reader.await_type("text.delta")[1]["run"]
    with system.client() as client:
        owner = str(client.hget(keys.run(run), "owner"))
    victim = next(c for c in system.coordinators if f"-{c.pid}-" in owner)
    seconds = _since(lambda: system.kill(victim), reader)
    _restart(system, victim, session)
    return seconds


def _worker(system: System, session: str) -> float:
    reader = _submit(system, "work", session)
    wid = json.loads(reader.await_type("node.started")[1]["data"])["worker"]
    victim = next(w for w in system.workers if f"-{w.pid}-" in wid)
    seconds = _since(lambda: system.kill(victim), reader)
    _restart(system, victim, session)
    return seconds


def _redis(system: System, session: str) -> float:
    reader = _submit(system, "steps", session)
    reader.await_type("node.finished")

    def kill() -> None:
        system.state.kill()
        system.state.start()

    seconds = _since(kill, reader)
    _finish(system, session)
    return seconds


def measure() -> None:
    """Prints one line."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("processes are started from the main thread: they die with the thread that starts them")
    medians: dict[str, float] = {}
    with ModelServer(rules=RULES) as model:
        system = System(model_url=model.url, coordinators=2, workers=2, env=ENV)
        try:
            system.start()
            numbers = itertools.count()
            for name, part in (("coordinator", _coordinator), ("worker", _worker), ("redis", _redis)):
                medians[name] = statistics.median(part(system, f"{name}{next(numbers)}") for _ in range(ROUNDS))
        finally:
            system.stop()
    line("DUR2", **medians)
