"""The picture of a run as SVG 1.1: one file, without scripts and without anything from outside. Pure."""

from __future__ import annotations

from ops.trace.labels import ICON
from ops.trace.layout import GUTTER, MARGIN, layout
from ops.trace.markup import element, escape, number
from ops.trace.picture import Bar, Flag, Label, Link, Load, Picture, Section
from ops.trace.style import MARKS, SANS, svg_css, variables
from ops.trace.values import Timeline
from ops.trace.words import cells, clip, facts, one_line, plain, state_word, title, took

_TITLE_Y, _FACTS_Y, _HEAD = 26.0, 46.0, 62.0
_LEGEND_ROW = 20.0
_FONT = 10.0
_ADVANCE = _FONT * 0.602


def svg(timeline: Timeline, *, head: bool = True) -> str:
    """The picture of `timeline`; without `head` it has no title and figures, for a page that shows them itself."""
    picture = layout(timeline)
    top = _header_height(timeline, picture) if head else 0.0
    legend, legend_height = _legend(timeline, picture)
    height = top + picture.height + legend_height
    parts = [element("style", variables(".trace") + svg_css())]
    parts.append(element("rect", class_="back", width=picture.width, height=height))
    if head:
        parts.append(_header(timeline, picture))
    parts.append(element("g", *_body(picture), transform=f"translate(0 {number(top)})"))
    parts.append(element("g", legend, transform=f"translate(0 {number(top + picture.height)})"))
    return element(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        class_="trace",
        role="img",
        aria_label=f"Time line of run {timeline.run}",
        width=picture.width,
        height=height,
        viewBox=f"0 0 {number(picture.width)} {number(height)}",
    )


def _text(x: float, y: float, text: str, size: float, css: str = "", **attributes: str) -> str:
    if css:
        attributes["class_"] = css
    return element("text", escape(text), x=x, y=y, font_size=size, **attributes)


def _fact_lines(timeline: Timeline, picture: Picture) -> list[str]:
    """The figures, broken into lines that fit."""
    most = int((picture.width - 2 * MARGIN) / (11 * 0.602))
    lines = [""]
    for name, value in facts(timeline):
        part = f"{name} {value}"
        if lines[-1] and cells(lines[-1]) + cells(part) + 3 > most:
            lines.append("")
        lines[-1] += f" · {part}" if lines[-1] else part
    return lines


def _header_height(timeline: Timeline, picture: Picture) -> float:
    return _HEAD + 16 * (len(_fact_lines(timeline, picture)) - 1)


def _header(timeline: Timeline, picture: Picture) -> str:
    most = int((picture.width - 2 * MARGIN) / 9)
    parts = [_text(MARGIN, _TITLE_Y, clip(title(timeline), most), 16, font_weight="600", font_family=SANS)]
    for i, line in enumerate(_fact_lines(timeline, picture)):
        parts.append(_text(MARGIN, _FACTS_Y + 16 * i, line, 11, "dim"))
    return "".join(parts)


def _body(picture: Picture) -> list[str]:
    parts = [_section(section, picture) for section in picture.sections]
    for tick in picture.ticks:
        parts.append(element("line", class_="grid", x1=tick.x, x2=tick.x, y1=16, y2=picture.height))
        anchor = "middle" if tick.x < picture.right - 20 else "end"
        parts.append(_text(tick.x, 11, tick.text, _FONT, "dim", text_anchor=anchor))
    for x in (picture.left, picture.right):
        parts.append(element("line", class_="edge", x1=x, x2=x, y1=16, y2=picture.height))
    parts += [_load(section.load) for section in picture.sections if section.load is not None]
    parts += [_flag(flag, picture) for flag in picture.flags]
    parts += [_link(link) for link in picture.links if not link.critical]
    parts += [_bar(bar) for bar in picture.bars]
    parts += [_link(link) for link in picture.links if link.critical]
    parts += [_label(bar, bar.label) for bar in picture.bars if bar.label is not None]
    return parts


def _section(section: Section, picture: Picture) -> str:
    width = picture.width - 2 * 4
    return "".join(
        [
            element("rect", class_="band", x=4, y=section.y - 3, width=width, height=section.height + 4, rx=4),
            _text(MARGIN - 6, section.y + 11, section.title, 11, font_weight="600"),
            _text(MARGIN - 6, section.y + 23, section.note, 9, "dim") if section.height > 22 else "",
        ]
    )


def _load(load: Load) -> str:
    shapes = []
    for css, points in (("load-wait", load.waiting), ("load-run", load.running)):
        path = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        shapes.append(element("polygon", class_=css, points=path))
    return element("g", element("title", escape(load.tip)), *shapes)


