"""Logs as older versions wrote them: how they are read, what their fold must be, and how a new one is recorded.

`python -m tests.contract.frozen_logs` plays those scenes below whose files do not exist yet, on a system of real
processes, and writes `<scene>.jsonl` (the entries as the stream has them, one a line) and `<scene>.json` (their fold).
It never touches a file that is there: what an old version wrote cannot be written again.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from shared.client import Client
from shared.entries import Event, Stored, decode
from shared.fold import RunFold, SessionFold
from shared.llm.check import repair
from shared.llm.dialects import dialect_of
from shared.llm.model import Message, Request
from shared.llm.provider import Provider
from shared.state import keys
from tests.chaos import probe
from tests.chaos import tools as chaos_tools
from tests.chaos.model import call
from tests.support import probe_tools
from tests.support.model_server import ModelServer
from tests.support.processes import System

FOLDER = Path(__file__).parents[1] / "data" / "frozen_logs"
PROVIDERS = {"openai": "rehearsal", "anthropic": "other"}
"""Who is asked in each dialect; parts of their own go back to them alone."""
FIELDS = ("id", "t", "v", "run", "d")

Entry = Mapping[str, str]


def read(path: Path) -> list[dict[str, str]]:
    """The entries of a recorded log, each with the fields of the stream and its `id`."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def decoded(entries: Iterable[Entry]) -> list[Stored]:
    """The entries as this version reads them."""
    return [decode(entry["id"], entry) for entry in entries]


def folded(entries: Iterable[Entry]) -> dict[str, Any]:
    """What this version makes of a log, as plain JSON: the provider's messages per dialect, runs, facts, groups."""
    fold = SessionFold.of(decoded(entries))
    summary: dict[str, Any] = {
        "messages": {dialect: _encoded(dialect, fold.messages) for dialect in PROVIDERS},
        "runs": {run: _run(one) for run, one in fold.runs.items() if one.message},
        "facts": {name: [fact.version, fact.row] for name, fact in fold.facts.items()},
        "offered_groups": list(fold.conversation("").offered_groups),
        "offered_tools": list(fold.conversation("").offered_tools),
    }
    if threads := [run for run, one in fold.runs.items() if one.message and one.message.parent]:
        summary["threads"] = {run: _encoded("openai", fold.conversation(run).messages) for run in threads}
    if fold.granted:
        summary["granted"] = [[one.node, one.tool, one.scope] for one in fold.granted]
    plain: dict[str, Any] = json.loads(json.dumps(summary))
    return plain


def _encoded(dialect: str, messages: Iterable[Message]) -> Any:
    provider = Provider(name=PROVIDERS[dialect], dialect=dialect, base_url="http://127.0.0.1:1/v1")
    history, _ = repair(tuple(messages))
    return dialect_of(dialect).encode(provider, Request(model="m", messages=history)).body["messages"]


def _run(run: RunFold) -> dict[str, Any]:
    return {
        "message": [run.message.kind, run.message.text, run.message.workflow] if run.message else None,
        "started_ms": run.started_ms,
        "steps": run.steps,
        "tokens": run.usage.total,
        "cost": None if run.cost is None else str(run.cost),
        "nodes": {node.node: [node.tool, str(node.effect), list(node.needs)] for node in run.nodes.values()},
        "results": {node: [str(result.state), result.text] for node, result in run.results.items()},
        "open": [node.node for node in run.open_nodes],
        "elided": list(run.elided),
        "nudges": [nudge.reason for nudge in run.nudges],
        "broken_steps": run.broken_steps,
        "has_context": run.has_context,
        "offered": list(run.offered),
        "ended": [run.ended.state, run.ended.finish_reason, run.ended.answer] if run.ended else None,
        **_waits(run),
    }


def _waits(run: RunFold) -> dict[str, Any]:
    """What logs of before there were waits have nothing of."""
    found = {
        "waiting": {node: [wait.kind, wait.tool, wait.run] for node, wait in run.waiting.items()},
        "open_waits": list(run.open_waits),
        "decided": {node: [one.allowed, one.scope, one.text] for node, one in run.decided.items()},
        "facts_seen": run.facts_seen,
    }
    return {name: value for name, value in found.items() if value}


class Stage:
    """A running system on which scenes are played."""

    def __init__(self, system: System, model: ModelServer) -> None:
        self.system = system
        self.model = model
        self.client = Client.connect(system.redis_url)

    def ask(self, text: str, session: str, *rules: dict[str, Any], **fields: Any) -> None:
        """One message to a model that plays `rules`, to its end."""
        self.model.script(rules)
        self.client.ask(text, session=session, timeout=60, **fields)

    def log(self, session: str) -> list[dict[str, str]]:
        """The session's log as the stream has it."""
        with self.system.client() as raw:
            rows: Any = raw.xrange(keys.log(session))
        return [{"id": entry_id, **fields} for entry_id, fields in rows]


