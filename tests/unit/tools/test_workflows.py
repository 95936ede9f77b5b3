from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import JsonValue

from shared.contract import Effect
from shared.errors import ConfigError, ModelError
from shared.settings import Settings
from tests.unit.tools.conftest import NOW, Bench
from workers.context import ToolContext
from workers.declare import Registry
from workers.workflows.daily_brief import brief_entries, daily_brief
from workers.workflows.define import Inputs, Step, model_step, step, tool_step, workflow

TODAY = datetime.fromtimestamp(NOW, ZoneInfo("Europe/Madrid"))


@step()
async def first(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    """Counts."""
    return {"count": inputs["params"]["count"]}


@step(needs=["first"], effect=Effect.WRITE, timeout_s=5.0)
def second(ctx: ToolContext, inputs: Inputs) -> JsonValue:
    return int(inputs["first"]["count"]) + 1


def _workflow(*steps: Step, result: str = "second", name: str = "demo") -> Any:
    return workflow(name, title="Demo", result=result)(lambda: list(steps))


def test_steps_become_nodes_and_internal_tools(bench: Bench) -> None:
    made = _workflow(
        first,
        second,
        tool_step("say", tool="note_save", args={"title": "t"}, needs=["second"], effect=Effect.IDEMPOTENT),
        model_step("sum", needs=["second"], prompt="Sum {second}"),
    )
    kinds = [(one.id, one.kind, one.tool, one.needs) for one in made.spec.steps]
    assert kinds == [
        ("first", "code", "workflow:demo/first", ()),
        ("second", "code", "workflow:demo/second", ("first",)),
        ("say", "tool", "note_save", ("second",)),
        ("sum", "model", "", ("second",)),
    ]
    bench.registry.add(made)
    one = bench.run("workflow:demo/first", inputs={"params": {"count": 4}}).value
    assert bench.run("workflow:demo/second", inputs={"first": one, "params": {}}).value == 5
    tool = bench.tool("workflow:demo/second")
    assert (tool.spec.effect, tool.spec.timeout_s, tool.spec.queue) == (Effect.WRITE, 5.0, "workflows")
    assert "test_workflows.py" in tool.where
    offered = bench.registry.catalogue(bench.settings)
    assert not [spec for spec in offered.tools if ":" in spec.name]


@pytest.mark.parametrize(
    ("steps", "result", "reason"),
    [
        ((second,), "second", "needs 'first', which is no step"),
        ((first,), "last", "result names no step"),
        ((first, first), "first", "two steps have one name"),
        ((model_step("a", needs=["b"], prompt="{b}"), model_step("b", needs=["a"], prompt="")), "a", "circle: a, b"),
        ((first, model_step("m", prompt="See {first}")), "m", "speaks of {first}"),
        ((model_step("Bad", prompt=""),), "Bad", "no name for a step"),
    ],
)
def test_graphs_that_cannot_work_are_refused(steps: tuple[Step, ...], result: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        _workflow(*steps, result=result)
    assert "test_workflows.py:" in str(caught.value)


def test_shipped_workflows_follow_the_operators_schedule() -> None:
    registry = Registry()
    registry.load_builtin()
    by_name = {spec.name: spec for spec in registry.catalogue(Settings()).workflows}
    assert by_name["daily-brief"].cron == "0 7 * * *"
    assert by_name["learn"].hidden
    assert not by_name["daily-brief"].hidden
    changed = Settings.model_validate({"workflows": {"timezone": "Europe/Madrid", "cron": {"daily-brief": ""}}})
    spec = {spec.name: spec for spec in registry.catalogue(changed).workflows}["daily-brief"]
    assert (spec.cron, spec.timezone) == ("", "Europe/Madrid")


def test_the_model_of_the_brief_sees_the_filter_only() -> None:
    summarise = daily_brief.spec.steps[-1]
    assert (summarise.kind, summarise.needs, daily_brief.spec.result) == ("model", ("filter",), "summarise")
    assert "{filter}" in summarise.prompt
    assert "Summarise" in summarise.prompt


def _note(title: str, text: str, hours_ago: float) -> dict[str, Any]:
    return {"title": title, "text": text, "updated_ms": int((NOW - hours_ago * 3600) * 1000)}


def _due(text: str, hours_ahead: float) -> dict[str, Any]:
    return {"text": text, "due_ms": int((NOW + hours_ahead * 3600) * 1000)}


def test_the_filter_takes_what_is_due_today_and_new_without_repetitions() -> None:
    found = [
        _note("Old", "gone", 24 * 8),
        _note("Compra", "leche", 30),
        _note("Casa", "llave", 2),
        _note("Copia", "LLAVE", 3),
    ]
    due = [_due("mañana", 12), _due("banco", 2), _due("ayer", -24), _due("Banco", 3)]
    assert brief_entries(found, due, TODAY).splitlines() == [
        "- due 2026-11-09 15:00: ayer",
        "- due 17:00: banco",
        "- note: Casa: llave",
        "- note: Compra: leche",
    ]
    assert brief_entries([], [], TODAY) == "(no entries)"


def test_the_filter_is_bounded() -> None:
    found = [_note(f"n{n}", f"text {n} " * 200, 1) for n in range(60)]
    due = [_due(f"call {n}", 1) for n in range(60)]
    lines = brief_entries(found, due, TODAY).splitlines()
    assert len(lines) == 32
    assert max(map(len, lines)) < 300


def test_the_brief_runs_over_the_archive(bench: Bench) -> None:
    bench.run("note_save", title="Casa", text="la llave está en el cajón")
    bench.run("note_save", principal="eva", title="Ajena", text="no es mía")
    bench.run("reminder_add", text="llamar al banco", at="a las 18:00")
    outputs = {
        name: bench.run(f"workflow:daily-brief/{name}", inputs={}).value for name in ("read_notes", "due_reminders")
    }
    json.dumps(outputs)
    text = bench.run("workflow:daily-brief/filter", inputs={**outputs, "params": {}}).seen
    assert text == "- due 18:00: llamar al banco\n- note: Casa: la llave está en el cajón"


def test_the_learn_workflow_takes_the_run_from_its_parameters(bench: Bench) -> None:
    bench.model.answer = '{"operations": []}'
    with pytest.raises(ModelError, match="parameter run"):
        bench.run("workflow:learn/reflect", inputs={"params": {}})
    output = bench.fields("workflow:learn/reflect", inputs={"params": {"run": "r9", "session": "s1"}})
    assert output["refused"] == ["the log of s1 holds nothing of run r9"]
    assert bench.tool("workflow:learn/reflect").spec.queue == "playbook-learner"
