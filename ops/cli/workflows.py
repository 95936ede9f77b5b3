"""`capataz workflow`: what can run, how it is made, running it, and the record of each run."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.common import archive, clean, client, errors, fail, print_json, reachable, table, target
from ops.cli.show import EventPrinter
from ops.exits import Exit

if TYPE_CHECKING:
    from ops.workflow_record import RunRecord, StepRecord
    from shared.contract import StepSpec, WorkflowSpec
    from shared.sql.runs import Run

_Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
_Name = Annotated[str, typer.Argument(help="The workflow's name.")]
_OPERATORS = {"eq": "=", "ne": "≠", "lt": "<", "le": "≤", "gt": ">", "ge": "≥", "within": "in"}
_MARKS = {"done": "✓", "skipped": "·", "cancelled": "·", "outcome_unknown": "?", "running": "▸", "waiting": " "}

workflow = typer.Typer(no_args_is_help=True, help="Deterministic workflows.")


@workflow.command("list")
def list_(json_: _Json = False) -> None:
    """List the workflows that live workers offer."""
    with client() as found:
        offered = [one for one in found.catalogue().workflows if not one.hidden]
    if json_:
        print_json([one.model_dump(mode="json") for one in offered])
        return
    rows = [[one.name, one.cron or "-", " → ".join(step.id for step in one.steps), one.title] for one in offered]
    table(["workflow", "cron", "steps", "what it does"], rows)


@workflow.command("show")
def show(name: _Name, json_: _Json = False) -> None:
    """Show a workflow's steps: what each needs, when it runs, what happens when it fails."""
    spec = _offered(name)
    if json_:
        print_json(spec.model_dump(mode="json"))
        return
    bound = f", at most {spec.timeout_s:g} s" if spec.timeout_s else ""
    typer.echo(f"{clean(spec.title)}: result {spec.result}, cron {spec.cron or 'none'} ({spec.timezone}){bound}")
    rows = [
        [
            step.id,
            step.kind,
            ", ".join(f"{n}?" if n in step.optional else n for n in step.needs) or "-",
            _conditions(step) or "-",
            _on_error(step),
            f"{step.retry.attempts}",
            f"{step.timeout_s:g} s",
            step.effect.value,
        ]
        for step in spec.steps
    ]
    table(["step", "kind", "needs", "when", "on error", "attempts", "timeout", "effect"], rows)


@workflow.command("run")
def run(
    name: _Name,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="A parameter, key=value; the value is JSON, or else text.")
    ] = None,
    session: Annotated[str, typer.Option("--session", "-s", help="Where its result goes.")] = "daily",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Show its steps and its result.")] = True,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait; the run goes on after that.")] = 600.0,
    json_: _Json = False,
) -> None:
    """Run a workflow now."""
    params = dict(_param(one) for one in param or [])
    spec = _offered(name)
    with client() as found:
        submitted = found.submit_workflow(name, session=session, params=params)
    if not wait:
        print_json({"id": submitted.id, "session": session}) if json_ else typer.echo(f"{name} was started: {session}")
        return

    async def follow() -> Any:
        from ops.cli.talk import close, converse
        from shared.client import AsyncClient
        from shared.settings import load

        printer = None if json_ else StepPrinter(_write, sys.stdout.isatty(), steps=[s.id for s in spec.steps])
        watcher = AsyncClient.connect(target(load()).redis_url)
        try:
            reply = await converse(watcher, submitted, printer, timeout)
        except TimeoutError as error:
            fail(str(error))
        finally:
            await watcher.aclose()
        if printer is not None:
            close(printer, reply)
        return reply

    with errors():
        reply = asyncio.run(follow())
    if json_:
        print_json(reply.model_dump(mode="json"))
    raise typer.Exit(int(Exit.OK if reply.ok else Exit.FAILED))