def says(text: str, **when: Any) -> dict[str, Any]:
    """A rule with an answer."""
    return {"when": when, "then": {"text": text}}


def asks(*calls: dict[str, Any], step: int = 0, **then: Any) -> dict[str, Any]:
    """A rule with calls."""
    return {"when": {"step": step}, "then": {"calls": list(calls), **then}}


def simple(stage: Stage, session: str) -> None:
    """Two messages and their answers, the second with an attachment and some thinking."""
    stage.ask("hi there", session, says("hello"))
    picture = {"name": "dot.txt", "media_type": "text/plain", "data": "aGk="}
    thinking = {"then": {"thinking": "what was that?", "text": "I see"}}
    stage.ask("and this?", session, thinking, attachments=(picture,))


def references(stage: Stage, session: str) -> None:
    """Parallel calls that feed others, by value, inside text, by label and in order only."""
    calls = (
        call("chaos_look", tag="a", seconds=0.2),
        call("chaos_look", tag="${1.tag}-b", _label="second"),
        call("chaos_put", tag="c", value="$second.tag"),
        call("chaos_write", tag="d", _after=["3"]),
        call("calculate", expression="17*23"),
    )
    stage.ask("go", session, asks(*calls), says("done: {{results}}"))


def failures(stage: Stage, session: str) -> None:
    """A tool that fails and its dependent; a model that is refused; then one that answers after a failed attempt."""
    calls = (call("probe_fail", tag="x"), call("probe_read", tag="$1"), call("no_such_tool"))
    stage.ask("tools", session, asks(*calls), says("that went wrong"))
    stage.ask("refused", session, {"then": {"error": {"status": 401}}})
    broken = {"times": 1, "then": {"text": "half an answer", "error": {"status": 500, "after": 4}}}
    stage.ask("again", session, broken, says("a whole answer"))


def cancelled(stage: Stage, session: str) -> None:
    """A run that is cancelled in its tools, and what comes after it."""
    stage.model.script([asks(call("chaos_write", tag=session, after="never"), call("chaos_look", tag="$1"))])
    submitted = stage.client.submit("go", session=session)
    probe.await_line(stage.system, f"write {session}")
    stage.client.cancel(session=session)
    stage.client.wait(submitted, 60)
    stage.ask("what was that?", session, says("you cancelled it"))


def steered(stage: Stage, session: str) -> None:
    """A message that joins a run."""
    stage.model.script([asks(call("chaos_look", tag=session, after=session)), says("as you wish")])
    submitted = stage.client.submit("go", session=session)
    probe.await_line(stage.system, f"look {session}")
    stage.client.control("steer", session=session, text="in Spanish, please")
    probe.open_gate(stage.system, session)
    stage.client.wait(submitted, 60)


def workflow(stage: Stage, session: str) -> None:
    """Workflows between messages: code steps alone, and one with a model step."""
    stage.ask("hi", session, says("hello"))
    stage.client.wait(stage.client.submit_workflow("chaos-beat", session=session), 60)
    stage.model.script([says("nothing is due")])
    stage.client.wait(stage.client.submit_workflow("daily-brief", session=session), 60)
    stage.ask("thanks", session, says("welcome"))


def planned(stage: Stage, session: str) -> None:
    """A plan that is refused, and one that runs."""
    steps = [
        {"id": "a", "tool": "chaos_look", "args": {"tag": "first"}},
        {"id": "b", "tool": "chaos_look", "args": {"tag": "${a.tag}-b"}},
        {"id": "c", "tool": "probe_fail", "args": {"tag": "x"}},
        {"id": "d", "tool": "chaos_look", "args": {"tag": "$c"}},
    ]
    refused = [steps[0], {"id": "z", "tool": "nope"}]
    rules = (asks(call("plan", steps=refused)), asks(call("plan", steps=steps), step=1), says("planned and done"))
    stage.ask("go", session, *rules, agent="planner")


def facts(stage: Stage, session: str) -> None:
    """Facts that are set, changed and refused, and a list of things to do."""
    first = (call("fact_set", name="guests", value=4), call("todo_write", items=[{"text": "book", "state": "pending"}]))
    second = call("fact_set", name="guests", value={"n": 5}, expected_version=1)
    third = call("fact_set", name="guests", value=9, expected_version=1)
    stage.ask("go", session, asks(*first), asks(second, step=1), asks(third, step=2), says("five guests"))
    stage.ask("how many?", session, says("five"))


