"""The page of a run as HTML: figures, picture, answer, tables. One file, no script, nothing from outside. Pure."""

from __future__ import annotations

from ops.trace.markup import element, escape
from ops.trace.style import COLOURS, MARKS, MONO, SANS, variables
from ops.trace.svg import svg
from ops.trace.values import NodeBar, Step, Timeline
from ops.trace.words import clip, compact, facts, plain, state_word, title, took

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_ARGS, _RESULT = 90, 110


def page(timeline: Timeline) -> str:
    """A whole page for `timeline`, in light or dark as the reader's system is."""
    body = [
        element("h1", escape(clip(title(timeline), 160))),
        _figures(timeline),
        element("div", svg(timeline, head=False), class_="picture", tabindex="0"),
    ]
    if timeline.error:
        body.append(_text_block("Why it did not end well", timeline.error))
    if timeline.answer:
        body.append(_text_block("Answer", timeline.answer))
    if timeline.steps:
        body.append(_steps(timeline))
    if timeline.nodes:
        body.append(_nodes(timeline))
    if timeline.marks:
        body.append(_marks(timeline))
    body.append(element("p", f"run {escape(timeline.run)} · session {escape(timeline.session)}", class_="foot"))
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        element("title", escape(f"Trace: {clip(title(timeline), 80)}")),
        element("style", _css()),
    ]
    return f'<!DOCTYPE html>\n<html lang="en"><head>{"".join(head)}</head><body>{"".join(body)}</body></html>\n'


def _css() -> str:
    return (
        variables(":root")
        + "body{margin:24px auto;padding:0 20px;max-width:1320px;background:var(--bg);color:var(--ink);"
        + f"font:14px/1.45 {SANS}}}"
        + "h1{font-size:20px;margin:0 0 12px;overflow-wrap:anywhere}h2{font-size:15px;margin:24px 0 8px}"
        "dl{display:flex;flex-wrap:wrap;gap:8px;margin:0 0 16px}"
        "dl div{background:var(--band);border:1px solid var(--line);border-radius:6px;padding:5px 11px}"
        "dt{font-size:11px;color:var(--dim)}dd{margin:0;font-variant-numeric:tabular-nums}"
        ".picture{overflow-x:auto;border:1px solid var(--line);border-radius:6px;padding:8px 0}"
        ".picture svg{display:block}"
        ".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:12.5px}"
        "th{text-align:left;color:var(--dim);font-weight:500;white-space:nowrap}"
        "th,td{padding:4px 10px 4px 0;border-bottom:1px solid var(--line);vertical-align:top}"
        "td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}"
        f"code,pre{{font-family:{MONO};font-size:12px}}"
        "code{overflow-wrap:anywhere}pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--band);"
        "border:1px solid var(--line);border-radius:6px;padding:10px 12px;margin:0}summary{cursor:pointer}"
        "details pre{margin-top:6px}.s{white-space:nowrap}.s svg{vertical-align:-2px;margin-right:5px}"
        ".s path{fill:none;stroke:var(--c);stroke-width:1.7;stroke-linecap:round;stroke-linejoin:round}"
        "@media(prefers-color-scheme:dark){.s path{filter:brightness(1.6)}}"
        "tr.critical td:first-child{box-shadow:inset 3px 0 var(--ink)}td:first-child,th:first-child{padding-left:10px}"
        ".foot{color:var(--dim);font-size:12px;margin-top:24px}"
    )


def _figures(timeline: Timeline) -> str:
    boxes = [
        element("div", element("dt", escape(name)), element("dd", escape(value))) for name, value in facts(timeline)
    ]
    return element("dl", *boxes)


def _text_block(name: str, text: str) -> str:
    return element("h2", escape(name)) + element("pre", escape(text))


def _table(heads: list[tuple[str, bool]], rows: list[str]) -> str:
    """`heads` are (name, is a number); `rows` are whole elements."""
    line = "".join(element("th", escape(name), class_="n" if number else "t") for name, number in heads)
    table = element("table", element("thead", element("tr", line)), element("tbody", *rows))
    return element("div", table, class_="scroll")


