"""Replay: what this coordinator would have decided where another one did, from the recorded outputs of model and tools.

    python -m coordinator.replay FILE [--json]

The log of an export (`shared/export.py`) is folded entry by entry. Before each entry that a decision led to, the
decision is made again: by `decide` (ask the model, tell it something, end), by `plan_calls` with the loop guard (which
nodes, with which needs, which are refused), and by the turn's graph (arguments with the references filled in and their
fingerprint, what is skipped, whose output is left out). What the model said, what tools returned, what people decided
and how time went are given: they are taken as they were recorded. The heart is pure: `replay` takes and returns values.

Not made again: permissions, which are the installation's and not in the log, and workflows, whose steps are code.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from coordinator.graph.elide import elidable, elide
from coordinator.graph.plan_tool import PLAN, parse_plan, report
from coordinator.graph.turn import MOST_CALLS, TurnGraph, skipped, skipped_step
from coordinator.loop import decide as d
from coordinator.loop.claims.run import earlier
from coordinator.loop.guard import LOOP_ENDED, REPEATED, LoopGuard
from coordinator.loop.planning import plan_calls, stop_loops, turn_graph, unadopted
from shared.artifacts import content_handle
from shared.compress import cap
from shared.contract import Effect, NodeResult, NodeState, ToolSpec
from shared.entries import Assistant, Node, Nudge, RunEnded, Stored, UserMessage
from shared.errors import ModelError, UserError
from shared.export import Blob, Conversations, Export, read
from shared.fold import RunFold, SessionFold
from shared.settings import BudgetSettings
from shared.signing import call_hash

RAN: Final = (NodeState.DONE, NodeState.FAILED, NodeState.TIMED_OUT, NodeState.OUTCOME_UNKNOWN)
GIVEN: Final = ("cancelled", "error", "lost")
"""Finish reasons that come from outside: they are not decided again."""


@dataclass(frozen=True)
class Difference:
    """One decision that is another one now. `entry` is the log entry that the recorded one led to."""

    run: str
    entry: str
    what: str
    recorded: Any
    replayed: Any


@dataclass
class Report:
    """What was compared, and what differs."""

    runs: int = 0
    decisions: int = 0
    nodes: int = 0
    differences: list[Difference] = field(default_factory=list)


@dataclass(frozen=True)
class _Part:
    """A graph and the ids of its nodes by position. `owner` is the plan call whose steps they are, else empty."""

    graph: TurnGraph
    ids: tuple[str, ...]
    owner: str = ""

    def needs(self, position: int) -> tuple[str, ...]:
        return tuple(self.ids[p - 1] for p in self.graph.call(position).needs)


class _Run:
    """One run of an agent, entry by entry. `whole` is its fold at the end of the log: what its tools were like."""

    def __init__(self, whole: RunFold, artifacts: Mapping[str, Blob], report: Report) -> None:
        self._artifacts = artifacts
        self._report = report
        self._tools = {node.tool: _spec(node) for node in whole.nodes.values() if not _unknown(whole, node)}
        self._whole_plans = {n for n, r in whole.results.items() if r.error is None or r.error.code != "bad_plan"}
        self._first: dict[str, Node] = {}
        self._turn: Assistant | None = None
        self._planned: dict[str, Node] = {}
        self._refused: dict[str, str] = {}
        self._entry = ""
        self._session = SessionFold()

    def before(self, entry: Stored, run: RunFold, session: SessionFold) -> None:
        """Decides again what this entry was decided to be; `run` is the fold without it, of `session`."""
        self._entry = entry.id
        self._session = session
        match entry.value:
            case Assistant() as said:
                self._decide(d.CallModel(), run)
                self._plan(said, run)
            case Nudge(reason=reason, text=text) if reason != "broken_call" and not reason.startswith("references_"):
                self._decide(d.Tell(reason, text), run)
            case Node() as node:
                self._in_order(node, run)
            case RunEnded(state="ended" | "failed" as state, finish_reason=reason, answer=answer) if (
                reason not in GIVEN
            ):
                self._decide(d.Finished(reason, answer, state), run)
            case RunEnded():
                self._end_turn(run, whole=False)
            case _:
                pass

    def _differ(self, what: str, recorded: Any, replayed: Any, run: RunFold) -> None:
        self._report.differences.append(Difference(run.run, self._entry, what, recorded, replayed))

    # --- the loop -------------------------------------------------------------------------------------------------

    def _decide(self, recorded: d.Action, run: RunFold) -> None:
        self._end_turn(run, whole=True)
        self._report.decisions += 1
        late = isinstance(recorded, d.Tell) and recorded.reason == "budget_seconds"
        replayed = d.decide(run, _limits(run), math.inf if late else 0.0, earlier(self._session, run.run))
        if isinstance(replayed, d.CallModel) and isinstance(recorded, d.CallModel):
            return  # whether it was the last one shows in its calls, and in what follows
        if replayed != recorded:
            self._differ("decision", _shown(recorded), _shown(replayed), run)

    def _plan(self, said: Assistant, run: RunFold) -> None:
        references, most = _form(run)
        plan = plan_calls(
            said.message,
            run=run.run,
            step=said.step,
            attempt=said.attempt,
            find=self._tools.get,
            now_ms=0,
            most=most,
            references=references,
            known=unadopted(run, said.step),
        )
        stop_loops(plan, LoopGuard.of(run), run)
        recorded = [call.id for call in said.message.calls]
        if recorded != (ids := [call.id for call in plan.message.calls]):
            self._differ("nodes", recorded, ids, run)
        self._turn = said
        self._planned = {node.node: node for node in plan.nodes}
        self._refused = {node: result.error.code if result.error else "" for node, _, result in plan.refused}

    # --- the turn -------------------------------------------------------------------------------------------------

    def _in_order(self, node: Node, run: RunFold) -> None:
        """A node is logged with its fingerprint when all that it needs is done."""
        self._first.setdefault(node.node, node)
        missing = [n for n in node.needs if n not in run.results or run.results[n].state is not NodeState.DONE]
        if node.args_hash and missing:
            self._differ("order", f"{node.node} is ready", f"{node.node} waits for {', '.join(missing)}", run)

    def _end_turn(self, run: RunFold, *, whole: bool) -> None:
        """Compares the graph of the newest turn with what became of it; `whole`: it was carried through."""
        said, self._turn = self._turn, None
        if said is None:
            return
        self._compare_planned(run)
        references, most = _form(run)
        main = _Part(turn_graph(said.message.calls, references=references, most=most), tuple(self._planned))
        parts = [main, *self._plans(said, run, most)]
        for part in parts:
            above = main.needs(main.ids.index(part.owner) + 1) if part.owner else ()
            if part.owner:
                self._compare_steps(part, run)
            for position, node in enumerate(part.ids, 1):
                if node not in self._refused:
                    self._compare_node(part, position, node, part.needs(position) or above, run)
        if whole and all(node in run.results for node in main.ids):
            self._compare_told(said.step, main, run)

    def _compare_planned(self, run: RunFold) -> None:
        self._report.nodes += len(self._planned)
        for name, node in self._planned.items():
            first = self._first.get(name)
            if first is None:
                self._differ("node", None, _of(node), run)
            elif _of(first) != _of(node):
                self._differ("node", _of(first), _of(node), run)
            elif _of(run.nodes[name]) != _of(node):  # as it was logged again, when it was ready
                self._differ("node", _of(run.nodes[name]), _of(node), run)
            elif first.args_hash and first.args_hash != node.args_hash:
                self._differ("fingerprint", first.args_hash, node.args_hash, run)
            ended = run.results.get(name)
            code = ended.error.code if ended is not None and ended.error else ""
            expected = self._refused.get(name, "")
            if code != expected and (expected or code in (REPEATED, LOOP_ENDED)):
                self._differ("refused", {name: code}, {name: expected}, run)

    def _plans(self, said: Assistant, run: RunFold, most: int) -> Iterator[_Part]:
        """The graphs of plans among the calls. One that was carried out named only tools that there were."""
        for call in said.message.calls:
            if call.name != PLAN or call.id in self._refused:
                continue
            known = call.id in self._whole_plans
            offered = _anything if known else self._tools.__contains__
            try:
                graph = parse_plan(call.arguments, offered, most=most)
            except ModelError as error:
                if known and call.id in run.results:
                    self._differ("plan", "a good one", str(error), run)
                continue
            yield _Part(graph, tuple(f"{call.id}.{i}" for i in range(1, len(graph.calls) + 1)), call.id)

    def _compare_steps(self, part: _Part, run: RunFold) -> None:
        """The steps of a plan as they were logged, and what the model read of it."""
        for position, name in enumerate(part.ids, 1):
            call, node = part.graph.call(position), run.nodes.get(name)
            step = {"node": name, "tool": call.name, "args": call.arguments, "needs": list(part.needs(position))}
            if (_of(node) if node else None) != step and (node or part.owner in run.results):
                self._differ("node", _of(node) if node else None, step, run)
        ended = run.results.get(part.owner)
        if ended is None or ended.state is not NodeState.DONE or not all(n in run.results for n in part.ids):
            return
        results = {p: run.results[n] for p, n in enumerate(part.ids, 1)}
        handles = {p: r.artifact or content_handle(r.text.encode()) for p, r in results.items()}
        whole = report(part.graph, results, elide(part.graph.sources, results, handles))
        text, cut = cap(whole)
        if cut:
            text, _ = cap(whole, handle=content_handle(whole.encode()))
        if text != ended.text:
            self._differ("what is read of the plan", ended.text, text, run)

    def _compare_node(self, part: _Part, position: int, node: str, needs: Sequence[str], run: RunFold) -> None:
        ended, tool = run.results.get(node), part.graph.call(position).name
        state = ended.state if ended else None
        bad = [n for n in needs if n in run.results and run.results[n].state is not NodeState.DONE]
        if bad and state in RAN:
            self._differ("order", f"{node} ran", f"{node} is skipped: {', '.join(bad)} did not end well", run)
        elif not bad and state is NodeState.SKIPPED:
            self._differ("order", f"{node} was skipped", f"{node} runs", run)
        elif ended is not None and state is NodeState.SKIPPED:
            self._compare_reason(part, position, ended, run)
        elif tool != PLAN and node in run.nodes and all(n in run.results for n in needs) and not bad:
            self._compare_arguments(part, position, node, state, run)

    def _compare_reason(self, part: _Part, position: int, ended: NodeResult, run: RunFold) -> None:
        """A call is skipped for the first of its needs that did not end well; a step also for those of its plan."""
        expected = skipped_step()
        for need in part.graph.call(position).needs:
            found = run.results.get(part.ids[need - 1])
            if found is not None and found.state is not NodeState.DONE:
                expected = skipped(need, part.graph.call(need).name, found.state)
                break
        if ended.text != expected.text:
            self._differ("skipped", ended.text, expected.text, run)

    def _compare_arguments(self, part: _Part, position: int, node: str, state: NodeState | None, run: RunFold) -> None:
        """The arguments with the outputs put in, by their fingerprint."""
        call = part.graph.call(position)
        try:
            values = {p: self._value(run.results[part.ids[p - 1]]) for p in call.sources}
            arguments = part.graph.arguments(position, values)
        except UserError as error:
            self._differ("artifact", "read", str(error), run)
            return
        except ModelError as error:
            if state in RAN and state is not NodeState.FAILED:
                self._differ("arguments", f"{node} ran", str(error), run)
            return
        wait = run.waiting.get(node)
        final = run.nodes[node].args_hash
        recorded = final or (wait.args_hash if wait else "")
        sent = wait is None or (node in run.decided and run.decided[node].allowed)
        replayed = call_hash(call.name, arguments)
        if recorded and recorded != replayed:
            self._differ("arguments", {node: recorded}, {node: replayed, "arguments": arguments}, run)
        elif not final and sent and state in RAN:
            self._differ("arguments", {node: "ran without a fingerprint"}, {node: replayed}, run)

    def _value(self, result: NodeResult) -> JsonValue:
        if result.value is not None or result.artifact is None:
            return result.value
        blob = self._artifacts.get(result.artifact)
        if blob is None:
            raise UserError(f"the export lacks the artifact {result.artifact}", code="bad_export")
        text = blob.data.decode("utf-8", "replace")
        value: JsonValue = json.loads(text) if blob.media_type == "application/json" else text
        return value

    def _compare_told(self, step: int, main: _Part, run: RunFold) -> None:
        """Outputs that were left out, and whether the model was told of references that found nothing."""
        results = {p: run.results[n] for p, n in enumerate(main.ids, 1)}
        keep = [p for p, n in enumerate(main.ids, 1) if n in run.nodes and run.nodes[n].effect is not Effect.READ]
        left_out = sorted(main.ids[p - 1] for p in elidable(main.graph.sources, results, keep=keep))
        if (recorded := sorted(n for n in main.ids if n in run.elided)) != left_out:
            self._differ("left out", recorded, left_out, run)
        told = any(n.reason == f"references_{step}" for n in run.nudges)
        if told != any(main.graph.notices.values()):
            self._differ("told about references", told, not told, run)


def _anything(name: str) -> bool:
    return True


def _spec(node: Node) -> ToolSpec:
    return ToolSpec(
        name=node.tool,
        group="",
        description="",
        parameters={},
        effect=node.effect,
        queue=node.queue,
        timeout_s=node.timeout_s,
    )


def _unknown(run: RunFold, node: Node) -> bool:
    result = run.results.get(node.node)
    return result is not None and result.error is not None and result.error.code == "unknown_tool"


def _form(run: RunFold) -> tuple[bool, int]:
    """Whether calls may refer to each other, and how many a turn may have."""
    terms = run.terms
    return (True, MOST_CALLS) if terms is None else (terms.calls != "flat", terms.calls_per_turn)


def _limits(run: RunFold) -> d.Limits:
    """The run's bounds; of a log of before they were kept, those of its message over our defaults."""
    if (terms := run.terms) is not None:
        return d.Limits(terms.steps, terms.seconds, terms.tokens, Decimal(terms.dollars))
    if run.message is None:
        raise UserError(f"the export lacks the message of {run.run}", code="bad_export")
    return d.Limits.of(BudgetSettings(), run.message.budget)


