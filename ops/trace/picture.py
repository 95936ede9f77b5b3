"""The geometry of a time line as values, in pixels: what `layout` makes and `svg` draws. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Segment:
    """A piece of a bar. `tone`: `wait`, `think`, `run`, or `end` for the cap of what never ran."""

    x0: float
    x1: float
    tone: str


@dataclass(frozen=True)
class Label:
    """A state's mark and a text, `x` being their left end; `on` is the ground that they stand on."""

    x: float
    text: str
    on: Literal["solid", "light", "band"]


@dataclass(frozen=True)
class Bar:
    """A model step's attempt or a node. `state` picks colour and mark; `tip` is told on demand."""

    id: str
    state: str
    y: float
    height: float
    segments: tuple[Segment, ...]
    critical: bool
    open: bool
    tip: str
    font: float
    label: Label | None = None

    @property
    def x0(self) -> float:
        """Its left end."""
        return self.segments[0].x0

    @property
    def x1(self) -> float:
        """Its right end."""
        return self.segments[-1].x1

    @property
    def widest(self) -> Segment:
        """The piece with the most room for a label."""
        return max(self.segments, key=lambda s: s.x1 - s.x0)

    @property
    def middle(self) -> float:
        """Half its height."""
        return self.y + self.height / 2


Outline = tuple[tuple[float, float], ...]
"""The corners of a closed shape."""


@dataclass(frozen=True)
class Load:
    """How many nodes run, and above these how many wait, over time."""

    running: Outline
    waiting: Outline
    tip: str


@dataclass(frozen=True)
class Section:
    """A band of lanes with its name. `load` outlines what runs and waits over time, None for small ones."""

    title: str
    note: str
    y: float
    height: float
    load: Load | None = None


@dataclass(frozen=True)
class Link:
    """A dependency from the end of one bar to the beginning of another."""

    x0: float
    y0: float
    x1: float
    y1: float
    critical: bool


@dataclass(frozen=True)
class Flag:
    """A moment of the run: `text` may be cut or empty, `tip` is whole."""

    x: float
    text: str
    tip: str


@dataclass(frozen=True)
class Tick:
    """A line of the time axis."""

    x: float
    text: str


@dataclass(frozen=True)
class Picture:
    """Everything there is to draw. `left` and `right` bound the time axis."""

    width: float
    height: float
    left: float
    right: float
    ticks: tuple[Tick, ...]
    flags: tuple[Flag, ...]
    flags_y: float
    sections: tuple[Section, ...]
    bars: tuple[Bar, ...]
    links: tuple[Link, ...]
