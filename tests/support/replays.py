"""Records runs of a real system with a scripted model as exports, for the tests of replay.

    python -m tests.support.replays NAME…

writes tests/data/replays/NAME.jsonl for each. What is there is never recorded anew: a later version must decide the
same from an old file, and a kind of run that is missing gets a recording of its own.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ops.export import read
from shared.client import Client
from shared.export import written
from shared.sql import Database
from tests.support.model_server import ModelServer
from tests.support.processes import System

FOLDER = Path(__file__).parents[1] / "data" / "replays"
_PROBES = Path(__file__).parent / "probe_tools.py"
_TIMEOUT_S = 60.0

Rules = list[dict[str, Any]]


def _call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def _turns(*turns: list[dict[str, Any]], answer: str = "done") -> Rules:
    """A model that makes these calls, step after step, and then answers."""
    steps: Rules = [{"when": {"step": n}, "then": {"calls": calls}} for n, calls in enumerate(turns)]
    return [{"when": {"has_tools": False}, "then": {"text": "that is all"}}, *steps, {"then": {"text": answer}}]


def _ask(client: Client, text: str, **fields: Any) -> None:
    client.ask(text, session="s", timeout=_TIMEOUT_S, **fields)


def _references(client: Client, model: ModelServer) -> None:
    """Parallel calls, values of several kinds, labels, order without data, outputs left out, two turns."""
    first = [
        _call("probe_read", tag="$b.tag"),
        _call("probe_read", tag="first", _label="b"),
        _call("probe_write", tag="${1.tag}? ${2.tag}! costs $5"),
        _call("probe_large", size=2000, _after=["b"]),
        _call("probe_read", tag="${4}", seconds=0.05),
        _call("probe_read", tag="$9.nothing"),
    ]
    model.script(_turns(first, [_call("calculate", expression="6*7"), _call("probe_read", tag="${1}")]))
    _ask(client, "go")
    _ask(client, "and once more")


def _failure(client: Client, model: ModelServer) -> None:
    """Tools that fail and run out of time, their dependents, a cycle, an unknown tool, a path that leads nowhere."""
    calls = [
        _call("probe_fail", tag="x"),
        _call("probe_read", tag="$1.tag"),
        _call("probe_read", tag="${2.tag}!"),
        _call("probe_hang", tag="h"),
        _call("probe_read", tag="$6.tag"),
        _call("probe_read", tag="$5.tag"),
        _call("nowhere", tag="n"),
        _call("probe_read", tag="alone"),
        _call("probe_read", tag="$8.title"),
    ]
    model.script(_turns(calls))
    _ask(client, "go")


def _loop(client: Client, model: ModelServer) -> None:
    """The same call over and over, until the guard ends the run."""
    model.script(
        [
            {"when": {"has_tools": False}, "then": {"text": "I give up searching"}},
            {"then": {"calls": [_call("probe_read", tag="again")]}},
        ]
    )
    _ask(client, "go")


def _cancelled(client: Client, model: ModelServer) -> None:
    """A run that is cancelled in the middle of a turn, and the next one."""
    model.script(
        [
            {"when": {"user": "long", "step": 0}, "then": {"calls": [_call("calculate", expression="1+1")]}},
            {
                "when": {"user": "long"},
                "then": {
                    "calls": [
                        _call("probe_read", tag="quick"),
                        _call("probe_read", tag="slow", seconds=20),
                        _call("probe_read", tag="${2.tag}-never"),
                    ]
                },
            },
            {"then": {"text": "hello"}},
        ]
    )
    submitted = client.submit("long", session="s")
    started = (e for e in client.stream("s", timeout=_TIMEOUT_S) if e.type == "node.finished")
    [next(started) for _ in range(2)]
    client.cancel(session="s")
    client.wait(submitted, _TIMEOUT_S)
    _ask(client, "hi")


def _budget(client: Client, model: ModelServer) -> None:
    """A budget of steps, an empty answer, a message that joins, a turn that is taken back."""
    model.script(
        [
            {"when": {"has_tools": False}, "then": {"text": "as far as I got"}},
            {"when": {"user": "joins"}, "then": {"text": "both heard"}},
            {"when": {"user": "empty"}, "times": 1, "then": {"text": ""}},
            {"when": {"user": "Your last message was empty"}, "then": {"text": "sorry, here I am"}},
            {"when": {"user": "slow", "step": 0}, "then": {"calls": [_call("probe_read", tag="w", seconds=0.6)]}},
            {"when": {"step": 0}, "then": {"calls": [_call("probe_read", tag="0")]}},
            {"when": {"step": 1}, "then": {"calls": [_call("probe_read", tag="1")]}},
            {"then": {"calls": [_call("probe_read", tag="n")]}},
        ]
    )
    _ask(client, "count", budget={"steps": 2})
    client.undo("s")
    _ask(client, "empty")
    before = client.last_event("s")
    submitted = client.submit("slow", session="s")
    next(e for e in client.stream("s", after=before, timeout=_TIMEOUT_S) if e.type == "node.started")
    client.submit("one more joins", session="s", mode="steer")
    client.wait(submitted, _TIMEOUT_S)


def _plan(client: Client, model: ModelServer) -> None:
    """A plan that is refused, one that is carried out with a failure in it, one whose inputs fail."""
    steps = [
        {"id": "a", "tool": "probe_read", "args": {"tag": "first"}},
        {"id": "b", "tool": "probe_read", "args": {"tag": "${a.tag}-b"}},
        {"id": "c", "tool": "probe_fail", "args": {"tag": "x"}},
        {"id": "d", "tool": "probe_read", "args": {"tag": "$c"}},
        {"id": "e", "tool": "probe_write", "args": {"tag": "last"}, "after": ["b"]},
    ]
    bad = [*steps[:1], {"id": "z", "tool": "nowhere"}]
    later = [_call("probe_fail", tag="y"), _call("plan", steps=steps[:2], _after=["1"])]
    model.script(_turns([_call("plan", steps=bad)], [_call("plan", steps=steps)], later))
    _ask(client, "go", agent="planner")


def _early(client: Client, model: ModelServer) -> None:
    """Calls that start while the model streams; a stream that breaks, whose results the next attempt takes over."""
    rows = [_call("probe_read", tag=f"once{n}") for n in range(3)]
    model.script(
        [
            {
                "when": {"step": 0},
                "times": 1,
                "then": {"calls": rows, "stream_ms": 1000, "error": {"status": 500, "after": 140}},
            },
            {"when": {"step": 0}, "then": {"calls": [*rows, _call("probe_read", tag="$1.tag")], "stream_ms": 50}},
            {"then": {"text": "{{results}}"}},
        ]
    )
    _ask(client, "go")


def _waits(client: Client, model: ModelServer) -> None:
    """A subagent, a question, an approval that is given and one that is refused, and what depends on them."""
    turn = [
        _call("agent_helper", task="look it up"),
        _call("ask_user", question="which one?"),
        _call("probe_write", tag="${1} ${2}"),
        _call("probe_write", tag="no"),
        _call("probe_read", tag="$4.tag"),
        _call("wait", seconds=1),
    ]
    helper = {"system": "You help"}
    model.script(
        [
            {"when": {**helper, "step": 0}, "then": {"calls": [_call("probe_read", tag="found")]}},
            {"when": helper, "then": {"text": "it is found"}},
            {"when": {"step": 0}, "then": {"calls": turn}},
            {"then": {"text": "done"}},
        ]
    )
    submitted = client.submit("go", session="s", agent="boss")
    for event in client.stream("s", timeout=_TIMEOUT_S):
        node = str(event.data.get("node"))
        if event.type == "question.asked":
            client.answer(node, "the blue one")
        elif event.type == "approval.requested" and "no" in str(event.data.get("args")):
            client.deny(node, "rather not")
        elif event.type == "approval.requested":
            client.approve(node)
        elif event.type in ("run.finished", "run.failed"):
            break
    client.wait(submitted, _TIMEOUT_S)


SCENARIOS: dict[str, Callable[[Client, ModelServer], None]] = {
    "references": _references,
    "failure": _failure,
    "loop": _loop,
    "cancelled": _cancelled,
    "budget": _budget,
    "plan": _plan,
    "early": _early,
    "waits": _waits,
}


@contextmanager
def _system(folder: Path) -> Iterator[tuple[Client, ModelServer, Database]]:
    agents = folder / "agents"
    agents.mkdir()
    (agents / "planner.md").write_text("---\nname: planner\ncalls: plan\n---\nYou plan.")
    (agents / "helper.md").write_text("---\nname: helper\n---\nYou help.")
    rules = "permissions:\n  rules:\n    - {action: ask, tools: [probe_write]}\n"
    (agents / "boss.md").write_text(f"---\nname: boss\nsubagents: [helper]\n{rules}---\nYou lead.")
    env = {
        "CAPATAZ_WORKER__TOOL_MODULES": f'["{_PROBES}"]',
        "CAPATAZ_ROUTING__ENCODER": "off",
        "CAPATAZ_PLAYBOOK__ENABLED": "false",
        "CAPATAZ_COORDINATOR__AGENTS_DIR": str(agents),
    }
    with ModelServer(names=["default"]) as model, System(model_url=model.url, env=env) as system:
        client = Client.connect(system.redis_url)
        database = Database(f"sqlite:///{system.folder / 'data' / 'capataz.db'}")
        try:
            yield client, model, database
        finally:
            database.close()
            client.close()


def record(names: list[str]) -> None:
    """Records those scenarios, each in a system of its own."""
    for name in names:
        target = FOLDER / f"{name}.jsonl"
        if target.exists():
            raise SystemExit(f"{target} exists; recordings are never made anew")
        with tempfile.TemporaryDirectory(prefix="cpz-") as folder, _system(Path(folder)) as (client, model, database):
            SCENARIOS[name](client, model)
            lines = list(written(read(client, database, "s")))
        target.write_text("\n".join(lines) + "\n", "utf-8")
        print(f"{target}: {len(lines)} lines")


if __name__ == "__main__":
    record(sys.argv[1:])