def _of(node: Node) -> dict[str, Any]:
    return {"node": node.node, "tool": node.tool, "args": node.args, "needs": list(node.needs)}


def _shown(action: d.Action) -> dict[str, Any]:
    if isinstance(action, d.Collect):
        return {"action": "collect", "nodes": [node.node for node in action.nodes]}
    return {"action": type(action).__name__.lower(), **asdict(action)}


def replay(export: Export) -> Report:
    """Makes the decisions of an export again. Raises UserError for one that is not whole."""
    report, fold, conversations = Report(), SessionFold(), Conversations()
    entries = [line.stored() for line in export.lines]
    whole = SessionFold.of(entries)
    runs: dict[str, _Run] = {}
    for line, entry in zip(export.lines, entries, strict=True):
        run = fold.run(entry.run)
        if isinstance(entry.value, UserMessage) and entry.value.kind == "message":
            runs[entry.run] = _Run(whole.run(entry.run), export.artifacts, report)
        if isinstance(entry.value, Assistant) and line.saw:
            saw = conversations.digest(fold, entry.run)
            if saw != line.saw:
                difference = Difference(entry.run, entry.id, "conversation shown to the model", line.saw, saw)
                report.differences.append(difference)
        if (player := runs.get(entry.run)) is not None:
            player.before(entry, run, fold)
        fold.apply(entry)
    report.runs = len(runs)
    return report


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns its exit code: 0 the same, 1 something differs, 2 no such file."""
    parser = argparse.ArgumentParser(prog="capataz replay", description="Make the decisions of an export again.")
    parser.add_argument("file", type=Path, help="what `capataz export` has written")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    args = parser.parse_args(argv)
    try:
        report = replay(read(args.file.read_text("utf-8").split("\n")))
    except (OSError, UnicodeDecodeError, UserError) as error:
        print(f"capataz: {error}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(asdict(report), ensure_ascii=False, indent=2, default=str))
    else:
        for one in report.differences:
            print(f"{one.run} at {one.entry}: {one.what}\n  recorded: {one.recorded}\n  replayed: {one.replayed}")
        verdict = f"{len(report.differences)} differences" if report.differences else "all the same"
        print(f"{report.runs} runs, {report.decisions} decisions, {report.nodes} nodes: {verdict}")
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())
