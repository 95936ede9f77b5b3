"""Colours and marks of the picture. States differ by mark as well as by colour, in light and in dark."""

from __future__ import annotations

from typing import Final

from shared.contract import NodeState

COLOURS: Final = {
    "model": "#6a5aa8",
    "broken": "#b3402d",
    NodeState.DONE.value: "#2a73a8",
    NodeState.FAILED.value: "#c0392b",
    NodeState.TIMED_OUT.value: "#b26a00",
    NodeState.OUTCOME_UNKNOWN.value: "#94358c",
    NodeState.DENIED.value: "#7a4a2a",
    NodeState.REFUSED.value: "#8a5d10",
    NodeState.CANCELLED.value: "#5f6b7a",
    NodeState.SKIPPED.value: "#7d8794",
    NodeState.RUNNING.value: "#15806f",
    NodeState.PLANNED.value: "#7d8794",
}

_CIRCLE = "M5 1.2a3.8 3.8 0 1 1 0 7.6a3.8 3.8 0 1 1 0-7.6z"
MARKS: Final = {
    "model": "M1.5 3h7M1.5 5h7M1.5 7h4.5",
    "broken": "M2.3 2.3 7.7 7.7M7.7 2.3 2.3 7.7",
    NodeState.DONE.value: "M1.8 5.4 4.1 7.7 8.3 2.5",
    NodeState.FAILED.value: "M2.3 2.3 7.7 7.7M7.7 2.3 2.3 7.7",
    NodeState.TIMED_OUT.value: f"{_CIRCLE}M5 2.8V5.2L6.8 6.3",
    NodeState.OUTCOME_UNKNOWN.value: "M3 3.4A2 2 0 1 1 5.9 5.2C5.2 5.6 5 6 5 6.6M5 8.4V8.7",
    NodeState.DENIED.value: f"{_CIRCLE}M3 5H7",
    NodeState.REFUSED.value: "M5 1.4 9 8.6H1zM5 4V6M5 7.2V7.5",
    NodeState.CANCELLED.value: "M2.4 2.4H7.6V7.6H2.4z",
    NodeState.SKIPPED.value: "M1.6 2.2 4.6 5 1.6 7.8M5.2 2.2 8.2 5 5.2 7.8",
    NodeState.RUNNING.value: "M3 1.8 8.2 5 3 8.2z",
    NodeState.PLANNED.value: "M2 5H2.4M4.8 5H5.2M7.6 5H8",
}
"""Paths in a box of ten by ten, drawn as strokes."""

TERMINAL_MARKS: Final = {
    "model": "≡",
    "broken": "✗",
    NodeState.DONE.value: "✓",
    NodeState.FAILED.value: "✗",
    NodeState.TIMED_OUT.value: "◷",
    NodeState.OUTCOME_UNKNOWN.value: "?",
    NodeState.DENIED.value: "⊘",
    NodeState.REFUSED.value: "!",
    NodeState.CANCELLED.value: "■",
    NodeState.SKIPPED.value: "»",
    NodeState.RUNNING.value: "▸",
    NodeState.PLANNED.value: "·",
}

_LIGHT = "--bg:#ffffff;--ink:#1b2430;--dim:#5c6878;--line:#e2e6ec;--band:#f5f7fa;--edge:#8f9bab"
_DARK = "--bg:#12171f;--ink:#e8ecf2;--dim:#9aa6b6;--line:#2a323e;--band:#1a212b;--edge:#6f7c8e"
MONO: Final = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
SANS: Final = "system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"


def variables(selector: str) -> str:
    """The palette on `selector`, for light and for dark surroundings."""
    return f"{selector}{{{_LIGHT}}}@media(prefers-color-scheme:dark){{{selector}{{{_DARK}}}}}"


def svg_css() -> str:
    """The style of the picture itself; names are bound to its class, so that it does not touch a page around it."""
    states = "".join(f".trace .{name}{{--c:{colour}}}" for name, colour in COLOURS.items())
    return (
        f".trace{{font-family:{MONO};background:var(--bg)}}"
        ".trace text{fill:var(--ink)}.trace .dim{fill:var(--dim)}.trace .on-solid{fill:#fff}"
        ".trace .on-band{stroke:var(--band);stroke-width:3;stroke-linejoin:round;paint-order:stroke}"
        ".trace .label{pointer-events:none}"
        ".trace .back{fill:var(--bg)}.trace .band{fill:var(--band)}"
        ".trace .grid{stroke:var(--line);stroke-width:1}"
        ".trace .run,.trace .end{fill:var(--c)}.trace .wait{fill:var(--c);fill-opacity:.28}"
        ".trace .think{fill:var(--c);fill-opacity:.6}"
        ".trace .open .run{fill-opacity:.75;stroke:var(--c);stroke-dasharray:3 2}"
        ".trace .frame{fill:none;stroke:var(--ink);stroke-width:1.8}"
        ".trace .link{fill:none;stroke:var(--edge);stroke-width:1;stroke-opacity:.65}"
        ".trace .path{fill:none;stroke:var(--ink);stroke-width:1.8;stroke-opacity:.85}"
        ".trace .mark{fill:none;stroke:var(--c);stroke-width:1.6;stroke-linecap:round;stroke-linejoin:round}"
        ".trace .white{stroke:#fff}.trace .flag{stroke:#b26a00;stroke-width:1;stroke-dasharray:2 3}"
        ".trace .pin{fill:#b26a00}.trace .edge{stroke:var(--dim);stroke-width:1}"
        ".trace .load-run{fill:#2a73a8;fill-opacity:.7}.trace .load-wait{fill:#2a73a8;fill-opacity:.25}"
        ".trace g:hover>.run,.trace g:hover>.end{fill-opacity:.8}"
        "@media(prefers-color-scheme:dark){.trace .wait{fill-opacity:.42}"
        ".trace .mark:not(.white){filter:brightness(1.6)}}" + states
    )
