"""How the deadlines of tool, node and run nest: each ends before the one around it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MARGIN_MS: Final = 500
"""What is kept between two nested deadlines, so that the inner one can still be reported."""
LEAST_MS: Final = 100
"""A node with less time than this for its tool is not worth starting."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A node's bounds: `timeout_s` for the tool itself once it runs, `not_after_ms` (Unix) for the node as a whole."""

    timeout_s: float
    not_after_ms: int


def nested(now_ms: int, timeout_s: float, wait_ms: int, run_ends_ms: int) -> Deadline | None:
    """The deadline of a node that becomes ready now, or None if its run ends too soon for it.

    `timeout_s` is the tool's own bound, `wait_ms` how long a node may wait for a worker, `run_ends_ms` (Unix) when
    the budget of the run is used up. A node that waited long still has its tool's whole time unless the run's end
    cuts it.
    """
    latest = run_ends_ms - MARGIN_MS
    tool_ms = min(int(timeout_s * 1000), latest - MARGIN_MS - now_ms)
    if tool_ms < LEAST_MS:
        return None
    return Deadline(tool_ms / 1000, min(now_ms + wait_ms + tool_ms + MARGIN_MS, latest))