def _cell(text: str, *, number: bool = False) -> str:
    return element("td", escape(text), class_="n" if number else "t")


def _state(state: str, word: str) -> str:
    mark = element("path", d=MARKS[state], style=f"--c:{COLOURS[state]}")
    icon = element("svg", mark, width=12, height=12, viewBox="0 0 10 10", aria_hidden="true")
    return element("td", icon + escape(word), class_="s")


def _row(critical: bool, *cells: str) -> str:
    return element("tr", *cells, **({"class_": "critical"} if critical else {}))


def _steps(timeline: Timeline) -> str:
    heads = [("step", False), ("model", False), ("attempts", True), ("first token", True), ("stream", True)]
    heads += [("tokens in", True), ("tokens out", True), ("cost", True), ("calls", True), ("finish", False)]
    rows = [_step_row(step, timeline) for step in timeline.steps]
    return element("h2", "Model") + _table(heads, rows)


def _step_row(step: Step, timeline: Timeline) -> str:
    last = step.attempts[-1]
    first = "–" if last.first_ms is None else took(last.first_ms - last.started_ms)
    end = timeline.end_ms if step.ended_ms is None else step.ended_ms
    return _row(
        step.id in timeline.critical,
        _cell(str(step.number)),
        _cell(step.model),
        _cell(str(len(step.attempts)), number=True),
        _cell(first, number=True),
        _cell(took(end - step.started_ms), number=True),
        _cell(f"{step.tokens_in:,}", number=True),
        _cell(f"{step.tokens_out:,}", number=True),
        _cell("–" if step.cost is None else f"${step.cost}", number=True),
        _cell(str(step.calls), number=True),
        _cell(step.finish or "–"),
    )


def _nodes(timeline: Timeline) -> str:
    heads = [("node", False), ("state", False), ("tool", False), ("arguments", False), ("worker", False)]
    heads += [("planned at", True), ("waited", True), ("ran", True), ("result", False)]
    names: dict[str, str] = {}
    for node in timeline.nodes:  # a plan comes before its steps
        names[node.id] = f"{names.get(node.owner, node.step)}.{node.position + 1}"
    rows = [_node_row(node, names, timeline) for node in timeline.nodes]
    return element("h2", "Nodes") + _table(heads, rows)


def _node_row(node: NodeBar, names: dict[str, str], timeline: Timeline) -> str:
    needs = ", ".join(names.get(need, need) for need in node.needs)
    arguments = compact(node.args) if node.args else ""
    return _row(
        node.id in timeline.critical,
        _cell(f"{names[node.id]} needs {needs}" if needs else names[node.id]),
        _state(node.state.value, state_word(node.state)),
        _cell(node.tool),
        element("td", _folded(arguments, _ARGS)),
        element("td", escape(timeline.tag(node.worker)), title=node.worker),
        _cell(took(node.planned_ms - timeline.started_ms), number=True),
        _cell(took(node.wait_ms(timeline.end_ms)), number=True),
        _cell("–" if node.started_ms is None else took(node.run_ms(timeline.end_ms)), number=True),
        element("td", _folded(node.error or node.text, _RESULT)),
    )


def _folded(text: str, most: int) -> str:
    """Short text as it is; long text behind its head."""
    head = clip(compact(text), most)
    if head == plain(text):
        return element("code", escape(head))
    return element("details", element("summary", element("code", escape(head))), element("pre", escape(text)))


def _marks(timeline: Timeline) -> str:
    rows = [
        _row(
            False, _cell(took(mark.ms - timeline.started_ms)), _cell(mark.kind), element("td", _folded(mark.text, 160))
        )
        for mark in timeline.marks
    ]
    return element("h2", "Notices") + _table([("at", False), ("kind", False), ("text", False)], rows)