def _flag(flag: Flag, picture: Picture) -> str:
    y = picture.flags_y
    return element(
        "g",
        element("title", escape(flag.tip)),
        element("line", class_="flag", x1=flag.x, x2=flag.x, y1=y, y2=picture.height),
        element("path", class_="pin", d=f"M{number(flag.x)} {number(y + 1)}l8 4l-8 4z"),
        _text(flag.x + 11, y + 9, flag.text, 9.5, "dim") if flag.text else "",
    )


def _link(link: Link) -> str:
    bend = max(14.0, abs(link.x1 - link.x0) / 2)
    path = (
        f"M{number(link.x0)} {number(link.y0)}"
        f"C{number(link.x0 + bend)} {number(link.y0)} {number(link.x1 - bend)} {number(link.y1)} "
        f"{number(link.x1)} {number(link.y1)}"
    )
    return element("path", class_="path" if link.critical else "link", d=path)


def _bar(bar: Bar) -> str:
    parts = [element("title", escape(bar.tip))]
    for segment in bar.segments:
        box = {"x": segment.x0, "y": bar.y, "width": segment.x1 - segment.x0, "height": bar.height}
        parts.append(element("rect", class_=segment.tone, rx=1.5, **box))
    if bar.critical:
        frame = {"x": bar.x0, "y": bar.y, "width": bar.x1 - bar.x0, "height": bar.height}
        parts.append(element("rect", class_="frame", rx=2, **frame))
    return element("g", *parts, class_=_css_of(bar))


def _css_of(bar: Bar) -> str:
    return " ".join(["bar", bar.state, *(["critical"] if bar.critical else []), *(["open"] if bar.open else [])])


def _label(bar: Bar, label: Label) -> str:
    """Mark and text of a bar, above all lines; the pointer reaches the bar through them."""
    size = 9 if bar.height > 12 else 7
    parts = [_mark(bar.state, label.x, bar.middle, size, white=label.on == "solid")]
    if label.text:
        parts.append(_text(label.x + ICON, bar.middle + bar.font * 0.36, label.text, bar.font, f"on-{label.on}"))
    return element("g", *parts, class_=f"label {bar.state}")


def _mark(state: str, x: float, middle: float, size: float, *, white: bool) -> str:
    """A mark instead of colour alone; `middle` is its height's half."""
    move = f"translate({number(x)} {number(middle - size / 2)}) scale({number(size / 10)})"
    return element("path", class_="mark white" if white else "mark", d=MARKS[state], transform=move)


def _legend(timeline: Timeline, picture: Picture) -> tuple[str, float]:
    """What the colours, tones and short names mean, in lines that fit; and its height."""
    entries: list[tuple[str, str]] = []  # (what it shows, what it means)
    if timeline.steps:
        entries.append(("model", "model stream (light: until the first token)"))
    if any(attempt.failed for step in timeline.steps for attempt in step.attempts):
        entries.append(("broken", "broken stream"))
    for state, count in sorted(timeline.figures.states.items()):
        entries.append((state, f"{state_word(state)} {count}"))
    if timeline.nodes:
        entries.append(("tone", "light: waits for a worker, solid: runs"))
    entries.append(("path", f"critical path {took(timeline.figures.critical_ms)}"))
    for worker in timeline.workers:
        entries.append(("", _worker_line(timeline, worker)))
    if not timeline.events:
        entries.append(("", "events were trimmed: starts of streams are inferred from the log"))
    parts, x, y = [], GUTTER, 16.0
    for sample, text in entries:
        width = cells(text) * _ADVANCE + (20 if sample else 0) + 22
        if x > GUTTER and x + width > picture.right:
            x, y = GUTTER, y + _LEGEND_ROW
        parts.append(_sample(sample, x, y))
        parts.append(_text(x + (18 if sample else 0), y + 4, text, _FONT, "dim"))
        x += width
    return "".join(parts), y + 18


def _sample(sample: str, x: float, y: float) -> str:
    if sample == "path":
        return element("line", class_="path", x1=x, x2=x + 13, y1=y, y2=y)
    if sample == "tone":
        halves = [
            element("rect", class_=tone, x=x + at, y=y - 5, width=6.5, height=10)
            for at, tone in ((0, "wait"), (6.5, "run"))
        ]
        return element("g", *halves, class_="done")
    if not sample:
        return ""
    box = element("rect", class_="run", x=x, y=y - 6.5, width=13, height=13, rx=2)
    return element("g", box, _mark(sample, x + 2, y, 9, white=True), class_=sample)


def _worker_line(timeline: Timeline, worker: str) -> str:
    nodes = [n for n in timeline.nodes if n.worker == worker]
    busy = sum(n.run_ms(timeline.end_ms) for n in nodes)
    return f"{timeline.tag(worker)} {one_line(plain(worker))}: {len(nodes)} nodes, {took(busy)}"
