"""Where the label of each bar of a lane fits: inside, to the right, to the left, or cut. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ops.trace.picture import Bar, Label
from ops.trace.words import cells, clip

ICON = 12.0
PAD = 4.0
_ADVANCE = 0.602  # of a fixed-width font, as a part of its size
_FEWEST = 5


def wanted(text: str, font: float) -> float:
    """The width of a whole label with its mark and room around."""
    return ICON + cells(text) * font * _ADVANCE + 2 * PAD


def reach(bar: Bar, text: str, right: float) -> tuple[float, float]:
    """The extent of a bar together with its whole label, which goes to the left where the right has no room."""
    need = wanted(text, bar.font)
    if bar.widest.x1 - bar.widest.x0 >= need:
        return bar.x0, bar.x1
    return (bar.x0, bar.x1 + need) if bar.x1 + need <= right else (bar.x0 - need, bar.x1)


def place(bars: Sequence[tuple[Bar, str]], left: float, right: float, enough: float = 1.0) -> list[Bar]:
    """The bars of one lane, from left to right, with their labels where there is room for them.

    A label that keeps `enough` of its text inside its bar is cut there instead of standing whole beside it.
    """
    placed = []
    reached = left
    for i, (bar, text) in enumerate(bars):
        limit = bars[i + 1][0].x0 if i + 1 < len(bars) else right
        label = _label(bar, text, reached, limit, enough)
        placed.append(replace(bar, label=label))
        reached = bar.x1
        if label is not None and label.x >= bar.x1:
            reached = label.x + wanted(label.text, bar.font)
    return placed


def _label(bar: Bar, text: str, reached: float, limit: float, enough: float) -> Label | None:
    need, ground = wanted(text, bar.font), bar.widest
    on: Literal["solid", "light"] = "light" if ground.tone == "wait" else "solid"
    inside, beside = ground.x1 - ground.x0, limit - bar.x1
    if inside >= need or _columns(inside, bar.font) >= cells(text) * enough:
        return Label(ground.x0 + PAD, clip(text, _columns(inside, bar.font)), on)
    if beside >= need:
        return Label(bar.x1 + PAD, text, "band")
    if bar.x0 - reached >= need:
        return Label(bar.x0 - need + PAD, text, "band")
    room = max(inside, beside)
    if (most := _columns(room, bar.font)) >= _FEWEST:
        text = clip(text, most)
        return Label(ground.x0 + PAD, text, on) if inside >= beside else Label(bar.x1 + PAD, text, "band")
    if inside >= ICON:
        return Label(ground.x0 + (min(inside, ICON + PAD) - ICON) / 2 + 1, "", on)
    return None


def _columns(room: float, font: float) -> int:
    """How many characters of a label fit into `room` beside its mark."""
    return int((room - ICON - 2 * PAD) / (font * _ADVANCE) + 1e-6)
