"""From a time line to the geometry of its picture. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ops.trace.labels import place, reach
from ops.trace.lanes import pack
from ops.trace.picture import Bar, Flag, Link, Load, Picture, Section, Segment, Tick
from ops.trace.values import Attempt, Mark, NodeBar, Step, Timeline
from ops.trace.words import cells, clip, label, node_tip, one_line, step_tip, took
from shared.contract import NodeState

GUTTER = 92.0
MARGIN = 18.0
_AXIS = 24.0
_FLAGS = 20.0
_GAP = 10.0
_LOAD = 30.0
_SLIVER = 3.0
_CAP = 13.0
_MOST_SECTIONS = 12
_ROOMY_LANES, _PLAIN_LANES = 16, 40
_TICKS = 10
_FLAG_FONT = 9.5
_STEPS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)


@dataclass(frozen=True)
class _Row:
    pitch: float
    bar: float
    font: float
    enough: float = 1.0


_NORMAL, _TIGHT, _DENSE = _Row(21.0, 16.0, 10.0), _Row(21.0, 16.0, 10.0, 0.6), _Row(13.0, 11.0, 8.5, 0.6)


@dataclass(frozen=True)
class _Axis:
    """Moments to pixels."""

    start_ms: int
    end_ms: int
    left: float
    right: float

    def x(self, ms: int) -> float:
        """Where a moment is, kept inside the axis."""
        span = max(1, self.end_ms - self.start_ms)
        part = (min(max(ms, self.start_ms), self.end_ms) - self.start_ms) / span
        return self.left + part * (self.right - self.left)


def layout(timeline: Timeline) -> Picture:
    """The picture of a run. Its width grows with the number of steps, its height with what runs side by side."""
    width = 1240.0 + min(2800, 55 * max(0, len(timeline.steps) - 10))
    axis = _Axis(timeline.started_ms, timeline.end_ms, GUTTER, width - MARGIN)
    flags = _flags(timeline.marks, axis)
    y = _AXIS + (_FLAGS if flags else 0.0)
    sections: list[Section] = []
    bars: list[Bar] = []
    for section, found in _sections(timeline, axis, y):
        sections.append(section)
        bars.extend(found)
    bottom = max((s.y + s.height for s in sections), default=y)
    return Picture(
        width=width,
        height=bottom + 4,
        left=axis.left,
        right=axis.right,
        ticks=_ticks(axis),
        flags=flags,
        flags_y=_AXIS,
        sections=tuple(sections),
        bars=tuple(bars),
        links=_links(timeline, bars, axis),
    )


def _sections(timeline: Timeline, axis: _Axis, y: float) -> list[tuple[Section, list[Bar]]]:
    """The model's section, then one for each step with nodes, or one for all where these would be too many."""
    found: list[tuple[Section, list[Bar]]] = []
    if timeline.steps:
        found.append(_model_section(timeline, axis, y))
        y += found[-1][0].height + _GAP
    numbers = sorted({n.step for n in timeline.nodes})
    groups = [(f"step {s}" if s else "nodes", [n for n in timeline.nodes if n.step == s]) for s in numbers]
    if len(groups) > _MOST_SECTIONS:
        groups = [("nodes", list(timeline.nodes))]
    for title, nodes in groups:
        found.append(_node_section(title, nodes, timeline, axis, y))
        y += found[-1][0].height + _GAP
    return found


def _model_section(timeline: Timeline, axis: _Axis, y: float) -> tuple[Section, list[Bar]]:
    rows: list[tuple[Bar, str]] = []
    for step in timeline.steps:
        tip = step_tip(step, timeline.end_ms)
        for attempt in step.attempts:
            critical = step.id in timeline.critical
            bar = Bar(
                id=step.id,
                state="broken" if attempt.failed else "model",
                y=0,
                height=_NORMAL.bar,
                segments=_stream(attempt, timeline.end_ms, axis),
                critical=critical,
                open=attempt.ended_ms is None,
                tip=tip,
                font=_NORMAL.font,
            )
            rows.append((bar, _step_label(step, attempt)))
    bars, lanes = _stack(rows, lambda bar, _: (bar.x0, bar.x1), y, _NORMAL, axis)
    return Section("model", took(timeline.figures.model_ms), y, lanes * _NORMAL.pitch), bars


def _step_label(step: Step, attempt: Attempt) -> str:
    again = f" attempt {attempt.number}" if len(step.attempts) > 1 else ""
    return f"step {step.number}{again}"


