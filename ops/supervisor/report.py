"""How `capataz up` shows its processes: a live table on a terminal, else a line for each change."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TextIO

from ops.supervisor.child import Row, State

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table


class Reporter(Protocol):
    """Where the supervisor's words go."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def changed(self, row: Row, rows: Sequence[Row]) -> None:
        """One process changed its state; `rows` are all."""

    def tick(self, rows: Sequence[Row]) -> None:
        """Time has passed."""

    def close(self) -> None:
        """Nothing more comes."""


def status_line(row: Row, now: float) -> str:
    """One process in one line: name, pid, state, how long, restarts, and why."""
    pid = f"pid {row.pid}" if row.pid else "no pid"
    line = f"{row.name:<14} {pid:<12} {row.state:<12} {duration(now - row.since):>6}  restarts {row.restarts}"
    return f"{line}  {row.note}" if row.note else line


def duration(seconds: float) -> str:
    """A length of time in one or two units: `7s`, `3m12s`, `5h03m`, `2d04h`."""
    whole = max(0, int(seconds))
    days, hours, minutes, rest = whole // 86400, whole // 3600 % 24, whole // 60 % 60, whole % 60
    if days:
        return f"{days}d{hours:02}h"
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


class LineReporter:
    """Plain lines, for logs and pipes."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def say(self, text: str) -> None:
        """Prints the line at once."""
        print(text, file=self._out, flush=True)

    def changed(self, row: Row, rows: Sequence[Row]) -> None:
        """Prints the row's line."""
        self.say(status_line(row, time.time()))

    def tick(self, rows: Sequence[Row]) -> None:
        """Prints nothing."""

    def close(self) -> None:
        """Does nothing."""


class TableReporter:
    """A table at the foot of the terminal that is drawn anew each second; lines scroll above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(highlight=False)
        self._live: Live = Live(console=self._console, auto_refresh=False)
        self._live.start()

    def say(self, text: str) -> None:
        """Prints above the table."""
        self._console.print(text, markup=False)

    def changed(self, row: Row, rows: Sequence[Row]) -> None:
        """Redraws; what went wrong also stays as a line."""
        if row.state is State.BACKING_OFF:
            self.say(status_line(row, time.time()))
        self.tick(rows)

    def tick(self, rows: Sequence[Row]) -> None:
        """Redraws."""
        self._live.update(_table(rows, time.time()), refresh=True)

    def close(self) -> None:
        """Leaves the last table on the screen and gives the terminal back."""
        self._live.stop()


def _table(rows: Sequence[Row], now: float) -> Table:
    from rich.table import Table
    from rich.text import Text

    colours = {State.RUNNING: "green", State.BACKING_OFF: "red"}
    table = Table("process", "pid", "state", "since", "restarts", "", box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(
            row.name,
            str(row.pid or "-"),
            Text(row.state, style=colours.get(row.state, "yellow")),
            duration(now - row.since),
            str(row.restarts),
            Text(row.note),
        )
    return table


def reporter(out: TextIO | None = None) -> Reporter:
    """The fitting one for `out`, standard output unless given."""
    stream = out or sys.stdout
    return TableReporter() if stream is sys.stdout and stream.isatty() else LineReporter(stream)
