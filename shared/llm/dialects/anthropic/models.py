"""What the generations of Claude want done differently, told by the model's name. Pure.

Facts are from Anthropic's migration guides and its pages on adaptive and preserved thinking. A name that is not
one of theirs (compatible servers) has no generation and is treated like the oldest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BINDING_BETA = "thinking-binding-controls-2026-08-01"

_NEW = re.compile(r"claude-[a-z]+-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")  # claude-opus-4-5-20251101
_OLD = re.compile(r"claude-(\d{1,2})(?:[-.](\d{1,2}))?-[a-z]")  # claude-3-7-sonnet-20250219


@dataclass(frozen=True)
class Traits:
    """`adaptive`: thinking takes an effort, no budget. `shows_thinking_on_demand`: its text comes only if asked for.

    `fixed_sampling`: temperature and top_p are refused. `never_forced`: it cannot be made to call a tool.
    `bound_thinking`: a thinking block is valid only behind exactly the prompt that it was written under.
    """

    adaptive: bool = False
    shows_thinking_on_demand: bool = False
    fixed_sampling: bool = False
    never_forced: bool = False
    bound_thinking: bool = False


def generation(model: str) -> tuple[int, int] | None:
    """(major, minor) of a Claude model, or None for other names."""
    match = _NEW.search(model) or _OLD.search(model)
    return (int(match.group(1)), int(match.group(2) or 0)) if match else None


def traits(model: str) -> Traits:
    """What is known of a model."""
    born = generation(model)
    if born is None:
        return Traits()
    return Traits(
        adaptive=born >= (4, 6),
        shows_thinking_on_demand=born >= (4, 7),
        fixed_sampling=born >= (4, 7),
        never_forced=born >= (5, 1),
        bound_thinking=born >= (5, 1),
    )