def _stream(attempt: Attempt, end_ms: int, axis: _Axis) -> tuple[Segment, ...]:
    """Waiting for the first token, thinking, and the rest of a stream."""
    start, end = attempt.started_ms, end_ms if attempt.ended_ms is None else attempt.ended_ms
    first = start if attempt.first_ms is None else attempt.first_ms
    think = attempt.text_ms if attempt.first_ms is not None and attempt.text_ms is not None else first
    return _segments([(start, first, "wait"), (first, think, "think"), (think, end, "run")], axis)


def _segments(parts: Sequence[tuple[int, int, str]], axis: _Axis) -> tuple[Segment, ...]:
    """Parts that have a length; the last one is always there and can be seen, even at the end of the axis."""
    found = [Segment(axis.x(a), axis.x(b), tone) for a, b, tone in parts[:-1] if axis.x(b) - axis.x(a) >= 0.5]
    a, b, tone = parts[-1]
    least = _CAP if tone == "end" else _SLIVER
    x0 = min(axis.x(a), axis.right - least)
    found = [s for s in (replace(s, x1=min(s.x1, x0)) for s in found) if s.x1 > s.x0]
    return (*found, Segment(x0, max(axis.x(b), x0 + least), tone))


def _node_section(
    title: str, nodes: list[NodeBar], timeline: Timeline, axis: _Axis, y: float
) -> tuple[Section, list[Bar]]:
    """Lanes with room for whole labels if these are few, else tight ones, else low ones by run time alone."""
    note = f"{len(nodes)} node" + ("s" if len(nodes) != 1 else "")
    rows = [(_node_bar(node, timeline, axis, _NORMAL), label(node, timeline.tag(node.worker))) for node in nodes]
    bars, lanes = _stack(rows, lambda bar, text: reach(bar, text, axis.right), y, _NORMAL, axis)
    if lanes > _ROOMY_LANES:
        bars, lanes = _stack(rows, lambda bar, _: (bar.x0, bar.x1), y, _TIGHT, axis)
    if lanes <= _PLAIN_LANES:
        return Section(title, note, y, lanes * _NORMAL.pitch), bars
    rows = [(_node_bar(node, timeline, axis, _DENSE), text) for node, (_, text) in zip(nodes, rows, strict=True)]
    bars, lanes = _stack(rows, lambda bar, _: (bar.segments[-1].x0, bar.x1), y + _LOAD + 4, _DENSE, axis)
    load = _load(nodes, timeline.end_ms, axis, y)
    return Section(title, note, y, _LOAD + 4 + lanes * _DENSE.pitch, load), bars


def _node_bar(node: NodeBar, timeline: Timeline, axis: _Axis, row: _Row) -> Bar:
    end = timeline.end_ms if node.ended_ms is None else node.ended_ms
    if node.holds:
        segments = _segments([(node.ready_ms, end, "think")], axis)
    elif node.started_ms is not None:
        segments = _segments([(node.ready_ms, node.started_ms, "wait"), (node.started_ms, end, "run")], axis)
    elif node.state is NodeState.PLANNED:
        segments = _segments([(node.ready_ms, end, "wait")], axis)
    else:
        segments = _segments([(node.ready_ms, end, "wait"), (end, end, "end")], axis)
    return Bar(
        id=node.id,
        state=node.state.value,
        y=0,
        height=row.bar,
        segments=segments,
        critical=node.id in timeline.critical,
        open=node.ended_ms is None,
        tip=node_tip(node, timeline),
        font=row.font,
    )


def _stack(
    rows: Sequence[tuple[Bar, str]],
    extent: Callable[[Bar, str], tuple[float, float]],
    y: float,
    row: _Row,
    axis: _Axis,
) -> tuple[list[Bar], int]:
    """Bars in lanes of `row` from `y` on, with labels, and how many lanes. `extent` is what may not overlap."""
    if not rows:
        return [], 0
    spans = [extent(bar, text) for bar, text in rows]
    lanes = pack([(x0, max(x1, x0 + _SLIVER) + 1) for x0, x1 in spans])
    placed: list[Bar] = []
    for lane in range(max(lanes) + 1):
        inside = sorted((r for r, at in zip(rows, lanes, strict=True) if at == lane), key=lambda r: _solid(r[0]))
        cut: list[tuple[Bar, str]] = []
        reached = axis.left
        for bar, text in inside:
            cut.append((_cut_wait(bar, reached, y + lane * row.pitch), text))
            reached = bar.x1 + 1
        placed.extend(place(cut, axis.left, axis.right, row.enough))
    return placed, max(lanes) + 1