@workflow.command("runs")
def runs(
    name: Annotated[str, typer.Argument(help="Only of this workflow; empty: of all that are not hidden.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
    user: Annotated[str, typer.Option(help="Whose; empty: everybody's.")] = "owner",
    json_: _Json = False,
) -> None:
    """List runs of workflows, the newest first, also those that failed or were lost."""
    with archive() as database:
        from shared.sql.runs import workflow_runs

        hidden = [] if name else _hidden()
        found = database.run_sync(lambda conn: workflow_runs(conn, user or None, name, limit, without=hidden))
    if json_:
        print_json([_as_json(one) for one in found])
        return
    rows = [
        [one.id, _name(one), one.state.value, _ago(one.created_ms), _took(one), _money(one.cost), _outcome(one)]
        for one in found
    ]
    table(["run", "workflow", "state", "age", "took", "cost", "result"], rows)


@workflow.command("record")
def record(run: Annotated[str, typer.Argument(help="The run.")], json_: _Json = False) -> None:
    """Show the record of a run: its steps with their states, times, attempts, outputs and cost."""
    with client() as found, archive() as database, errors():
        from ops.export import read_log
        from ops.workflow_record import run_record
        from shared.sql.runs import get_run

        row = database.run_sync(lambda conn: get_run(conn, run, None))
        session = found.session_of(run) or (row.session if row else "")
        lines, _ = read_log(found, database, session)
        kept = run_record(run, [line.stored() for line in lines])
    if json_:
        print_json(kept.model_dump(mode="json"))
        return
    _print(kept)


def _print(kept: RunRecord) -> None:
    took = f"{(kept.ended_ms - kept.started_ms) / 1000:.1f} s" if kept.ended_ms else "under way"
    typer.echo(f"{kept.run}  {kept.workflow}  {kept.state}  {took}  {kept.tokens} tokens  {_money(kept.cost)}")
    typer.echo(f"session {kept.session}  params {json.dumps(kept.params, ensure_ascii=False)}")
    table(["", "step", "state", "tries", "took", "tokens", "cost", "output"], [_step_row(s) for s in kept.steps])
    for step in kept.steps:
        for number, one in enumerate(step.attempts[:-1], 1):
            typer.echo(f"  {step.id}, attempt {number}: {one.state} {_line(one.text)}")
    if text := kept.error or kept.answer:
        typer.echo(f"\n{clean(text)}")


def _step_row(step: StepRecord) -> list[str]:
    took = f"{step.took_ms / 1000:.2f} s" if step.took_ms is not None and step.state != "skipped" else "-"
    asked = [str(step.tokens), _money(step.cost)] if step.kind == "model" else ["-", "-"]
    where = f" [{step.artifact}]" if step.artifact else ""
    mark = _MARKS.get(step.state, "✗")
    return [mark, step.id, step.state, str(len(step.attempts)), took, *asked, _line(step.output) + where]


@dataclass
class StepPrinter(EventPrinter):
    """Shows a workflow's steps as they begin and end, by their names, and how far it is."""

    steps: list[str] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)
    _over: set[str] = field(default_factory=set)

    def _on_node_planned(self, data: dict[str, Any]) -> None:
        node = str(data.get("node"))
        if not data.get("name"):
            return super()._on_node_planned(data)
        self._names[node] = str(data["name"])
        attempt = node.split(".")[2] if node.count(".") >= 3 else "0"
        self.line(f"  ▸ {self._names[node]}" + ("" if attempt == "0" else f", attempt {int(attempt) + 1}"))
        return None

    def _on_node_finished(self, data: dict[str, Any]) -> None:
        node, state = str(data.get("node")), str(data.get("state", "?"))
        if (name := self._names.get(node)) is None:
            return super()._on_node_finished(data)
        self.nodes[node] = state
        if state in ("done", "skipped"):
            self._over.add(name)
        began, ended = data.get("started_ms") or 0, data.get("ended_ms") or 0
        took = f"  {ended - began} ms" if 0 < began <= ended else ""
        detail = "" if state == "done" else f" {state}: {_line(str(data.get('text', '')))}"
        self.line(f"  {_MARKS.get(state, '✗')} {name}{detail}{took}  [{len(self._over)}/{len(self.steps)}]")
        return None


def _offered(name: str) -> WorkflowSpec:
    with client() as found:
        known = {one.name: one for one in found.catalogue().workflows}
    if name not in known:
        fail(f"no live worker offers the workflow {name!r}; known: {', '.join(known) or 'none'}", Exit.USAGE)
    return known[name]


def _hidden() -> list[str]:
    """Workflows of the system's own, if one runs that says which they are."""
    if not reachable():
        return []
    with client() as found:
        return [one.name for one in found.catalogue().workflows if one.hidden]


def _param(text: str) -> tuple[str, Any]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        fail(f"{text!r} is no parameter: write key=value", Exit.USAGE)
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _conditions(step: StepSpec) -> str:
    rows = [(".".join(map(str, (c.step, *c.path))), c.op, c.value) for c in step.when]
    return " and ".join(
        where if op == "holds" else f"{where} {_OPERATORS.get(op, op)} {json.dumps(value, ensure_ascii=False)}"
        for where, op, value in rows
    )


def _on_error(step: StepSpec) -> str:
    match step.on_error.do:
        case "value":
            return f"goes on with {json.dumps(step.on_error.value, ensure_ascii=False)}"
        case "step":
            return f"runs {step.on_error.step}"
        case "skip":
            return "goes on without"
        case _:
            return "ends it"


def _as_json(one: Run) -> dict[str, Any]:
    keep = ("id", "session", "principal", "state", "created_ms", "started_ms", "ended_ms", "finish_reason")
    row = {name: getattr(one, name) for name in keep}
    return {**row, "workflow": _name(one), "answer": one.answer, "error": one.error, "cost": one.cost}


def _name(one: Run) -> str:
    return one.question.partition(" ")[2].partition("]")[0]


def _ago(created_ms: int) -> str:
    from ops.supervisor.report import duration

    return duration(time.time() - created_ms / 1000)


def _took(one: Run) -> str:
    return f"{(one.ended_ms - one.started_ms) / 1000:.1f} s" if one.started_ms and one.ended_ms else "-"


def _money(cost: Any) -> str:
    return "-" if cost is None else f"${cost}"


def _outcome(one: Run) -> str:
    return _line(one.error or one.answer)


def _line(text: str) -> str:
    return clean(text.strip().split("\n", 1)[0])[:160]


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
