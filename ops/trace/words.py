"""Texts of a trace: safe to show, cut to a width, and put together from values. Pure.

Models, tools and users wrote most of these texts: nothing in them may steer a terminal or a browser.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from ops.trace.values import NodeBar, Step, Timeline

_TIP = 400
_HIDDEN = {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}
_BIDI = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")


def plain(text: str) -> str:
    """`text` with characters that XML forbids, terminals obey or that turn the writing direction replaced."""
    return "".join(
        c if c in "\n\t" or (unicodedata.category(c) not in _HIDDEN and c not in _BIDI) else "\ufffd" for c in text
    )


def one_line(text: str) -> str:
    """`text` made safe, with every run of white space as one blank."""
    return " ".join(plain(text).split())


def cells(text: str) -> int:
    """How many columns of a fixed-width font `text` takes (Unicode Standard Annex 11)."""
    return sum(
        0 if unicodedata.combining(c) or c in "\u200d\ufe0f" else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def clip(text: str, most: int) -> str:
    """`text` in at most `most` columns, with an ellipsis where something was cut."""
    if cells(text) <= most:
        return text
    out, used = [], 0
    for c in text:
        used += cells(c)
        if used > most - 1:
            break
        out.append(c)
    return "".join(out).rstrip() + "…" if most > 0 else ""


def compact(value: Any) -> str:
    """A value as one line: a text as it is, anything else as JSON."""
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def label(node: NodeBar, tag: str) -> str:
    """What stands on a node's bar: the tool, its first argument, the worker."""
    first = clip(compact(next(iter(node.args.values()), "")), 32) if node.args else ""
    return "  ".join(part for part in (f"{one_line(node.tool)} {first}".rstrip(), tag) if part)


def took(ms: float) -> str:
    """A length of time: `850 ms`, `2.35 s`, `41.0 s`, `3 min 05 s`, `2 h 07 min`."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole // 60 % 60:02} min"


def state_word(state: str) -> str:
    """A state as people read it."""
    return state.replace("_", " ")


def title(timeline: Timeline) -> str:
    """What the run was about."""
    text = one_line(timeline.title) or timeline.run
    return f"workflow {text}" if timeline.kind == "workflow" else text


def facts(timeline: Timeline) -> list[tuple[str, str]]:
    """The head of a trace: name and value of each figure."""
    f = timeline.figures
    reason = timeline.finish_reason
    state = f"{timeline.state} ({reason})" if reason not in ("", timeline.state) else timeline.state
    others = [f"{count} {state_word(name)}" for name, count in f.states.items() if name != "done"]
    rows = [
        ("state", plain(state)),
        ("took", took(f.seconds * 1000)),
        ("steps", str(f.steps)),
        ("nodes", f"{f.nodes} ({', '.join(others)})" if others else str(f.nodes)),
        ("workers", str(f.workers)),
        ("critical path", took(f.critical_ms)),
        ("model time", took(f.model_ms)),
    ]
    if f.speed_up is not None:
        rows.append(("speed-up", f"{f.speed_up:.2f} ({took(f.run_ms)} of work in {took(f.busy_ms)})"))
    rows.append(("tokens", f"{f.tokens:,}"))
    rows.append(("cost", "unknown" if f.cost is None else f"${f.cost}"))
    if (queued := timeline.started_ms - timeline.received_ms) >= 50:
        rows.append(("queued", took(queued)))
    return rows


def step_tip(step: Step, end_ms: int) -> str:
    """What is told of a model step on demand."""
    last = step.attempts[-1]
    lines = [f"step {step.number} · {step.model} · {took((step.ended_ms or end_ms) - step.started_ms)}"]
    if last.first_ms is not None:
        lines.append(f"first token after {took(last.first_ms - last.started_ms)}")
    if not step.exact:
        lines.append("its start is inferred: the events were trimmed")
    for attempt in step.attempts:
        if attempt.failed:
            lines.append(f"attempt {attempt.number} broke: {attempt.failed}")
    if step.finish:
        lines.append(f"{step.tokens_in:,} tokens in, {step.tokens_out:,} out · finish {step.finish}")
    if step.calls:
        lines.append(f"{step.calls} calls")
    if step.thinking:
        lines.append(f"thinking: {clip(step.thinking, _TIP)}")
    if step.text:
        lines.append(clip(step.text, _TIP))
    return plain("\n".join(lines))


def node_tip(node: NodeBar, timeline: Timeline) -> str:
    """What is told of a node on demand: state, times, worker, arguments, the head of its result."""
    end = timeline.end_ms
    lines = [f"{node.tool} · {state_word(node.state)} · step {node.step}, position {node.position + 1}"]
    times = [f"waited {took(node.wait_ms(end))}"]
    if (blocked := node.ready_ms - node.planned_ms) > 0:
        times.insert(0, f"waited {took(blocked)} for its inputs")
    if node.started_ms is not None:
        times.append(f"ran {took(node.run_ms(end))}")
    lines.append(", ".join(times))
    if node.worker:
        lines.append(f"worker {node.worker}" + (f" (claim {node.claims})" if node.claims > 1 else ""))
    if node.holds:
        lines.append(f"a plan of {len(node.holds)} steps")
    if not node.adopted:
        lines.append("started early for a stream that failed; nothing in the history refers to it")
    if node.elided:
        lines.append("its output only fed others: the model got a line in its place")
    if node.args:
        lines.append(f"arguments {clip(compact(node.args), _TIP)}")
    if node.error:
        lines.append(f"error {clip(node.error, _TIP)}")
    elif node.text:
        lines.append(f"result {clip(node.text, _TIP)}")
    return plain("\n".join(lines))