def _solid(bar: Bar) -> float:
    return bar.segments[-1].x0


def _cut_wait(bar: Bar, reached: float, y: float) -> Bar:
    """The bar at its height, its waiting only as far back as the lane is free."""
    *waits, solid = bar.segments
    shown = [replace(s, x0=max(s.x0, reached)) for s in waits if s.x1 > reached]
    return replace(bar, y=y, segments=(*shown, solid))


def _load(nodes: Sequence[NodeBar], end_ms: int, axis: _Axis, y: float) -> Load:
    """Outlines of how many nodes run, and above these how many wait, over time."""
    changes: list[tuple[int, int, int]] = []
    for node in nodes:
        end = end_ms if node.ended_ms is None else node.ended_ms
        started = end if node.started_ms is None else node.started_ms
        changes += [(node.ready_ms, 0, 1), (started, 1, -1), (end, -1, 0)]
    counts: list[tuple[int, int, int]] = []
    running = waiting = 0
    for ms, run, wait in sorted(changes):
        running, waiting = running + run, waiting + wait
        if counts and counts[-1][0] == ms:
            counts.pop()
        counts.append((ms, running, waiting))
    unit = _LOAD / max(1, *(r + w for _, r, w in counts))
    base = y + _LOAD
    lower, upper = [(axis.x(counts[0][0]), base)], [(axis.x(counts[0][0]), base)]
    for ms, run, wait in counts:
        x = axis.x(ms)
        lower += [(x, lower[-1][1]), (x, base - run * unit)]
        upper += [(x, upper[-1][1]), (x, base - (run + wait) * unit)]
    tip = f"at most {max(r for _, r, _ in counts)} nodes ran and {max(w for _, _, w in counts)} waited at once"
    return Load((*lower, (lower[-1][0], base)), (*upper, (upper[-1][0], base)), tip)


def _links(timeline: Timeline, bars: Sequence[Bar], axis: _Axis) -> tuple[Link, ...]:
    """What nodes need, and the critical path from item to item."""
    ends: dict[str, Bar] = {}
    begins: dict[str, Bar] = {}
    for bar in bars:
        begins.setdefault(bar.id, bar)
        ends[bar.id] = bar
    planned = {n.id: n.planned_ms for n in timeline.nodes}
    chain = list(pairwise(timeline.critical))
    pairs = [(need, n.id) for n in timeline.nodes for need in n.needs if (need, n.id) not in set(chain)]
    links = []
    for critical, (source, target) in [*((False, p) for p in pairs), *((True, c) for c in chain)]:
        if source in ends and target in begins:
            a, b = ends[source], begins[target]
            early = axis.x(planned[target]) if source.startswith("step:") and target in planned else a.x1
            links.append(Link(min(a.x1, early), a.middle, b.x0, b.middle, critical))
    return tuple(links)


def _flags(marks: Sequence[Mark], axis: _Axis) -> tuple[Flag, ...]:
    """Flags with as much of their text as fits before the next one."""
    flags = []
    for i, mark in enumerate(marks):
        x = axis.x(mark.ms)
        limit = axis.x(marks[i + 1].ms) if i + 1 < len(marks) else axis.right
        text = one_line(f"{mark.kind}: {mark.text}" if mark.text else mark.kind)
        most = int((limit - x - 14) / (_FLAG_FONT * 0.602))
        shown = clip(text, most) if most >= min(8, cells(text)) else ""
        flags.append(Flag(x, shown, f"{took(mark.ms - axis.start_ms)} · {text}"))
    return tuple(flags)


def _ticks(axis: _Axis) -> tuple[Tick, ...]:
    span = max(1, axis.end_ms - axis.start_ms)
    sizes = (*_STEPS_MS, *(s * 1000 for s in _STEPS_S))
    size = next((s for s in sizes if span / s <= _TICKS), sizes[-1] * -(-span // (sizes[-1] * _TICKS)))
    return tuple(Tick(axis.x(axis.start_ms + ms), _tick_text(ms, size)) for ms in range(0, span + 1, size))


def _tick_text(ms: int, size: int) -> str:
    if ms == 0:
        return "0"
    if size >= 3_600_000:
        return f"{ms // 3_600_000} h"
    if size >= 60_000:
        return f"{ms // 60_000} min"
    return f"{ms} ms" if ms < 1000 and size < 1000 else f"{ms / 1000:g} s"