def elided(stage: Stage, session: str) -> None:
    """Outputs that only fed others; tools that were searched for."""
    calls = (call("probe_large", size=3000), call("probe_read", tag="${1}"), call("find_tools", query="reminders"))
    stage.ask("go", session, asks(*calls), says("short"))


def nudges(stage: Stage, session: str) -> None:
    """A call that broke, a model that says nothing, one that goes in circles, and a budget that is spent."""
    broken = {"name": "probe_write", "arguments": '{"tag": "half'}
    when = {"when": {"user": "^go"}, "then": {"calls": [call("probe_read", tag="whole"), broken], "finish": "length"}}
    stage.ask("go", session, when, says("I could not send that"))
    stage.ask("say nothing", session, {"times": 1, "then": {"text": ""}}, says("something"))
    again = {"then": {"calls": [call("probe_read", tag="again")]}}
    stage.ask("circles", session, says("I give up", has_tools=False), again)
    count = [asks(call("probe_read", tag=f"n{n}"), step=n) for n in range(4)]
    stage.ask("count", session, says("out of steps", has_tools=False), *count, budget={"steps": 3})


def routed(stage: Stage, session: str) -> None:
    """Groups that the words of a message choose, and that stay."""
    stage.ask("what time is it in Madrid?", session, asks(call("time_now", timezone="Europe/Madrid")), says("late"))
    stage.ask("and remind me of it", session, says("I will"))


def anthropic(stage: Stage, session: str) -> None:
    """Thinking with the provider's own parts, which go back to that provider only."""
    thinking = asks(call("calculate", expression="6*7"), thinking="six times seven")
    stage.ask("6*7?", session, thinking, says("42"), model="other/rehearsal")


def unknown_outcome(stage: Stage, session: str) -> None:
    """A worker that dies in a write and in a read."""
    calls = (call("chaos_write", tag="pay", after="never"), call("chaos_look", tag="see", after=session))
    stage.model.script([asks(*calls), says("please check: {{results}}")])
    submitted = stage.client.submit("go", session=session)
    probe.await_line(stage.system, "write pay")
    probe.await_line(stage.system, "look see")
    [victim] = [w for w in stage.system.workers if w.alive]
    stage.system.kill(victim)
    probe.open_gate(stage.system, session)
    victim.start()
    stage.client.wait(submitted, 60)


def taken_over(stage: Stage, session: str) -> None:
    """A coordinator that dies while the model streams, with a call that had been started early."""
    slow = asks(call("chaos_look", tag="early"), call("chaos_look", tag="late"), stream_ms=6000, delta_chars=1)
    stage.model.script([{"times": 1, **slow}, asks(call("chaos_look", tag="early")), says("done: {{results}}")])
    submitted = stage.client.submit("go", session=session)
    probe.await_line(stage.system, "look early")
    [coordinator] = stage.system.coordinators
    stage.system.kill(coordinator)
    coordinator.start()
    stage.client.wait(submitted, 60)


def _seen(stage: Stage, session: str, kind: str, count: int = 1) -> list[Event]:
    """The first events of a kind in a session."""
    events = (e for e in stage.client.stream(session, timeout=30) if e.type == kind)
    return list(itertools.islice(events, count))


def approvals(stage: Stage, session: str) -> None:
    """Calls that are approved and denied, one that feeds another, and a grant for the session."""
    asked = (call("chaos_ask", tag="no"), call("chaos_ask", tag="yes"), call("chaos_look", tag="${2.tag}-b"))
    stage.model.script([asks(*asked), says("done: {{results}}")])
    submitted = stage.client.submit("go", session=session)
    by_tag = {e.data["args"]["tag"]: e.data["node"] for e in _seen(stage, session, "approval.requested", 2)}
    stage.client.deny(by_tag["no"], "not that one")
    stage.client.approve(by_tag["yes"], "session")
    stage.client.wait(submitted, 60)
    stage.ask("again", session, asks(call("chaos_ask", tag="granted")), says("without asking"))


def questions(stage: Stage, session: str) -> None:
    """A question and its answer, times that are waited for, and a run in which nobody can be asked."""
    question = call("ask_user", question="which?", options=["red", "blue"], recommended="red")
    stage.model.script([asks(question, call("wait", seconds=0.3), call("wait")), says("blue it is")])
    submitted = stage.client.submit("go", session=session)
    [asked] = _seen(stage, session, "question.asked")
    stage.client.answer(asked.data["node"], "2")
    stage.client.wait(submitted, 60)
    alone = asks(call("ask_user", question="may I?"), call("chaos_ask", tag="headless"))
    stage.ask("alone", session, alone, says("nobody there"), approvals="deny")


