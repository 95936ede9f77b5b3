"""The time line of a run for a terminal: a line for each model step and node, with its bar. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ops.trace.style import COLOURS, TERMINAL_MARKS
from ops.trace.values import NodeBar, Step, Timeline
from ops.trace.words import clip, compact, facts, one_line, plain, title, took

_LEAST_BAR = 16
_LABEL = 44
_NARROW = 100


@dataclass(frozen=True)
class _Line:
    """One line: `parts` are (from, to, character) in Unix milliseconds."""

    at: int
    state: str
    what: str
    where: str
    waited: str
    ran: str
    parts: tuple[tuple[int, int, str], ...]
    critical: bool


def render(timeline: Timeline, console: Console) -> None:
    """Prints the time line in the width of `console`."""
    console.print(_head(timeline))
    lines = [_step_line(step, timeline) for step in timeline.steps]
    lines += [_node_line(node, timeline) for node in timeline.nodes]
    if lines:
        console.print(_table(sorted(lines, key=lambda line: line.at), timeline, console.width))
    console.print(_foot(timeline))


def _head(timeline: Timeline) -> RenderableType:
    figures = Text()
    for i, (name, value) in enumerate(facts(timeline)):
        figures.append("  ·  " if i else "", "dim").append(f"{name} ", "dim").append(value)
    return Group(Text(title(timeline), "bold", overflow="ellipsis", no_wrap=True), figures, Text())


def _foot(timeline: Timeline) -> RenderableType:
    lines = [Text("░ waits  █ runs  ▒ until the first token  ▌ on the critical path", "dim")]
    for mark in timeline.marks:
        text = clip(one_line(mark.text), 160)
        lines.append(Text(f"! {took(mark.ms - timeline.started_ms)}  {one_line(mark.kind)}  {text}", "yellow"))
    for worker in timeline.workers:
        lines.append(Text(f"{timeline.tag(worker)}  {one_line(worker)}", "dim"))
    if not timeline.events:
        lines.append(Text("events were trimmed: starts of streams are inferred from the log", "dim"))
    if timeline.error:
        lines.append(Text(f"error: {plain(timeline.error)}", "red"))
    return Group(*lines)


def _table(lines: list[_Line], timeline: Timeline, width: int) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_header=True, header_style="dim")
    label = min(_LABEL if width >= _NARROW else 24, max(len(line.what) for line in lines))
    table.add_column("")
    table.add_column("what", width=label, no_wrap=True, overflow="ellipsis")
    table.add_column("where", no_wrap=True)
    table.add_column("waited", justify="right", no_wrap=True)
    table.add_column("ran", justify="right", no_wrap=True)
    room = max(_LEAST_BAR, width - label - 3 - 6 - 11 - 11 - 3)
    table.add_column(Text(_ruler(timeline, room)), no_wrap=True, width=room)
    for line in lines:
        colour = COLOURS[line.state]
        mark = Text("▌" if line.critical else " ").append(TERMINAL_MARKS[line.state], colour)
        bar = Text(_bar(line, timeline, room), colour)
        what = Text(line.what, "bold" if line.critical else "")
        table.add_row(mark, what, Text(line.where), Text(line.waited), Text(line.ran), bar)
    return table


def _ruler(timeline: Timeline, room: int) -> str:
    end = took(timeline.end_ms - timeline.started_ms)
    return "0" + end.rjust(room - 1)


def _bar(line: _Line, timeline: Timeline, room: int) -> str:
    """The line's parts as block characters; a part that has a length is never lost."""
    span = max(1, timeline.end_ms - timeline.started_ms)
    cells = [" "] * room
    for start, end, character in line.parts:
        first = min(room - 1, max(0, (start - timeline.started_ms) * room // span))
        last = min(room, max(first + 1, -(-(end - timeline.started_ms) * room // span)))
        cells[first:last] = character * (last - first)
    return "".join(cells).rstrip()


def _step_line(step: Step, timeline: Timeline) -> _Line:
    end = timeline.end_ms if step.ended_ms is None else step.ended_ms
    last = step.attempts[-1]
    token = last.started_ms if last.first_ms is None else last.first_ms
    again = f", {len(step.attempts)} attempts" if len(step.attempts) > 1 else ""
    first = "" if last.first_ms is None else took(last.first_ms - last.started_ms)
    return _Line(
        at=step.started_ms,
        state="broken" if last.failed else "model",
        what=f"step {step.number} {one_line(step.model)}{again}",
        where="model",
        waited=first,
        ran=took(end - step.started_ms),
        parts=((step.started_ms, token, "▒"), (token, end, "█")) if token > step.started_ms else ((token, end, "█"),),
        critical=step.id in timeline.critical,
    )


def _node_line(node: NodeBar, timeline: Timeline) -> _Line:
    end = timeline.end_ms if node.ended_ms is None else node.ended_ms
    started = end if node.started_ms is None else node.started_ms
    waits = ((node.ready_ms, started, "░"),) if started > node.ready_ms else ()
    runs = ((started, end, "█"),) if node.started_ms is not None else ((end, end, TERMINAL_MARKS[node.state.value]),)
    first = compact(next(iter(node.args.values()), "")) if node.args else ""
    return _Line(
        at=node.planned_ms,
        state=node.state.value,
        what=f"  {one_line(node.tool)} {first}".rstrip(),
        where=timeline.tag(node.worker),
        waited=took(node.wait_ms(timeline.end_ms)),
        ran="–" if node.started_ms is None else took(node.run_ms(timeline.end_ms)),
        parts=(*waits, *runs),
        critical=node.id in timeline.critical,
    )
