"""Which outputs go back to the model: those that only fed other calls are replaced by a short line. Pure.

An output may be left out when every call that took it is done. What such a call made of it is then either shown or
itself left out in favour of calls that took it in turn; since the graph has no cycle, following these always ends at
an output that is shown. So nothing is lost: the outputs at the ends of the graph, all errors, and whatever fed a call
that did not succeed are always there, and the rest can be read by its handle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from coordinator.graph.order import dependents
from shared.contract import NodeResult, NodeState

SHORTEST: Final = 200
"""Outputs of fewer characters stay: the line in their place would not be shorter."""


def elidable(
    sources: Mapping[int, Sequence[int]], results: Mapping[int, NodeResult], *, keep: Collection[int] = ()
) -> list[int]:
    """Positions whose output need not go to the model, in order.

    `sources` maps every call of the turn to the calls whose output it took (not those it only waited for), `results`
    every call to its result. `keep` names calls that are shown whatever fed on them, such as those with an effect.
    """
    users = dependents(sources)
    return [
        position
        for position in sources
        if users[position]
        and position not in keep
        and len(results[position].text) >= SHORTEST
        and all(results[p].state is NodeState.DONE for p in (position, *users[position]))
    ]


def stand_in(users: Sequence[str], length: int, handle: str) -> str:
    """The line in place of an output of `length` characters that fed the calls named in `users`."""
    shown = ", ".join(users[:5]) + (f" and {len(users) - 5} more" if len(users) > 5 else "")
    calls = "call" if len(users) == 1 else "calls"
    return f'[Used by {calls} {shown}; {length:,} characters not repeated here, read_artifact("{handle}") has them]'


def elide(
    sources: Mapping[int, Sequence[int]],
    results: Mapping[int, NodeResult],
    handles: Mapping[int, str],
    *,
    keep: Collection[int] = (),
) -> dict[int, str]:
    """The line for every output that is left out, by position. One without a handle in `handles` is not left out."""
    users = dependents(sources)
    return {
        p: stand_in([str(user) for user in users[p]], len(results[p].text), handles[p])
        for p in elidable(sources, results, keep=keep)
        if p in handles
    }