def subagents(stage: Stage, session: str) -> None:
    """Two at once, of which one is told by a person and of a fact that the other sets; one that is cancelled alone."""
    rules = [
        {"when": {"system": "You lead", "user": "go", "step": 0}, "then": {"calls": [_task("look"), _task("set")]}},
        {"when": {"system": "You lead", "user": "more", "step": 0}, "then": {"calls": [_task("hang")]}},
        says("all told: {{results}}", system="You lead"),
        says("visto", system="You help", user="in Spanish"),
        *_helper("look", call("chaos_look", tag=session, after=session)),
        *_helper("set", call("fact_set", name="colour", value="green")),
        *_helper("hang", call("chaos_look", tag="hanging", after="never")),
    ]
    stage.model.script(rules)
    submitted = stage.client.submit("go", session=session, agent="lead")
    started = {e.data["text"]: e.data["run"] for e in _seen(stage, session, "subagent.started", 2)}
    probe.await_line(stage.system, f"look {session}")
    stage.client.control("steer", run=started["look"], text="in Spanish, please")
    _seen(stage, session, "subagent.finished")
    probe.open_gate(stage.system, session)
    stage.client.wait(submitted, 60)
    submitted = stage.client.submit("more", session=session, agent="lead")
    hanging = _seen(stage, session, "subagent.started", 3)[-1].data["run"]
    probe.await_line(stage.system, "look hanging")
    stage.client.cancel(run=hanging)
    stage.client.wait(submitted, 60)


def _task(task: str) -> dict[str, Any]:
    return call("agent_helper", task=task)


def _helper(task: str, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Rules of a subagent with one task."""
    when = {"system": "You help", "user": task}
    return [{"when": {**when, "step": 0}, "then": {"calls": list(rows)}}, says(f"{task}: done", **when, min_step=1)]


SCENES: tuple[Callable[[Stage, str], None], ...] = (
    simple,
    references,
    failures,
    cancelled,
    steered,
    workflow,
    planned,
    facts,
    elided,
    nudges,
    routed,
    anthropic,
    unknown_outcome,
    taken_over,
    approvals,
    questions,
    subagents,
)


def record(scene: Callable[[Stage, str], None], stage: Stage) -> None:
    """Plays a scene in a session of its name and writes its two files. Raises FileExistsError."""
    session = scene.__name__
    scene(stage, session)
    entries = stage.log(session)
    lines = "".join(json.dumps({name: entry[name] for name in FIELDS}, ensure_ascii=False) + "\n" for entry in entries)
    with open(FOLDER / f"{session}.jsonl", "x", encoding="utf-8") as file:
        file.write(lines)
    with open(FOLDER / f"{session}.json", "x", encoding="utf-8") as file:
        file.write(json.dumps(folded(entries), indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    """Records what is not there yet."""
    missing = [scene for scene in SCENES if not (FOLDER / f"{scene.__name__}.jsonl").exists()]
    FOLDER.mkdir(exist_ok=True)
    modules = [str(Path(str(module.__file__))) for module in (probe_tools, chaos_tools)]
    with tempfile.TemporaryDirectory() as agents, ModelServer() as model:
        Path(agents, "planner.md").write_text("---\nname: planner\ncalls: plan\n---\nYou plan.")
        Path(agents, "lead.md").write_text("---\nname: lead\nsubagents: [helper]\n---\nYou lead.")
        Path(agents, "helper.md").write_text("---\nname: helper\n---\nYou help.")
        providers = {
            "rehearsal": {"preset": "rehearsal", "base_url": model.url},
            "other": {"preset": "rehearsal", "dialect": "anthropic", "base_url": model.url.removesuffix("/v1")},
        }
        env = {
            "CAPATAZ_MODELS__PROVIDERS": json.dumps(providers),
            "CAPATAZ_WORKER__TOOL_MODULES": json.dumps(modules),
            "CAPATAZ_ROUTING__ENCODER": "off",
            "CAPATAZ_COORDINATOR__AGENTS_DIR": agents,
            "CAPATAZ_PLAYBOOK__ENABLED": "false",
            "CAPATAZ_PERMISSIONS__RULES": '[{"action": "ask", "tools": ["chaos_ask"]}]',
        }
        with System(model_url=model.url, env=env) as system:
            for scene in missing:
                record(scene, Stage(system, model))
                print(f"recorded {scene.__name__}")


if __name__ == "__main__":
    main()
